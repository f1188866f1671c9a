"""The guide's fleet query: a package that brings one needs no line of Steelyard."""

import json
import re
import sys
from pathlib import Path

import jsonschema
import pytest

from steelyard.cli.fleet import group, registry
from steelyard.cli.fleet.schemas import schema_of
from steelyard.cli.main import invoke
from steelyard.cli.manual import pages, reference
from steelyard.fleet.store.store import open_store
from steelyard.telemetry.engine import fetch_rows
from tests.fleet.fleet_rows import rows, write

GUIDE = Path(__file__).resolve().parents[4] / "docs" / "guides" / "extend.md"


def block(language: str) -> str:
    """Return the first block of code in ``language`` of the guide's section."""
    section = GUIDE.read_text().partition("\n## A fleet query\n")[2].partition("\n## ")[0]
    return re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)[0]


def forget() -> None:
    """Let queries be looked for again."""
    registry.queries.cache_clear()
    group.fleet_commands.cache_clear()


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Return what installs a package as pip would: importable, with metadata and the guide's entry points."""

    def installed(code: str, points: str = "") -> None:
        site = tmp_path / "site"
        metadata = site / "fleet_usage-1.0.dist-info"
        metadata.mkdir(parents=True)
        (site / "fleet_usage.py").write_text(code)
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: fleet-usage\nVersion: 1.0\n")
        declared = block("toml").partition("[project.entry-points.")[2].replace('"', "")
        (metadata / "entry_points.txt").write_text(f"[{declared}{points}")
        monkeypatch.syspath_prepend(str(site))
        monkeypatch.delitem(sys.modules, "fleet_usage", raising=False)
        forget()

    yield installed
    forget()


@pytest.fixture
def store(tmp_path) -> str:
    folder = tmp_path / "STORE"
    write(folder, rows("m1"), machine="m1")
    write(folder, rows("m2"), machine="m2")
    return str(folder)


def test_the_guides_query_has_all_that_queries_have(install, store, tmp_path, monkeypatch, capsys) -> None:
    install(block("python"))
    monkeypatch.chdir(tmp_path)
    # Every call of the guide, where its store is in the folder.
    for line in block("sh").splitlines():
        assert invoke(line.split()[1:]) == 0, capsys.readouterr().err
    shown = capsys.readouterr().out
    assert "--least CPU_S" in shown
    assert "steelyard fleet usage --store STORE --least 3600 --report usage.html" in shown
    assert "search uses most CPU time." in shown
    page = (tmp_path / "usage.html").read_text()
    assert "</html>" in page
    assert 'id="chart-cpu"' in page

    assert invoke(["fleet", "--help"]) == 0
    assert "usage      Show which jobs use most CPU time" in capsys.readouterr().out
    assert invoke(["fleet", "usage", "--store", store, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["jobs"] == [{"job": "search", "cpu_s": 360.0, "machines": 2}]
    assert document["engine"] == "duckdb"
    jsonschema.Draft202012Validator(schema_of("usage")).validate(document)
    assert invoke(["fleet", "usage", "--store", store, "--format", "csv"]) == 0
    assert capsys.readouterr().out.startswith("job,CPU time")
    assert invoke(["fleet", "usage", "--store", store, "--least", "1e9"]) == 1
    assert invoke(["fleet", "usage", "--store", store, "--least", "few"]) == 2

    with open_store(store) as duck:
        assert fetch_rows(registry.expressions()["usage by job"](duck)) == document["jobs"]
    assert "steelyard fleet usage" in reference(pages())


@pytest.mark.parametrize(
    ("code", "points", "message"),
    [
        ("import nothing_of_this_name", "", "usage (fleet_usage:usage) cannot be imported: No module named"),
        ("usage = 1", "", "usage (fleet_usage:usage) is not a steelyard.cli.fleet.query.Query"),
        (None, "again = fleet_usage:usage\n", "usage (fleet_usage:usage) has the name of another query"),
        (
            "from steelyard.cli.fleet.query import query\n"
            '@query("usage", result="fleet_usage:Usage", expressions={}, examples=())\n'
            "def usage(store, least): pass\n",
            "",
            "usage (fleet_usage:usage) cannot be imported: parameter least of usage has no type",
        ),
    ],
)
def test_a_broken_package_is_reported_and_takes_no_command_with_it(
    install, capsys, code, points, message
) -> None:
    install(block("python") if code is None else code, points)
    assert invoke(["fleet", "--help"]) == 0
    out, err = capsys.readouterr()
    assert "pressure" in out
    assert message in err
    assert err.count("\n") == 1
