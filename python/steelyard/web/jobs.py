"""Work that takes long: begun by a request, looked at by others, cancelled by a button.

In: a key and a function. Out: a `Job`, whose result is kept for a while, so that the same question is
answered at once. Two run at a time; further ones wait.

Not here: what is worked out, and how waiting is shown (``pages.waiting``).
"""

from __future__ import annotations

import math
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYetError
from dataclasses import dataclass, field
from typing import Any

from steelyard._base import SteelyardError

_KEPT = 32
_KEPT_S = 60.0
_MOST_WAITING = 16
_WORKERS = 2


class BusyError(SteelyardError):
    """Too much is waiting already."""


class CancelledError(SteelyardError):
    """Somebody cancelled the work."""


@dataclass
class Watch:
    """What the work tells about itself, and how it is stopped."""

    cancelled: threading.Event = field(default_factory=threading.Event)
    stop: Callable[[], None] | None = None
    """Interrupts what the work waits for."""

    def check(self) -> None:
        """Raise CancelledError where the work is not wanted any more."""
        if self.cancelled.is_set():
            raise CancelledError("cancelled")


@dataclass
class Job:
    """Work under way, or done."""

    id: str
    key: Hashable
    title: str
    here: str
    """Address of the part of the site that it is of."""
    watch: Watch
    future: Future[Any]
    begun_s: float
    ended_s: float = math.inf

    @property
    def is_done(self) -> bool:
        """Whether there is a result or an error."""
        return self.future.done()

    def result(self, wait_s: float) -> Any:
        """Return the result; raise TimeoutError where it takes longer, and what the work raised."""
        return self.future.result(timeout=wait_s)


class Jobs:
    """The jobs of a server."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._pool = ThreadPoolExecutor(_WORKERS, thread_name_prefix="job")

    def begin(self, key: Hashable, title: str, here: str, work: Callable[[Watch], Any]) -> Job:
        """Return the job of ``key``: one that is there already, else a new one. Raises BusyError."""
        with self._lock:
            self._forget()
            for job in self._jobs.values():
                if job.key == key and not job.watch.cancelled.is_set() and not _failed(job):
                    return job
            if sum(not job.is_done for job in self._jobs.values()) >= _MOST_WAITING:
                raise BusyError("too many queries are waiting", hint="try again when some are done")
            watch = Watch()
            future = self._pool.submit(_guarded, work, watch)
            job = Job(secrets.token_urlsafe(12), key, title, here, watch, future, self._clock())
            self._jobs[job.id] = job
        # It may be done already: then this is called here.
        future.add_done_callback(lambda _: self._end(job))
        return job

    def _end(self, job: Job) -> None:
        job.ended_s = self._clock()

    def find(self, identifier: str) -> Job | None:
        """Return the job with this id."""
        with self._lock:
            return self._jobs.get(identifier)

    def seconds(self, job: Job) -> float:
        """Return how long ago a job began."""
        return self._clock() - job.begun_s

    def cancel(self, job: Job) -> None:
        """Stop a job; its result is an error."""
        job.watch.cancelled.set()
        job.future.cancel()
        if job.watch.stop is not None and not job.is_done:
            job.watch.stop()

    def close(self) -> None:
        """Stop all jobs."""
        with self._lock:
            jobs = list(self._jobs.values())
        for job in jobs:
            self.cancel(job)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _forget(self) -> None:
        now = self._clock()
        done = [job for job in self._jobs.values() if job.is_done]
        for job in done:
            if now - job.ended_s > _KEPT_S:
                del self._jobs[job.id]
        for job in done[: max(0, len(self._jobs) - _KEPT)]:
            self._jobs.pop(job.id, None)


def _failed(job: Job) -> bool:
    return job.is_done and (job.future.cancelled() or job.future.exception() is not None)


def _guarded(work: Callable[[Watch], Any], watch: Watch) -> Any:
    watch.check()
    try:
        return work(watch)
    except Exception:
        # What an interrupted engine says of it is no error of the question.
        watch.check()
        raise


__all__ = ["BusyError", "CancelledError", "Job", "Jobs", "NotYetError", "Watch"]
