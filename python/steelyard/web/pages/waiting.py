"""Questions that take long: answered at once where they can be, else by a page that waits."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from steelyard._base import SteelyardError
from steelyard.catalog.roots import NotThereError
from steelyard.report import format as fmt
from steelyard.report.answer import Answer
from steelyard.web.context import Context
from steelyard.web.jobs import Job, NotYetError, Watch
from steelyard.web.shell import template_page

WAIT_S = 1.0
"""How long a page waits before it shows that it does."""
MOST_S = 600.0
"""How long a program waits for a document."""


def answered(
    context: Context, key: Hashable, title: str, here: str, work: Callable[[Watch], Any]
) -> tuple[Any, str]:
    """Return what ``work`` found and an empty text; or None, and the page that waits for it."""
    job = context.jobs.begin(key, title, here, work)
    try:
        return job.result(WAIT_S), ""
    except NotYetError:
        return None, _page(context, job)


def refused(context: Context, error: SteelyardError, title: str, eyebrow: str, source: str) -> Answer:
    """Return what a page with a form says of a question that has no answer."""
    message, hint = context.without_root(error.message), context.without_root(error.hint or "")
    lines = [f"{fmt.capital(hint)}."] if hint else []
    return Answer(title, fmt.capital(message), [], lines=lines, eyebrow=eyebrow, source=source)


def state(context: Context, *, job: str, query: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return how far a job is."""
    found = context.jobs.find(job)
    if found is None:
        raise NotThereError("there is no such query any more")
    return {"done": found.is_done, "seconds": round(context.jobs.seconds(found), 1)}


def _page(context: Context, job: Job) -> str:
    return template_page(
        "message.html.j2",
        job.here,
        {
            "title": job.title,
            "eyebrow": "under way",
            "heading": job.title,
            "lines": ["The answer is shown here as soon as it is there."],
            "job": job.id,
            "seconds": round(context.jobs.seconds(job)),
            "links": [],
        },
    )
