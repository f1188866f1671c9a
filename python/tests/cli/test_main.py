"""The command line: what it says, where, and with which exit code."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from steelyard.bench import hook, tiers
from steelyard.cli.main import invoke

PACKAGE = Path(tiers.__file__).parents[2]
BENCHMARKS = ", ".join(tiers.benchmark_names())


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (
            ["run", "taoo"],
            2,
            f"did you mean tao? (benchmarks: {BENCHMARKS}; suites: smoke, quick, standard, full)",
        ),
        (["run", "tao", "--tier", "qick"], 2, "did you mean quick? (tiers: smoke, quick, standard, full)"),
        (["run", "tao", "--set", "memry=1GiB"], 2, "did you mean memory? (valid names: memory, instances,"),
        (["run", "tao", "--set", "depth=0"], 2, "depth=0: allowed is 1..1024"),
        (["run", "tao", "--set", "memory=x"], 2, "memory=x: allowed is 8MiB.."),
        (["run", "tao", "--set", "depth"], 2, "--set 'depth' is not name=value"),
        (["run", "tao", "--set", "key_distribution=normal"], 2, "allowed is uniform|zipf:0..10"),
        (["run", "tao", "--set", "memory=900TiB"], 3, "is more than the"),
        (["run", "tao", "--repeat", "0"], 2, "--repeat 0: allowed is 1.."),
        (["run", "tao", "--repeat", "many"], 2, "--repeat"),
        (
            ["run", "tao", "--hook", "prob"],
            2,
            "did you mean probe? (hooks: probe, copymove, command, cpu-limit",
        ),
        (["run", "tao", "--server-cpus", "0-"], 2, "--server-cpus '0-' is not a CPU list"),
        (["run", "tao", "--load-cpus", "9999"], 2, "--load-cpus: CPU 9999 is not usable here"),
        (["run", "tao", "--baseline", "nobody"], 2, "there is no baseline 'nobody'"),
        (["run", "--nope"], 2, "No such option: --nope"),
        (["nope"], 2, "No such command 'nope'"),
        (["list", "hats"], 2, "there is no list of 'hats'"),
        (["report", "latest"], 2, "there is no run 'latest' (there are no runs under runs)"),
        (["report"], 2, "Missing argument"),
        (["score", "x"], 2, "there is no run 'x'"),
    ],
)
def test_an_expected_error_is_one_line_with_a_hint(arguments, code, told, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert invoke(arguments) == code
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("steelyard: ")
    assert said.err.count("\n") == 1
    assert told in said.err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("command", [[], ["run"], ["list"], ["report"], ["score"], ["doctor"]])
def test_help_names_the_exit_codes(command, capsys):
    assert invoke([*command, "--help"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Exit codes: 0 done; 1 done, and the answer is no" in said
    assert "4 the work failed" in said


def test_the_list_shows_what_is_declared(capsys, tmp_path):
    assert invoke(["list", "--json", "--out", str(tmp_path)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in document["benchmarks"]] == tiers.benchmark_names()
    assert [one["name"] for one in document["suites"]] == list(tiers.SUITES)
    assert [one["name"] for one in document["hooks"]] == hook.names()
    assert document["runs"] == []
    for benchmark in document["benchmarks"]:
        declared = {one.name: one for one in tiers.benchmark(benchmark["name"]).parameters}
        assert [one["name"] for one in benchmark["parameters"]] == list(declared)
        for one in benchmark["parameters"]:
            assert one["default"] is not None or one["derived"], one["name"]
            assert one["unit"] or one["kind"] in ("text", "choice", "flag")
            assert one["doc"]


def test_the_list_fits_a_terminal(capsys, tmp_path):
    assert invoke(["list", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    for word in ("tao", "quick", "target_hit_ratio", "copymove", "No runs under"):
        assert word in said


def test_a_bug_is_one_line_too(capsys, monkeypatch):
    def broken(*_arguments, **_options):
        raise ZeroDivisionError("division\nby zero")

    monkeypatch.setattr("steelyard.cli.listing.show", broken)
    assert invoke(["list"]) == 4
    said = capsys.readouterr().err
    assert (
        said
        == "steelyard: internal error: ZeroDivisionError: division by zero (STEELYARD_DEBUG=1 shows where)\n"
    )


def test_an_interrupt_is_one_line(capsys, monkeypatch):
    def interrupted(*_arguments, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr("steelyard.cli.listing.show", interrupted)
    assert invoke(["list"]) == 4
    assert capsys.readouterr().err == "steelyard: interrupted\n"


def test_a_reader_that_leaves_gets_no_complaint():
    script = f"{sys.executable} -m steelyard.cli.main list --json --out /nonexistent | head -c 10"
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE)}
    done = subprocess.run(["bash", "-c", script], capture_output=True, env=environment, check=False)
    assert done.stdout == b'{\n  "bench'
    assert done.stderr == b""


def test_help_loads_nothing_heavy():
    script = (
        "import sys; from steelyard.cli.main import invoke; invoke(['--help']);"
        "print([name for name in ('numpy', 'pydantic', 'rich', 'ibis', 'pyarrow') if name in sys.modules])"
    )
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE)}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"
