"""The sources of one run: checked before it, read beside it, collected after it.

In: `Spec`s and the run's `Session`. Out: ``operations/<n>.jsonl`` in the run's folder, one a source in the
order they were given.

Not here: the processes' own work (``recorder``), and what is read after the run (``afterwards``).
"""

import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from steelyard._base import EnvironmentLacksError, SteelyardError, UsageError
from steelyard.bench.executor import Process
from steelyard.bench.operations import afterwards, exposition, selector
from steelyard.bench.operations.fetch import Client, FetchError
from steelyard.bench.operations.recorder import COMM
from steelyard.bench.operations.sources import KINDS, Spec
from steelyard.bench.operations.stamps import zone_of
from steelyard.bench.session import Session
from steelyard.records import Clock

FOLDER = "operations"
"""In the run's folder; `analyze.operations.operations` looks there."""
_READY_S = 10.0
_STOP_S = 8.0
_LEAST_ASK_S = 0.25
_LEAST_LOOK_S = 0.1
_NAMES_SHOWN = 8


def check(specs: Sequence[Spec], *, starts: bool, out: Path) -> list[str]:
    """Find out before the run what would be missing after it; return remarks.

    Where the run starts a command (``starts``), what is not there yet may come with it: that is a remark.
    Raises UsageError or EnvironmentLacksError for what will not get better.
    """
    remarks = []
    for spec in specs:
        if "zone" in spec.options:
            zone_of(spec.options["zone"])
        try:
            _check(spec, out)
        except _NotYetError as missing:
            if not starts:
                raise missing.error from None
            remarks.append(f"{missing.error.message}: perhaps it comes with the command")
    return remarks


class _NotYetError(Exception):
    """Something that a command may still bring."""

    def __init__(self, error: SteelyardError) -> None:
        super().__init__(error.message)
        self.error = error


def _check(spec: Spec, out: Path) -> None:
    if spec.kind == "prometheus":
        _check_endpoint(spec)
    elif spec.kind == "prometheus-query":
        try:
            afterwards.ask(spec, "query", {"query": spec.what})
        except EnvironmentLacksError as error:
            raise _NotYetError(error) from error
    elif spec.kind == "load":
        if afterwards.find_load(spec, out) is None:
            raise _NotYetError(UsageError(f"--ops {spec.given}: there is no load result {spec.path}"))
    else:
        _check_file(spec)


def _check_file(spec: Spec) -> None:
    path = spec.path or Path()
    if path.is_dir():
        raise UsageError(f"--ops {spec.given}: {path} is a folder")
    if not path.exists():
        if not path.parent.is_dir():
            raise UsageError(f"--ops {spec.given}: there is no folder {path.parent}")
        raise _NotYetError(UsageError(f"--ops {spec.given}: there is no file {path}"))
    if not os.access(path, os.R_OK):
        raise EnvironmentLacksError(
            f"--ops {spec.given}: {path} may not be read", hint="run as a user that may, or allow this one"
        )
    if spec.kind == "csv":
        afterwards.check_table(spec)


def _check_endpoint(spec: Spec) -> None:
    client = Client(spec.url or "")
    try:
        text = client.get()
    except FetchError as error:
        lacks = EnvironmentLacksError(
            f"--ops {spec.given}: {error}", hint="is the service there, and is this its address?"
        )
        raise _NotYetError(lacks) from error
    finally:
        client.close()
    selected = selector.parse(spec.what, where=f"--ops {spec.given}")
    if exposition.read(text, selected).values:
        return
    names = list(exposition.names(text))
    same = [name for name in names if selected.metric in name or name in selected.metric]
    counters = [name for name in names if name.endswith("_total")]
    shown = list(dict.fromkeys([*same, *counters, *names]))[:_NAMES_SHOWN]
    hint = f"it has {', '.join(shown)}" if shown else "the answer has no metrics: is the path right?"
    raise _NotYetError(UsageError(f"--ops {spec.given}: {spec.url} has no series {spec.what}", hint=hint))


def reader_command(spec: Spec, path: Path, interval_s: float) -> list[str]:
    """Return the command of the process that reads a live source into ``path``, until it is asked to end.

    ``interval_s`` lies between two readings, where the source itself names no other.
    """
    least_s = _LEAST_ASK_S if spec.kind == "prometheus" else _LEAST_LOOK_S
    plan = {
        "given": spec.given, "type": spec.kind, "name": spec.name, "meaning": spec.meaning,
        "what": spec.what, "url": spec.url, "out": str(path),
        "path": str(spec.path.absolute()) if spec.path else None,
        "format": spec.options.get("format"), "zone": spec.options.get("zone"),
        "interval_s": float(spec.options.get("interval", max(least_s, interval_s))),
    }  # fmt: skip
    return [sys.executable, "-m", "steelyard.bench.operations.recorder", json.dumps(plan)]


class Watching:
    """Reads the sources of a run."""

    def __init__(self, session: Session, specs: Sequence[Spec], out: Path) -> None:
        self._session = session
        self._specs = specs
        self._out = out
        self._processes: dict[int, Process] = {}

    def _path(self, index: int) -> Path:
        return self._session.directory / FOLDER / f"{index}.jsonl"

    def begin(self, interval_s: float) -> None:
        """Start what is read beside the run, and wait until it reads."""
        session = self._session
        if not self._specs:
            return
        (session.directory / FOLDER).mkdir()
        session.manifest.put_artifacts({"operations": FOLDER})
        for index, spec in enumerate(self._specs):
            if not KINDS[spec.kind].live:
                continue
            command = reader_command(spec, self._path(index), interval_s)
            process = session.start_process(f"operations-{index}", command, cpus=None, comm=COMM)
            # One that fails costs its source.
            session.expect_end(process)
            self._processes[index] = process
        until_s = time.monotonic() + _READY_S
        while time.monotonic() < until_s and not all(
            self._path(index).is_file() or process.poll() is not None
            for index, process in self._processes.items()
        ):
            session.wait(0.01)

    def end(self) -> None:
        """End the processes that read; each reads once more and completes its file."""
        for index, process in self._processes.items():
            ending = process.stop(_STOP_S)
            self._session.note_end(process)
            if ending.exit_code != 0 and not self._path(index).is_file():
                reason = (process.last_line() or "").removeprefix(f"{COMM}: ")
                self._fail(index, reason or f"its reader {ending}")

    def collect(self, begin_ns: int, end_ns: int) -> None:
        """Read what is complete only after the run."""
        span = afterwards.Span(begin_ns, end_ns, self._session.manifest.run.clock, Clock.now())
        for index, spec in enumerate(self._specs):
            if not KINDS[spec.kind].live:
                afterwards.collect(spec, self._path(index), span, self._out)

    def _fail(self, index: int, reason: str) -> None:
        spec = self._specs[index]
        afterwards.write_missing(spec, self._path(index), reason)
