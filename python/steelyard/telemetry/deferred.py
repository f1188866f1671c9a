"""Ibis expressions that are written down now, and become Ibis's own only where their SQL is not known yet.

In: the same calls that Ibis takes, on `ibis` of this module, on tables of an engine (`table`) and of Arrow
(`memtable`). Out: `Deferred`, which `compiled` turns into SQL of DuckDB, and `built` into Ibis's expression
for another engine. Importing Ibis and compiling take longer than most queries: the SQL of an expression is
kept in ``$XDG_CACHE_HOME/steelyard/queries``, under a digest of all that was called, of the tables' columns,
and of Ibis's version.

Invariants: an expression has no truth value, so that no ``if`` can depend on a column by mistake; what cannot
be digested is compiled each time; a cache that cannot be read or written is done without.

Not here: running the SQL (``engine``).
"""

import contextlib
import functools
import hashlib
import importlib.metadata
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, Protocol

import pyarrow as pa

_MOST_KEPT = 1000
_OPERATORS = [
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "and",
    "or",
    "xor",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "radd",
    "rsub",
    "rmul",
    "rtruediv",
    "rfloordiv",
    "rmod",
    "rpow",
    "rand",
    "ror",
    "rxor",
    "neg",
    "pos",
    "invert",
]


class Source(Protocol):
    """An engine that has tables."""

    def fetch_deferred(self, expression: "Deferred") -> pa.Table:
        """Return the rows of ``expression``."""

    def fetch_batches(self, expression: "Deferred", batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of ``expression`` in its order, in batches."""

    def keep(self, expression: "Deferred") -> "Deferred":
        """Return the same rows, computed once where the engine can keep them."""


class Deferred:
    """One call, operator or name, and what it was applied to."""

    __slots__ = ("_arguments", "_keywords", "_kind")

    def __init__(self, kind: str, *arguments: Any, **keywords: Any) -> None:
        self._kind, self._arguments, self._keywords = kind, arguments, keywords

    def __getattr__(self, name: str) -> "Deferred":
        if name.startswith("__"):
            raise AttributeError(name)
        return Deferred("attribute", self, name)

    def __getitem__(self, key: Any) -> "Deferred":
        return Deferred("item", self, key)

    def __call__(self, *arguments: Any, **keywords: Any) -> "Deferred":
        """Return the call."""
        return Deferred("call", self, *arguments, **keywords)

    def __bool__(self) -> NoReturn:
        raise TypeError("an expression is neither true nor false before it is run")

    def __iter__(self) -> NoReturn:
        raise TypeError("an expression has no elements before it is run")

    __hash__ = object.__hash__


def _operator(name: str) -> Callable[..., Deferred]:
    def apply(*operands: Any) -> Deferred:
        return Deferred(f"__{name}__", *operands)

    return apply


for _name in _OPERATORS:
    setattr(Deferred, f"__{_name}__", _operator(_name))


class _Ibis:
    """Ibis's functions, deferred. Tables of Arrow are `memtable`."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return memtable if name == "memtable" else Deferred("ibis", name)


ibis: Any = _Ibis()


def table(source: Source, name: str, columns: pa.Schema | Deferred) -> Deferred:
    """Return the table ``name`` of an engine, with these columns, or with those of an expression."""
    return Deferred("table", name, columns, source)


def memtable(rows: pa.Table) -> Deferred:
    """Return Arrow rows as a table that joins with any engine's."""
    return Deferred("rows", rows)


@dataclass
class _Walk:
    """An expression written out in words, each part once, and what it stands on."""

    words: list[str] = field(default_factory=list)
    rows: list[pa.Table] = field(default_factory=list)
    sources: list[Source] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)
    is_plain: bool = True
    """Whether all of it can be digested."""
    _seen: dict[int, str] = field(default_factory=dict)
    _held: list[Any] = field(default_factory=list)

    def of(self, part: Any) -> str:
        """Return the words for ``part``."""
        if isinstance(part, Deferred):
            if id(part) not in self._seen:
                text = self._node(part)
                self._seen[id(part)] = f"#{len(self.words)}"
                self.words.append(text)
            return self._seen[id(part)]
        if isinstance(part, list | tuple):
            return f"[{','.join(self.of(element) for element in part)}]"
        if isinstance(part, dict):
            return f"{{{','.join(f'{key!r}:{self.of(value)}' for key, value in part.items())}}}"
        if part is None or isinstance(part, str | int | float | bool):
            return repr(part)
        self.is_plain = False
        return "?"

    def _node(self, node: Deferred) -> str:
        if node._kind == "rows":
            self.rows.append(node._arguments[0])
            return f"rows {_columns(node._arguments[0].schema)}"
        if node._kind == "table":
            name, columns, source = node._arguments
            self.tables.append(name)
            if source not in self.sources:
                self.sources.append(source)
            if isinstance(columns, Deferred):
                # Only its columns matter, which another expression on the same source has.
                return f"table {name} as {self.of(columns)}"
            return f"table {name} {_columns(columns)}"
        return f"{node._kind}({self.of(node._arguments)}{self.of(node._keywords)})"


def _columns(schema: pa.Schema) -> str:
    return ",".join(f"{field.name}:{field.type}" for field in schema)


def source_of(expression: Deferred) -> Source | None:
    """Return the engine whose tables ``expression`` reads; None where it reads none."""
    walk = _Walk()
    walk.of(expression)
    if len(walk.sources) > 1:
        raise ValueError("an expression reads tables of two engines")
    return walk.sources[0] if walk.sources else None


@dataclass(frozen=True)
class Compiled:
    """SQL for DuckDB, the columns that are whole numbers, the rows it knows as ``made_0``, ``made_1``, and
    the names of the engine's tables that it reads.
    """

    sql: str
    integers: tuple[str, ...]
    rows: tuple[pa.Table, ...]
    tables: tuple[str, ...]


def compiled(expression: Deferred) -> Compiled:
    """Return the SQL of ``expression``."""
    walk = _Walk()
    walk.of(expression)
    place = _place(walk) if walk.is_plain else None
    known = _read(place)
    if known is None:
        known = _compile(expression)
        _write(place, known)
    return Compiled(
        known["sql"], tuple(known["integers"]), tuple(walk.rows), tuple(dict.fromkeys(walk.tables))
    )


def _compile(expression: Deferred) -> dict[str, Any]:
    import ibis as real

    numbers = iter(range(1_000_000))

    def named(name: str, columns: Any) -> Any:
        return real.table(columns if isinstance(columns, real.Schema) else _schema(columns), name=name)

    made = built(expression, named, lambda rows: named(f"made_{next(numbers)}", rows.schema))
    integers = [name for name, kind in made.schema().items() if kind.is_integer()]
    return {"sql": str(real.duckdb.compile(made)), "integers": integers}


def _schema(columns: pa.Schema) -> Any:
    import ibis as real

    # Whatever a table promises, an engine may give null.
    return real.schema(pa.schema([field.with_nullable(True) for field in columns]))


def built(
    expression: Deferred, named: Callable[[str, Any], Any], made: Callable[[pa.Table], Any] | None = None
) -> Any:
    """Return ``expression`` as Ibis's own.

    ``named`` gives the table of a name and columns (Arrow's, or Ibis's where they are an expression's),
    ``made`` one of Arrow rows.
    """
    import ibis as real

    done: dict[int, Any] = {}
    put_in = made or real.memtable

    def of(part: Any) -> Any:
        if isinstance(part, Deferred):
            if id(part) not in done:
                done[id(part)] = node(part)
            return done[id(part)]
        if isinstance(part, list | tuple):
            return type(part)(of(element) for element in part)
        if isinstance(part, dict):
            return {key: of(value) for key, value in part.items()}
        return part

    def node(source: Deferred) -> Any:
        kind, arguments = source._kind, source._arguments
        if kind == "ibis":
            return getattr(real, arguments[0])
        if kind == "rows":
            return put_in(arguments[0])
        if kind == "table":
            name, columns, _ = arguments
            return named(name, of(columns).schema() if isinstance(columns, Deferred) else columns)
        first, *rest = (of(argument) for argument in arguments)
        if kind == "attribute":
            return getattr(first, rest[0])
        if kind == "item":
            return first[rest[0]]
        if kind == "call":
            return first(*rest, **of(source._keywords))
        return getattr(type(first), kind)(first, *rest)

    return of(expression)


def _place(walk: _Walk) -> Path | None:
    """Return where the SQL is kept; None where there is no home."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    if not os.path.isabs(base):
        return None
    digest = hashlib.sha256("\n".join([_version(), *walk.words]).encode(errors="surrogatepass")).hexdigest()
    return Path(base) / "steelyard" / "queries" / f"{digest[:32]}.json"


@functools.cache
def _version() -> str:
    """Return Ibis's version; finding it takes as long as a small query."""
    return importlib.metadata.version("ibis-framework")


def _read(place: Path | None) -> dict[str, Any] | None:
    if place is None:
        return None
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        known = json.loads(place.read_text(encoding="utf-8"))
        if isinstance(known["sql"], str) and all(isinstance(name, str) for name in known["integers"]):
            return dict(known)
    return None


def _write(place: Path | None, known: dict[str, Any]) -> None:
    if place is None:
        return
    with contextlib.suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        kept = list(_kept(place.parent))
        if len(kept) >= _MOST_KEPT:
            for old in kept:
                old.unlink(missing_ok=True)
        partial = place.with_name(f".{place.name}.{os.getpid()}")
        partial.write_text(json.dumps(known), encoding="utf-8")
        partial.replace(place)


def _kept(folder: Path) -> Iterator[Path]:
    return folder.glob("*.json")
