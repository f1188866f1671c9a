"""How much of their CPUs the servers of a benchmark have to use."""

import pytest

from steelyard._base import schemas_dir
from steelyard.analyze.utilisation import at_limit, cpu_reached, expected, load_share, reached_ratio
from steelyard.bench import tiers
from steelyard.records import Level, Metric, Run, read


def metrics(used):
    return {"server_cpu_ratio": Metric(value=used, unit="ratio", missing=None if used is not None else "why")}


@pytest.mark.parametrize(
    ("benchmark", "used", "level"),
    [
        ("django", 0.95, Level.VALID),
        ("django", 0.90, Level.VALID),
        ("mediawiki", 0.89, Level.SUSPECT),
        ("mediawiki", 0.40, Level.SUSPECT),
        ("mediawiki", None, Level.SUSPECT),
        ("transcode", 0.94, Level.SUSPECT),
        ("feed", 0.51, Level.VALID),
        ("feed", 0.40, Level.SUSPECT),
        # More than usual is no objection.
        ("feed", 0.99, Level.VALID),
    ],
)
def test_servers_that_idle_make_a_result_suspect(benchmark, used, level):
    check = cpu_reached(benchmark, metrics(used))
    assert (check.id, check.level, check.value) == ("cpu-reached", level, used)
    assert check.suspect == expected(benchmark).at_least_ratio


def test_the_claim_says_what_was_reached_and_what_is_usual():
    claim = cpu_reached("mediawiki", metrics(0.4)).claim
    assert claim.startswith("the servers used 40.0 % of their CPUs; 90 to 100 % are usual (DCPerf, Table 1)")
    assert claim.endswith("something else is the limit, or took the rest")
    assert "not measured" in cpu_reached("mediawiki", metrics(None)).claim


def test_user_and_system_time_together_are_the_whole():
    parts = {
        "server_cpu_user_ratio": Metric(value=0.3, unit="ratio"),
        "server_cpu_system_ratio": Metric(value=0.45, unit="ratio"),
    }
    assert reached_ratio(parts) == pytest.approx(0.75)
    assert cpu_reached("tao", parts).level is Level.VALID
    assert reached_ratio({"server_cpu_user_ratio": parts["server_cpu_user_ratio"]}) is None
    assert reached_ratio({}) is None


def test_every_member_of_dcperf_but_the_tax_has_an_expectation():
    members = tiers.suites()["dcperf"].benchmarks
    assert [name for name in members if expected(name) is None] == ["tax"]
    assert cpu_reached("tax", metrics(0.1)) is None
    for name in members:
        bound = expected(name)
        if bound is not None:
            low, high = bound.usual_ratio
            assert 0 < bound.at_least_ratio <= low < high <= 1
            assert bound.source


@pytest.mark.parametrize(
    ("share", "level"), [(0.02, Level.VALID), (0.2, Level.SUSPECT), (None, Level.SUSPECT)]
)
def test_a_load_that_takes_much_is_suspect(share, level):
    assert load_share(share).level is level


def test_a_rate_that_was_asked_for_need_not_fill_the_cpus():
    run = read(Run, schemas_dir() / "golden" / "run.json").model_copy(update={"benchmark": "mediawiki"})
    rate = next(iter(run.parameters.values()))

    def levels(offered, saturates=True):
        parameters = {"rate": rate.model_copy(update={"value": offered})}
        changed = run.model_copy(update={"parameters": parameters})
        return [check.level for check in at_limit(changed, metrics(0.4), saturates)]

    assert levels(0.0) == [Level.SUSPECT]
    assert levels(5.0) == []
    # A cluster elsewhere: its CPUs are not those of this machine.
    assert levels(0.0, saturates=False) == []


def test_cpu_use_below_a_capacity_is_taken_to_it_in_proportion():
    def served(used, capacity, measured):
        rates = {"requests_per_s_at_slo": capacity, "requests_per_s": measured}
        return metrics(used) | {name: Metric(value=value, unit="1/s") for name, value in rates.items()}

    check = cpu_reached("feed", served(0.40, 50.0, 34.0))
    assert (check.level, check.value) == (Level.VALID, pytest.approx(0.40 * 50 / 34))
    assert "at the capacity of 50.0 requests/s, in proportion to what they used at 34.0" in check.claim
    # The servers cannot use more than their CPUs, nor less than they were seen to use.
    assert cpu_reached("feed", served(0.8, 50.0, 34.0)).value == 1.0
    assert cpu_reached("feed", served(0.40, 30.0, 34.0)).value == 0.40
