"""``steelyard fidelity`` as a user calls it: files, real runs, a fleet's job, and what is wrong."""

import json
import shlex
from pathlib import Path

import pytest

from steelyard.cli.main import invoke
from tests.calling import call
from tests.cli.test_documents import hold

GUIDE = Path(__file__).resolve().parents[4] / "docs" / "guides" / "fidelity.md"
TEXT = GUIDE.read_text()
COMMANDS = [shlex.split(line.strip()) for line in TEXT.splitlines() if line.startswith("    steelyard ")]
TARGET = "[metrics]\nthroughput_per_s = [100, 110, 105]\nipc = [1.0, 1.1, 1.05]\ncpu_user_ratio = 0.5\n"
SHORT = (
    *("--set", "measure=1s", "--set", "warmup_min=1s", "--set", "warmup_max=3s"),
    # Full at once, so that the hit ratio settles at once.
    *("--set", "memory=8MiB"),
)


def block(kind: str) -> str:
    """Return the text of the guide's first block of a kind."""
    return TEXT.partition(f"```{kind}\n")[2].partition("```")[0]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "cache-a.toml").write_text(block("toml"))
    (tmp_path / "bench.csv").write_text(block("csv"))
    (tmp_path / "a.toml").write_text(TARGET)
    (tmp_path / "b.toml").write_text(TARGET.replace("0.5", "0.3").replace("1.0", "2.0"))
    return tmp_path


def document(*words: str, folder: Path) -> dict[str, object]:
    done = call("fidelity", *words, "--json", folder=folder)
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    hold(made)
    return made


def test_the_files_of_the_guide_are_compared_as_it_says(files: Path) -> None:
    words = COMMANDS[0][2:]
    done = call("fidelity", *words, folder=files)
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.replace("\u202f", " ").split())
    [quoted] = [part for part in TEXT.split("`") if part.startswith("bench is closest")]
    assert quoted in said
    assert "over 7 of 8 metrics" in said
    made = document(*words, folder=files)
    assert made["kind"] == "fidelity"
    lacking = [each for each in made["metrics"] if each["distance"] is None]  # type: ignore[attr-defined]
    assert [each["name"] for each in lacking] == ["llc_mpki"]
    assert lacking[0]["missing"] == "B: not sampled in production"


@pytest.mark.parametrize("form", ["csv", "markdown", "jsonl"])
def test_every_format_has_the_distances(form: str, files: Path) -> None:
    done = call("fidelity", "bench.csv", "cache-a.toml", "--format", form, folder=files)
    assert done.returncode == 0, done.stderr
    assert "L1I MPKI" in done.stdout


def test_a_page_is_written(files: Path) -> None:
    made = document("bench.csv", "cache-a.toml", "--report", "page.html", folder=files)
    text = (files / "page.html").read_text()
    assert made["report"] == "page.html"
    for words in ("Distance by metric", "Functions that differ most", "CPU time", "Not compared"):
        assert words in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["a.toml"], "two workloads are compared, not 1"),
        (["a.toml", "b.toml", "a.toml"], "compared, not 3"),
        (["a.toml", "nowhere"], "unknown run 'nowhere'"),
        (["a.toml", "empty.toml"], "states no metrics"),
        (["a.toml", "negative.toml"], "ipc: -1 is negative"),
        (["a.toml", "other.toml"], "no metric in common"),
        (["a.toml", "b.toml", "--trials", "3"], "--trials is for --calibrate"),
        (["--calibrate", "tao"], "--calibrate takes one target, 0 were named"),
        (["--calibrate", "toa", "a.toml"], "unknown benchmark 'toa', did you mean"),
        (["--calibrate", "tao", "a.toml", "--vary", "dept=1..2"], "no parameter 'dept'"),
        (
            ["--calibrate", "tao", "a.toml", "--vary", "depth=1..2", "--set", "depth=1"],
            "depth is set and searched",
        ),
        (["--calibrate", "redis", "a.toml"], "declares no parameters to search"),
    ],
)
def test_what_is_wrong_is_one_line(
    words: list[str],
    said: str,
    files: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(files)
    (files / "empty.toml").write_text("")
    (files / "negative.toml").write_text("[metrics]\nipc = -1\n")
    (files / "other.toml").write_text("[metrics]\nmine_per_s = { value = 3, unit = '1/s' }\n")
    assert invoke(["fidelity", *words]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_a_fleets_job_is_a_workload(tmp_path: Path) -> None:
    size = ("--machines", "4", "--days", "1", "--step-s", "600")
    done = call("fleet", "simulate", "--store", "fleet", *size, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    (tmp_path / "a.toml").write_text("[metrics]\nipc = 1.0\nllc_mpki = 1.0\n")
    jobs = call("fidelity", "a.toml", "fleet#nowhere", folder=tmp_path)
    assert jobs.returncode == 2
    assert "has no samples of job 'nowhere'" in jobs.stderr
    name = jobs.stderr.partition("jobs: ")[2].split(",")[0].strip(" )\n")
    made = document("a.toml", f"fleet#{name}", folder=tmp_path)
    assert made["b"] == name
    assert made["overall"]["compared"] >= 1  # type: ignore[index]


def test_real_runs_are_compared_and_differ_where_they_were_set_to(tmp_path: Path) -> None:
    """Two short runs whose hit ratio and requests in flight differ."""
    common = ("run", "tao", "--tier", "smoke", *SHORT, "--out", "runs", "--json")
    first = json.loads(call(*common, "--set", "connections=40", folder=tmp_path).stdout)["runs"][0]
    settings = ("--set", "connections=40", "--set", "depth=4", "--set", "target_hit_ratio=0.6")
    second = json.loads(call(*common, *settings, folder=tmp_path).stdout)["runs"][0]
    made = document(*(f"runs/{one['run_id']}" for one in (first, second)), folder=tmp_path)
    metrics = {each["name"]: each for each in made["metrics"]}  # type: ignore[attr-defined]
    assert metrics["hit_ratio"]["distance"] == pytest.approx(0.3, abs=0.06)
    assert metrics["requests_in_flight"]["distance"] == pytest.approx(1.386, abs=0.3)
    assert metrics["hit_ratio"]["moved_by"] == "target_hit_ratio"
    assert metrics["request_bytes"]["distance"] < 0.02
    assert metrics["functions"]["parts"] or metrics["functions"]["missing"]


TARGET_OF_TAO = "[metrics]\nhit_ratio = 0.62\nrequests_in_flight = 96\nthreads_per_core = 4\n"
SEARCH = (
    *("--calibrate", "tao", "target.toml", "--vary", "target_hit_ratio", "--vary", "depth=1..8:log"),
    *("--set", "connections=32", "--seed", "5", "--out", "runs", "--hold-out", "threads_per_core", *SHORT),
)


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_calibration_runs_the_benchmark_and_keeps_its_record(tmp_path: Path) -> None:
    (tmp_path / "target.toml").write_text(TARGET_OF_TAO)
    made = document(*SEARCH, "--trials", "2", "--repeat", "1", "--report", "page.html", folder=tmp_path)
    assert made["kind"] == "calibration"
    assert len(made["trials"]) == 2  # type: ignore[arg-type]
    assert made["searched"]["before"]["compared"] == 2  # type: ignore[index]
    assert made["held_out"]["before"]["compared"] == 1  # type: ignore[index]
    assert (tmp_path / str(made["directory"]) / "calibration.json").is_file()
    assert "Distance by trial" in (tmp_path / "page.html").read_text()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_calibration_of_tao_comes_near_its_target(tmp_path: Path) -> None:
    """By what others' load does not change: hit ratio and requests in flight."""
    (tmp_path / "target.toml").write_text(TARGET_OF_TAO)
    made = document(*SEARCH, "--trials", "12", "--repeat", "2", folder=tmp_path)
    before, after = (made["searched"][when]["distance"] for when in ("before", "after"))  # type: ignore[index]
    assert after < 0.25 * before
    found = {each["name"]: float(each["after"]) for each in made["parameters"]}  # type: ignore[attr-defined]
    assert found["target_hit_ratio"] == pytest.approx(0.62, abs=0.06)
    assert found["depth"] == 3


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_tao_comes_back_to_a_target_made_with_other_parameters(tmp_path: Path) -> None:
    """The guide's way: a run with other parameters is the target, and the search finds them again."""
    run, search = COMMANDS[-2], COMMANDS[-1]
    done = call(*run[1:], folder=tmp_path)
    assert done.returncode in (0, 1), done.stderr
    held = ("--hold-out", "network_sent_bytes_per_s", "--hold-out", "latency_p50_ns")
    made = document(*search[2:], "--seed", "3", *held, folder=tmp_path)
    found = {each["name"]: float(each["after"]) for each in made["parameters"]}  # type: ignore[attr-defined]
    assert found["target_hit_ratio"] == pytest.approx(0.6, abs=0.08)
    assert found["depth"] == pytest.approx(4, abs=1)
    by_name = {each["name"]: each for each in made["metrics"]}  # type: ignore[attr-defined]
    for name in ("hit_ratio", "requests_in_flight"):
        assert by_name[name]["distance_after"] < 0.4 * by_name[name]["distance_before"]
