"""What commands load before they answer: seconds depend on the machine, modules do not."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from steelyard._base import schemas_dir
from steelyard.cli import main
from tests.fleet.half_empty import Shape, make

PACKAGE = Path(main.__file__).parents[2]
HEAVY = ("ibis", "duckdb", "sqlglot", "pandas", "pyarrow", "plotly", "scipy", "jinja2")
MACHINE = str(schemas_dir() / "golden" / "machine.json")


def loaded(arguments: list[str], folder: Path) -> set[str]:
    """Return the packages that a command has loaded by its end."""
    script = (
        "import json, sys\n"
        "from steelyard.cli.main import invoke\n"
        "invoke(json.loads(sys.argv[1]))\n"
        "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, json.dumps(arguments)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(PACKAGE), "XDG_CACHE_HOME": str(folder / "cache")},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(json.loads(done.stderr.splitlines()[-1]))


@pytest.mark.parametrize(
    ("arguments", "also"),
    [
        (["--help"], ("numpy", "pydantic", "rich")),
        (["--version"], ("numpy", "pydantic", "rich")),
        (["list"], ("numpy", "pydantic")),
        (["list", "--all"], ("numpy", "pydantic")),
        (["doctor"], ("numpy",)),
        (["machine", "show"], ("numpy",)),
        (["machine", "check"], ("numpy",)),
        (["machine", "diff", MACHINE, MACHINE], ("numpy",)),
        (["numa", "map", "--machine", MACHINE], ("numpy",)),
        (["report", "nothing"], ("numpy", "rich")),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, list) else None,
)
def test_a_command_loads_no_more_than_it_needs(
    arguments: list[str], also: tuple[str, ...], tmp_path: Path
) -> None:
    assert loaded(arguments, tmp_path) & {*HEAVY, *also} == set()


@pytest.mark.parametrize("query", ["cpi specs", "top", "numa", "rue", "pressure"])
def test_a_query_that_was_asked_before_needs_neither_ibis_nor_pandas(query: str, tmp_path: Path) -> None:
    store = make(tmp_path / "store", Shape(samples=12, jobs=3, machines=4, platforms=2, tasks=2))
    words = ["fleet", *query.split(), "--store", store]
    loaded(words, tmp_path)
    assert loaded(words, tmp_path) & {"ibis", "sqlglot", "pandas", "plotly"} == set()
