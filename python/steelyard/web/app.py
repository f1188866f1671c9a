"""The routes of the server, and how errors are answered.

In: requests that passed ``security``. Out: pages, JSON, files of our own. What a page needs is read and
rendered in threads, a few at a time, so that a slow one stops nobody else's list.

Not here: what pages say (``pages``), the JSON (``api``).
"""

from __future__ import annotations

import contextlib
import sys
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from http import HTTPStatus
from importlib import import_module
from typing import Any

import anyio
from markupsafe import Markup
from starlette.applications import Starlette
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route
from starlette.types import ASGIApp

from steelyard._base import SteelyardError, UsageError
from steelyard.catalog.index import RefreshError
from steelyard.catalog.roots import NotThereError
from steelyard.report import format as fmt
from steelyard.report.assets import content
from steelyard.report.exports.open_metrics import CONTENT_TYPE
from steelyard.report.template import PAGE
from steelyard.web.context import Context
from steelyard.web.jobs import BusyError
from steelyard.web.pages import listing
from steelyard.web.security import Guard, Policy
from steelyard.web.shell import PACKAGE, STATIC, template_page

_THREADS = 4
_LOADED_AFTER_S = 1.0
_BUG = "an error in Steelyard, which the server's output describes"
_YEAR_S = 365 * 24 * 3600
_TYPES = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"}


_API = {
    "/api/v1/openapi.json": "api:open_api",
    "/api/v1/runs": "api:runs",
    "/api/v1/runs/{path:folder}": "api:run",
    "/api/v1/compare": "api:compared",
    "/api/v1/trends": "api:trend",
    "/api/v1/fleet/{name:path}": "api:fleet_query",
    "/api/v1/decide/{name}": "api:decision",
}
"""Functions that return documents, by path."""


class _FolderConvertor(PathConvertor):
    """A path of a folder, whose name may have any letter, a newline too."""

    regex = "(?s:.*)"


register_url_convertor("folder", _FolderConvertor())


def named(target: str) -> Callable[..., Any]:
    """Return the function ``module:name`` of ``pages``, which is loaded when it is asked for."""
    module, _, name = target.partition(":")
    found: Callable[..., Any] = getattr(import_module(f"steelyard.web.pages.{module}"), name)
    return found


async def _look(context: Context) -> None:
    """Look at the folders. Why that fails is said to whoever asks for them."""
    with contextlib.suppress(RefreshError):
        await anyio.to_thread.run_sync(context.index.refresh, abandon_on_cancel=True)


async def _load_pages(context: Context) -> None:
    """Load what makes the page of a run, once the first list is likely to be there; make the newest one's."""
    await anyio.sleep(_LOADED_AFTER_S)

    def load() -> None:
        for name in ("folder:page", "compare:page"):
            named(name)
        import_module("steelyard.report.page")
        named("folder:prepare")(context)

    await anyio.to_thread.run_sync(load, abandon_on_cancel=True)


def make_app(context: Context, policy: Policy) -> ASGIApp:
    """Return the server's application."""
    limiter = anyio.CapacityLimiter(_THREADS)

    async def in_thread(work: Callable[[], Any]) -> Any:
        return await anyio.to_thread.run_sync(work, limiter=limiter)

    def page(target: str) -> Callable[[Request], Awaitable[Response]]:
        async def show(request: Request) -> Response:
            made = await in_thread(
                lambda: named(target)(context, **request.path_params, query=_query(request))
            )
            return HTMLResponse(made)

        return show

    def document(target: str) -> Callable[[Request], Awaitable[Response]]:
        async def show(request: Request) -> Response:
            made = await in_thread(
                lambda: named(target)(context, **request.path_params, query=_query(request))
            )
            return JSONResponse(made)

        return show

    async def show_folder(request: Request) -> Response:
        path = request.path_params["path"]
        beginning, rest = await in_thread(lambda: named("folder:page")(context, path))

        return StreamingResponse(_parts(context, beginning, in_thread(rest)), media_type="text/html")

    async def metrics(request: Request) -> Response:
        text = await in_thread(lambda: named("api:open_metrics")(context))
        return Response(text, media_type=CONTENT_TYPE)

    async def static(request: Request) -> Response:
        name = request.path_params["name"]
        try:
            body = await in_thread(partial(content, name, PACKAGE))
        except KeyError:
            raise NotThereError(f"there is no file {name[:80]!r}") from None
        # The address has the hash of the content.
        kept = {"Cache-Control": f"public, max-age={_YEAR_S}, immutable"}
        return Response(body, media_type=_TYPES[name.rpartition(".")[2]], headers=kept)

    async def home(request: Request) -> Response:
        return RedirectResponse("/runs")

    async def health(request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def to_page(request: Request) -> Response:
        return RedirectResponse(listing.address(request.path_params["path"].strip("/")))

    async def cancel(request: Request) -> Response:
        job = context.jobs.find(request.path_params["job"])
        if job is None:
            raise NotThereError("there is no such query any more")
        context.jobs.cancel(job)
        return RedirectResponse(job.here, 303)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with anyio.create_task_group() as group:
            # The first list need not wait for the first look at the folders.
            group.start_soon(_look, context)
            group.start_soon(_load_pages, context)
            yield
            group.cancel_scope.cancel()
        context.close()

    get = ["GET"]
    routes = [
        Route("/", home, methods=get),
        Route("/runs", page("listing:page"), methods=get),
        Route(f"/runs/{{path:folder}}/{PAGE}", show_folder, methods=get),
        Route("/runs/{path:folder}/machine.html", page("folder:machine_page"), methods=get),
        Route("/runs/{path:folder}/live.json", document("live:state"), methods=get),
        Route("/runs/{path:folder}", to_page, methods=get),
        Route("/compare", page("compare:page"), methods=get),
        Route("/compare/profile", page("compare:profile_page"), methods=get),
        Route("/trends", page("trends:page"), methods=get),
        Route("/fleet", page("fleet:index_page"), methods=get),
        Route("/fleet/{name:path}", page("fleet:page"), methods=get),
        Route("/decide", page("decide:index_page"), methods=get),
        Route("/decide/{name}", page("decide:page"), methods=get),
        Route("/jobs/{job}", document("waiting:state"), methods=get),
        Route("/jobs/{job}/cancel", cancel, methods=["POST"]),
        Route(f"{STATIC}/{{name}}", static, methods=get),
        Route("/healthz", health, methods=get),
        Route("/metrics", metrics, methods=get),
        *(Route(path, document(target), methods=get) for path, target in _API.items()),
    ]
    errors = {
        SteelyardError: partial(_on_error, context),
        404: partial(_on_missing, context),
        405: partial(_on_missing, context),
        Exception: partial(_on_bug, context),
    }
    return Guard(Starlette(routes=routes, exception_handlers=errors, lifespan=lifespan), policy)


async def _parts(context: Context, beginning: str, rest: Awaitable[str]) -> AsyncIterator[str]:
    """Yield a page in two parts. The status is sent with the first: what fails later is said on the page."""
    yield beginning
    try:
        made = await rest
    except SteelyardError as error:
        made = _error_part(context, error.message, error.hint or "")
    except Exception as error:
        traceback.print_exception(error, file=sys.stderr)
        made = _error_part(context, _BUG)
    yield made


def _query(request: Request) -> dict[str, list[str]]:
    """Return the query, each name with its values."""
    found: dict[str, list[str]] = {}
    for name, value in request.query_params.multi_items():
        found.setdefault(name, []).append(value)
    return found


async def _on_error(context: Context, request: Request, error: Exception) -> Response:
    assert isinstance(error, SteelyardError)
    status = HTTPStatus.BAD_REQUEST if isinstance(error, UsageError) else HTTPStatus.UNPROCESSABLE_ENTITY
    if isinstance(error, NotThereError):
        status = HTTPStatus.NOT_FOUND
    elif isinstance(error, BusyError):
        status = HTTPStatus.SERVICE_UNAVAILABLE
    elif isinstance(error, RefreshError):
        status = HTTPStatus.INTERNAL_SERVER_ERROR
    return _error(context, request, status, error.message, error.hint or "")


async def _on_missing(context: Context, request: Request, error: Exception) -> Response:
    return _error(
        context, request, HTTPStatus(getattr(error, "status_code", 404)), "there is no such page", ""
    )


async def _on_bug(context: Context, request: Request, error: Exception) -> Response:
    traceback.print_exception(error, file=sys.stderr)
    return _error(
        context, request, HTTPStatus.INTERNAL_SERVER_ERROR, f"this page cannot be shown: {_BUG}", ""
    )


def _error_part(context: Context, message: str, hint: str = "") -> str:
    """Return what stands in a page that cannot be made, after its beginning."""
    lines = [fmt.capital(context.without_root(text)) for text in (message, hint) if text]
    said = Markup("").join(Markup('<p class="machine-line">{}</p>').format(line) for line in lines)
    whole = Markup(
        '<section id="result" class="hero"><h1 class="sad">This page cannot be shown</h1>{}</section>'
        "</main></body></html>"
    )
    return str(whole.format(said))


def _error(context: Context, request: Request, status: HTTPStatus, message: str, hint: str) -> Response:
    message, hint = context.without_root(message), context.without_root(hint)
    if request.url.path.startswith("/api/") or request.url.path.endswith(".json"):
        return JSONResponse({"error": message, "hint": hint or None}, status)
    said = {
        "title": status.phrase,
        "eyebrow": f"{status.value} {status.phrase.lower()}",
        "heading": fmt.capital(message),
        "lines": [f"{fmt.capital(hint)}."] if hint else [],
        "job": None,
        "links": [("Runs", "/runs")],
    }
    return HTMLResponse(template_page("message.html.j2", "", said), status)
