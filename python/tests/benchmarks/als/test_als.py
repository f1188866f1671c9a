"""The recommender: its settings, its check, and a real run on a cluster."""

import importlib.util
import json
import re
import sys

import pytest

from steelyard._base import schemas_dir, workloads_dir
from steelyard.bench import tiers
from steelyard.bench.parameters import Settings
from steelyard.bench.placement import Placement
from steelyard.benchmarks.als import benchmark
from steelyard.benchmarks.als.benchmark import AlsBench, learnt
from steelyard.cli.main import invoke
from steelyard.records import Level, Machine, read
from tests.bench.conftest import linked_stacks

MACHINE = read(Machine, schemas_dir() / "golden" / "machine.json")
SPARK = workloads_dir() / "spark"


def settings_of(tier="quick", **chosen):
    placement = Placement((0, 1, 2, 3, 4, 5), ())
    return Settings.resolve(
        AlsBench.parameters,
        chosen,
        lambda known: {
            "seed": 1,
            **AlsBench.suggest(known, machine=MACHINE, tier=tier, placement=placement),
        },
        owner="als",
    )


def test_the_standard_tier_has_as_many_ratings_as_movielens():
    settings = settings_of("standard")
    assert settings["ratings"] == 25_000_095
    assert (settings["executors"], settings["executor_cores"], settings["partitions"]) == (2, 3, 12)
    footprint = AlsBench.footprint(settings, placement=Placement((0, 1), ()))
    assert footprint.memory_bytes > settings["memory"]
    assert footprint.disk_bytes >= 12 * 25_000_095
    # A fit has no set length.
    assert 20 < footprint.least_s < footprint.most_s
    assert footprint.untimed == ""


@pytest.mark.parametrize(
    ("rmse", "level"), [(0.46, Level.VALID), (0.95, Level.INVALID), (1.4, Level.INVALID)]
)
def test_a_model_that_predicts_no_better_than_the_mean_is_invalid(rmse, level):
    good = {"predicted": 1000, "rmse": 0.45, "deviation": 0.95}
    check = learnt([good, {**good, "rmse": rmse}])
    assert check.level is level
    assert check.value == pytest.approx(rmse / 0.95)
    assert "1000 unseen ratings" in check.claim


def driver(monkeypatch):
    monkeypatch.syspath_prepend(str(SPARK))
    monkeypatch.delitem(sys.modules, "driver", raising=False)
    specification = importlib.util.spec_from_file_location("als", SPARK / "als.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_program_and_benchmark_agree(monkeypatch):
    module = driver(monkeypatch)
    assert module.VERSION == benchmark.VERSION
    names = {"rows": 10, "users": 3, "items": 2, "partitions": 1}
    text = module.filled((SPARK / "ratings.sql").read_text(), names, 7)
    code = re.sub(r"^--.*\n", "", text, flags=re.MULTILINE)
    # Every value is a function of row and seed: nothing is left to fill in, or to chance.
    assert not re.search(r"[{}]|\b[uh]\(|\bzipf\(|rand", code)
    assert "xxhash64(user_id, 7, 101)" in code


def test_it_is_a_member_of_the_suite():
    assert set(tiers.suites()["cloudsuite"].benchmarks) == {"caching", "als", "social"}


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_real_run_learns_the_ratings(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("STEELYARD_STACKS", str(linked_stacks(tmp_path, "spark")))
    arguments = ["run", "als", "--tier", "smoke", "--json", "--out", str(tmp_path / "runs")]
    for chosen in ("ratings=50000", "warmups=0", "iterations=5", "fits=2"):
        arguments += ["--set", chosen]
    assert invoke(arguments) in (0, 1)
    [run] = json.loads(capsys.readouterr().out)["runs"]
    metrics = {name: metric["value"] for name, metric in run["metrics"].items()}
    assert metrics["rmse"] < 0.9 * metrics["deviation"]
    assert metrics["ratings_per_s"] == pytest.approx(50_000 * 5 / metrics["fit_s"])
    [path] = tmp_path.glob("runs/*/als.json")
    models = json.loads(path.read_text())["models"]
    # The same ratings and seed give the same model.
    assert models[0]["rmse"] == pytest.approx(models[1]["rmse"], rel=1e-3)
    assert models[0]["predicted"] > 3000
