"""Gets a page of a service: bounded in bytes and in time, and nothing but GET.

In: an address of http or https. Out: its text, or a `FetchError` that says in one line why there is none.
Redirections are not followed and proxies of the environment not used: what is measured is the service that
was named, and no other machine is asked.

Standard library only: the recorder's process imports it.
"""

import contextlib
import http.client
import socket
import ssl
import time
from dataclasses import dataclass, field
from urllib.parse import urlsplit

TIMEOUT_S = 5.0
BYTES_AT_MOST = 32 << 20
_PIECE_BYTES = 1 << 16
_AGENT = "steelyard"
_ACCEPT = "text/plain;version=0.0.4, application/openmetrics-text;q=0.5, */*;q=0.1"


class FetchError(Exception):
    """Why a page could not be got, in one line. ``status`` is the service's answer, where there was one."""

    def __init__(self, message: str, status: int | None = None, body: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.body = body


@dataclass
class Client:
    """A connection to one service, kept open between pages."""

    url: str
    timeout_s: float = TIMEOUT_S
    bytes_at_most: int = BYTES_AT_MOST
    _connection: http.client.HTTPConnection | None = field(default=None, repr=False)

    def get(self, path: str | None = None) -> str:
        """Return a page's text; ``path`` by default that of the address. Raises FetchError."""
        parts = urlsplit(self.url)
        target = path or (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        # A connection that the service has closed since is found out by using it: then once more.
        reused = self._connection is not None
        try:
            return self._get(target)
        except (ConnectionError, http.client.RemoteDisconnected, http.client.CannotSendRequest) as error:
            self.close()
            if not reused:
                raise FetchError(self._reason(error)) from error
        try:
            return self._get(target)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise FetchError(self._reason(error)) from error

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            with contextlib.suppress(OSError):
                self._connection.close()
            self._connection = None

    def _get(self, target: str) -> str:
        try:
            return self._ask(target)
        except FetchError:
            self.close()
            raise
        except ConnectionError:
            raise
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise FetchError(self._reason(error)) from error

    def _ask(self, target: str) -> str:
        until = time.monotonic() + self.timeout_s
        if self._connection is None:
            self._connection = self._connect()
        headers = {"User-Agent": _AGENT, "Accept": _ACCEPT, "Accept-Encoding": "identity"}
        self._connection.request("GET", target, headers=headers)
        answer = self._connection.getresponse()
        body = self._body(answer, until)
        text = body.decode("utf-8", "replace")
        if answer.status != 200:
            where = answer.getheader("Location")
            more = f" (it points to {where})" if where and 300 <= answer.status < 400 else ""
            raise FetchError(
                f"{self.url} answers {answer.status} {answer.reason}{more}", answer.status, text[:4096]
            )
        return text

    def _body(self, answer: http.client.HTTPResponse, until: float) -> bytes:
        pieces, size = [], 0
        while piece := answer.read1(_PIECE_BYTES):
            pieces.append(piece)
            size += len(piece)
            if size > self.bytes_at_most:
                raise FetchError(f"{self.url} sends more than {self.bytes_at_most >> 20} MiB")
            if time.monotonic() > until:
                # Each wait is bounded by the socket's own limit; all of them together by this.
                raise FetchError(f"{self.url} took longer than {self.timeout_s:g} s")
        if answer.length:
            raise FetchError(f"{self.url} broke off in the middle of its answer")
        return b"".join(pieces)

    def _connect(self) -> http.client.HTTPConnection:
        parts = urlsplit(self.url)
        host = parts.hostname or ""
        if parts.scheme == "https":
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(host, parts.port, timeout=self.timeout_s, context=context)
        return http.client.HTTPConnection(host, parts.port, timeout=self.timeout_s)

    def _reason(self, error: Exception) -> str:
        if isinstance(error, ConnectionRefusedError):
            return f"{self.url}: nothing listens there"
        if isinstance(error, TimeoutError):
            return f"{self.url} took longer than {self.timeout_s:g} s"
        if isinstance(error, socket.gaierror):
            return f"{self.url}: there is no such host"
        if isinstance(error, ssl.SSLError):
            return f"{self.url}: {error.reason or 'TLS failed'}"
        if isinstance(error, http.client.HTTPException):
            return f"{self.url} does not answer in HTTP"
        return f"{self.url}: {getattr(error, 'strerror', None) or type(error).__name__}"
