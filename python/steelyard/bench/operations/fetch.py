"""Gets a page of a service: bounded in bytes and in time, and nothing but GET.

In: an address of http or https. Out: its text, or a `FetchError` that says in one line why there is none.
Redirections are not followed and proxies of the environment not used: what is measured is the service that
was named, and no other machine is asked.

The recorder's process imports it: besides the standard library it needs urllib3 only, whose kept connections
know where an answer ends in every version of Python.
"""

import time
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import urllib3
from urllib3 import exceptions as failures

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
    _pool: urllib3.HTTPConnectionPool | None = field(default=None, repr=False)

    def get(self, path: str | None = None) -> str:
        """Return a page's text; ``path`` by default that of the address. Raises FetchError."""
        parts = urlsplit(self.url)
        target = path or (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        # A connection that the service has closed since is found out by using it: then once more.
        again = self._pool is not None
        while True:
            try:
                return self._ask(target)
            except failures.ProtocolError as error:
                self.close()
                if not again or not _is_lost(error):
                    raise FetchError(self._reason(error)) from error
            except (failures.HTTPError, OSError, ValueError) as error:
                self.close()
                raise FetchError(self._reason(error)) from error
            except FetchError:
                self.close()
                raise
            again = False

    def close(self) -> None:
        """Close the connection."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def _ask(self, target: str) -> str:
        until = time.monotonic() + self.timeout_s
        if self._pool is None:
            self._pool = self._connect()
        answer = self._pool.urlopen(
            "GET",
            target,
            headers={"User-Agent": _AGENT, "Accept": _ACCEPT, "Accept-Encoding": "identity"},
            redirect=False,
            retries=False,
            preload_content=False,
        )
        text = self._body(answer, until).decode("utf-8", "replace")
        answer.release_conn()
        if answer.status != 200:
            where = answer.headers.get("Location")
            more = f" (it points to {where})" if where and 300 <= answer.status < 400 else ""
            raise FetchError(
                f"{self.url} answers {answer.status} {answer.reason}{more}", answer.status, text[:4096]
            )
        return text

    def _body(self, answer: urllib3.BaseHTTPResponse, until: float) -> bytes:
        pieces, size = [], 0
        # What comes is taken as it comes: a whole piece could be waited for without end.
        while piece := answer.read1(_PIECE_BYTES, decode_content=True):
            pieces.append(piece)
            size += len(piece)
            if size > self.bytes_at_most:
                raise FetchError(f"{self.url} sends more than {self.bytes_at_most >> 20} MiB")
            if time.monotonic() > until:
                # Each wait is bounded by the socket's own limit; all of them together by this.
                raise FetchError(f"{self.url} took longer than {self.timeout_s:g} s")
        return b"".join(pieces)

    def _connect(self) -> urllib3.HTTPConnectionPool:
        parts = urlsplit(self.url)
        kind = urllib3.HTTPSConnectionPool if parts.scheme == "https" else urllib3.HTTPConnectionPool
        return kind(parts.hostname or "", parts.port, timeout=self.timeout_s, maxsize=1)

    def _reason(self, error: Exception) -> str:
        """Return what happened, in a line."""
        cause = error.args[-1] if isinstance(error, failures.ProtocolError) and len(error.args) > 1 else error
        if isinstance(error, failures.NameResolutionError):
            return f"{self.url}: there is no such host"
        if isinstance(error.__cause__, ConnectionRefusedError):
            return f"{self.url}: nothing listens there"
        if isinstance(error, (failures.TimeoutError, TimeoutError)):
            return f"{self.url} took longer than {self.timeout_s:g} s"
        if isinstance(cause, failures.IncompleteRead):
            return f"{self.url} broke off in the middle of its answer"
        if isinstance(error, failures.SSLError):
            return f"{self.url}: TLS failed: {_line(error)}"
        if isinstance(error, failures.ProtocolError) and not isinstance(cause, OSError):
            return f"{self.url} does not answer in HTTP: {_line(cause)}"
        return f"{self.url}: {_line(cause)}"


def _is_lost(error: failures.ProtocolError) -> bool:
    """Return whether the connection was closed, so that the question may be asked on another."""
    return len(error.args) > 1 and isinstance(error.args[1], ConnectionError)


def _line(error: object) -> str:
    """Return an error's text in one line that can be shown."""
    reason = getattr(error, "strerror", None) or str(error)
    words = " ".join(str(reason).split())
    return "".join(letter for letter in words if letter.isprintable())[:200] or type(error).__name__
