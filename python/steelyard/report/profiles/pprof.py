"""A profile in the format of pprof: https://github.com/google/pprof/blob/main/proto/profile.proto.

In: a `Profile`. Out: bytes, compressed by gzip as pprof writes them. A stack has its command as the label
``comm``, its frames are locations of one line each, and counts stay exact as far as they are whole
numbers, which is all that pprof has. The first mapping is the main program, as readers take it to be.
Addresses are unknown and absent.

The encoding is written here: protobuf has no part in running Steelyard, and this message needs numbers, texts
and messages only. Not here: profiles with addresses, which the sampler writes itself (``steelyard-profile``).
"""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Sequence

from steelyard.analyze.profiles.profile import Profile

_SAMPLE_TYPE, _SAMPLE, _MAPPING, _LOCATION, _FUNCTION, _STRINGS = 1, 2, 3, 4, 5, 6
_TIME, _DURATION, _PERIOD_TYPE, _PERIOD = 9, 10, 11, 12
_COMM_LETTERS = 15
"""Of a program's name that its threads have, by prctl(2)."""
_NANOSECONDS = 10**9
_UNITS = {"samples": "count", "ns": "nanoseconds", "us": "microseconds", "ms": "milliseconds"}
"""Units of profiles that pprof calls otherwise."""


def pprof(
    profile: Profile, programs: Sequence[str] = (), *, begin_ns: int = 0, duration_ns: int = 0
) -> bytes:
    """Return ``profile`` as a file of pprof.

    ``programs`` are base names of what was sampled, the main one first; without them it is the one that most
    samples are of. Times that are not known are 0.
    """
    texts = _Texts()
    event = profile.facts.get("event") or "samples"
    kind = "samples" if profile.unit == "samples" else event
    out = bytearray()
    out += _message(_SAMPLE_TYPE, _number(1, texts.at(kind)) + _number(2, texts.at(_unit(profile.unit))))
    label = texts.at("comm")
    for command, frames, count in profile.stacks():
        # The leaf comes first.
        locations = b"".join(_varint(at + 1) for at in reversed(list(frames)))
        comm = _number(1, label) + _number(2, texts.at(profile.commands[command]))
        value = _message(2, _varint(round(profile.in_unit(count))))
        out += _message(_SAMPLE, _message(1, locations) + value + _message(3, comm))
    modules = {name: number for number, name in enumerate(_modules(profile, programs), start=1)}
    for at, frame in enumerate(profile.frames, start=1):
        module = modules[frame.module] if frame.module else 0
        line = _message(4, _number(1, at))
        out += _message(_LOCATION, _number(1, at) + (_number(2, module) if module else b"") + line)
        function = texts.at(frame.function)
        out += _message(_FUNCTION, _number(1, at) + _number(2, function) + _number(3, function))
    for name, number in modules.items():
        out += _message(_MAPPING, _number(1, number) + _number(5, texts.at(name)) + _number(7, 1))
    for field, time_ns in ((_TIME, begin_ns), (_DURATION, duration_ns)):
        out += _number(field, time_ns) if time_ns else b""
    hz = _rate(profile)
    if hz is not None:
        kinds = _number(1, texts.at("cpu")) + _number(2, texts.at("nanoseconds"))
        out += _message(_PERIOD_TYPE, kinds) + _number(_PERIOD, round(_NANOSECONDS / hz))
    for text in texts.all:
        out += _message(_STRINGS, text.encode("utf-8", errors="replace"))
    return gzip.compress(bytes(out), mtime=0)


def _modules(profile: Profile, programs: Sequence[str]) -> list[str]:
    """Return the modules, the main program first where it is among them."""
    names = list(dict.fromkeys(frame.module for frame in profile.frames if frame.module))
    counts: Counter[str] = Counter()
    for command, _, count in profile.stacks():
        counts[profile.commands[command]] += count
    sampled = [command for command, _ in counts.most_common()]
    known = {name[:_COMM_LETTERS]: name for name in reversed(names)}
    found = [name for name in programs if name in names]
    found += [known[name[:_COMM_LETTERS]] for name in sampled if name[:_COMM_LETTERS] in known]
    return list(dict.fromkeys([*found[:1], *names]))


class _Texts:
    """The table of texts, whose first is empty."""

    def __init__(self) -> None:
        self._places = {"": 0}

    def at(self, text: str) -> int:
        """Return the place of ``text``."""
        return self._places.setdefault(text, len(self._places))

    @property
    def all(self) -> list[str]:
        """Return the texts in order."""
        return list(self._places)


def _unit(name: str) -> str:
    return _UNITS.get(name, name)


def _rate(profile: Profile) -> float | None:
    try:
        hz = float(profile.facts.get("hz", ""))
    except ValueError:
        return None
    return hz if 0 < hz < _NANOSECONDS else None


def _varint(value: int) -> bytes:
    """Return a number in the base 128 of protobuf.

    >>> _varint(300).hex()
    'ac02'
    """
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _message(field: int, body: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(body)) + body
