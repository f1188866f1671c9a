#!/usr/bin/env python3
"""Repeat tests, alone and beside a busy loop on each CPU, and list which of them fail how often.

    .venv/bin/python scripts/repeat_tests.py                               # everything, 5 times each way
    .venv/bin/python scripts/repeat_tests.py --times 30 python/tests/benchmarks/tax/test_tax.py
    .venv/bin/python scripts/repeat_tests.py --times 30 --busy crate:probe crate:load
    .venv/bin/python scripts/repeat_tests.py --slow python/tests/benchmarks/redis/test_redis.py

A unit is a pytest file or folder or one of its tests (FILE::NAME), or `crate:NAME` for all tests of a crate.
Each repeat is a new process, with the signals that a shell in the background ignores as tests expect them.
Tests of a crate run in one thread per CPU, as `cargo test` runs them; those of a pytest file run one by one.
`--slow` repeats only the tests that are marked slow; without it they are left out.

Prints a line for each test that failed at least once: how often alone and beside busy loops, and the
first line of its last failure; after an interrupt, what is known until then. `--json FILE` writes all counts.
Exits with 1 if a test failed, with 4 if a unit could not run.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CONDITIONS = ("alone", "busy")
BUSY_LOOP = "import ctypes, signal\nctypes.CDLL(None).prctl(1, signal.SIGKILL)\nwhile True: pass"
"""Ends with its starter, however that ends: PR_SET_PDEATHSIG."""

_RUST_LINE = re.compile(
    r"^test (?P<name>.+?)(?: - should panic)? \.\.\. (?P<outcome>ok|FAILED|ignored)", re.MULTILINE
)
_RUST_PANIC = re.compile(
    r"^---- (?P<name>\S+) stdout ----\n(?P<text>.*?)(?=^---- |^failures:)", re.MULTILINE | re.DOTALL
)


@dataclass
class Tally:
    """Outcomes of one test."""

    runs: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CONDITIONS, 0))
    failures: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CONDITIONS, 0))
    message: str = ""

    @property
    def failed(self) -> bool:
        """Whether it failed at least once."""
        return any(self.failures.values())


@dataclass(frozen=True)
class Outcome:
    """One execution of one test."""

    test: str
    passed: bool
    message: str = ""


def rust_outcomes(unit: str, text: str) -> Iterator[Outcome]:
    """Yield what libtest printed of each test that ran; ignored tests are skipped.

    >>> list(rust_outcomes("crate:x", "test a::b ... ok\\ntest c ... ignored\\n"))
    [Outcome(test='crate:x a::b', passed=True, message='')]
    """
    panics = {match["name"]: match["text"].strip().splitlines() for match in _RUST_PANIC.finditer(text)}
    for match in _RUST_LINE.finditer(text):
        if match["outcome"] == "ignored":
            continue
        lines = [line for line in panics.get(match["name"], []) if line.strip()]
        yield Outcome(f"{unit} {match['name']}", match["outcome"] == "ok", " ".join(lines[:2])[:160])


def pytest_outcomes(path: Path) -> Iterator[Outcome]:
    """Yield what a JUnit file of pytest holds; skipped tests are left out."""
    for case in ElementTree.parse(path).iter("testcase"):  # noqa: S314 - pytest wrote it
        if case.find("skipped") is not None:
            continue
        problems = [each for kind in ("failure", "error") for each in case.findall(kind)]
        message = problems[0].get("message", "").splitlines()[:1] if problems else []
        yield Outcome(
            f"{case.get('classname', '')}::{case.get('name')}", not problems, "".join(message)[:160]
        )


def run_unit(unit: str, *, slow: bool = False) -> list[Outcome]:
    """Run the tests of ``unit`` once: those that are slow, or all others.

    Raises:
        RuntimeError: if no outcome could be read.
    """
    if unit.startswith("crate:"):
        name = unit.removeprefix("crate:")
        package = name if name == "steelyard" else f"steelyard-{name}"
        ignored = ["--", "--ignored"] if slow else []
        done = _run(["cargo", "test", "--locked", "--no-fail-fast", "--package", package, *ignored])
        outcomes = list(rust_outcomes(unit, done.stdout))
        return outcomes or _no_outcome(unit, done)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        done = _run(
            [
                *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}"),
                *(("-m", "slow") if slow else ()),
                unit,
            ]
        )
        # 0: all passed; 1: some failed; 5: nothing was collected, such as from a file of helpers.
        if done.returncode not in (0, 1, 5) or not report.exists():
            return _no_outcome(unit, done)
        return list(pytest_outcomes(report))


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        # A shell that starts a job in the background may have it ignore the signals that tests send.
        ["env", "--default-signal=HUP,INT,QUIT", *command],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )


def _no_outcome(unit: str, done: subprocess.CompletedProcess[str]) -> list[Outcome]:
    tail = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
    raise RuntimeError(f"{unit}: no test ran (exit {done.returncode})\n{tail}")


@contextlib.contextmanager
def busy_loops(count: int) -> Iterator[None]:
    """Keep ``count`` processes computing meanwhile."""
    loops = [subprocess.Popen([sys.executable, "-c", BUSY_LOOP]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def repeat(
    units: Sequence[str], times: int, conditions: Sequence[str], *, slow: bool = False
) -> dict[str, Tally]:
    """Run each unit ``times`` times in each condition, and return the outcomes by test.

    An interrupt ends it early: what was run until then counts.
    """
    tallies: dict[str, Tally] = {}
    with contextlib.suppress(KeyboardInterrupt):
        _repeat(tallies, units, times, conditions, slow=slow)
    return tallies


def _repeat(
    tallies: dict[str, Tally], units: Sequence[str], times: int, conditions: Sequence[str], *, slow: bool
) -> None:
    for unit in units:
        for condition in conditions:
            begin = time.monotonic()
            with busy_loops(len(os.sched_getaffinity(0)) if condition == "busy" else 0):
                for _ in range(times):
                    for outcome in run_unit(unit, slow=slow):
                        tally = tallies.setdefault(outcome.test, Tally())
                        tally.runs[condition] += 1
                        if not outcome.passed:
                            tally.failures[condition] += 1
                            tally.message = outcome.message
            print(
                f"{unit}: {times} times {condition}, {time.monotonic() - begin:.0f} s",
                file=sys.stderr,
                flush=True,
            )


def table(tallies: dict[str, Tally]) -> Iterator[str]:
    """Yield a line for each test that failed, the most frequent first, and one that sums up."""
    failed = {test: tally for test, tally in tallies.items() if tally.failed}
    for test, tally in sorted(failed.items(), key=lambda item: -sum(item[1].failures.values())):
        rates = ", ".join(
            f"{tally.failures[each]} of {tally.runs[each]} {each}" for each in CONDITIONS if tally.runs[each]
        )
        yield f"{test}: failed {rates}: {tally.message}"
    runs = sum(sum(tally.runs.values()) for tally in tallies.values())
    yield f"{len(tallies)} tests, {runs} runs, {len(failed)} tests failed at least once"


def all_units() -> list[str]:
    """Return every crate and every pytest file."""
    crates = sorted(f"crate:{path.parent.name}" for path in ROOT.glob("crates/*/Cargo.toml"))
    return crates + sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("python/tests/**/test_*.py"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Repeat and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("units", nargs="*", help="pytest files or folders, or crate:NAME (default: all)")
    parser.add_argument("--times", type=int, default=5, help="repeats in each condition (default 5)")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--alone", action="store_true", help="only without busy loops")
    only.add_argument("--busy", action="store_true", help="only beside a busy loop on each CPU")
    parser.add_argument("--slow", action="store_true", help="repeat the tests that are marked slow")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the counts of every test")
    options = parser.parse_args(arguments)
    conditions = ["alone"] if options.alone else ["busy"] if options.busy else list(CONDITIONS)
    try:
        tallies = repeat(options.units or all_units(), options.times, conditions, slow=options.slow)
    except RuntimeError as error:
        print(f"repeat_tests: {error}", file=sys.stderr)
        return 4
    if options.json:
        options.json.write_text(
            json.dumps({test: vars(tally) for test, tally in tallies.items()}, indent=1) + "\n"
        )
    for line in table(tallies):
        print(line)
    return 1 if any(tally.failed for tally in tallies.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
