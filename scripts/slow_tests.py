#!/usr/bin/env python3
"""Run the slow tests that a change touches, as many of them as eight minutes hold.

    .venv/bin/python scripts/slow_tests.py             # what CI runs
    .venv/bin/python scripts/slow_tests.py --list      # only say which those are, and why
    .venv/bin/python scripts/slow_tests.py --all       # every slow test, however long it takes

A change is what `git diff` names since HEAD left origin/main; on main itself, its last commit. Where there is
no history every slow test counts as touched. Of those that are touched the first of `TABLE` run, by their
seconds there, so that the same change runs the same tests on every machine. Tests whose own code is touched
come before those that share it with others, of which the shortest come first.

CI has an end, STEELYARD_CI_END (seconds of `date +%s`): what is built and tested before may leave less time.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUDGET_S = 480


@dataclass(frozen=True)
class Slow:
    """Slow tests that stand or fall together."""

    tests: str
    """A file of pytest, whose tests with the mark `slow` are meant, or `crate::MODULE` of Rust's."""
    seconds: int
    """How long they take on a quiet machine with two CPUs."""
    covers: tuple[str, ...]
    """What they test: beginnings of paths; `FOLDER/*` is the files of that folder, without those of folders
    in it. Their own file is always meant."""
    shares: tuple[str, ...] = ()
    """What they test beside others."""

    @property
    def module(self) -> str | None:
        """The module of Rust tests; None for a file of pytest."""
        _, separator, module = self.tests.partition("::")
        return module if separator else None

    def owns(self, paths: Sequence[str]) -> bool:
        """Whether one of ``paths`` is the tests' own or covered by them."""
        return _meets((self.tests, *self.covers), paths)

    def is_shared_by(self, paths: Sequence[str]) -> bool:
        """Whether one of ``paths`` is tested by them beside others."""
        return _meets(self.shares, paths)


def _meets(covers: Sequence[str], paths: Sequence[str]) -> bool:
    folders = {cover.removesuffix("/*") for cover in covers if cover.endswith("/*")}
    beginnings = tuple(cover for cover in covers if not cover.endswith("/*"))
    return any(path.startswith(beginnings) or path.rpartition("/")[0] in folders for path in paths)


FLEET = ("python/steelyard/fleet/", "python/steelyard/telemetry/", "python/steelyard/cli/fleet/")
BENCH = "python/steelyard/bench"
STACK = f"{BENCH}/stack"
ROOMS = "python/steelyard/benchmarks"
FRAMEWORK = (
    f"{BENCH}/*",
    *(f"{BENCH}/{name}/" for name in ("hooks", "limits", "load", "operations", "placement", "recorders")),
    "crates/load/",
)
"""What every benchmark runs on."""
STACKS = (*FRAMEWORK, f"{STACK}/*")
"""What every benchmark of other people's servers runs on."""
EXECUTABLES = "python/tests/executables/"
TABLE = (
    Slow("crate::accuracy", 45, ("crates/steelyard/tests/", "crates/load/", "Cargo.lock")),
    Slow(
        f"{EXECUTABLES}numa_machine/test_numa_binding.py",
        15,
        ("crates/launch/", f"{EXECUTABLES}numa_machine/"),
    ),
    Slow(
        f"{EXECUTABLES}numa_machine/test_numa_scenarios.py",
        35,
        ("crates/launch/", "python/steelyard/experiment/numa/", f"{EXECUTABLES}numa_machine/"),
    ),
    Slow(
        f"{EXECUTABLES}numa_machine/test_numa_machine.py",
        50,
        ("crates/kernel/", "crates/probe/", "python/steelyard/numa/", f"{EXECUTABLES}numa_machine/"),
    ),
    Slow(
        "python/tests/api/test_notebook.py",
        25,
        ("docs/guides/python.ipynb", "scripts/make_notebook.py", "python/steelyard/api/"),
    ),
    Slow("python/tests/docs/test_site.py", 60, ("docs/", "scripts/site/", "python/tests/docs/")),
    Slow(f"{EXECUTABLES}test_live_interference.py", 60, ("crates/agent/", f"{EXECUTABLES}live_groups.py")),
    Slow(f"{EXECUTABLES}test_fleet_guide.py", 70, ("docs/guides/fleet.md", "crates/agent/", *FLEET)),
    Slow(f"{EXECUTABLES}load/test_load_cql.py", 45, ("crates/load/src/codec/cql/", "workloads/cassandra/")),
    Slow(f"{EXECUTABLES}test_hostile.py", 5, ("crates/agent/",)),
    Slow(f"{EXECUTABLES}load/test_load_redis.py", 10, ("crates/load/",)),
    Slow(f"{EXECUTABLES}load/test_load_http.py", 10, ("crates/load/",)),
    Slow(f"{EXECUTABLES}load/test_load_siege.py", 15, ("crates/load/",)),
    Slow(
        f"{EXECUTABLES}load/test_load_ycsb.py",
        35,
        ("crates/load/src/workload/", "crates/load/src/mix/", "data/mixes/", f"{EXECUTABLES}load/ycsb/"),
    ),
    Slow(
        "python/tests/benchmarks/feed/test_feed.py",
        15,
        (f"{ROOMS}/feed/", "crates/rank/", "crates/features/"),
        FRAMEWORK,
    ),
    Slow("python/tests/bench/test_runs.py", 10, (f"{ROOMS}/tao/", "crates/cache/"), FRAMEWORK),
    Slow(
        "python/tests/benchmarks/redis/test_redis.py",
        15,
        (f"{ROOMS}/redis/", "data/redis/", "workloads/redis/"),
        STACKS,
    ),
    Slow(
        "python/tests/benchmarks/memcached/test_memcached.py",
        20,
        (f"{ROOMS}/memcached/", f"{ROOMS}/caching/", "workloads/memcached/"),
        STACKS,
    ),
    Slow(
        "python/tests/benchmarks/rocksdb/test_rocksdb.py",
        30,
        (f"{ROOMS}/rocksdb/", "workloads/rocksdb/"),
        STACKS,
    ),
    Slow(
        "python/tests/benchmarks/transcode/test_transcode.py",
        40,
        (f"{ROOMS}/transcode/", "workloads/transcode/"),
        STACKS,
    ),
    Slow(
        "python/tests/bench/stack/test_killed.py",
        90,
        (f"{BENCH}/scratch.py", f"{BENCH}/undo.py"),
        (*STACKS, *(f"{ROOMS}/{name}/" for name in ("redis", "rocksdb", "spark", "als", "social"))),
    ),
    Slow("python/tests/benchmarks/transcode/test_broken_clips.py", 20, (f"{ROOMS}/transcode/",)),
    Slow(
        "python/tests/bench/colocation/test_real_benchmarks.py",
        60,
        (f"{BENCH}/colocation/", "python/steelyard/analyze/pressure/"),
        FRAMEWORK,
    ),
    Slow(
        "python/tests/benchmarks/mediawiki/test_run.py",
        90,
        (f"{ROOMS}/mediawiki/", "workloads/mediawiki/"),
        STACKS,
    ),
    Slow(
        "python/tests/benchmarks/cassandra/test_cassandra.py",
        70,
        (f"{ROOMS}/cassandra/", "workloads/cassandra/"),
        STACKS,
    ),
    Slow(
        "python/tests/bench/test_runs_on_hosts.py",
        40,
        (f"{BENCH}/load/hosts.py", "crates/load/src/hosts/"),
        (f"{ROOMS}/cassandra/", "workloads/cassandra/"),
    ),
    Slow(
        "python/tests/benchmarks/django/test_django.py",
        150,
        (f"{ROOMS}/django/", "workloads/django/"),
        (*STACKS, f"{ROOMS}/cassandra/", "workloads/cassandra/", f"{ROOMS}/memcached/"),
    ),
    Slow(
        "python/tests/benchmarks/social/test_social.py",
        50,
        (f"{ROOMS}/social/", f"{ROOMS}/django/", "workloads/django/"),
        (*STACKS, f"{ROOMS}/cassandra/", "workloads/cassandra/", f"{ROOMS}/memcached/"),
    ),
    Slow(
        "python/tests/benchmarks/spark/test_spark_runs.py",
        90,
        (f"{ROOMS}/spark/", "workloads/spark/"),
        STACKS,
    ),
    Slow(
        "python/tests/benchmarks/hadoop/test_hadoop_runs.py",
        240,
        (f"{ROOMS}/nutch/", f"{ROOMS}/bayes/", f"{ROOMS}/hadoop/", "workloads/hadoop/"),
        STACKS,
    ),
    Slow(
        "python/tests/benchmarks/als/test_als.py",
        40,
        (f"{ROOMS}/als/", f"{ROOMS}/spark/", "workloads/spark/"),
        STACKS,
    ),
    Slow(
        "python/tests/report/test_pages.py",
        105,
        (
            "python/steelyard/report/",
            "python/steelyard/cli/",
            "python/tests/report/pages.py",
            "python/tests/report/pages_of_answers.py",
        ),
    ),
    Slow("python/tests/fleet/test_half_empty.py", 40, FLEET),
    Slow("python/tests/fleet/store/test_store_versions.py", 15, ("python/steelyard/fleet/store/",)),
    Slow("python/tests/fleet/test_importers.py", 10, ("python/steelyard/fleet/",)),
    Slow(
        "python/tests/cli/decide/test_fidelity.py",
        240,
        ("python/steelyard/tune/calibration/", "python/steelyard/decide/fidelity/"),
    ),
    Slow("python/tests/tune/test_kills.py", 30, (f"{BENCH}/undo.py", "python/steelyard/tune/")),
    Slow("python/tests/tune/test_live_knobs.py", 240, ("python/steelyard/tune/",)),
    Slow("python/tests/bench/operations/test_afterwards.py", 10, ("python/steelyard/bench/operations/",)),
    Slow(
        "python/tests/attack/test_attack.py",
        60,
        (
            "crates/cache/",
            "crates/serve/",
            "python/steelyard/_base/",
            "python/steelyard/fleet/importers/",
            "python/steelyard/records/",
            "python/steelyard/telemetry/perf_stat/",
            "python/tests/attack/",
            "scripts/attack",
        ),
    ),
    Slow(
        "python/tests/fleet/store/test_engines.py", 120, (*FLEET, "pyproject.toml", "requirements-dev.lock")
    ),
)


def changed(root: Path) -> list[str] | None:
    """Return the paths that the change in ``root`` touches; None where there is no history."""

    def git(*arguments: str) -> str | None:
        done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else None

    head, base = git("rev-parse", "HEAD"), git("merge-base", "HEAD", "origin/main")
    if base is None or base == head:
        base = git("rev-parse", "--verify", "HEAD~1")
    named = None if base is None else git("diff", "--name-only", base)
    return None if named is None else named.splitlines()


def budget_s() -> float:
    """Return how long tests may run: what CI has left, where it has an end, and eight minutes at most."""
    end = os.environ.get("STEELYARD_CI_END")
    return BUDGET_S if not end else min(BUDGET_S, max(0.0, float(end) - time.time()))


def choose(paths: Sequence[str] | None, budget_s: float = BUDGET_S) -> tuple[list[Slow], list[Slow]]:
    """Return which tests run for a change of ``paths``, and which of its tests ``budget_s`` does not hold."""
    touched = [slow for slow in TABLE if paths is None or slow.owns(paths)]
    beside = [slow for slow in TABLE if slow not in touched and slow.is_shared_by(paths or ())]
    chosen: list[Slow] = []
    left_out: list[Slow] = []
    for slow in (*touched, *sorted(beside, key=lambda slow: slow.seconds)):
        fits = sum(one.seconds for one in chosen) + slow.seconds <= budget_s
        (chosen if fits else left_out).append(slow)
    return chosen, left_out


def commands(chosen: Sequence[Slow]) -> list[list[str]]:
    """Return what runs the tests: those of Rust first, alone, then those of Python in two rows."""
    cargo = [
        "cargo",
        "test",
        "--locked",
        "--package",
        "steelyard",
        "--test",
        "executables",
        "--",
        "--ignored",
    ]
    pytest = [
        sys.executable,
        "-m",
        "pytest",
        "-m",
        "slow",
        "--durations",
        "15",
        "-n",
        "2",
        "--dist",
        "loadfile",
    ]
    found = [[*cargo, f"{slow.module}::"] for slow in chosen if slow.module]
    files = [slow.tests for slow in chosen if not slow.module]
    return found + ([[*pytest, *files]] if files else [])


def main(arguments: Sequence[str] | None = None) -> int:
    """Say what runs and run it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--all", action="store_true", help="run every slow test")
    parser.add_argument("--list", action="store_true", help="run nothing")
    options = parser.parse_args(arguments)
    budget = budget_s()
    chosen, left_out = (list(TABLE), []) if options.all else choose(changed(ROOT), budget)
    for slow in chosen:
        print(f"{slow.seconds:4} s  {slow.tests}")
    for slow in left_out:
        print(f"{slow.seconds:4} s  {slow.tests}: left out, {budget:.0f} s do not hold it")
    if not chosen and not left_out:
        print("no slow test is touched")
    if options.list:
        return 0
    sys.stdout.flush()
    return max(
        (subprocess.run(command, cwd=ROOT, check=False).returncode for command in commands(chosen)), default=0
    )


if __name__ == "__main__":
    sys.exit(main())
