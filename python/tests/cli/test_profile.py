"""``steelyard profile`` from its command line: tables, documents, pages and exit codes."""

import gzip
import json
import os
import stat
from pathlib import Path

import pytest

from steelyard.cli.main import invoke
from tests.folded import folded

STACKS = {
    "db;main [db];get [db]": 500,
    "db;main [db];get [db];memcpy [libc.so.6]": 300,
    "db;main [db];ZSTD_decompress [db]": 200,
    "swapper;intel_idle [kernel]": 5000,
}


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for the sampler, which writes what a test says and tells its arguments."""
    folder = tmp_path / "bin"
    folder.mkdir()
    path = folder / "steelyard-profile"
    path.write_text(
        '#!/bin/sh\necho "$@" > "$(dirname "$0")/arguments"\necho said by the command\n'
        "while [ $# -gt 0 ]; do case $1 in -o) out=$2;; esac;"
        ' [ "$1" = --folded ] && folded=$2; [ "$1" = -- ] && break; shift; done\n'
        '[ -n "$NOTHING" ] || cat "$(dirname "$0")/stacks" > "${folded:-$out}"\n'
        "exit ${CODE:-0}\n"
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    folded(folder, STACKS, "# event: cpu-clock\n", "stacks")
    monkeypatch.setenv("STEELYARD_BIN_DIR", str(folder))
    return folder


def _run(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = invoke(["profile", *arguments])
    out, err = capfd.readouterr()
    return code, out, err


def test_show_prints_and_draws(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = folded(tmp_path, STACKS, "# event: cpu-clock\n")
    code, out, err = _run(capfd, "show", str(path))
    assert (code, err) == (0, "")
    for words in (
        "CPU time by category",
        "Application logic",
        "50.0 %",
        "Compression",
        "memcpy",
        "5,000 of them idle",
    ):
        assert words in " ".join(out.split()), words
    assert [one.name for one in tmp_path.iterdir()] == [path.name]
    page = tmp_path / "page.html"
    assert _run(capfd, "show", str(path), "--report", str(page))[0] == 0
    assert page.is_file()
    code, out, _ = _run(capfd, "show", str(path), "--json", "--rows", "2")
    document = json.loads(out)
    assert code == 0
    assert (document["samples"], document["idle_samples"], document["report"]) == (6000, 5000, None)
    assert [row["function"] for row in document["functions"]] == ["get", "memcpy"]
    assert {one["id"]: one["share_ratio"] for one in document["tax_map"]["categories"]} == {
        "application": 0.5,
        "compression": 0.2,
        "memory": 0.3,
    }
    assert document["tax_ratio"] == 0.5


def test_rules_of_the_user(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = folded(tmp_path, STACKS)
    rules = tmp_path / "r.toml"
    rules.write_text("[[rule]]\nid = 'get'\ncategory = 'rpc'\nfunctions = ['get']\n")
    code, out, _ = _run(capfd, "show", str(path), "--json", "--rules", str(rules))
    assert code == 0
    assert "rpc" in [one["id"] for one in json.loads(out)["tax_map"]["categories"]]
    rules.write_text("[[rule]]\n")
    code, out, err = _run(capfd, "show", str(path), "--rules", str(rules))
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert "r.toml" in err


def test_diff_tells_changes_and_exits_as_asked(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    a = folded(tmp_path, STACKS, name="before.folded")
    b = folded(tmp_path, {**STACKS, "db;main [db];lock [db]": 900}, name="after.folded")
    out_folder = ("--report", str(tmp_path / "page/report.html"))
    code, out, _ = _run(capfd, "diff", str(a), str(b), *out_folder)
    assert code == 0
    assert out.startswith("lock: 0.0% → 47.4%")
    assert (tmp_path / "page/report.html").is_file()
    # One run a side is no verdict.
    assert _run(capfd, "diff", str(a), str(b), "--exit-code")[0] == 0
    assert _run(capfd, "diff", str(a), str(a), "--exit-code")[0] == 0
    code, out, _ = _run(capfd, "diff", str(a), str(b), "--json", "--rows", "1")
    document = json.loads(out)
    assert (document["changed"], document["basis"], document["runs"]) == (None, "samples", [1, 1])
    table = document["tables"][0]
    assert (table["by"], table["measure"], table["rows"][0]["name"]) == ("function", "self", "lock")
    assert table["rows"][0]["stands_out"] is True


def test_a_difference_of_other_counts_has_their_unit(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    a = folded(tmp_path, {"srv;keep": 4000}, "# unit: bytes\n# event: inuse_space\n", "a.folded")
    b = folded(tmp_path, {"srv;keep": 9000}, "# unit: bytes\n# event: inuse_space\n", "b.folded")
    page = tmp_path / "page.html"
    code, out, _ = _run(capfd, "diff", str(a), str(b), "--report", str(page))
    assert code == 0
    assert "a: 4,000 bytes" in out
    assert "9,000 bytes" in page.read_text()
    assert "9,000 samples" not in page.read_text()


def test_diff_of_folders_of_runs_is_a_verdict(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for side, lock in (("before", 100), ("after", 900)):
        for run in range(4):
            folder = tmp_path / side / f"run-{run}"
            folder.mkdir(parents=True)
            stacks = {**STACKS, "db;main [db];lock [db]": lock + 3 * run}
            folded(folder, stacks, name="profile.folded")
    sides = (str(tmp_path / "before"), str(tmp_path / "after"))
    assert _run(capfd, "diff", *sides, "--exit-code")[0] == 1
    assert _run(capfd, "diff", sides[0], sides[0], "--exit-code")[0] == 0
    document = json.loads(_run(capfd, "diff", *sides, "--json")[1])
    assert (document["changed"], document["basis"], document["runs"]) == (True, "runs", [4, 4])
    row = document["tables"][0]["rows"][0]
    assert row["name"] == "lock"
    assert row["low_ratio"] < row["difference_ratio"] < row["high_ratio"]


@pytest.mark.parametrize("content", ["", "# reason: perf_event_paranoid is 4\n", "\x01\x02\n"])
def test_what_is_no_profile_is_reported_in_a_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], content: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STEELYARD_BIN_DIR", str(tmp_path))
    path = tmp_path / "p"
    path.write_text(content)
    code, out, err = _run(capfd, "show", str(path))
    assert code in (2, 3)
    assert out == ""
    assert err.count("\n") == 1
    assert _run(capfd, "show", str(tmp_path / "none"))[0] == 2
    assert _run(capfd, "diff", str(path), str(path))[0] in (2, 3)


def test_other_formats_go_through_the_executable(
    program: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, content in (
        ("p.pb.gz", b"\x1f\x8b\x08"),
        ("perf.data", b"PERFILE2"),
        ("script.txt", b"a 1 2:\n\tf\n"),
    ):
        path = tmp_path / name
        path.write_bytes(content)
        code, out, _ = _run(capfd, "show", str(path), "--json")
        assert code == 0
        assert json.loads(out)["samples"] == 6000
        assert (program / "arguments").read_text().startswith(f"fold {path} -o ")
    monkeypatch.setenv("CODE", "2")
    code, _, err = _run(capfd, "show", str(path))
    assert code == 2
    assert err.count("\n") == 1


def test_an_event_is_named_chosen_and_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = folded(tmp_path, STACKS, "# event: page-faults\n")
    code, out, _ = _run(capfd, "show", str(path))
    assert code == 0
    assert "page-faults by category" in out
    assert "CPU time" not in out
    for command in (
        ["show", str(path)],
        ["export", str(path), "--as", "folded"],
        ["diff", str(path), str(path)],
    ):
        assert _run(capfd, *command, "--event", "page-faults")[0] == 0
        code, out, err = _run(capfd, *command, "--event", "cycles")
        assert (code, out) == (1, "")
        assert "no event cycles, but page-faults" in err
    unnamed = folded(tmp_path, STACKS, name="unnamed.folded")
    code, _, err = _run(capfd, "show", str(unnamed), "--event", "cycles")
    assert code == 1
    assert "do not name their event" in err


@pytest.mark.parametrize("flag", [["--lines"], ["--symfs", "root"]])
def test_flags_that_folded_stacks_have_no_use_for_are_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], flag: list[str]
) -> None:
    path = folded(tmp_path, STACKS)
    code, out, err = _run(capfd, "show", str(path), *flag)
    assert (code, out) == (2, "")
    assert "folded stacks have their names" in err


def test_the_executable_is_given_the_event(
    program: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(b"PERFILE2")
    for command in (
        ["show", str(path)],
        ["export", str(path), "--as", "folded"],
        ["diff", str(path), str(path)],
    ):
        assert _run(capfd, *command, "--event", "cpu-clock")[0] == 0
        assert " --event cpu-clock" in (program / "arguments").read_text()
    # Only samples can be distinguished from noise.
    assert (program / "arguments").read_text().endswith("--weight samples\n")
    # What it says about an event that is not there is said as it is.
    monkeypatch.setenv("CODE", "1")
    code, _, err = _run(capfd, "show", str(path), "--event", "x")
    assert code == 1
    assert "neither folded stacks" not in err


def test_a_folder_of_threads_and_flags_go_through_the_executable(
    program: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "perf.data"
    folder.mkdir()
    (folder / "data").write_bytes(b"PERFILE2")
    assert _run(capfd, "show", str(folder), "--symfs", "root", "--lines")[0] == 0
    assert (program / "arguments").read_text().endswith("--symfs root --lines\n")
    assert (program / "arguments").read_text().startswith(f"fold {folder} ")
    assert _run(capfd, "diff", str(folder), str(folder))[0] == 0
    out = str(tmp_path / "out")
    assert _run(capfd, "record", "--out", out, "--event", "cache-misses", "--lines", "--all")[0] == 0
    arguments = (program / "arguments").read_text()
    assert "--event cache-misses --lines" in arguments
    # Times are of samples, and counts are of occurrences.
    assert "--times" not in arguments


@pytest.mark.parametrize(
    "text",
    [
        "srv 4711 100.000001: \n\t    10 hot (/bin/srv)\n\t    20 main (/bin/srv)\n\n",
        "srv 4711 100.000001:   1000 \n\t    10 hot (/bin/srv)\n\n",
        "srv \n\t    10 hot\n\t    20 main\n\n",
        "srv 4711   100.000001:          1 cycles:      401136 hot 3\n" * 3,
    ],
)
@pytest.mark.parametrize("form", ["plain", "gzip", "utf-16"])
def test_perf_script_is_never_taken_for_folded_stacks(
    program: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], text: str, form: str
) -> None:
    path = tmp_path / "script.txt"
    content = text.encode("utf-16" if form == "utf-16" else "utf-8")
    path.write_bytes(gzip.compress(content) if form == "gzip" else content)
    assert _run(capfd, "show", str(path))[0] == 0
    assert (program / "arguments").read_text().startswith("fold ")


def test_compressed_and_fractional_stacks_are_read_here(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "p.folded.gz"
    path.write_bytes(gzip.compress(b"srv;main;hot 1.5\nsrv;main;cold 2.5\n"))
    document = json.loads(_run(capfd, "show", str(path), "--json")[1])
    assert (document["samples"], document["unit"]) == (4.0, "counts")
    assert [(row["function"], row["own"]) for row in document["functions"]][:2] == [
        ("cold", 2.5),
        ("hot", 1.5),
    ]
    assert document["tax_map"]["categories"][0]["samples"] == 4.0
    code, out, _ = _run(capfd, "export", str(path), "--as", "folded")
    assert (code, out) == (0, "srv;main;hot 1.5\nsrv;main;cold 2.5\n")
    page = tmp_path / "page.html"
    assert _run(capfd, "show", str(path), "--report", str(page))[0] == 0
    assert "4.0 counts" in page.read_text()
    path.write_bytes(path.read_bytes()[:-12])
    code, out, err = _run(capfd, "show", str(path))
    assert (code, out, err.count("\n")) == (2, "", 1)


def test_record_samples_and_shows(program: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out_folder = str(tmp_path / "out")
    code, out, err = _run(
        capfd, "record", "--out", out_folder, "--hz", "49", "--json", "--", "sleep", "--help"
    )
    assert code == 0
    assert json.loads(out)["facts"]["event"] == "cpu-clock"
    assert "said by the command" in err
    arguments = (program / "arguments").read_text()
    assert arguments.startswith("record --hz 49 --call-graph fp")
    assert arguments.endswith("-- sleep --help\n")
    assert "--duration" not in arguments
    assert sorted(os.listdir(out_folder)) == ["profile.folded", "report.html"]
    again = ["record", "--out", out_folder, "--force", "--no-report"]
    _run(capfd, *again, "--pid", "1", "--pid", "2")
    assert "--pid 1 --pid 2 --duration 10s" in (program / "arguments").read_text()
    dwarf = ["--call-graph", "dwarf", "--stack-bytes", "8192"]
    _run(capfd, *again, "--pid", "1", *dwarf)
    assert "--call-graph dwarf --stack-bytes 8192" in (program / "arguments").read_text()


def test_record_replaces_a_profile_only_when_asked(
    program: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    assert _run(capfd, "record", "--out", str(out), "--all")[0] == 0
    kept = {path: path.read_bytes() for path in out.iterdir()}
    code, said, err = _run(capfd, "record", "--out", str(out), "--all")
    assert (code, said) == (2, "")
    assert "would be replaced" in err
    assert "--force" in err
    # Neither does a new profile that came to nothing replace the old one.
    with monkeypatch.context() as patched:
        patched.setenv("NOTHING", "1")
        assert _run(capfd, "record", "--out", str(out), "--all", "--force")[0] == 4
    assert {path: path.read_bytes() for path in out.iterdir()} == kept
    assert _run(capfd, "record", "--out", str(out), "--all", "--force", "--no-report")[0] == 0
    assert "report.html" not in os.listdir(out)
    # Of what was written on the way nothing is left.
    assert {path.name for path in tmp_path.iterdir()} == {out.name, program.name}


def test_of_two_that_record_into_one_folder_the_second_is_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    from steelyard._base import UsageError
    from steelyard.cli.profile.run import new_folder

    out = tmp_path / "out"
    with (
        new_folder(out, force=False) as (first, publish_first),
        new_folder(out, force=False) as (second, publish_second),
    ):
        (first / "profile.folded").write_text("first")
        (second / "profile.folded").write_text("second")
        publish_first()
        with pytest.raises(UsageError, match="would be replaced"):
            publish_second()
    assert (out / "profile.folded").read_text() == "first"
    assert [one.name for one in tmp_path.iterdir()] == ["out"]


def test_record_without_a_sample_says_no(
    program: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (program / "stacks").write_text("# event: cpu-clock\n")
    code, out, err = _run(capfd, "record", "--out", str(tmp_path / "o"), "--pid", "1", "--json")
    assert (code, out) == (1, "")
    assert "no sample was taken" in err
    monkeypatch.setenv("CODE", "4")
    assert _run(capfd, "record", "--out", str(tmp_path / "o"), "--pid", "1", "--json")[0] == 4


@pytest.mark.parametrize(
    ("code", "nothing", "expected"), [("3", "1", 3), ("4", "", 4), ("4", "1", 4), ("0", "1", 4)]
)
def test_record_passes_on_how_the_sampler_ended(
    program: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    code: str,
    nothing: str,
    expected: int,
) -> None:
    monkeypatch.setenv("CODE", code)
    monkeypatch.setenv("NOTHING", nothing)
    ended, out, _ = _run(capfd, "record", "--out", str(tmp_path / "o"), "--all", "--no-report")
    assert ended == expected
    assert ("CPU time by category" in out) == (nothing == "")


@pytest.mark.parametrize(
    "arguments", [[], ["--all", "--pid", "1"], ["--cgroup", "c", "--all", "--", "x"], ["--hz", "0", "--all"]]
)
def test_record_wants_one_thing_to_sample(
    program: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert program
    code, out, err = _run(capfd, "record", "--out", str(tmp_path / "o"), *arguments)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
