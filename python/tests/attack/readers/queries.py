"""Fleet queries: each that is declared, on Parquet whose values, columns, types or bytes have changed."""

import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.fleet.half_empty import Shape, make
from tests.fleet.test_half_empty import QUERIES

from .counts import asked
from .mutations import mutated
from .reader import Reader, out

SHAPE = Shape(samples=12, jobs=3, machines=4, platforms=2, tasks=2)
ODD: dict[str, tuple[Any, ...]] = {
    "double": (None, math.nan, math.inf, -math.inf, 0.0, -1.0, 1e308, -1e308, 5e-324),
    "int64": (None, 0, -1, 1, 2**31, 2**63 - 1, -(2**63), 253_402_300_800),
    "string": (None, "", "\x1b[2J", "<script>", "x" * 70_000, "m0", "\ufeff", "0", "a\nb", "[@;", "run;;x"),
    "bool": (None, True, False),
}
OTHER_TYPES = (pa.string(), pa.float32(), pa.int32(), pa.binary(), pa.null(), pa.list_(pa.int64()))
COMMANDS = {"check": ["check"], "compact": ["compact"]}
"""What reads a store and is no query."""


def _odd_values(table: pa.Table, chosen: random.Random) -> pa.Table:
    """Put odd values into some rows of a column, or into all of them."""
    place = chosen.randrange(table.num_columns)
    field, column = table.schema.field(place), table.column(place)
    odd = ODD.get(str(field.type))
    if odd is None:
        values = [None if chosen.random() < 0.5 else value for value in column.to_pylist()]
    else:
        share = chosen.choice((0.05, 0.5, 1.0))
        one = chosen.choice(odd)
        values = [
            (one if chosen.random() < 0.7 else chosen.choice(odd)) if chosen.random() < share else value
            for value in column.to_pylist()
        ]
    return table.set_column(place, field, pa.array(values, field.type))


def _other_columns(table: pa.Table, chosen: random.Random) -> pa.Table:
    """Drop, rename, repeat or retype a column."""
    place = chosen.randrange(table.num_columns)
    field, column = table.schema.field(place), table.column(place)
    how = chosen.randrange(4)
    if how == 0:
        return table.remove_column(place)
    if how == 1:
        return table.rename_columns(
            [f"{name}x" if at == place else name for at, name in enumerate(table.column_names)]
        )
    if how == 2:
        return table.append_column(field.with_name(chosen.choice((field.name, "", "x" * 300))), column)
    kind = chosen.choice(OTHER_TYPES)
    return table.set_column(place, pa.field(field.name, kind), pa.nulls(len(column), kind))


def _other_rows(table: pa.Table, chosen: random.Random) -> pa.Table:
    """Repeat the rows, or keep few or none."""
    if chosen.random() < 0.5:
        return pa.concat_tables([table] * chosen.choice((2, 5)))
    return table.slice(0, chosen.choice((0, 1, 2)))


CHANGES: tuple[Callable[[pa.Table, random.Random], pa.Table], ...] = (
    *(_odd_values, _odd_values, _odd_values, _odd_values, _other_columns, _other_rows),
)


def tampered(path: Path, chosen: random.Random) -> None:
    """Change a file of a store."""
    if path.suffix != ".parquet" or chosen.random() < 0.1:
        path.write_bytes(mutated(path.read_bytes(), chosen))
        return
    table = pq.read_table(path, partitioning=None)
    for _ in range(chosen.choice((1, 1, 2, 4))):
        table = chosen.choice(CHANGES)(table, chosen)
        if not table.num_columns:
            break
    pq.write_table(table, path)


def _asks(words: list[str]) -> Callable[[Path], object]:
    def ask(folder: Path) -> None:
        page = () if words[0] in ("check", "compact") else ("--report", str(out(folder) / "page.html"))
        out(folder).mkdir()
        asked("fleet", *words, "--store", str(folder / "store"), "--json", *page)

    return ask


def readers() -> list[Reader]:
    """Return them."""
    return [
        Reader(f"fleet {name}", lambda folder: make(folder / "store", SHAPE), _asks(words), change=tampered)
        for name, words in (QUERIES | COMMANDS).items()
    ]
