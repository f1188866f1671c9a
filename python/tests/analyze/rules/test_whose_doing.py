"""Findings name those whose doing they are: what the kernel counts for a machine is not one program's."""

from dataclasses import replace

import pytest

from steelyard.analyze import explain
from steelyard.analyze.rules.findings import without_work
from tests.analyze.facts import changed
from tests.analyze.rules.test_rules import DISK, TROUBLED, activity, disk, event, q, sampled, target


def test_what_the_machine_counts_is_not_laid_at_the_programs_door() -> None:
    # Its own program starts nothing and hardly switches.
    crowd = changed(activity(forks_per_s=q(900.0)), context_switches_per_s=q(200_000.0))
    found = {finding.id: finding for finding in explain(crowd)}
    assert "those of other programs among them" in found["forks"].claim
    assert found["forks"].blame == "unknown"
    assert "switches" not in found
    alone = {finding.id: finding for finding in explain(replace(crowd, target=None))}
    assert alone["forks"].claim == "900 processes or threads start per second."
    assert "switches" in alone


def test_threads_that_wait_for_a_lock_are_counted_without_those_that_do_not() -> None:
    (finding,) = explain(TROUBLED["lock-contention"])
    assert finding.claim.startswith(
        "3 of 4 threads sleep in futex time and again, 70 % of the time of all threads, and are put"
    )


def test_cpus_that_others_keep_busy_are_not_the_programs_limit() -> None:
    mine = TROUBLED["cpu-bound"]
    assert mine.target is not None
    crowded = replace(mine, target=replace(mine.target, cpus=q(0.2), cpu_wait=q(1.8)))
    own, others = (next(one for one in explain(seen) if one.id == "cpu-bound") for seen in (mine, crowded))
    assert "other processes" not in own.claim
    assert others.claim.endswith("Most of that is other processes' work: the program got 0.2.")
    assert others.gain == "not known: what it would do alone was not measured"


def test_who_has_less_work_waits_less_for_a_cpu() -> None:
    # 74 % of the work of a thread that has a CPU in 39 % of its time, and waits for one in the rest.
    half = replace(TROUBLED["cpu-bound"], target=None)
    mine = TROUBLED["cpu-bound"].target
    assert mine is not None
    crowded = replace(half, target=replace(mine, cpus=q(0.39), cpu_wait=q(0.61)))
    assert without_work(crowded.headline, 0.74) == "at most 3.8 x"
    alone = replace(half, target=replace(mine, cpus=q(0.39), cpu_wait=q(0.0)))
    assert without_work(alone.headline, 0.74) == "at most 1.4 x"


def test_of_an_interpreted_program_its_own_function_is_named() -> None:
    own = {"py::distance:hot.py": 0.4, "unicodekeys_lookup_unicode": 0.29}
    seen = sampled(
        categories={"runtime_interpreter": 0.8},
        leaders={"runtime_interpreter": "unicodekeys_lookup_unicode"},
        leader_ratios={"runtime_interpreter": 0.29},
        own=own,
        total={"py::distance:hot.py": 0.9, "unicodekeys_lookup_unicode": 0.29},
    )
    found = {finding.id: finding for finding in explain(seen)}
    assert "distance" in found["interpreter"].claim
    assert "40 % itself and 90 % with what it calls" in found["interpreter"].claim
    assert "unicodekeys" not in found["interpreter"].claim


def test_waits_while_the_disk_is_idle_are_no_limit_of_the_disk() -> None:
    waiting = target(waits={"disk": 0.8}, places={"folio_wait_bit_common": 1.0})
    busy = replace(waiting, activity=replace(waiting.activity, disks=[replace(DISK, busy_ratio=q(0.7))]))
    (mine,) = [one for one in explain(busy) if one.id == "waits-for-disk"]
    assert mine.part == "disk_latency"
    assert "something else" not in mine.claim
    # The fixture's disk is busy 5 % of the time.
    (other,) = [one for one in explain(waiting) if one.id == "waits-for-disk"]
    assert other.part is None
    assert "The disk is busy" in other.claim
    assert "most of the waits are for something else" in other.claim


def test_a_program_that_waits_for_cpus_is_not_limited_by_its_disk() -> None:
    """One twelfth of the time at the disk, most of the rest for a CPU."""
    waiting = target(waits={"disk": 0.08}, waiting_ratio=0.84, places={"folio_wait_bit_common": 1.0})
    found = {one.id: one for one in explain(waiting)}
    assert found["waits-for-disk"].part is None


def test_one_thread_that_sleeps_in_futex_contends_with_nobody() -> None:
    """A worker on a condition variable "waits for the same lock, gain at most 20 x"."""
    asleep = {"threads_high": 2, "waits": {"lock": 0.9}, "lock_switches_per_s": q(100.0), "cpus": q(0.01)}
    found = {one.id for one in explain(target(**asleep, lock_threads=1))}
    assert not found & {"lock-contention", "idle-in-futex"}
    (pool,) = [one for one in explain(target(**asleep, lock_threads=2)) if "futex" in one.claim]
    assert pool.id == "idle-in-futex"
    assert pool.part is None
    assert "wait for work" in pool.claim


def test_small_operations_one_after_another_are_limited_by_their_latency() -> None:
    """A writer with one operation in flight was "limited by their number": two did twice as many."""
    busy = {"operations_per_s": q(16_000.0), "operation_bytes": q(6e3), "busy_ratio": q(0.63)}
    for queue, said in ((0.7, "one after another (0.7 in flight)"), (20.0, "limited by their number")):
        found = {one.id: one for one in explain(disk(**busy, queue=q(queue)))}
        assert said in found["small-operations"].claim


def test_a_kill_with_memory_left_is_a_groups_limit_and_no_pressure() -> None:
    """A neighbour's control group at its limit made "memory capacity" a pressure point."""
    killed = event(oom_kill=0.1)
    assert killed.memory is not None
    total = killed.memory.total_bytes.value
    assert total is not None
    roomy = replace(killed, memory=replace(killed.memory, used_high_bytes=q(0.06 * total)))
    full = replace(killed, memory=replace(killed.memory, used_high_bytes=q(0.97 * total)))
    (group,), (machine,) = (
        [one for one in explain(seen) if one.id == "killed-for-memory"] for seen in (roomy, full)
    )
    assert group.part is None
    assert "at the memory limit of a control group" in group.claim
    assert machine.part == "dram_capacity"


def test_a_thread_that_waits_for_the_cpu_of_others_is_not_limited_by_its_own_speed() -> None:
    mine = {"cpus": q(0.05), "cpu_wait": q(0.9), "busiest_wanted_ratio": q(0.95), "waits": {}}
    starved = target(**mine, busiest_running_ratio=0.05)
    runs = target(**mine, busiest_running_ratio=0.9)
    assert "one-thread" not in {one.id for one in explain(starved)}
    assert "one-thread" in {one.id for one in explain(runs)}


def test_of_the_kernels_time_the_whole_explains_no_less_than_a_part() -> None:
    """Three quarters of the CPU time in storage explained 31 %, all of the kernel's 27 %."""
    seen = sampled(categories={"kernel_storage": 0.75})
    assert seen.target is not None
    own = replace(seen.target, kernel_ratio=q(0.99), cpus=q(0.27), cpu_wait=q(0.14))
    seen = changed(seen, target=own, server=TROUBLED["cpu-bound"].cpus.all)
    found = {one.id: one for one in explain(seen)}
    whole, part = found["kernel-heavy"], found["kernel-storage"]
    assert whole.explained_ratio == pytest.approx(0.99 * 0.41)
    assert part.explained_ratio == pytest.approx(0.75 * 0.41)


def test_one_thread_has_no_advice_on_hand_offs() -> None:
    seen = sampled(categories={"kernel_scheduling": 0.3})
    assert seen.target is not None
    steps = {
        threads: next(
            one.next_step
            for one in explain(replace(seen, target=replace(seen.target, threads=threads)))
            if one.id == "kernel-scheduling"
        )
        for threads in (1.0, 8.0)
    }
    assert "hand-offs" not in steps[1.0]
    assert "hand-offs" in steps[8.0]
