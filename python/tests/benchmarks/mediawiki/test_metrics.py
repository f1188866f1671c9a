"""Metrics of the wiki: gains of the servers' counters, kinds of page, and what makes a result suspect."""

import pytest

from steelyard._base import schemas_dir
from steelyard.bench.load.hosts import LoadHosts
from steelyard.bench.stack.processor import CpuTime
from steelyard.benchmarks.mediawiki import metrics
from steelyard.benchmarks.mediawiki.counters import Sample
from steelyard.benchmarks.mediawiki.metrics import SERVERS, checks_of, server_metrics
from steelyard.records import Level, LoadResult, Metric, read

SECOND = 1_000_000_000


def sample(at_s, *, php=(0.0, 0.0), hits=0, misses=0, queries=0):
    cpu = dict.fromkeys(SERVERS, CpuTime(0.0, 0.0)) | {"php-fpm": CpuTime(*php), "mariadb": CpuTime(1.0, 0.5)}
    return Sample(int(at_s * SECOND), cpu, hits, misses, queries)


@pytest.fixture
def load():
    golden = read(LoadResult, schemas_dir() / "golden" / "load_result.json")
    closed = golden.settings.model_copy(update={"loop": "closed", "rate_per_s": None})
    return golden.model_copy(update={"settings": closed})


def test_gains_are_those_of_the_measure_phase():
    samples = [
        sample(0, php=(0.0, 0.0)),
        sample(10, php=(8.0, 1.0), hits=900, misses=100, queries=500),
        sample(20, php=(24.0, 3.0), hits=1700, misses=300, queries=2500),
        sample(21, php=(99.0, 9.0), hits=9999, misses=9999, queries=9999),
    ]
    found = server_metrics(samples, (10 * SECOND, 20 * SECOND), cpus=2, requests=100)
    values = {name: metric.value for name, metric in found.items()}
    assert values["server_cpu_ratio"] == pytest.approx(18 / 20)
    assert values["server_cpu_user_ratio"] == pytest.approx(16 / 20)
    assert values["server_cpu_system_ratio"] == pytest.approx(2 / 20)
    assert values["php_fpm_cpu_ratio"] == pytest.approx(18 / 20)
    # What it used before the phase does not count.
    assert values["mariadb_cpu_ratio"] == 0
    assert values["cpu_per_request_ns"] == pytest.approx(18 / 100 * 1e9)
    assert values["memcached_hit_ratio"] == pytest.approx(0.8)
    assert values["memcached_gets_per_request"] == pytest.approx(10.0)
    assert values["queries_per_request"] == pytest.approx(20.0)


def test_a_phase_begins_between_two_samples():
    samples = [sample(0), sample(2, queries=100), sample(4, queries=300)]
    found = server_metrics(samples, (SECOND, 3 * SECOND), cpus=1, requests=1)
    assert found["queries_per_request"].value == pytest.approx(150)


def test_what_the_samples_do_not_cover_is_missing_with_a_reason():
    found = server_metrics([sample(5), sample(6)], (0, 6 * SECOND), cpus=1, requests=9)
    assert {metric.value for metric in found.values()} == {None}
    assert {metric.missing for metric in found.values()} == {metrics.NOT_COVERED}
    quiet = server_metrics([sample(0), sample(6)], (0, 6 * SECOND), cpus=1, requests=0)
    assert quiet["memcached_hit_ratio"].missing == "nothing was looked up"
    assert quiet["queries_per_request"].missing == "no request was answered"


def judged(load, classes=None, server=0.95, share=0.01):
    requests = load.requests.model_copy(update={"answers_by_class": classes or {"2xx": 100}})
    found = {
        "server_cpu_ratio": Metric(value=server, unit="ratio", missing=None if server is not None else "why"),
        "load_cpu_share_ratio": Metric(
            value=share, unit="ratio", missing=None if share is not None else "why"
        ),
    }
    return {
        check.id: check
        for check in checks_of(load.model_copy(update={"requests": requests}), found, LoadHosts.of({}))
    }


def test_a_run_at_the_limit_of_the_servers_cpus_is_valid(load):
    assert {check.level for check in judged(load).values()} == {Level.VALID}


@pytest.mark.parametrize("share", [0.06, None])
def test_a_load_that_takes_much_cpu_time_makes_the_result_suspect(load, share):
    assert judged(load, share=share)["load-cpu"].level is Level.SUSPECT


def test_redirects_are_no_pages(load):
    found = judged(load, classes={"2xx": 90, "3xx": 10})["answers"]
    assert found.level is Level.INVALID
    assert found.claim == "10 answers were redirects, which are no pages"
