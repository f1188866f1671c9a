"""Starts the server: a socket, the state, the loop.

In: a request. Out: the exit code once it is interrupted. Not here: flags (``cli.serving.serve``).
"""

from __future__ import annotations

import contextlib
import ipaddress
import secrets
import socket
import sys
from collections.abc import Collection
from pathlib import Path

import uvicorn

from steelyard._base import EnvironmentLacksError, ExitCode, UsageError, read_regular
from steelyard.catalog.folder import Settings
from steelyard.catalog.index import Index
from steelyard.cli.serving.serve import ServeRequest
from steelyard.web.app import make_app
from steelyard.web.context import Context
from steelyard.web.security import Policy

_MOST_CONNECTIONS = 512
_BACKLOG = 256
_END_S = 3
_TOKEN_BYTES = 32
_MOST_TOKEN_BYTES = 4096


def serve(request: ServeRequest, given: Collection[str]) -> int:
    """Serve until an interrupt; return the exit code."""
    root = request.runs
    request.check()
    policy = Policy.of(request.host, request.names, _token(request))
    listener = _listener(request.host, request.port)
    port = listener.getsockname()[1]
    name = f"[{request.host}]" if ":" in request.host else request.host
    query = "" if policy.token is None else f"?token={policy.token}"
    store = request.store
    if store is not None and "://" not in store:
        store = str(Path(store).resolve())
    # Absolute paths are found in messages; `runs` is a word.
    root = root.resolve()
    tables = tuple(table.absolute() for table in request.tables)
    settings = Settings(root, store, tables, given=request.runs)
    context = Context(settings, Index(root, request.index))
    config = uvicorn.Config(
        make_app(context, policy),
        log_level="error",
        access_log=False,
        server_header=False,
        date_header=True,
        limit_concurrency=_MOST_CONNECTIONS,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=_END_S,
        proxy_headers=False,
        lifespan="on",
        ws="none",
    )
    print(f"http://{name}:{port}/runs{query}", flush=True)
    print("Ctrl-C ends it", file=sys.stderr)
    # An interrupt is how it ends.
    with listener, contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listener])
    return int(ExitCode.OK)


def _token(request: ServeRequest) -> str | None:
    """Return the token that whoever asks must have: none on loopback unless a file has one."""
    if request.token_file is not None:
        text = read_regular(request.token_file, at_most_bytes=_MOST_TOKEN_BYTES).decode("utf-8", "replace")
        token = text.strip()
        if len(token) < 16 or not token.isascii() or not token.isprintable() or " " in token:
            raise UsageError(
                f"{request.token_file}: a token is one word of at least 16 letters",
                hint="openssl rand -hex 32 makes one",
            )
        return token
    return None if _is_loopback(request.host) else secrets.token_urlsafe(_TOKEN_BYTES)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _listener(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as error:
        hint = "choose another with --port, or 0 for any that is free" if port else None
        raise EnvironmentLacksError(f"{host}:{port}: {error.strerror or error}", hint=hint) from error
    return listener
