"""The datacenter tax as a benchmark: real runs as short as they can be, and what their record means."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from steelyard._base import UsageError, executable, schemas_dir
from steelyard.bench import tiers
from steelyard.bench.placement import Placement
from steelyard.benchmarks.tax import benchmark as tax
from steelyard.benchmarks.tax.declaration import CATEGORIES, DECLARATION
from steelyard.benchmarks.tax.metrics import outcome, scaling_ratio
from steelyard.decide import Refusal, Score
from steelyard.decide.baseline import build
from steelyard.decide.score import score
from steelyard.machine import snapshot
from steelyard.records import Machine, Run, RunStatus, TaxBenchmark, TaxResult, Verdict, read
from tests.calling import call


def run_tax(out: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``steelyard run tax`` and return how it ended."""
    return call("run", "tax", "--tier", "smoke", "--out", str(out), *arguments)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a real run of a few benchmarks."""
    out = tmp_path_factory.mktemp("tax")
    done = run_tax(out, "--set", "time=1", "--set", "only=crc32c snappy-compress", "--set", "seed=7")
    # 1 is a result that the verdict says no to: this machine may be busy.
    assert done.returncode in (0, 1), done.stderr
    (folder,) = out.iterdir()
    return folder


def test_a_run_has_record_metrics_phases_and_verdict(finished: Path) -> None:
    run = read(Run, finished / "run.json")
    result = read(TaxResult, finished / "tax.json")
    assert run.status is RunStatus.COMPLETE
    assert run.artifacts["tax"] == "tax.json"
    assert (result.settings.seed, run.parameters["seed"].value) == (7, 7)
    measure = next(phase for phase in run.phases if phase.name == "measure")
    assert (measure.begin_ns, measure.end_ns) == (result.begin_ns, result.end_ns)
    assert result.score_all is not None
    assert run.metrics["operations_per_s"].value == result.score_all.rate_per_s
    assert set(result.score_all.categories) == {"compression", "hashing"}
    assert run.metrics["hashing_per_s"].value == result.score_all.categories["hashing"].rate_per_s
    assert run.verdict is not None
    asked = {check.id for check in run.verdict.checks}
    assert {"score-interval", "disturbed-batches", "checksums", "foreign-load", "clock"} <= asked
    assert not asked & {"generator-bound", "errors", "separate-cpus"}, "there is no load generator"


def test_a_report_of_it_can_be_made(finished: Path, tmp_path: Path) -> None:
    page = (finished / "report.html").read_text()
    assert "Server and load share" not in page
    for row in read(TaxResult, finished / "tax.json").benchmarks:
        assert row.name in page


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("only=no-such-thing", "no-such-thing"),
        ("cores=some", "one|all|both"),
        ("benchmarks=3-x", "omit it"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_a_run(tmp_path: Path, setting: str, said: str) -> None:
    done = run_tax(tmp_path, "--set", setting)
    assert done.returncode == 2
    assert said in done.stderr + done.stdout
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


def test_suggestions_follow_from_tier_and_program() -> None:
    placement = Placement((0, 1), ())
    machine = snapshot()
    values = {
        tier: tax.TaxBench.suggest({}, machine=machine, tier=tier, placement=placement)
        for tier in tiers.TIERS
    }
    times = [float(values[tier]["time"]) for tier in ("smoke", "quick", "standard", "full")]
    assert times == sorted(times)
    assert len({one["benchmarks"] for one in values.values()}) == 1
    fewer = tax.TaxBench.suggest({"only": "hashing"}, machine=machine, tier="quick", placement=placement)
    assert fewer["benchmarks"] != values["quick"]["benchmarks"]
    with pytest.raises(UsageError, match="no-such-thing"):
        tax.TaxBench.suggest({"only": "no-such-thing"}, machine=machine, tier="quick", placement=placement)


def test_the_categories_are_those_of_the_program() -> None:
    listed = subprocess.run(
        [str(executable("steelyard-tax")), "list", "--json"], capture_output=True, text=True, check=True
    )
    assert {json.loads(line)["category"] for line in listed.stdout.splitlines()} == set(CATEGORIES)


def believed(finished: Path, **metrics: float) -> Run:
    """Return the run with a verdict that does not object and other figures."""
    run = read(Run, finished / "run.json")
    verdict = Verdict.of(
        [check for check in run.verdict.checks if check.level == "valid"] if run.verdict else []
    )
    changed = {
        name: metric.model_copy(update={"value": metrics.get(name, metric.value)})
        for name, metric in run.metrics.items()
    }
    return run.model_copy(update={"verdict": verdict, "metrics": changed})


def test_the_score_is_the_rate_over_the_baselines(finished: Path) -> None:
    run, machine = believed(finished), read(Machine, finished / "machine.json")
    metrics = {"tax": DECLARATION.headline[0]}
    parts = {"tax": DECLARATION.parts}
    baseline = build([(run, machine)], name="t", title="T", provenance="a test", metrics=metrics, parts=parts)
    rate = run.metrics["operations_per_s"].value
    assert rate is not None
    twice = score([believed(finished, operations_per_s=2 * rate)], baseline)
    assert isinstance(twice, Score)
    assert twice.ratio == pytest.approx(2.0)
    measured = [name for name in DECLARATION.parts if name in run.metrics]
    assert measured
    assert twice.parts == pytest.approx(dict.fromkeys(measured, 1.0))
    hashing = run.metrics["hashing_per_s"].value
    assert hashing is not None
    half = score([believed(finished, hashing_per_s=hashing / 2)], baseline)
    assert isinstance(half, Score)
    assert half.parts["hashing_per_s"] == pytest.approx(0.5)
    other = run.parameters["benchmarks"].model_copy(update={"value": "80-00000000"})
    parameters = {**run.parameters, "benchmarks": other}
    refused = score([run.model_copy(update={"parameters": parameters})], baseline)
    assert isinstance(refused, Refusal)
    assert "benchmarks" in refused.reason


def test_metrics_of_one_core_alone_say_nothing_of_all() -> None:
    golden = read(TaxResult, schemas_dir() / "golden" / "tax_result.json")
    found = outcome(golden.model_copy(update={"score_all": None}), {})
    assert "operations_per_s" not in found.metrics
    assert found.metrics["operations_one_per_s"].value is not None
    assert found.loads is None


def test_scaling_is_made_as_the_scores_are() -> None:
    golden = read(TaxResult, schemas_dir() / "golden" / "tax_result.json")
    row = golden.benchmarks[0]

    def rows(**scaling: list[float | None]) -> list[TaxBenchmark]:
        return [
            row.model_copy(update={"category": name, "scaling_ratio": ratio})
            for name, ratios in scaling.items()
            for ratio in ratios
        ]

    # Categories count alike, however many benchmarks they have; what ran on all cores only says nothing.
    assert scaling_ratio(rows(memory=[0.8], hashing=[1.0, 1.0, 1.0])) == pytest.approx(0.8**0.5)
    assert scaling_ratio(rows(memory=[0.8], concurrency=[0.5, None])) == pytest.approx(0.4**0.5)
    assert scaling_ratio(rows(concurrency=[None])) is None


def test_interruptions_are_of_work_that_does_not_wait_itself() -> None:
    golden = read(TaxResult, schemas_dir() / "golden" / "tax_result.json")
    row = next(row for row in golden.benchmarks if row.one is not None)
    assert row.one is not None
    one = row.one.model_copy(update={"batches": 100, "disturbed": 25})
    computes = row.model_copy(update={"one": one, "all": None, "waits": False})
    own = one.model_copy(update={"disturbed": 100})
    waits = row.model_copy(update={"one": own, "all": None, "waits": True})
    both = outcome(golden.model_copy(update={"benchmarks": [computes, waits]}), {})
    assert both.metrics["disturbed_ratio"].value == 0.25
    alone = outcome(golden.model_copy(update={"benchmarks": [waits]}), {})
    assert alone.metrics["disturbed_ratio"].value is None


def test_a_benchmark_that_this_machine_cannot_run_withholds_the_score() -> None:
    golden = read(TaxResult, schemas_dir() / "golden" / "tax_result.json")
    lacking = golden.benchmarks[0].model_copy(
        update={"all": None, "scaling_ratio": None, "missing": "nobody to contend with"}
    )
    found = outcome(golden.model_copy(update={"benchmarks": [lacking, *golden.benchmarks[1:]]}), {})
    metric = found.metrics["operations_per_s"]
    assert metric.value is None
    assert "nobody to contend with" in (metric.missing or "")
    assert found.metrics["operations_one_per_s"].value is not None


def test_a_killed_program_makes_the_run_incomplete(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "steelyard.cli.main",
        "run",
        "tax",
        "--tier",
        "smoke",
        "--out",
        str(tmp_path),
    ]
    process = subprocess.Popen(
        [*command, "--set", "time=60", "--set", "only=crc32c"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        supervisor = None
        while supervisor is None and process.poll() is None:
            for path in tmp_path.glob("*/run.json"):
                processes = json.loads(path.read_text())["processes"]
                supervisor = next((one["pid"] for one in processes if one["name"] == "tax"), None)
        assert supervisor is not None
        children = Path(f"/proc/{supervisor}/task/{supervisor}/children")
        child = ""
        while not child and process.poll() is None:
            child = children.read_text().strip()
        subprocess.run(["kill", "-9", child.split()[0]], check=True)
        assert process.wait(timeout=60) == 4
    finally:
        process.kill()
        process.communicate()
    (folder,) = tmp_path.iterdir()
    run = read(Run, folder / "run.json")
    assert run.status is RunStatus.INCOMPLETE
    assert "tax" in (run.status_reason or "")
