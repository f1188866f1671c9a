"""Shares and gains of a page have one base each, which the sentence says."""

from dataclasses import replace
from typing import Any

import pytest

from steelyard.analyze import explain
from steelyard.analyze.facts.disks import DiskUse
from steelyard.analyze.facts.pressure import PressureUse
from steelyard.analyze.pressure.threads import CPU
from tests.analyze.rules.test_rules import q, sampled, target


def test_the_largest_function_of_a_category_stands_with_its_own_share() -> None:
    """A tenth of a category is not most of it."""
    (finding,) = explain(
        sampled(
            categories={"kernel_network": 0.57},
            leaders={"kernel_network": "tcp_sendmsg"},
            leader_ratios={"kernel_network": 0.076},
        )
    )
    assert (
        finding.claim
        == "57 % of the CPU time is in the kernel's network stack; the largest is tcp_sendmsg, 7.6 %."
    )


@pytest.mark.parametrize(
    ("changes", "rule_id", "gain"),
    [
        # 51.5 % of the threads' time, though 94 % of that in which they could run.
        ({"cpus": q(0.03), "cpu_wait": q(0.5), "waiting_ratio": 0.515}, "cpus-taken", "2.1 x"),
        ({"waits": {"disk": 0.453}, "waiting_ratio": 0.515}, "waits-for-disk", "1.8 x"),
        ({"waits": {"network": 0.453}, "waiting_ratio": 0.515}, "waits-for-network", "1.8 x"),
        ({"waits": {"kernel lock": 0.453}, "waiting_ratio": 0.515}, "kernel-locks", "1.8 x"),
        (
            {
                "waits": {"lock": 0.453},
                "waiting_ratio": 0.515,
                "lock_switches_per_s": q(9.0),
                "threads": 4.0,
                "threads_high": 4,
                "lock_threads": 3,
                "cpus": q(0.5),
            },
            "lock-contention",
            "1.8 x",
        ),
    ],
)
def test_gains_are_of_all_of_the_threads_time(changes: dict[str, Any], rule_id: str, gain: str) -> None:
    (finding,) = [one for one in explain(target(**changes)) if one.id == rule_id]
    assert finding.gain.startswith(f"at most {gain}"), finding.gain
    # The claim has the same share that the gain is of, or the CPUs.
    assert f"{100 * (finding.explained_ratio or 0):.0f} %" in finding.claim or "got 0.03" in finding.claim


def test_a_gain_is_bounded_by_the_threads_that_wait_not_by_those_that_sleep() -> None:
    """A pipeline whose stages wait for a CPU is held up by all of that, however many of its threads sleep."""
    changes = {"cpus": q(0.9), "cpu_wait": q(0.4), "waiting_ratio": 0.04}
    taken = {one.id: one for one in explain(target(**changes, left={CPU: 0.6}))}["cpus-taken"]
    assert taken.gain.startswith("at most 1.7 x"), taken.gain
    assert "could use 1.30 CPUs and got 0.90" in taken.claim
    # More than all CPUs of the machine it cannot use.
    most = {one.id: one for one in explain(target(**changes, left={CPU: 0.2}))}
    assert most["cpus-taken"].gain.startswith("at most 2.2 x"), most["cpus-taken"].gain
    # A stage that runs half of the time still does so where nothing takes its CPU.
    stage = {one.id: one for one in explain(target(**changes, left={CPU: 0.2}, busiest_running_ratio=0.5))}
    assert stage["cpus-taken"].gain.startswith("at most 2.0 x"), stage["cpus-taken"].gain


def test_gains_of_cpu_time_have_the_same_base() -> None:
    """A third of the CPU time of threads that run half of their time is a sixth of it."""
    hot = replace(sampled(own={"work": 0.6}), target=target(running_ratio=0.5).target)
    (finding,) = [one for one in explain(hot) if one.id == "hot-function"]
    assert finding.gain.startswith("at most 1.4 x")


def test_waits_of_any_task_for_a_disk_gain_what_the_threads_waits_do() -> None:
    """One page has one base, whichever figure a finding rests on."""
    busy = DiskUse("vda", q(1e5), q(1e5), q(0.6))
    calm = target(waits={"disk": 0.34}, waiting_ratio=0.1)
    conditions = replace(calm, disks=[busy], pressure={"io": PressureUse(q(0.53), q(0.1))})
    found = {one.id: one.gain for one in explain(conditions)}
    assert found["waits-for-disk"].startswith("at most 1.5 x"), found
    # The machine's pressure is a mean over CPUs: of a program whose own waits are known it says nothing more.
    assert "pressure" not in found
    unwatched = {one.id for one in explain(replace(conditions, target=None, has_load=False))}
    assert "pressure" in unwatched


def test_an_artefact_of_sampling_is_not_called_the_largest() -> None:
    (finding,) = explain(
        sampled(
            categories={"kernel_scheduling": 0.3},
            leaders={"kernel_scheduling": "finish_task_switch"},
            leader_ratios={"kernel_scheduling": 0.3},
        )
    )
    assert "largest" not in finding.claim


def test_the_share_and_the_gain_of_work_have_one_base() -> None:
    """Of a program that mostly waits for a CPU, all of the time is work: 90 % of that is 90 % of it."""
    busy = target(cpus=q(0.1), cpu_wait=q(0.9), waiting_ratio=0.9, running_ratio=0.1).target
    hot = replace(sampled(own={"work": 0.9}), target=busy)
    (finding,) = [one for one in explain(hot) if one.id == "hot-function"]
    assert finding.explained_ratio == pytest.approx(0.9)
    assert finding.gain.startswith("at most 10 x")
