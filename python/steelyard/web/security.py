"""What stands before every page: who may ask, from where, and what a browser may do with the answer.

In: each request. Out: the same request, or a refusal. Not here: which files are read (``roots``).

A page of another site cannot read answers (no CORS header is ever sent), cannot reach this server by a name
of its own that points here (the Host header is checked), and cannot cancel a query (the Origin header is).
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "steelyard-token"
LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
_MOST_QUERY_BYTES = 8 << 10
_MOST_BODY_BYTES = 4 << 10
_HEADERS = {
    # Charts set styles on their elements; no script is inline.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline';"
    " img-src 'self' data: blob:; connect-src 'self'; form-action 'self'; base-uri 'none';"
    " frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@dataclass(frozen=True)
class Policy:
    """Who may ask. ``hosts`` are names by which the server may be called, ``token`` is None on loopback."""

    hosts: frozenset[str] = LOOPBACK
    token: str | None = None

    @classmethod
    def of(cls, host: str, names: Iterable[str], token: str | None) -> Policy:
        """Return the policy of a server that listens on ``host``."""
        own = {f"[{host}]" if ":" in host else host}
        return cls(LOOPBACK | own | {name.casefold() for name in names}, token)


class Guard:
    """The middleware."""

    def __init__(self, app: ASGIApp, policy: Policy) -> None:
        self._app = app
        self._policy = policy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        await (refusal or self._app)(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> Response | None:
        """Return what is answered instead of the page, None where it may be had."""
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or _name_of(hosts[0]) not in self._policy.hosts:
            return _refused(
                421, "this server is not known by that name; name it with --name if it is one of yours"
            )
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return _refused(405, "pages are read by GET")
        if len(scope["query_string"]) > _MOST_QUERY_BYTES:
            return _refused(414, f"the address is longer than {_MOST_QUERY_BYTES} bytes")
        length = headers.get("content-length", "0")
        if "transfer-encoding" in headers or not length.isdigit() or int(length[:12]) > _MOST_BODY_BYTES:
            return _refused(413, f"no request has a body of more than {_MOST_BODY_BYTES} bytes")
        if scope["method"] == "POST" and not _is_same_site(headers, hosts[0]):
            return _refused(403, "a page of another site asked for this")
        return self._without_token(scope, headers)

    def _without_token(self, scope: Scope, headers: Headers) -> Response | None:
        token = self._policy.token
        if token is None:
            return None
        cookies: Mapping[str, str] = cookie_parser(headers.get("cookie", ""))
        bearer = headers.get("authorization", "").partition("Bearer ")[2]
        if any(_is_equal(given, token) for given in (cookies.get(COOKIE, ""), bearer)):
            return None
        query = parse_qsl(scope["query_string"].decode("latin-1"))
        if scope["method"] == "GET" and any(
            name == "token" and _is_equal(value, token) for name, value in query
        ):
            rest = urlencode([pair for pair in query if pair[0] != "token"])
            # A path that begins with two slashes would be the address of another host.
            path = "/" + scope["path"].lstrip("/")
            answer = RedirectResponse(f"{path}?{rest}" if rest else path, 303)
            answer.set_cookie(COOKIE, token, httponly=True, samesite="strict", path="/")
            return answer
        return _refused(401, "this server asks for its token: open the address that it printed")


def _name_of(host: str) -> str:
    """Return the name of a Host header without its port."""
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() else host).casefold()


def _is_same_site(headers: Headers, host: str) -> bool:
    origin, site = headers.get("origin"), headers.get("sec-fetch-site")
    if site is not None and site not in ("same-origin", "none"):
        return False
    return origin is None or urlsplit(origin).netloc == host


def _is_equal(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode(), token.encode())


def _refused(status: int, reason: str) -> Response:
    # A body that is not wanted is not read: the connection ends.
    return PlainTextResponse(f"{reason}\n", status, {"Connection": "close"})
