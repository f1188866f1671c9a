"""The guide to extensions: its blocks make a package that runs beside Steelyard, no file of which is touched.

Blocks of Rust are compiled and run by the documentation tests of ``crates/probe``.
"""

import contextlib
import glob
import html
import importlib
import io
import json
import re
import shlex
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from steelyard._base import UsageError, schemas_dir
from steelyard._base.request import asked_document, options, resumed, words
from steelyard.analyze.conditions import Conditions
from steelyard.analyze.facts.span import Span
from steelyard.analyze.rules import explain, findings
from steelyard.bench import declaration, hook
from steelyard.cli.main import invoke
from steelyard.records import parse
from steelyard.records.schemas import schema_text

ROOT = Path(__file__).resolve().parents[4]
GUIDE = ROOT / "docs" / "guides" / "extend.md"
QUIETLY = ("--hook", "probe:enabled=false")
"""Neighbours' work is no matter here, and telemetry would see it. It replaces the declared hook."""


def text_of(page: Path) -> str:
    """Return a page's text without its tags."""
    return html.unescape(re.sub(r"<[^>]*>", "", page.read_text()))


def blocks(language: str) -> dict[str, str]:
    """Return the guide's blocks of a language by the name beside it."""
    found = re.findall(rf"^```{language} (\S+)\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    return dict(found)


def install(site: Path) -> None:
    """Install the guide's package in ``site`` as pip would: importable, with metadata and entry points."""
    for name, text in blocks("python").items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(text)
    project = tomllib.loads(blocks("toml")["pyproject.toml"])["project"]
    name, version = project["name"], project["version"]
    metadata = site / f"{name.replace('-', '_')}-{version}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines: list[str] = []
    for group, points in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{point} = {value}" for point, value in points.items())]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")


def forget(*names: str) -> None:
    """Let modules of the package be imported again, all of them unless named."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "spin_bench"]:
        if not names or name in names:
            del sys.modules[name]


def command(*arguments: str, code: tuple[int, ...] = (0,)) -> str:
    """Run a command of Steelyard; return what it printed."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert invoke(list(arguments)) in code, printed.getvalue()
    return printed.getvalue()


def document(*arguments: str, code: tuple[int, ...] = (0,)) -> Any:
    """Run a command of Steelyard; return its document."""
    return json.loads(command(*arguments, "--json", code=code))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of the package, which commands run in."""
    folder = tmp_path_factory.mktemp("site")
    install(folder)
    # Built-in rules are registered once, where they stay; the package's go with the copy.
    explain.load_rules()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.syspath_prepend(str(folder))
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        patch.setattr(findings, "RULES", dict(findings.RULES))
        explain.load_rules.cache_clear()
        yield folder
    forget()


@pytest.fixture(scope="module")
def ran(site: Path) -> list[dict[str, Any]]:
    """What the commands of the block ``run`` made of the benchmark."""
    listed, run, suite, report = [shlex.split(line)[1:] for line in blocks("sh")["run"].splitlines()]
    assert "turns of a loop, on one CPU" in command(*listed)
    runs: list[dict[str, Any]] = document(*run, *QUIETLY)["runs"]
    assert document(*suite, *QUIETLY)["suite"]["suite"] == "loops"
    command(*report)
    return runs


def test_the_benchmark_is_listed_with_its_parameters_and_suite(site: Path) -> None:
    listed = document("list")
    [spin] = [one for one in listed["benchmarks"] if one["name"] == "spin"]
    assert [one["name"] for one in spin["parameters"]] == ["time", "seed"]
    suites = {one["name"]: one["benchmarks"] for one in listed["suites"]}
    assert suites["loops"] == ["spin"]
    assert "spin" not in suites["quick"]


def test_its_hook_can_be_replaced(site: Path) -> None:
    declared = declaration.find("spin").hooks
    probe = dict(hook.create([], declared))["probe"]
    assert probe.options["interval"] == 0.1
    probe = dict(hook.create(["probe:interval=1s"], declared))["probe"]
    assert probe.options["interval"] == 1.0


def test_it_runs_and_its_page_has_its_metric_and_its_section(ran: list[dict[str, Any]]) -> None:
    assert [run["status"] for run in ran] == ["complete"] * 3
    assert all(run["metrics"]["turns_per_s"]["value"] > 0 for run in ran)
    page = text_of(Path(ran[0]["report"]))
    for text in ("turns in the slowest slice", "Turns by slice", "slice 9"):
        assert text in page


def test_it_is_scored_against_the_baseline_that_it_brings_and_compared(
    site: Path, ran: list[dict[str, Any]]
) -> None:
    first, second, _ = (run["run_id"] for run in ran)
    assert "spin" in document("score", first, code=(1,))["score"]["reason"]
    (site / "spin_bench" / "baselines").mkdir()
    _, _, _, pattern, *options = shlex.split(blocks("sh")["baseline"])
    runs = sorted(glob.glob(pattern))
    assert len(runs) == 3
    command("baseline", "make", *runs, *options)
    score = document("score", first)["score"]
    assert (score["baseline"], score["metric"]) == ("My machine", "turns_per_s")
    assert score["ratio"] == pytest.approx(score["value"] / score["baseline_value"])
    # The benchmark's suite has an overall score, too.
    assert document("score", "latest")["overall"]["score"] > 0
    compared = document("compare", first, second)
    assert "spin" in json.dumps(compared)
    assert "turns" in command("compare", first, second)


def test_a_package_that_fails_costs_only_what_it_brings(site: Path, ran: list[dict[str, Any]]) -> None:
    folder = site / "spin_bench"
    texts = {path: path.read_text() for path in folder.glob("*.py")}
    changed = ("spin_bench.page", "spin_bench.benchmark")
    try:
        forget(*changed)
        (folder / "page.py").write_text("raise RuntimeError('no ink')\n")
        command("report", ran[0]["run_id"])
        assert "no ink" in text_of(Path(ran[0]["report"]))
        (folder / "benchmark.py").write_text("import no_such_module\n")
        # The terminal may break the line.
        assert "No module named 'no_such_module'" in " ".join(command("list", "benchmarks").split())
        command("run", "spin", code=(3,))
    finally:
        for path, text in texts.items():
            path.write_text(text)
        forget(*changed)


def test_the_rule_and_the_check_are_asked(site: Path) -> None:
    machine = str(schemas_dir() / "golden" / "machine.json")
    assert "one-node" in json.dumps(document("machine", "check", machine, "--all", code=(0, 1)))
    assert explain.load_rules() == ()
    conditions = Conditions(Span(0, 1), target=SimpleNamespace(threads=300.0))  # type: ignore[arg-type]
    [finding] = explain.explain(conditions, [findings.RULES["too-many-threads"]])
    assert finding.claim == "The program has 300 threads."
    assert explain.explain(Conditions(Span(0, 1)), [findings.RULES["too-many-threads"]]) == []


def test_a_field_of_the_request_is_a_flag_a_key_and_a_part_of_the_record(site: Path) -> None:
    request = importlib.import_module("spin_bench.asked").TurnRequest
    assert [(each.flag, each.key) for each in options(request).values()] == [
        ("--turns", "turns"),
        ("--quiet", "quiet"),
    ]
    assert words(request(turns=5, quiet=True)) == ["--turns", "5", "--quiet"]
    begun = asked_document(request(turns=5))
    assert resumed(begun, request(quiet=True), {"quiet"}, words=[]) == request(turns=5, quiet=True)
    with pytest.raises(UsageError, match="it takes no --turns"):
        resumed(begun, request(turns=6), {"turns"}, words=[])


def test_the_record_reads_what_older_programs_wrote(site: Path) -> None:
    turns = importlib.import_module("spin_bench.record").Turns
    old = '{"schema_version": "1.0", "kind": "turns", "turns": 3}'
    assert parse(turns, old, where="old").restarts is None
    assert turns(turns=3).schema_version == "1.1"
    assert "begun again" in schema_text(turns)
