"""Findings name those whose doing they are: what the kernel counts for a machine is not one program's."""

from dataclasses import replace

from steelyard.analyze import explain
from tests.analyze.rules.test_rules import TROUBLED, activity, q


def test_what_the_machine_counts_is_not_laid_at_the_programs_door() -> None:
    # Its own program starts nothing and hardly switches.
    crowd = replace(activity(forks_per_s=q(900.0)), context_switches_per_s=q(200_000.0))
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
        "3 of 4 threads sleep in futex, 70 % of the time of all threads, and are put"
    )
