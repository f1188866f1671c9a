"""Data caching: small objects of skewed popularity, on machines of any size, and a real run."""

import json
import os

import pytest

from steelyard._base import UsageError, data_dir, schemas_dir
from steelyard.bench import tiers
from steelyard.bench.parameters import Settings
from steelyard.bench.placement import Placement
from steelyard.bench.stack.recipe import find_program
from steelyard.benchmarks.caching.benchmark import DataCaching, sizes_path
from steelyard.benchmarks.memcached.benchmark import MemcachedBench
from steelyard.benchmarks.memcached.stack.cache import FILL_RATIO, KEY_BYTES
from steelyard.cli.main import invoke
from steelyard.records import Machine, read
from steelyard.stats import distribution

MACHINE = read(Machine, schemas_dir() / "golden" / "machine.json")


def settings_of(benchmark, **chosen):
    placement = Placement((0, 1), (2, 3))
    return Settings.resolve(
        benchmark.parameters,
        chosen,
        lambda known: {
            "seed": 1,
            **benchmark.suggest(known, machine=MACHINE, tier="quick", placement=placement),
        },
        owner="caching",
    )


def test_as_many_objects_as_memory_holds_with_what_the_server_keeps_of_each():
    settings = settings_of(DataCaching, memory="1GiB")
    mean_bytes = distribution.load(data_dir() / "tao" / "twitter-value-sizes.json").mean()
    stored = settings["keys"] * (mean_bytes + KEY_BYTES + 56)
    assert stored == pytest.approx(FILL_RATIO * (1 << 30), rel=1e-3)
    # Small objects are many: fifty times those of the benchmark with values of 25 KB.
    assert settings["keys"] > 50 * settings_of(MemcachedBench, memory="1GiB")["keys"]
    assert sizes_path(settings) == data_dir() / "tao" / "twitter-value-sizes.json"


def test_a_file_without_sizes_is_refused(tmp_path):
    wrong = tmp_path / "sizes.json"
    with pytest.raises(UsageError, match=r"value_sizes=.*sizes\.json"):
        settings_of(DataCaching, value_sizes=str(wrong))
    wrong.write_text("{}")
    with pytest.raises(UsageError, match=r"value_sizes=.*sizes\.json"):
        settings_of(DataCaching, value_sizes=str(wrong))


def test_the_suite_has_a_cache_and_a_social_web_site():
    assert {"caching", "social"} <= set(tiers.suites()["cloudsuite"].benchmarks)


@pytest.mark.skipif(find_program("memcached") is None, reason="memcached is not installed")
def test_a_real_run_stores_small_objects_and_finds_them(tmp_path, capsys):
    chosen = ["--set", "memory=64MiB", "--set", "measure=1", "--set", "warmup_max=1"]
    assert invoke(["run", "caching", "--tier", "smoke", "--json", "--out", str(tmp_path), *chosen]) in (0, 1)
    [run] = json.loads(capsys.readouterr().out)["runs"]
    metrics = {name: metric["value"] for name, metric in run["metrics"].items()}
    assert metrics["errors"] == 0
    assert metrics["requests_per_s"] > 100
    assert metrics["hit_ratio"] > 0.95
    # Values of 379 bytes on average, with their headers: not those of 25 KB.
    [path] = tmp_path.glob("*/run.json")
    keys = json.loads(path.read_text())["parameters"]["keys"]["value"]
    assert 350 < metrics["stored_bytes"] / keys < 600


@pytest.mark.skipif(find_program("memcached") is None, reason="memcached is not installed")
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="a curve needs two CPUs")
def test_its_curve_has_throughput_errors_and_cpu_use_by_cpus(tmp_path, capsys):
    page = tmp_path / "page.html"
    words = ["scale", "caching", "--tier", "smoke", "--steps", "1,2", "--blocks", "1", "--json"]
    for text in ("memory=64MiB", "measure=1", "warmup_max=1"):
        words += ["--set", text]
    assert invoke([*words, "--out", str(tmp_path / "runs"), "--report", str(page)]) in (0, 1)
    steps = json.loads(capsys.readouterr().out)["steps"]
    assert [step["cpus"] for step in steps] == [1, 2]
    for step in steps:
        assert step["lost"] == []
        assert step["ops_per_s"] > 100
        assert step["readings"]["error_ratio"] == 0
        assert 0 < step["busy_ratio"] <= 1
    # CloudSuite's comparison: both against CPU use.
    assert "Throughput by CPU use" in page.read_text()
    assert "Failed operations by CPU use" in page.read_text()
