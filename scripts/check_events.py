#!/usr/bin/env python3
"""Compares the definitions in data/events with a checkout of Linux's tools/perf/pmu-events, Intel's perfmon
or Arm's telemetry solution: encodings of events of the same name, formulas on random counts.

Usage: .venv/bin/python scripts/check_events.py FOLDER

Exits with 1 when something differs that no definition says differs on purpose.
"""

import random
import sys
from pathlib import Path

from steelyard.analyze.counters.checkouts import load_definitions
from steelyard.analyze.counters.choice import fits
from steelyard.analyze.counters.definition_equality import compare_metrics
from steelyard.analyze.counters.definitions import Definition, definitions
from steelyard.telemetry.counters import key_of

SAMPLES = {
    "intel-skylake-server": ("GenuineIntel-6-55-4", "GenuineIntel-6-55-7"),
    "intel-icelake-server": ("GenuineIntel-6-6A-6",),
    "intel-sapphirerapids": ("GenuineIntel-6-8F-8", "GenuineIntel-6-CF-2"),
    "intel-graniterapids": ("GenuineIntel-6-AD-1",),
    "amd-zen2": ("AuthenticAMD-23-31-0",),
    "amd-zen3": ("AuthenticAMD-25-1-1",),
    "amd-zen4": ("AuthenticAMD-25-11-1",),
    "amd-zen5": ("AuthenticAMD-26-2-1",),
    "arm-neoverse-n1": ("0x00000000410fd0c0",),
    "arm-neoverse-n2": ("0x00000000410fd490",),
    "arm-neoverse-v1": ("0x00000000410fd400",),
    "arm-neoverse-v2": ("0x00000000410fd4f0",),
}


def compare_events(ours: Definition, theirs: Definition) -> tuple[int, list[str]]:
    """Return how many events both have, and how they differ."""
    known = {key_of(name): event for name, event in theirs.events.items()}
    same, found = 0, []
    for name, event in ours.events.items():
        other = known.get(key_of(name))
        if other is None or event.pmu in ("software", "msr", "power", "hardware", "hw-cache"):
            continue
        same += 1
        given = {term: value for term, value in other.terms.items() if value or term == "event"}
        wanted = {term: value for term, value in event.terms.items() if value or term == "event"}
        if (event.pmu, wanted) != (other.pmu, given):
            found.append(f"{ours.id}: {name}: ours is {event.encoding}, theirs {other.encoding}")
    return same, found


def main() -> int:
    """Compare and print."""
    checkout = load_definitions(Path(sys.argv[1]))
    says_no = False
    for name, identifiers in SAMPLES.items():
        for identifier in identifiers:
            theirs = next((each for each in checkout.values() if fits(each, identifier)), None)
            if theirs is None:
                print(f"{name} {identifier}: not in this checkout")
                continue
            ours = definitions()[name]
            same, differing = compare_events(ours, theirs)
            result = compare_metrics(ours, theirs, random.Random(1))  # noqa: S311
            differing += [f"{name}: {each}" for each in result.differing]
            says_no = says_no or bool(differing)
            print(
                f"{name} {identifier}: {same} events and {len(result.equal)} metrics compared,"
                f" {len(differing)} differ; on purpose: {', '.join(result.on_purpose) or 'none'}"
            )
            for line in differing:
                print(f"  {line}")
    return int(says_no)


if __name__ == "__main__":
    sys.exit(main())
