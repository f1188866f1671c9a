"""Profiles in the formats of others: speedscope's, and trace events as Chrome writes them, for Perfetto.

In: a `Profile`, whose stacks have counts and no times. Out: text. Counts stay exact.

- speedscope (www.speedscope.app/file-format-schema.json): one sampled profile a command, the heaviest first.
- Trace events (JSON of Chrome's Trace Event Format, which ui.perfetto.dev reads): one track a command. Since
  stacks have no times, they lie side by side, equal ones together, as wide as their counts: widths mean
  something there, not when something ran. A sample is 1/hz where the rate is known, else a microsecond.

Not here: reading, and pprof (``steelyard-profile``).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from steelyard import __version__
from steelyard.analyze.profiles.profile import SAMPLES, Profile

_UNITS = {"ns": "nanoseconds", "us": "microseconds", "ms": "milliseconds", "s": "seconds", "bytes": "bytes"}
_UNITS |= {name: name for name in _UNITS.values()}
_NANOSECONDS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
_NANOSECONDS |= {_UNITS[short]: ns for short, ns in _NANOSECONDS.items()}
Stack = tuple[tuple[int, ...], int]


def speedscope(profile: Profile, name: str) -> str:
    """Return ``profile`` as a speedscope file."""
    frames = [
        {"name": frame.function} | ({"file": frame.module} if frame.module else {})
        for frame in profile.frames
    ]
    profiles = []
    for command, stacks in _by_command(profile):
        profiles.append(
            {
                "type": "sampled",
                "name": command,
                "unit": _UNITS.get(profile.unit, "none"),
                "startValue": 0,
                "endValue": profile.in_unit(sum(count for _, count in stacks)),
                "samples": [list(stack) for stack, _ in stacks],
                "weights": [profile.in_unit(count) for _, count in stacks],
            }
        )
    return _text(
        {
            "$schema": "https://www.speedscope.app/file-format-schema.json",
            "exporter": f"steelyard {__version__}",
            "name": name,
            "activeProfileIndex": 0,
            "shared": {"frames": frames},
            "profiles": profiles,
        }
    )


def folded(profile: Profile) -> str:
    """Return ``profile`` as folded stacks, as ``read_folded`` reads them, facts first."""
    lines = [f"# {key}: {value}" for key, value in profile.facts.items()]
    lines += [
        f"{';'.join([profile.commands[command], *(profile.frames[at].label for at in frames)])}"
        f" {profile.in_unit(count)}"
        for command, frames, count in profile.stacks()
    ]
    return "\n".join(lines) + "\n"


def stack_rows(profile: Profile) -> list[dict[str, Any]]:
    """Return the stacks, the heaviest first, outermost frames first, with counts in the profile's unit."""
    heaviest = sorted(profile.stacks(), key=lambda stack: -stack[2])
    return [
        {
            "command": profile.commands[command],
            "count": profile.in_unit(count),
            "frames": [
                {"function": profile.frames[at].function, "module": profile.frames[at].module}
                for at in frames
            ],
        }
        for command, frames, count in heaviest
    ]


def trace_events(profile: Profile, name: str) -> str:
    """Return ``profile`` as trace events: complete events (``X``), nested as calls, ts and dur in µs."""
    step = _microseconds(profile) / profile.scale
    events: list[dict[str, Any]] = [_named("process_name", 1, 0, name)]
    for track, (command, stacks) in enumerate(_by_command(profile), start=1):
        events.append(_named("thread_name", 1, track, command))
        events += _events(profile, stacks, step, track)
    facts = {
        "unit": profile.unit,
        "microseconds_per_count": step * profile.scale,
        "order": "by stack, not by time",
    }
    return _text({"displayTimeUnit": "ms", "otherData": {**facts, **profile.facts}, "traceEvents": events})


def _by_command(profile: Profile) -> list[tuple[str, list[Stack]]]:
    """Return the stacks of each command in the order of their frames' names, commands by weight."""
    by_command: dict[int, list[Stack]] = {}
    for command, frames, count in profile.stacks():
        by_command.setdefault(command, []).append((tuple(frames), count))
    labels = [frame.label for frame in profile.frames]
    ranked = sorted(by_command.items(), key=lambda item: -sum(count for _, count in item[1]))
    return [
        (profile.commands[command], sorted(stacks, key=lambda stack: [labels[at] for at in stack[0]]))
        for command, stacks in ranked
    ]


def _events(profile: Profile, stacks: list[Stack], step: float, track: int) -> Iterator[dict[str, Any]]:
    """Yield an event for each call that neighbours share: it begins with the first and ends with the last."""
    open_calls: list[tuple[int, int]] = []
    at = 0

    def ended(call: tuple[int, int]) -> dict[str, Any]:
        frame, begin = profile.frames[call[0]], call[1]
        # Whole nanoseconds, so that calls stay nested whatever the step is.
        begin_ns, end_ns = round(begin * step * 1e3), round(at * step * 1e3)
        return {
            "ph": "X",
            "name": frame.function,
            "cat": frame.module or "unknown",
            "pid": 1,
            "tid": track,
            "ts": begin_ns / 1e3,
            "dur": (end_ns - begin_ns) / 1e3,
            "args": {"count": profile.in_unit(at - begin)},
        }

    for stack, count in [*stacks, ((), 0)]:
        shared = 0
        while shared < min(len(open_calls), len(stack)) and open_calls[shared][0] == stack[shared]:
            shared += 1
        while len(open_calls) > shared:
            yield ended(open_calls.pop())
        open_calls += [(frame, at) for frame in stack[shared:]]
        at += count


def _microseconds(profile: Profile) -> float:
    if profile.unit in _NANOSECONDS:
        return _NANOSECONDS[profile.unit] / 1e3
    try:
        hz = float(profile.facts.get("hz", ""))
    except ValueError:
        return 1.0
    return 1e6 / hz if profile.unit == SAMPLES and 0 < hz < 1e6 else 1.0


def _named(kind: str, process: int, track: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": process, "tid": track, "args": {"name": name}}


def _text(document: Any) -> str:
    return json.dumps(document, separators=(",", ":"), allow_nan=False)
