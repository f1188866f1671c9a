"""What co-location cost: overlaps, slow-downs, shares of limits, predictions and verdicts."""

import json
from dataclasses import replace

import numpy as np
import pytest

from steelyard._base import schemas_dir
from steelyard.analyze import colocation as analysis
from steelyard.analyze.colocation import Seen, concluded, judged_run, overlap_ratio, paired, predicted, uses
from steelyard.analyze.colocation_history import learned, spreads
from steelyard.analyze.pressure.contention import over, shared_slowdown, together
from steelyard.records import (
    Check,
    Colocation,
    ColocationRun,
    Condition,
    Level,
    Metric,
    Phase,
    Run,
    RunStatus,
    Verdict,
    read,
)

GOLDEN = schemas_dir() / "golden"


def a_run(begin_s: float, end_s: float, value: float | None = 100.0, **update: object) -> Run:
    golden = read(Run, GOLDEN / "run.json")
    phases = [Phase(name="measure", begin_ns=int(begin_s * 1e9), end_ns=int(end_s * 1e9))]
    metrics = {
        "work_per_s": Metric(value=value, unit="1/s", better="higher", missing=None if value else "none")
    }
    return golden.model_copy(
        update={
            "status": RunStatus.COMPLETE,
            "status_reason": None,
            "phases": phases,
            "steps": [],
            "metrics": metrics,
            "verdict": Verdict(level=Level.VALID, checks=[]),
            **update,
        }
    )


def entry(condition: Condition = Condition.TOGETHER, workload: int = 0) -> ColocationRun:
    return ColocationRun(workload=workload, condition=condition, status=RunStatus.RUNNING, objections=[])


def test_earlier_sessions_of_the_same_pair_widen_the_interval() -> None:
    golden = read(Colocation, GOLDEN / "colocation.json")

    def earlier(number: int, slowdown: float, **changes: object) -> Colocation:
        first, second = golden.workloads
        workloads = [first.model_copy(update={"slowdown": slowdown}), second]
        return golden.model_copy(
            update={"colocation_id": f"c{number}", "workloads": workloads, "level": Level.VALID, **changes}
        )

    history = [earlier(number, slowdown) for number, slowdown in enumerate((1.8, 1.95, 2.1))]
    (known, _) = spreads(golden, history)
    assert known is not None
    assert known.sessions == 3
    alone, wide = analysis.measured(golden.workloads[0]), analysis.measured(golden.workloads[0], known)
    assert (alone.sessions, wide.sessions) == (None, 3)
    assert alone.slowdown == wide.slowdown
    assert wide.slowdown_high is not None
    assert alone.slowdown_high is not None
    assert wide.slowdown_high > alone.slowdown_high + 0.2
    # Others do not count: an invalid one, this one itself, another host, other limits.
    other = golden.orchestrator.model_copy(update={"hostname": "elsewhere"})
    for changes in (
        {"level": Level.INVALID},
        {"colocation_id": golden.colocation_id},
        {"orchestrator": other},
    ):
        assert spreads(golden, [*history[:2], earlier(2, 2.1, **changes)])[0] is None
    # The pair may have been named the other way round.
    turned = [one.model_copy(update={"workloads": one.workloads[::-1]}) for one in history]
    assert spreads(golden, turned) == spreads(golden, history)


def test_the_overlap_is_what_both_measured_at_the_same_time() -> None:
    assert overlap_ratio(a_run(0, 10), a_run(2, 12)) == pytest.approx(0.8)
    assert overlap_ratio(a_run(2, 12), a_run(0, 10)) == pytest.approx(0.8)
    # The longer one was alone for more of its time.
    assert overlap_ratio(a_run(0, 20), a_run(5, 10)) == pytest.approx(0.25)
    assert overlap_ratio(a_run(5, 10), a_run(0, 20)) == 1.0
    assert overlap_ratio(a_run(0, 1), a_run(5, 6)) == 0.0
    assert overlap_ratio(a_run(0, 1, phases=[]), a_run(5, 6)) is None
    # Between its steps a run measures nothing.
    steps = [Phase(name=str(at), begin_ns=int(at * 1e9), end_ns=int((at + 1) * 1e9)) for at in (1, 5)]
    assert overlap_ratio(a_run(0, 10, steps=steps), a_run(0, 3)) == pytest.approx(0.5)
    assert overlap_ratio(a_run(0, 10, steps=steps), a_run(0, 6)) == 1.0


def test_a_run_that_hardly_overlapped_does_not_count() -> None:
    good = judged_run(entry(), a_run(0, 10), "work_per_s", a_run(1, 11))
    assert (good.refused, good.value, good.overlap_ratio) == (None, 100.0, pytest.approx(0.9))
    bad = judged_run(entry(), a_run(0, 10), "work_per_s", a_run(5, 15))
    assert bad.refused == "the other was measured in 50% of the time, less than 80%"
    alone = judged_run(entry(Condition.FIRST), a_run(0, 10), "work_per_s", None)
    assert (alone.refused, alone.overlap_ratio) == (None, None)
    without = judged_run(entry(Condition.FIRST), a_run(0, 10, None), "work_per_s", None)
    assert (without.refused, without.value) == ("none", None)


def test_the_other_workload_is_no_objection_together_and_one_alone() -> None:
    foreign = Check(
        id="foreign-load", level=Level.INVALID, claim="others used 40%", value=0.4, suspect=0.05, unit="ratio"
    )
    steady = Check(id="steady", level=Level.SUSPECT, claim="rising", value=0.1, suspect=0.05, unit="ratio")
    run = a_run(0, 10, verdict=Verdict(level=Level.INVALID, checks=[foreign, steady]))
    assert judged_run(entry(), run, "work_per_s", a_run(0, 10)).objections == [steady]
    assert judged_run(entry(Condition.FIRST), run, "work_per_s", None).objections == [foreign, steady]


def seen(cpus: dict[int, float], server: tuple[int, ...], load: tuple[int, ...], **use: float | None) -> Seen:
    every = dict.fromkeys(analysis.RESOURCES, None) | use
    return Seen(every, cpus, {"server": server, "load": load})


def test_cpus_are_compared_where_the_two_meet() -> None:
    # The first one's server is on CPU 0; the second one wanders over both.
    first = seen({0: 1.0, 1: 0.4}, (0,), (1,), network=0.5)
    second = seen({0: 0.5, 1: 0.5}, (0, 1), (0, 1), network=0.1)
    own, beside = uses([first], [second])
    assert (own["cpu"], beside["cpu"]) == (1.0, 0.5)
    assert (own["network"], beside["network"]) == (0.5, 0.1)
    own, beside = uses([second], [first])
    assert (own["cpu"], beside["cpu"]) == (0.5, pytest.approx(0.7))
    # Means over the runs alone.
    own, _ = uses([first, replace(first, cpus={0: 0.5, 1: 0.4})], [second])
    assert own["cpu"] == pytest.approx(0.75)
    assert uses([], []) == (dict.fromkeys(analysis.RESOURCES), dict.fromkeys(analysis.RESOURCES))


def test_what_both_want_and_there_is_not_slows_both_alike() -> None:
    sums = together({"cpu": 0.9, "network": 0.8, "disk_bandwidth": None}, {"cpu": 0.6, "network": 0.5})
    assert sums == {"cpu": pytest.approx(1.5), "network": pytest.approx(1.3)}
    assert shared_slowdown(sums) == (pytest.approx(1.5), "cpu")
    assert over(sums) == ("cpu", "network")
    found = predicted({"cpu": 0.4, "network": 0.9}, {"cpu": 0.4, "network": 0.6})
    assert (found.slowdown, found.resource, found.method) == (pytest.approx(1.5), "network", "shared limits")
    harmless = predicted({"cpu": 0.4}, {"cpu": 0.4})
    assert (harmless.slowdown, harmless.resource) == (1.0, None)
    # Memory that does not fit slows nobody by a factor: it is named, not multiplied.
    assert shared_slowdown({"dram_capacity": 1.4}) == (1.0, None)
    unknown = predicted({"cpu": None}, {"cpu": 0.4})
    assert (unknown.slowdown, unknown.missing) == (None, "no resource was measured for both alone")


def golden() -> Colocation:
    return read(Colocation, GOLDEN / "colocation.json")


SEEN = (
    [seen({0: 1.0, 1: 0.9}, (0,), (1,))],
    [seen({0: 0.95, 1: 0.1}, (0, 1), (0, 1))],
)


def test_slowdowns_follow_from_the_runs_that_count() -> None:
    record = concluded(golden(), SEEN)
    redis, gzip = record.workloads
    assert redis.alone == [101200.0, 99800.0, 100400.0]
    assert redis.slowdown == pytest.approx(100400 / 51700)
    assert redis.slowdown_low is not None
    assert redis.slowdown_high is not None
    assert redis.slowdown_low < redis.slowdown < redis.slowdown_high
    assert gzip.slowdown == pytest.approx(2.6 / 1.51)
    assert redis.prediction is not None
    assert redis.prediction.slowdown == pytest.approx(1.95)
    assert redis.prediction.error_ratio == pytest.approx(1.95 / (100400 / 51700) - 1)
    assert redis.prediction.is_within_interval
    # Of the second one's own CPUs: half of both, and 95 % of both by the first.
    assert gzip.prediction is not None
    assert gzip.prediction.slowdown == pytest.approx(0.525 + 0.95)
    assert record.together["cpu"] == pytest.approx(1.95)
    assert record.over == ["cpu"]
    assert (record.level, len(record.objections)) == (Level.SUSPECT, 1)


def test_where_less_is_better_the_ratio_is_turned() -> None:
    record = golden()
    workloads = [each.model_copy(update={"better": "lower"}) for each in record.workloads]
    turned = concluded(record.model_copy(update={"workloads": workloads}), SEEN)
    assert turned.workloads[0].slowdown == pytest.approx(51700 / 100400)


def test_runs_that_do_not_count_are_left_out() -> None:
    record = golden()
    block = record.blocks[1]
    runs = [
        run.model_copy(update={"refused": "it hardly overlapped"})
        if run.condition is Condition.TOGETHER and run.workload == 1
        else run
        for run in block.runs
    ]
    both = [run for run in runs if run.condition is Condition.TOGETHER]
    assert [run.refused for run in paired(both)] == [
        "the run beside it does not count",
        "it hardly overlapped",
    ]
    runs = [run for run in runs if run.condition is not Condition.TOGETHER] + paired(both)
    blocks = [record.blocks[0], block.model_copy(update={"runs": runs}), record.blocks[2]]
    less = concluded(record.model_copy(update={"blocks": blocks}), SEEN)
    assert [len(each.together) for each in less.workloads] == [2, 2]
    assert [len(each.alone) for each in less.workloads] == [3, 3]
    assert less.workloads[0].slowdown_low is None
    assert less.workloads[0].missing == "an interval needs 3 runs alone and 3 together"
    assert any("the run beside it does not count" in text for text in less.objections)


def test_without_a_run_that_counts_there_is_no_slowdown() -> None:
    record = golden()
    blocks = [
        block.model_copy(
            update={
                "runs": [
                    run.model_copy(update={"refused": "it hardly overlapped"})
                    if run.condition is Condition.TOGETHER
                    else run
                    for run in block.runs
                ]
            }
        )
        for block in record.blocks
    ]
    less = concluded(record.model_copy(update={"blocks": blocks}), SEEN)
    assert less.level is Level.INVALID
    assert {each.slowdown for each in less.workloads} == {None}
    assert {each.missing for each in less.workloads} == {"no valid run beside the other"}
    assert all(each.prediction is not None and each.prediction.error_ratio is None for each in less.workloads)


def test_the_golden_record_is_its_own_conclusion() -> None:
    document = json.loads((GOLDEN / "colocation.json").read_text())
    found = concluded(golden(), SEEN).workloads[0]
    assert found.slowdown == pytest.approx(document["workloads"][0]["slowdown"])


def an_earlier(
    names: tuple[str, str], disks: tuple[float, float], costs: tuple[float, float], **update: object
):
    """Return a co-location of two commands whose slow-downs were found."""
    record = golden()
    workloads = [
        each.model_copy(
            update={
                "benchmark": "command",
                "parameters": {"command": name},
                "use": {"cpu": 0.2, "disk_bandwidth": disk},
                "slowdown": 1 + cost,
                "slowdown_low": 1 + cost - 0.02,
                "slowdown_high": 1 + cost + 0.02,
            }
        )
        for each, name, disk, cost in zip(record.workloads, names, disks, costs, strict=True)
    ]
    fields = {"colocation_id": "-".join(names), "workloads": workloads, "level": Level.VALID, **update}
    return record.model_copy(update=fields)


def a_history(**update: object):
    """Eight commands that hurt each other as they use the disk: all pairs but that of the first two."""
    random = np.random.default_rng(5)
    disks = random.uniform(0.05, 0.6, 8)
    # The law is in shares of the mean use; noise of 1 % upon it.
    cost = 0.2 * np.outer(disks, disks) / disks.mean() ** 2 + 0.01 * random.standard_normal((8, 8))
    earlier = [
        an_earlier((f"c{i}", f"c{j}"), (disks[i], disks[j]), (cost[i, j], cost[j, i]), **update)
        for i in range(8)
        for j in range(i + 1, 8)
        if (i, j) != (0, 1)
    ]
    return disks, cost, earlier


def test_enough_earlier_pairs_predict_by_the_law_of_the_fleet() -> None:
    disks, cost, earlier = a_history()
    now = an_earlier(("c0", "c1"), (disks[0], disks[1]), (9.0, 9.0))
    first, second = learned(now, earlier)
    assert first is not None
    assert second is not None
    assert first.slowdown == pytest.approx(1 + cost[0, 1], abs=0.05)
    assert first.slowdown_low < 1 + cost[0, 1] < first.slowdown_high
    assert second.slowdown == pytest.approx(1 + cost[1, 0], abs=0.05)
    assert first.method == "observed pairs"
    # What was found of the pair itself is no part of its prediction.
    same = an_earlier(("c0", "c1"), (disks[0], disks[1]), (9.0, 9.0), colocation_id="before")
    again = learned(now, [*earlier, same])
    assert again[0] is not None
    assert again[0].slowdown == pytest.approx(first.slowdown)


@pytest.mark.parametrize(
    "update", [{"limits": ["sda=1MB"]}, {"level": Level.INVALID}, {"status": RunStatus.INCOMPLETE}]
)
def test_other_conditions_and_unusable_records_say_nothing(update: dict[str, object]) -> None:
    disks, _, earlier = a_history(**update)
    now = an_earlier(("c0", "c1"), (disks[0], disks[1]), (9.0, 9.0))
    assert learned(now, earlier) == [None, None]
    assert learned(now, []) == [None, None]


def test_what_earlier_pairs_say_stands_in_the_record() -> None:
    disks, cost, earlier = a_history()
    now = an_earlier(("c0", "c1"), (disks[0], disks[1]), (9.0, 9.0))
    known = [seen({0: 0.2}, (0,), (), disk_bandwidth=disks[at]) for at in (0, 1)]
    record = concluded(now, [[known[0]], [known[1]]], earlier)
    prediction = record.workloads[0].prediction
    assert prediction is not None
    assert prediction.method == "observed pairs"
    assert prediction.slowdown == pytest.approx(1 + cost[0, 1], abs=0.05)
    assert prediction.error_ratio is not None
    alone = concluded(now, [[known[0]], [known[1]]], earlier[:2]).workloads[0].prediction
    assert alone is not None
    assert alone.method == "shared limits"
