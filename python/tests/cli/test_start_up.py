"""What commands load before they answer: seconds depend on the machine, modules do not."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from steelyard._base import schemas_dir
from steelyard.cli import main
from tests.calling import call
from tests.fleet.half_empty import Shape, make

PACKAGE = Path(main.__file__).parents[2]
HEAVY = ("ibis", "duckdb", "sqlglot", "pandas", "pyarrow", "plotly", "scipy", "jinja2")
MACHINE = str(schemas_dir() / "golden" / "machine.json")
QUERIES = (["cpi", "specs"], ["top"], ["numa"], ["rue"], ["pressure"])


def loaded(commands: list[list[str]], folder: Path) -> dict[str, set[str]]:
    """Return the packages that each command has loaded by its end, in one process that runs them in order.

    What a command loads the later ones have, too.
    """
    script = (
        "import json, sys\n"
        "from steelyard.cli.main import invoke\n"
        "found = {}\n"
        "for command in json.loads(sys.argv[1]):\n"
        "    invoke(command)\n"
        "    found[' '.join(command[:3])] = sorted({name.partition('.')[0] for name in sys.modules})\n"
        "print(json.dumps(found), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, json.dumps(commands)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(PACKAGE), "XDG_CACHE_HOME": str(folder / "cache")},
        capture_output=True,
        text=True,
        check=True,
    )
    return {name: set(packages) for name, packages in json.loads(done.stderr.splitlines()[-1]).items()}


@pytest.mark.parametrize(
    ("commands", "also"),
    [
        ([["--help"], ["--version"]], ("numpy", "pydantic", "rich")),
        ([["list"], ["list", "--all"]], ("numpy", "pydantic")),
        (
            [
                ["machine", "show"],
                ["machine", "check"],
                ["machine", "diff", MACHINE, MACHINE],
                ["numa", "map", "--machine", MACHINE],
                ["doctor"],
            ],
            ("numpy",),
        ),
        ([["report", "nothing"]], ("numpy", "rich")),
    ],
    ids=lambda value: value[0][0] if isinstance(value, list) else None,
)
def test_a_command_loads_no_more_than_it_needs(
    commands: list[list[str]], also: tuple[str, ...], tmp_path: Path
) -> None:
    found = loaded(commands, tmp_path)
    assert {name: found[name] & {*HEAVY, *also} for name in found} == {name: set() for name in found}


def test_a_query_that_was_asked_before_needs_neither_ibis_nor_pandas(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    store = make(tmp_path / "store", Shape(samples=12, jobs=3, machines=4, platforms=2, tasks=2))
    queries = [["fleet", *query, "--store", store] for query in QUERIES]
    for query in queries:
        call(*query)
    found = loaded(queries, tmp_path)
    unwanted = {"ibis", "sqlglot", "pandas", "plotly"}
    assert {name: found[name] & unwanted for name in found} == {name: set() for name in found}
