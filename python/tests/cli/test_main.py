"""The command line: what it says, where, and with which exit code."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from steelyard._base import EnvironmentLacksError, schemas_dir
from steelyard.bench import declaration, hook, runs, tiers
from steelyard.cli.main import invoke, parser_of
from steelyard.cli.overview import ABOUT

PACKAGE = Path(declaration.__file__).parents[2]
BENCHMARKS = ", ".join(declaration.names())
SUITES = ", ".join(tiers.suites())


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (
            ["run", "taoo"],
            2,
            f"did you mean tao? (benchmarks: {BENCHMARKS}; suites: {SUITES})",
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
            "did you mean probe? (hooks: probe, counters, topdown, profile, perf",
        ),
        (["run", "tao", "--server-cpus", "0-"], 2, "--server-cpus '0-' is not a CPU list"),
        (["run", "tao", "--load-cpus", "9999"], 2, "--load-cpus: CPU 9999 is not usable here"),
        (["run", "tao", "--baseline", "nobody"], 2, "unknown baseline 'nobody'"),
        (["run", "--nope"], 2, "No such option: --nope"),
        (["nope"], 2, "No such command 'nope'"),
        (["list", "hats"], 2, "unknown list 'hats'"),
        (["report", "latest"], 2, "unknown run 'latest' (there are no runs under runs)"),
        (["report"], 2, "Missing argument"),
        (["report", "/nosuch/run"], 2, "unknown run '/nosuch/run'"),
        (["report", "empty"], 2, "unknown run 'empty'"),
        (["report", "broken"], 2, "broken/run.json: not JSON"),
        (["score", "x"], 2, "unknown run 'x'"),
        (["score", "broken"], 2, "broken/run.json: not JSON"),
        (["list", "runs", "--runs", "file"], 2, "file is not a folder"),
        (["run", "tao", "--out", "file"], 3, "file: runs cannot be written there"),
        (["run", "quick", "--tier", "fast"], 2, "unknown tier 'fast'"),
        (["run", "quick", "--set", "slo=foo"], 2, 'slo=foo: --slo: "foo" has neither <= nor >='),
    ],
)
def test_an_expected_error_is_one_line_with_a_hint(arguments, code, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.json").write_text("{")
    (tmp_path / "file").touch()
    before = set(tmp_path.rglob("*"))
    assert invoke(arguments) == code
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("steelyard: ")
    assert said.err.count("\n") == 1
    assert message in said.err
    assert set(tmp_path.rglob("*")) - {tmp_path / "state"} == before


@pytest.mark.parametrize(
    ("assignment", "code", "message"),
    [
        ("feed:slo=foo", 2, 'slo=foo: --slo: "foo" has neither <= nor >=; an example is p95<=500ms'),
        ("feed:slo=", 2, "slo=: --slo: a bound is missing"),
        ("feed:leaf_delay=constant:5", 2, "leaf_delay=constant:5: invalid value 'constant:5' for '--delay"),
        ("feed:leaf_flags=--delay slow", 2, "leaf_flags=--delay slow: invalid value 'slow'"),
        ("feed:leaf_flags=--item-bytes 90TiB", 3, "bytes of tables do not fit"),
        ("feed:root_flags=--nosuch", 2, "root_flags=--nosuch: unexpected argument '--nosuch' found"),
        ("feed:root_flags=--feature-functions 0", 2, "root_flags=--feature-functions 0: 0 feature functions"),
        ("feed:root_flags=--help", 2, "root_flags=--help: with it steelyard-rank prints a text and ends"),
        ("feed:root_flags='", 2, "No closing quotation"),
        ("feed:user_distribution=hats", 2, 'user_distribution=hats: --key-distribution: "hats" is not one'),
        ("feed:probes=4", 2, "probes=4: allowed is 5..64"),
        ("feed:sweep_points=1", 2, "sweep_points=1: --points: must be between 2 and 1000"),
        ("tao:backend_delay=slow", 2, "backend_delay=slow: invalid value 'slow' for '--backend-delay"),
        ("tao:key_distribution=zipf: 1", 2, 'key_distribution=zipf: 1: --key-distribution: " 1" is not'),
        ("tao:fast_threads=1025", 2, "fast_threads=1025: allowed is 1..1024"),
        ("tao:server_command={nope}", 2, "names that are replaced: port, threads"),
        ("tao:server_command={port.x}", 2, "server_command={port.x}"),
        ("tao:server_command=/nosuch/program", 3, "there is no program '/nosuch/program' here"),
        ("tao:server_command=''", 3, "there is no program '' here"),
        ("tax:only=nosuch", 2, 'only=nosuch: --only: no benchmark or category matches "nosuch"'),
        ("tax:only=-x", 2, "only=-x: unexpected argument '-x' found\n"),
    ],
)
def test_a_value_that_only_an_executable_can_judge_is_refused_before_a_run(
    assignment, code, message, capsys, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    name, _, setting = assignment.partition(":")
    assert invoke(["run", name, "--tier", "smoke", "--set", setting, "--out", str(tmp_path / "runs")]) == code
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert message in said.err
    assert not (tmp_path / "runs").exists()


def test_servers_need_as_many_ports_as_there_are(capsys, tmp_path):
    out = ["--out", str(tmp_path / "runs")]
    assert invoke(["run", "tao", "--set", "port=65535", "--set", "instances=2", *out]) == 2
    assert "port=65535: 2 servers need ports up to 65536" in capsys.readouterr().err
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert invoke(["run", "tao", "--set", f"port={port}", *out]) == 3
    assert f"port {port} of 127.0.0.1 cannot be used" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("command", [[], ["run"], ["list"], ["report"], ["score"], ["doctor"]])
def test_help_names_the_exit_codes(command, capsys):
    assert invoke([*command, "--help"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Exit codes: 0 done; 1 done, and the answer is no" in said
    assert "4 the work failed" in said


def test_the_list_shows_what_is_declared(capsys, tmp_path):
    assert invoke(["list", "--json", "--runs", str(tmp_path)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in document["benchmarks"]] == declaration.names()
    assert [one["name"] for one in document["suites"]] == list(tiers.suites())
    assert [one["name"] for one in document["hooks"]] == hook.names()
    assert document["runs"] == []
    for benchmark in document["benchmarks"]:
        declared = {one.name: one for one in declaration.find(benchmark["name"]).load().parameters}
        assert [one["name"] for one in benchmark["parameters"]] == list(declared)
        for one in benchmark["parameters"]:
            assert one["default"] is not None or one["derived"], one["name"]
            assert one["unit"] or one["kind"] in ("text", "choice", "flag")
            assert one["doc"]


def test_the_list_fits_a_terminal(capsys, tmp_path):
    assert invoke(["list", "--runs", str(tmp_path)]) == 0
    short = capsys.readouterr().out
    for word in ("tao", "quick", "No runs under", "list --all"):
        assert word in short
    assert "target_hit_ratio" not in short
    assert len(short.splitlines()) <= 24
    assert invoke(["list", "--all", "--runs", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    for word in ("tao", "quick", "target_hit_ratio", "copymove", "No runs under"):
        assert word in said


def test_the_short_list_reads_only_the_runs_that_it_shows(capsys, monkeypatch, tmp_path):
    text = (schemas_dir() / "golden" / "run.json").read_text()
    for number in range(12):
        run = {**json.loads(text), "run_id": f"run-{number:02d}"}
        (tmp_path / run["run_id"]).mkdir()
        (tmp_path / run["run_id"] / "run.json").write_text(json.dumps(run))
    (tmp_path / "run-11" / "run.json").write_text("{}")
    read = []
    load = runs.load
    monkeypatch.setattr(runs, "load", lambda directory: read.append(directory.name) or load(directory))
    assert invoke(["list", "--runs", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert read == [f"run-{number:02d}" for number in range(7, 12)]
    assert "The last 5 of 12 runs" in said
    assert "unreadable" in said
    assert "run-06" not in said


def test_a_bug_is_one_line_too(capsys, monkeypatch):
    def broken(*_arguments, **_options):
        raise ZeroDivisionError("division\nby zero")

    monkeypatch.setattr("steelyard.cli.listing.show.show", broken)
    assert invoke(["list"]) == 4
    said = capsys.readouterr().err
    assert (
        said
        == "steelyard: internal error: ZeroDivisionError: division by zero (STEELYARD_DEBUG=1 shows where)\n"
    )


def test_an_interrupt_is_one_line(capsys, monkeypatch):
    def interrupted(*_arguments, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr("steelyard.cli.listing.show.show", interrupted)
    assert invoke(["list"]) == 4
    assert capsys.readouterr().err == "steelyard: interrupted\n"


def test_a_reader_that_leaves_gets_no_complaint():
    script = f"{sys.executable} -m steelyard.cli.main list --json --runs /nonexistent | head -c 10"
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE)}
    done = subprocess.run(["bash", "-c", script], capture_output=True, env=environment, check=False)
    assert done.stdout == b'{\n  "schem'
    assert done.stderr == b""


def test_help_names_every_command_in_its_own_words():
    said = {name: each.get_short_help_str(1000) for name, each in parser_of().commands.items()}
    # The order, too.
    assert list(said.items()) == list(ABOUT.items())


def test_a_command_is_the_same_alone_and_among_all():
    """However often it is loaded: a group's commands are the same objects each time."""
    for name in ("run", "export", "tune", "fleet"):
        alone, among = parser_of(name).commands[name], parser_of().commands[name]
        assert flags_of(alone) == flags_of(among)
        assert list(parser_of(name).commands) == [name]


def flags_of(command):
    children = getattr(command, "commands", {})
    own = [option for one in command.params for option in one.opts]
    return own, {name: flags_of(child) for name, child in children.items()}


def test_a_command_loads_no_other():
    script = (
        "import sys; from steelyard.cli.main import parser_of; parser_of('list');"
        "print([name for name in sys.modules if name.startswith(('steelyard.decide', 'steelyard.tune'))])"
    )
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE)}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("columns", [20, 60, 300])
@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_is_the_same_before_and_after_the_parser_is_loaded(columns, flag, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(columns))
    assert invoke([flag]) == 0
    command = [sys.executable, "-c", "from steelyard.cli.start import main; main()", flag]
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert done.stdout == capsys.readouterr().out
    assert all(f"\n  {name} " in done.stdout for name in ABOUT)


@pytest.mark.parametrize("output", ["/dev/full", "closed"])
def test_help_that_cannot_be_written_is_one_line(output):
    redirection = ">&-" if output == "closed" else f">{output}"
    script = f"{sys.executable} -c 'from steelyard.cli.start import main; main()' --help {redirection}"
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE)}
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 4
    assert done.stderr.startswith("steelyard: cannot write to standard output: ")
    assert done.stderr.count("\n") == 1


def test_help_loads_nothing_heavy():
    script = (
        "import sys; sys.argv[1:] = ['--help']; from steelyard.cli.start import main; main();"
        "print([name for name in ('numpy', 'typer', 'rich', 'inspect', 'pyarrow') if name in sys.modules])"
    )
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE)}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("error", [EnvironmentLacksError("no engine"), RuntimeError("half imported")])
def test_what_fails_because_of_an_interrupt_is_an_interrupt(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("steelyard.cli.listing.show.show", broken)
    monkeypatch.setattr("steelyard.cli.main._signals", [2])
    assert invoke(["list"]) == 4
    assert capsys.readouterr().err == "steelyard: interrupted\n"
