"""Findings stand in the order of how much of the headline they explain; blame says whose doing it is."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from steelyard.analyze import Conditions, explain
from steelyard.analyze.facts.span import Span
from steelyard.analyze.own_cpu import CpuBlame
from steelyard.analyze.pressure.intensities import intensities
from steelyard.analyze.pressure.threads import RUSAGE, with_exact_use
from steelyard.analyze.profiles.figures import ProfileUse
from steelyard.analyze.rules.findings import Evidence, Finding, Rule, rule
from steelyard.analyze.stages import observe_stages
from steelyard.analyze.values import Quantity
from steelyard.analyze.workload import figures, pressure_points
from steelyard.records import Metric, RankStats
from tests.analyze.facts import changed
from tests.analyze.rules.test_findings import CACHE, CALM, GENERATOR, cpus, q
from tests.analyze.rules.test_rules import ALONE, busy, target

GOLDEN = Path(__file__).resolve().parents[4] / "schemas" / "golden" / "rank_stats.json"


def stats(monotonic_ns: int, requests: int, **stages: tuple[int, int]) -> RankStats:
    document = json.loads(GOLDEN.read_text())
    document |= {"monotonic_ns": monotonic_ns, "requests": requests}
    document["stages"] = [
        {"name": name, "wall_ns_total": wall, "cpu_ns_total": cpu} for name, (wall, cpu) in stages.items()
    ]
    return RankStats.model_validate(document)


def test_stages_of_the_phase_are_the_gains_within_it() -> None:
    root = [
        stats(0, 10, features=(100, 90), fan_out=(500, 5)),
        stats(10, 20, features=(200, 180), fan_out=(1400, 15)),
        stats(20, 30, features=(300, 270), fan_out=(2300, 25)),
    ]
    found = observe_stages([root], [], 10, 20)
    assert found is not None
    assert found.leaf is None
    assert found.root is not None
    assert (found.root.requests, found.root.share("fan_out"), found.root.busy("features")) == (10, 0.9, 0.9)
    assert found.root.longest == "fan_out"
    assert observe_stages([root], [], 21, 30) is None


def test_the_stage_that_takes_the_time_comes_before_what_explains_nothing() -> None:
    """As of FeedSim, whose only finding was that a task was blocked."""
    feed = changed(
        CALM,
        cache=None,
        stages=observe_stages(
            [[stats(0, 1), stats(9, 11, fan_out=(9200, 90), features=(800, 700))]],
            [[stats(0, 1), stats(9, 101, backend=(9900, 0), score=(100, 90))]],
            0,
            9,
        ),
        blocked=q(1.0),
    )
    first, *notes = explain(feed)
    assert first.id == "request-stage"
    assert first.explained_ratio == pytest.approx(0.92)
    assert "92 % of a request's" in first.claim
    assert "fan out (waiting for the leaves)" in first.claim
    assert "99 % of a leaf's" in first.claim
    assert [note.id for note in notes] == ["blocked-elsewhere"]
    assert all(note.explained_ratio is None for note in notes)
    assert feed.headline.time == "a request's time"


def test_the_slow_path_of_a_cache_is_reported_with_its_share_and_once() -> None:
    slow = replace(CACHE, hit_ratio=q(0.9), slow_wait_ns=q(300_000.0), slow_service_ns=q(90_000.0))
    found = explain(replace(CALM, cache=slow, generator=replace(GENERATOR, response_mean_ns=q(100_000.0))))
    assert [finding.id for finding in found] == ["cache-misses"]
    # One in ten takes 390 us longer, of 100 us on average.
    assert found[0].explained_ratio == pytest.approx(0.39)
    assert found[0].merged == ("slow-queue",)
    assert len(found[0].also) == 1


def test_shares_of_cpu_time_count_as_much_as_the_cpus_worked() -> None:
    use = ProfileUse(1000, own={"spin": 0.5}, total={"spin": 0.5}, categories={"application": 1.0})
    watched = target(cpus=q(0.2), cpu_wait=q(0.0), busiest_wanted_ratio=q(0.2))
    found = {finding.id: finding for finding in explain(replace(watched, profile=use))}
    assert found["hot-function"].explained_ratio == pytest.approx(0.5 * 0.2)


def _fixed(name: str, value: float, weight: float, cause: str = "", explains: str = "time") -> Rule:
    finding = Finding(f"{name}.", (Evidence(name, value, "ratio"),), "x", weight)
    return Rule(name, "?", lambda: finding, "cpu", "x", explains, cause)


def test_order_notes_and_causes() -> None:
    rules = [
        _fixed("note", 0.9, 1.0, explains=""),
        _fixed("small", 0.1, 0.9, cause="one"),
        _fixed("large", 0.7, 0.1, cause="one"),
        _fixed("middle", 0.4, 0.1),
    ]
    found = explain(Conditions(Span(0, 1)), rules)
    assert [finding.id for finding in found] == ["large", "middle", "note"]
    assert found[0].also == ("small.",)
    assert [item.metric for item in found[0].evidence] == ["large", "small"]


def test_a_rule_explains_time_or_cpu_time_or_nothing() -> None:
    with pytest.raises(ValueError, match="unknown explains"):
        rule("odd", "?", area="cpu", threshold="none", explains="luck")(lambda: None)


def test_cpu_time_is_split_by_whose_doing_it_was() -> None:
    """``characterize -- sleep 1`` on a guest whose host took half of the time."""
    asleep = changed(
        target(cpus=q(0.002), cpu_wait=q(0.0), busiest_wanted_ratio=q(0.002), waits={"timer": 0.99}),
        all=cpus("all", (0, 1), user=0.3, system=0.06, steal=0.52),
        server=cpus("server", (0, 1), user=0.3, system=0.06, steal=0.52),
    )
    whose = asleep.usage.blame
    assert whose.own == pytest.approx(0.002)
    assert whose.neighbours == pytest.approx(0.718)
    assert whose.hypervisor == pytest.approx(1.04)
    pressed = intensities(asleep, None).cpu
    assert pressed.ratio == pytest.approx(0.001)
    assert not pressed.is_pressure_point
    assert "52 % stolen by the hypervisor" in pressed.evidence
    assert "other processes 36 % of 2 CPUs" in pressed.evidence
    findings = explain(asleep)
    assert "cpu" not in {point.part for point in pressure_points(asleep, findings)}
    steal = next(finding for finding in findings if finding.id == "steal")
    assert steal.blame == "hypervisor"


def test_what_neighbours_take_disturbs_and_is_no_pressure_point() -> None:
    disturbed = busy(
        target(cpus=q(0.5), cpu_wait=q(0.45), busiest_wanted_ratio=q(0.95), waits={}), user=0.9, system=0.08
    )
    findings = explain(disturbed)
    taken = next(finding for finding in findings if finding.id == "cpus-taken")
    assert taken.blame == "neighbours"
    assert "scheduler" not in {point.part for point in pressure_points(disturbed, findings)}


def test_without_a_program_what_ran_is_its_own_and_stolen_time_is_not() -> None:
    alone = changed(ALONE, target=None, all=cpus("all", (0, 1), user=0.4, steal=0.5), has_load=False)
    assert alone.usage.blame == CpuBlame(pytest.approx(0.8), None, pytest.approx(1.0))
    assert not [one for one in pressure_points(alone, explain(alone)) if one.part == "cpu"]


def test_figures_of_the_machine_are_named_so_beside_a_program() -> None:
    watched = figures(target(cpus=q(0.5)))
    assert watched["cpus_used"].value == 0.5
    assert {name for name in watched if "cpu_busy" in name} == {"machine_cpu_busy_ratio"}
    assert "cpu_busy_ratio" in figures(replace(ALONE, target=None))


def test_cpus_of_a_command_have_one_source() -> None:
    """0.444, 0.406 and 0.611 CPUs stood on one page, by looks, by getrusage and by counters."""
    looked = target(cpus=q(0.406)).target
    metrics = {"cpu_time_s": Metric(value=4.44, unit="s"), "elapsed_s": Metric(value=10.0, unit="s")}
    exact = with_exact_use(looked, metrics)
    assert exact is not None
    assert (exact.cpus.value, exact.cpus_source) == (pytest.approx(0.444), RUSAGE)
    assert with_exact_use(looked, {}) is looked
    assert with_exact_use(None, metrics) is None


def test_work_of_short_lived_processes_is_no_sleep() -> None:
    """A script that starts one short command after another used 0.985 CPUs, and "no resource limits it"."""
    looked = target(
        cpus=q(0.02), threads=1.95, running_ratio=0.014, waits={"child": 0.97}, busiest_wanted_ratio=q(0.02)
    )
    metrics = {"cpu_time_s": Metric(value=5.67, unit="s"), "elapsed_s": Metric(value=5.76, unit="s")}
    exact = replace(looked, target=with_exact_use(looked.target, metrics))
    found = {finding.id: finding for finding in explain(exact)}
    assert "mostly-asleep" not in found
    assert "97 % of the program's CPU time" in found["short-lived"].claim
    assert exact.target is not None
    assert "second look" in (exact.target.busiest_wanted_ratio.missing or "")
    # What its looks saw is not unseen.
    seen = replace(looked, target=replace(looked.target, running_ratio=0.5))
    seen = replace(seen, target=with_exact_use(seen.target, metrics))
    assert "short-lived" not in {finding.id for finding in explain(seen)}


def test_what_the_kernel_counted_of_a_command_stands_before_what_looks_saw() -> None:
    """A program that fills its memory at its end, after the last look."""
    looked = target(cpus=q(0.5), kernel_ratio=q(0.006))
    metrics = {
        "cpu_time_s": Metric(value=4.0, unit="s"),
        "elapsed_s": Metric(value=8.0, unit="s"),
        "minor_faults": Metric(value=16_000, unit="count"),
        "major_faults": Metric(value=0, unit="count"),
        "kernel_ratio": Metric(value=0.016, unit="ratio"),
    }
    exact = with_exact_use(looked.target, metrics)
    assert exact is not None
    assert exact.is_counted
    assert exact.minor_faults_per_s.value == 2_000
    # Bytes likewise: looks miss what was read before the first of them.
    disk = {"read_bytes": Metric(value=8_192, unit="bytes"), "written_bytes": Metric(value=0, unit="bytes")}
    disk |= {"times_on_cpu": Metric(value=16, unit="count")}
    unread = Quantity(None, "bytes/s", "not read")
    looked = target(read_bytes_per_s=Quantity(0.0, "bytes/s"), written_bytes_per_s=unread)
    read = with_exact_use(looked.target, metrics | disk)
    assert read is not None
    assert read.read_bytes_per_s == Quantity(1_024.0, "bytes/s")
    assert read.switches_per_s.value == 2
    # Where looks could not read them, a 0 may be that the kernel keeps no account.
    assert read.written_bytes_per_s.missing == "not read"
    assert exact.major_faults_per_s.value == 0
    assert exact.kernel_ratio.value == 0.016
