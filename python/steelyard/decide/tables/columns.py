"""What the columns of a table are: by their names, and by a TOML file where names do not say it.

    [columns.rps]
    unit = "1/s"            # or kB/s, MiB, ms, GHz, W, ...
    better = "higher"       # or "lower"
    is = "result"           # or "attribute", "machine", "session", "skip"
    name = "web_per_s"      # another name

    [machines."c8g.large"]  # attributes that the table has not
    price_per_hour = 0.08

In: names of columns. Out: `ColumnKind`. Attributes that Steelyard knows are in ``ATTRIBUTES``, other numbers
are results, other texts attributes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from steelyard._base import RecordError, UsageError
from steelyard._base.toml import read_toml
from steelyard.decide.tables.model import Attribute

MACHINE = "machine"
RESULT = "result"
VALUE = "value"
SESSION = "session"
UNIT = "unit"
BETTER = "better"

ATTRIBUTES: Mapping[str, tuple[str, ...]] = {
    "processor": ("cpu", "cpu_model", "cpu_name", "processor_name", "processor_model", "model_name"),
    "architecture": ("arch", "isa"),
    "vendor": ("cpu_vendor", "processor_vendor"),
    "provider": ("cloud",),
    "family": ("instance_family", "machine_family"),
    "generation": ("gen",),
    "year": ("date", "available", "hw_avail", "availability", "released", "release_date"),
    "cpus": (
        "vcpus",
        "vcpu",
        "cpu_count",
        "vcpu_count",
        "logical_cpus",
        "hardware_threads",
        "enabled_threads",
    ),
    "cores": ("core_count", "physical_cores", "enabled_cores", "total_cores"),
    "threads_per_core": ("smt",),
    "sockets": ("chips", "enabled_chips"),
    "numa_nodes": (),
    "memory_bytes": ("memory", "ram", "mem"),
    "l1d_bytes": (),
    "l1i_bytes": (),
    "l2_bytes": (),
    "l3_bytes": (),
    "clock_hz": ("clock", "frequency", "base_clock", "nominal", "mhz"),
    "turbo_hz": ("max_clock", "turbo", "boost_clock"),
    "network_bits_per_s": (),
    "hypervisor": (),
    "kernel": (),
    "distribution": (),
    "currency": (),
    "price": (
        "capex",
        "purchase_price",
        "list_price",
        "unit_price",
        "server_price",
        "machine_price",
        "purchase_cost",
        "unit_cost",
    ),
    "price_per_hour": (
        "hourly_price",
        "price_hourly",
        "on_demand_price",
        "price_h",
        "price_per_h",
        "cost_per_hour",
        "hourly_cost",
        "cost_h",
        "cost_per_h",
    ),
    "maintenance_per_year": (),
    "power_w": ("watts", "power", "mean_power"),
    "idle_power_w": ("idle",),
    "budgeted_power_w": ("power_budget",),
    "tdp_w": ("tdp",),
    "rack_units": ("ru", "height_u", "rack_u", "u"),
}
"""Attributes by name, with other names that files have for them."""

TEXTS = frozenset(
    [
        "processor",
        "architecture",
        "vendor",
        "provider",
        "family",
        "generation",
        "hypervisor",
        "kernel",
        "distribution",
        "currency",
    ]
)
"""Attributes that are texts, even where they look like numbers."""

_NAMES: Mapping[str, tuple[str, ...]] = {
    MACHINE: (
        "machine",
        "server",
        "system",
        "instance",
        "instance_type",
        "machine_type",
        "sku",
        "name",
        "machine_name",
        "server_name",
        "system_name",
        "instance_name",
    ),
    RESULT: ("result", "benchmark", "metric", "workload"),
    VALUE: ("value", "score", "measured"),
    SESSION: ("session", "day"),
    UNIT: ("unit",),
    BETTER: ("better",),
}
"""Columns that say where a value belongs."""

_UNITS: Mapping[str, tuple[str, float]] = {
    "ns": ("s", 1e-9), "us": ("s", 1e-6), "ms": ("s", 1e-3), "s": ("s", 1.0), "sec": ("s", 1.0),
    "seconds": ("s", 1.0), "minutes": ("s", 60.0), "hours": ("s", 3600.0),
    "hz": ("hz", 1.0), "mhz": ("hz", 1e6), "ghz": ("hz", 1e9),
    "w": ("w", 1.0), "watts": ("w", 1.0), "kw": ("w", 1e3),
    "bytes": ("bytes", 1.0), "b": ("bytes", 1.0), "kb": ("bytes", 1e3), "mb": ("bytes", 1e6),
    "gb": ("bytes", 1e9), "tb": ("bytes", 1e12), "kib": ("bytes", 2.0**10), "mib": ("bytes", 2.0**20),
    "gib": ("bytes", 2.0**30), "tib": ("bytes", 2.0**40),
    "ratio": ("ratio", 1.0), "percent": ("ratio", 0.01), "%": ("ratio", 0.01),
    "joule": ("joule", 1.0), "j": ("joule", 1.0),
    "ops": ("1", 1.0), "kops": ("1", 1e3), "mops": ("1", 1e6),
    "1": ("1", 1.0), "count": ("1", 1.0), "score": ("1", 1.0), "": ("1", 1.0),
    "bits": ("bits", 1.0), "mbit": ("bits", 1e6), "gbit": ("bits", 1e9),
    "rps": ("1/s", 1.0), "qps": ("1/s", 1.0), "krps": ("1/s", 1e3), "kqps": ("1/s", 1e3),
}  # fmt: skip
"""Units as people write them, with the unit of records and the factor to it. ``/s`` may follow."""

_CURRENCIES = frozenset(
    ["usd", "eur", "gbp", "jpy", "cny", "inr", "chf", "cad", "aud", "sek", "nok", "dkk", "krw", "brl"]
)
_BY_CASE: Mapping[str, tuple[str, float]] = {"mW": ("w", 1e-3), "MW": ("w", 1e6)}
"""Units that only their capitals tell from each other."""
_PREFIXES: Mapping[str, float] = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_COUNTED = frozenset(
    [
        "request", "req", "operation", "op", "query", "querie", "transaction", "tx", "call", "message", "msg",
        "item", "event", "iteration", "frame", "image", "token", "page", "packet", "flop", "instruction",
        "job", "run",
    ]
)  # fmt: skip
"""What is counted in a second."""
_PER_SECOND = ("/s", "_per_s", "/sec", "_per_sec", "_per_second", "/second")
UNITS_LIKE = "such as 1/s, MB/s, ms, W, score"
"""What to write for an unknown unit."""
_LOWER = re.compile(r"(?:^|_)(?:latency|time|duration|delay|elapsed|p\d+|misses)(?:_|$)")
_FAULTS = re.compile(r"(?:^|_)(?:errors?|failures?|failed|timeouts?|retries|dropped|lost)(?:_|$)")
"""Of which less is better in each unit."""
_LESS = ("s", "w", "joule")
"""Units of which less is better."""
_MONEY = re.compile(r"(?:^|_)(?:price|cost|capex|opex|tco)(?:_|$)")
_SIGNS: Mapping[str, str] = {"$": "usd", "\N{EURO SIGN}": "eur", "\N{POUND SIGN}": "gbp"}


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit of records, and the factor that turns a column's values into it."""

    name: str
    factor: float = 1.0


@dataclass(frozen=True, slots=True)
class ColumnKind:
    """What a column holds."""

    name: str
    """How it is called from here on."""
    role: str
    """``machine``, ``result``, ``value``, ``session``, ``unit``, ``better``, ``attribute``, ``measured``,
    ``skip``, or ``money`` for a price of which nothing says what it buys."""
    unit: Unit = Unit("1")
    better: str = "higher"
    currency: str = ""
    """Of a price, where its name has one."""


@dataclass(frozen=True)
class Declarations:
    """What a TOML file says of columns and machines."""

    columns: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    machines: Mapping[str, Mapping[str, Attribute]] = field(default_factory=dict)


def unit_of(text: str) -> Unit | None:
    """Return the unit that ``text`` names, None for an unknown one.

    >>> unit_of("MB/s"), unit_of("ms")
    (Unit(name='bytes/s', factor=1000000.0), Unit(name='s', factor=0.001))
    """
    text = _plain(text.strip())
    if text in _BY_CASE:
        return Unit(*_BY_CASE[text])
    word = text.lower()
    if word in _UNITS:
        return Unit(*_UNITS[word])
    base = next((word.removesuffix(ending) for ending in _PER_SECOND if word.endswith(ending)), None)
    if base is None:
        return None
    name, factor = _UNITS.get(base, ("", 1.0))
    if name in ("1", "bytes", "bits"):
        return Unit(f"{name}/s", factor)
    if base.removesuffix("s") in _COUNTED:
        return Unit("1/s")
    if base[:1] in _PREFIXES and base[1:].removesuffix("s") in _COUNTED:
        return Unit("1/s", _PREFIXES[base[0]])
    return None


def _plain(text: str) -> str:
    """Return a unit's text without the sign for micro, of which there are two."""
    return text.replace("\N{MICRO SIGN}", "u").replace("\N{GREEK SMALL LETTER MU}", "u")


def kind_of(header: str, *, is_number: bool, declared: Mapping[str, Any] | None = None) -> ColumnKind:
    """Return what a column is, by its name and by whether it holds numbers.

    >>> kind_of("memory_gib", is_number=True)
    ColumnKind(name='memory_bytes', role='attribute', unit=Unit(name='bytes', factor=1073741824.0), \
better='higher', currency='')
    >>> kind_of("web_1k_per_s", is_number=True).role
    'measured'
    """
    word = _word(header)
    if word.endswith("_mw") and "unit" not in (declared or {}):
        raise UsageError(
            f"column {header!r}: mW or MW?",
            hint="name it with _w, or say its unit in a TOML file: --columns FILE",
        )
    currency = next((part for part in word.split("_") if part in _CURRENCIES), "")
    if currency and any(noun in word for noun in ("price", "cost", "capex", "maintenance")):
        word = "_".join(part for part in word.split("_") if part != currency)
    found = replace(_by_name(word, header, is_number=is_number), currency=currency.upper())
    if found.role == "measured" and _is_money(word):
        found = replace(found, role="money")
    return found if declared is None else _declared(found, header, declared)


def _is_money(word: str) -> bool:
    """Whether a column is a price. Work for money is a result.

    >>> _is_money("support_cost"), _is_money("tco"), _is_money("requests_per_cost"), _is_money("web_per_s")
    (True, True, False, False)
    """
    return _MONEY.search(word) is not None and not re.search(r"_per_(?:price|cost|tco)(?:_|$)", word)


def _word(header: str) -> str:
    """Return a header in small letters, with one way to write units: ``Read (MB/s)`` as ``read_mb_per_s``."""
    word = re.sub(r"/s(?:ec(?:ond)?)?(?![a-z])", "_per_s", _plain(header).strip().lower())
    for sign, code in _SIGNS.items():
        word = word.replace(sign, f" {code} ")
    word = re.sub(r"^\s*([a-z]{3})\s*(?:/|per)\s*(h|hr|hour)s?$", r"price per hour \1", word)
    word = re.sub(r"[^a-z0-9%]+", "_", word).strip("_")
    return re.sub(r"_([kmgt]i?b|[mg]bit)_s$", r"_\1_per_s", word)


def _by_name(word: str, header: str, *, is_number: bool) -> ColumnKind:
    if word == "cpu" and is_number:
        word = "cpus"
    for role, names in _NAMES.items():
        if word in names:
            return ColumnKind(word if role == MACHINE else role, role)
    stem, unit = _split(word)
    for name, others in ATTRIBUTES.items():
        named = unit.name != "1" and stem in (_split(name)[0], *others) and _fits(name, unit)
        if named or word in (name, *others):
            return ColumnKind(name, "attribute", _attribute_unit(name, word, unit))
    if not is_number:
        return ColumnKind(word, "attribute")
    if unit.name == "w":
        return ColumnKind(f"{stem}_w", "attribute", unit)
    return ColumnKind(header.strip(), "measured", unit, better_of(word, unit))


def better_of(name: str, unit: Unit) -> str:
    """Return whether more or less of a result is better, by its unit and its name."""
    word = _word(name)
    lower = unit.name in _LESS or _FAULTS.search(word) or (unit.name == "1" and _LOWER.search(word))
    return "lower" if lower else "higher"


def _split(word: str) -> tuple[str, Unit]:
    """Return a column's name without its unit, and the unit."""
    per_s = word.removesuffix("_per_s").removesuffix("_per_sec").removesuffix("_per_second")
    stem, _, last = per_s.rpartition("_")
    known = last in _UNITS and not stem.endswith("_per") and (stem or _UNITS[last][0] == "1/s")
    found = _UNITS[last] if known else None
    if per_s != word:
        return (stem, Unit(f"{found[0]}/s", found[1])) if found else (per_s, Unit("1/s"))
    return (stem or word, Unit(*found)) if found else (word, Unit("1"))


def _fits(name: str, unit: Unit) -> bool:
    own = _split(name)[1].name
    return unit.name == own


def _attribute_unit(name: str, word: str, unit: Unit) -> Unit:
    own = _split(name)[1].name
    if unit.name == own:
        return unit
    if word == "mhz":
        return Unit("hz", 1e6)
    return Unit(own)


def _declared(found: ColumnKind, header: str, declared: Mapping[str, Any]) -> ColumnKind:
    role = declared.get("is")
    roles = {
        "result": "measured", "attribute": "attribute", "skip": "skip", "machine": MACHINE, "session": SESSION
    }  # fmt: skip
    if role is not None:
        if role not in roles:
            raise UsageError(f"columns.{header}.is: {role!r} is none of {', '.join(roles)}")
        name = header.strip() if role == "result" else MACHINE if role == "machine" else found.name
        found = replace(found, role=roles[role], name=name)
    if (unit := declared.get("unit")) is not None:
        known = unit_of(str(unit))
        if known is None:
            raise UsageError(f"columns.{header}.unit: unknown unit {unit!r}", hint=UNITS_LIKE)
        found = replace(found, unit=known, better=better_of(header, known))
    if (better := declared.get("better")) is not None:
        if better not in ("higher", "lower"):
            raise UsageError(f"columns.{header}.better: {better!r} is neither higher nor lower")
        found = replace(found, better=better)
    return replace(found, name=str(declared["name"])) if "name" in declared else found


def read_declarations(path: Path) -> Declarations:
    """Return what a TOML file says of columns and machines. Raises UsageError for an unknown key."""
    try:
        document = read_toml(path)
    except RecordError as error:
        raise UsageError(error.message, hint=error.hint) from error
    if (unknown := next((key for key in document if key not in ("columns", "machines")), None)) is not None:
        raise UsageError(
            f"{path}: unknown key {unknown!r}", hint="it takes [columns.NAME] and [machines.NAME]"
        )
    columns: dict[str, Mapping[str, Any]] = {}
    for name, table in document.get("columns", {}).items():
        if not isinstance(table, dict):
            raise UsageError(f"{path}: columns.{name} is no table")
        wrong = next((key for key in table if key not in ("unit", "better", "is", "name")), None)
        if wrong is not None:
            raise UsageError(f"{path}: columns.{name}: unknown key {wrong!r}", hint="unit, better, is, name")
        columns[name] = table
    return Declarations(columns, {name: _attributes(path, name, table) for name, table in
                                  document.get("machines", {}).items()})  # fmt: skip


def _attributes(path: Path, machine: str, table: object) -> dict[str, Attribute]:
    if not isinstance(table, dict):
        raise UsageError(f"{path}: machines.{machine} is no table")
    found: dict[str, Attribute] = {}
    for header, value in table.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number and not isinstance(value, str):
            raise UsageError(f"{path}: machines.{machine}.{header}: neither a number nor a text")
        kind = kind_of(header, is_number=is_number)
        found[kind.name] = float(value) * kind.unit.factor if is_number else str(value)
    return found
