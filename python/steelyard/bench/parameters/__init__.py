"""Typed parameters of benchmarks and hooks, declared once.

In: declarations, the values a machine and a tier suggest, and ``name=value`` texts. Out: `Settings`, checked
values that remember who chose them. Parser, ``steelyard list``, the manifest and every error line are made
from the same declaration.

Not here: what a parameter does.
"""

import difflib
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from steelyard._base import UsageError, parse_rate
from steelyard._base.documents import printed

Kind = Literal[
    "count", "ratio", "seconds", "bytes", "bytes_per_second", "per_second", "text", "choice", "flag"
]  # fmt: skip
Setting = int | float | str | bool
Source = Literal["default", "machine", "set"]

_UNITS: dict[Kind, str | None] = {
    "count": "count",
    "ratio": "ratio",
    "seconds": "s",
    "bytes": "bytes",
    "bytes_per_second": "bytes/s",
    "per_second": "1/s",
    "text": None,
    "choice": None,
    "flag": None,
}
_BYTES = {
    "": 1, "b": 1, "k": 1 << 10, "kib": 1 << 10, "m": 1 << 20, "mib": 1 << 20, "g": 1 << 30, "gib": 1 << 30,
    "t": 1 << 40, "tib": 1 << 40, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
}  # fmt: skip
_SECONDS = {"": 1.0, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_NUMBER = re.compile(r"([+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)\s*([A-Za-z]*)")
_TRUTH = {
    "true": True,
    "yes": True,
    "on": True,
    "1": True,
    "false": False,
    "no": False,
    "off": False,
    "0": False,
}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One setting of a benchmark or hook.

    ``default`` None means that it is derived from the machine and the tier; ``derived`` says how, for people.
    ``minimum`` and ``maximum`` are inclusive and in the unit of ``kind``.
    """

    name: str
    """As in --set NAME=VALUE."""
    kind: Kind
    """What its values are."""
    doc: str
    """Description, one line."""
    default: Setting | None = None
    """Value unless another is set, None where it is derived."""
    derived: str | None = None
    """Source of a derived default, None where it is fixed."""
    minimum: float | None = None
    """Smallest value, None for none."""
    maximum: float | None = None
    """Largest value, None for none."""
    choices: tuple[str, ...] = ()
    """The values that a choice has."""

    @property
    @printed
    def unit(self) -> str | None:
        """Return the unit of the stored value, None for what has none."""
        return _UNITS[self.kind]

    @property
    def range_text(self) -> str:
        """Return the allowed values for people."""
        if self.kind == "choice":
            return "|".join(self.choices)
        if self.kind == "flag":
            return "true|false"
        if self.kind == "text":
            return "text"
        low = "" if self.minimum is None else format_value(self, self.minimum)
        high = "" if self.maximum is None else format_value(self, self.maximum)
        return f"{low}..{high}"

    def parse(self, text: str) -> Setting:
        """Return the value that ``text`` stands for.

        Raises UsageError, in one line that names the allowed values, when it does not fit.
        """
        value = self._read(text.strip())
        if value is None:
            raise UsageError(f"{self.name}={text}: allowed is {self.range_text}", hint=self.doc)
        return value

    def _read(self, text: str) -> Setting | None:
        if self.kind == "text":
            return text
        if self.kind == "choice":
            return text if text in self.choices else None
        if self.kind == "flag":
            return _TRUTH.get(text.lower())
        if self.kind == "bytes_per_second":
            rate = parse_rate(text)
            return rate[0] if rate is not None and self._within(rate[0]) else None
        match = _NUMBER.fullmatch(text)
        if match is None:
            return None
        factor = self._factor(match[2])
        if factor is None:
            return None
        number = float(match[1]) * factor
        if not math.isfinite(number) or not self._within(number):
            return None
        if self.kind in ("count", "bytes"):
            # Exact where the text is an integer: a seed may have more digits than a float holds.
            exact = int(match[1]) * int(factor) if match[1].lstrip("+-").isdigit() else round(number)
            return exact if self.kind == "bytes" or number == int(number) else None
        return number

    def _factor(self, unit: str) -> float | None:
        if self.kind == "bytes":
            return _BYTES.get(unit.lower())
        if self.kind == "seconds":
            return _SECONDS.get(unit)
        return None if unit else 1.0

    def _within(self, number: float) -> bool:
        return (self.minimum is None or number >= self.minimum) and (
            self.maximum is None or number <= self.maximum
        )


def format_value(parameter: Parameter, value: Setting) -> str:
    """Return ``value`` as a person would type it; `Parameter.parse` reads it back.

    >>> format_value(Parameter("memory", "bytes", "d"), 1 << 30)
    '1GiB'
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if parameter.kind == "bytes":
        for unit in ("TiB", "GiB", "MiB", "KiB"):
            size = _BYTES[unit.lower()]
            if value >= size and value % size == 0:
                return f"{int(value // size)}{unit}"
        return f"{int(value)}B"
    suffix = {"seconds": "s", "bytes_per_second": "B"}.get(parameter.kind, "")
    return f"{value:.15g}{suffix}" if isinstance(value, float) else f"{value}{suffix}"


def nearest(name: str, names: Iterable[str]) -> str:
    """Return ``, did you mean X?`` when a known name is close to ``name``, else nothing."""
    close = difflib.get_close_matches(name, list(names), n=1)
    return f", did you mean {close[0]}?" if close else ""


class Settings(Mapping[str, Setting]):
    """Values for a list of parameters, each with who chose it."""

    def __init__(self, parameters: Iterable[Parameter], values: Mapping[str, tuple[Setting, Source]]) -> None:
        self.parameters = {parameter.name: parameter for parameter in parameters}
        self._values = dict(values)

    @classmethod
    def resolve(
        cls,
        parameters: Iterable[Parameter],
        chosen: Mapping[str, str],
        suggest: Callable[[Mapping[str, Setting]], Mapping[str, Setting]] | None = None,
        *,
        owner: str,
    ) -> "Settings":
        """Return settings from what was asked, what the machine suggests, and the defaults, in this order.

        ``chosen`` holds texts as asked for; ``suggest`` gets their values, since one may follow from another.
        ``owner`` names the benchmark or hook in errors. Raises UsageError for an unknown name, a value out of
        range, or a parameter that nobody chose.
        """
        declared = {parameter.name: parameter for parameter in parameters}
        check_names(chosen, declared, owner=owner)
        given = {name: declared[name].parse(text) for name, text in chosen.items()}
        suggested = {} if suggest is None else suggest(given)
        values: dict[str, tuple[Setting, Source]] = {}
        for name, parameter in declared.items():
            if name in given:
                values[name] = (given[name], "set")
            elif name in suggested:
                values[name] = (suggested[name], "machine")
            elif parameter.default is not None:
                values[name] = (parameter.default, "default")
            else:
                raise UsageError(f"{owner} needs {name}={parameter.range_text}", hint=parameter.doc)
        return cls(declared.values(), values)

    def __getitem__(self, name: str) -> Setting:
        return self._values[name][0]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def source(self, name: str) -> Source:
        """Return who chose the value of ``name``."""
        return self._values[name][1]

    def with_value(self, name: str, value: Setting, source: Source = "machine") -> "Settings":
        """Return the same settings with another value for ``name``."""
        return Settings(self.parameters.values(), {**self._values, name: (value, source)})

    def count(self, name: str) -> int:
        """Return a count or size."""
        return int(self[name])

    def number(self, name: str) -> float:
        """Return a number."""
        return float(self[name])

    def text(self, name: str) -> str:
        """Return a text or choice."""
        return str(self[name])

    def flag(self, name: str) -> bool:
        """Return a truth value."""
        return bool(self[name])


def check_names(chosen: Iterable[str], declared: Iterable[str], *, owner: str) -> None:
    """Raise UsageError, in one line with the valid names, when ``chosen`` holds one not ``declared``."""
    known = list(declared)
    for name in chosen:
        if name not in known:
            raise UsageError(
                f"{owner} has no parameter {name!r}{nearest(name, known)}",
                hint=f"valid names: {', '.join(known) or 'none'}",
            )


def by_benchmark(
    chosen: Mapping[str, str], declared: Mapping[str, Collection[str]], *, owner: str
) -> dict[str, dict[str, str]]:
    """Return what was chosen for each benchmark: ``name`` for all that have it, ``benchmark.name`` for one.

    ``declared`` holds the names of each benchmark's parameters. What names a benchmark wins. Raises
    UsageError for a parameter that no benchmark, or not the one that is named, has.

    >>> by_benchmark({"b.time": "9", "time": "5"}, {"a": ["time"], "b": ["time"]}, owner="quick")
    {'a': {'time': '5'}, 'b': {'time': '9'}}
    """
    every = list(dict.fromkeys(name for names in declared.values() for name in names))
    for full in chosen:
        benchmark, dot, name = full.rpartition(".")
        if dot and benchmark not in declared:
            raise UsageError(
                f"{full}: {owner} has no benchmark {benchmark!r}{nearest(benchmark, declared)}",
                hint=f"benchmarks: {', '.join(declared)}",
            )
        check_names([name], declared[benchmark] if dot else every, owner=benchmark if dot else owner)
    return {
        benchmark: {name: text for name, text in chosen.items() if name in names}
        | {
            full.removeprefix(f"{benchmark}."): text
            for full, text in chosen.items()
            if full.startswith(f"{benchmark}.")
        }
        for benchmark, names in declared.items()
    }


def parse_assignments(texts: Iterable[str], *, flag: str = "--set") -> dict[str, str]:
    """Return the names and values of ``name=value`` texts.

    >>> parse_assignments(["memory=1GiB"])
    {'memory': '1GiB'}
    """
    chosen: dict[str, str] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name.strip():
            raise UsageError(f"{flag} {text!r} is not name=value")
        if name.strip() in chosen:
            raise UsageError(f"{flag} {name.strip()} is given twice")
        chosen[name.strip()] = value
    return chosen
