"""The search against a simulated benchmark, whose parameters are known."""

import statistics
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steelyard._base import UsageError, WorkloadFailedError
from steelyard.bench.parameters.ranges import SearchRange
from steelyard.benchmarks.tao.declaration import DECLARATION
from steelyard.benchmarks.tao.parameters import PARAMETERS
from steelyard.decide.fidelity.comparison import compare
from steelyard.decide.fidelity.workload import WorkloadProfile, measurement
from steelyard.tune.calibration.search import Calibrator, Plan, Tried, held_out_of, weights_of
from steelyard.tune.calibration.space import Searched, space_of
from steelyard.tune.calibration.surrogate import Surrogate

START = {"target_hit_ratio": 0.9, "depth": 1, "connections": 380}


class Cache:
    """A cache as the textbook has it: Little's law, a batch for each system call, misses that cost more."""

    def __init__(self, noise: float, seed: int = 1, fail_every: int = 0) -> None:
        self.random = np.random.default_rng(seed)
        self.noise = noise
        self.fail_every = fail_every
        self.runs = 0

    def profile(self, values: Mapping[str, Any]) -> WorkloadProfile:
        hit, depth, connections = (
            float(values[name]) for name in ("target_hit_ratio", "depth", "connections")
        )
        batch = 1 + 0.5 * (depth - 1)
        cost_ns = 2000 + 4000 / batch + 9000 * (1 - hit)
        throughput = 1e9 / cost_ns
        metrics = {
            "throughput_per_s": throughput,
            "cpu_per_request_ns": cost_ns,
            "cpu_kernel_ratio": (4000 / batch) / cost_ns,
            "cpu_user_ratio": 1 - (4000 / batch) / cost_ns,
            "context_switches_per_request": 0.05 + 1 / (3 * batch) + (1 - hit),
            "latency_p50_ns": connections * depth / throughput * 1e9,
            "latency_p99_ns": 1.7 * connections * depth / throughput * 1e9,
            "hit_ratio": hit,
            "requests_in_flight": connections * depth,
            "network_sent_bytes_per_s": throughput * 380,
        }
        measured = {}
        for name, value in metrics.items():
            factor = float(np.exp(self.noise * self.random.standard_normal()))
            measured[name] = measurement(
                name, min(value * factor, 1.0) if "ratio" in name else value * factor
            )
        return WorkloadProfile("cache", "run", measured)

    def __call__(self, settings: Mapping[str, str], number: int) -> Tried:
        self.runs += 1
        if self.fail_every and settings and number % self.fail_every == 0:
            return Tried(None, run_id=f"run-{number}", missing="the server did not start")
        values = {**START, **settings}
        return Tried(self.profile(values), dict(START), f"run-{number}")


def searched(*vary: str) -> list[Searched]:
    return space_of(PARAMETERS, DECLARATION.search, vary, [], owner="tao")


def plan(tmp_path: Path, target: WorkloadProfile, trials: int = 60, **more: Any) -> Plan:
    space = searched("target_hit_ratio", "depth", "connections")
    return Plan("tao", target, space, trials, more.pop("repeats", 4), 3, tmp_path, **more)


def test_a_target_made_with_other_parameters_comes_back(tmp_path: Path) -> None:
    aim = {"target_hit_ratio": 0.6, "depth": 4, "connections": 100}
    target = Cache(0.0).profile(aim)
    made = Calibrator(plan(tmp_path, target), Cache(0.02)).run()
    found = {each.name: float(each.after) for each in made.parameters}
    assert found["target_hit_ratio"] == pytest.approx(0.6, abs=0.06)
    assert found["depth"] * found["connections"] == pytest.approx(400, rel=0.35)
    before, after, held = made.searched.before, made.searched.after, made.held_out
    assert before is not None
    assert after is not None
    assert after.distance < 0.4 * before.distance
    assert held.before is not None
    assert held.after is not None
    assert held.after.distance < held.before.distance
    assert {each.name for each in made.metrics if each.is_held_out} == set(
        held_out_of([each.name for each in made.metrics], [])
    )


def test_the_model_needs_fewer_trials_than_proposals_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Journal 0208: with the model 12 trials come nearer than 24 without."""
    aim = {"target_hit_ratio": 0.6, "depth": 4, "connections": 100}
    target = Cache(0.0).profile(aim)

    def distance(trials: int, seed: int) -> float:
        made = Calibrator(replace(plan(tmp_path, target, trials), seed=seed), Cache(0.02, seed)).run()
        found = {each.name: float(each.after) for each in made.parameters}
        return compare(Cache(0.0).profile(found), target).overall.distance

    with_model = statistics.median(distance(12, seed) for seed in range(7))
    monkeypatch.setattr(Surrogate, "count", 0)
    without = statistics.median(distance(24, seed) for seed in range(7))
    assert with_model < 0.6 * without


def test_the_result_is_of_fresh_runs_and_the_same_seed_gives_the_same(tmp_path: Path) -> None:
    target = Cache(0.0).profile({"target_hit_ratio": 0.7, "depth": 2, "connections": 50})
    first = Calibrator(plan(tmp_path, target, 12), Cache(0.05)).run()
    again = Calibrator(plan(tmp_path, target, 12), Cache(0.05)).run()
    assert first == again
    assert first.repeats == 4
    best = min(trial.distance for trial in first.trials if trial.distance is not None)
    assert first.searched.after is not None
    assert first.searched.after.distance != best


def test_trials_that_fail_are_kept_with_their_reasons(tmp_path: Path) -> None:
    target = Cache(0.0).profile({"target_hit_ratio": 0.7, "depth": 2, "connections": 50})
    made = Calibrator(plan(tmp_path, target, 10, repeats=1), Cache(0.0, fail_every=6)).run()
    failed = [trial for trial in made.trials if trial.distance is None]
    assert failed
    assert {trial.missing for trial in failed} == {"the server did not start"}
    assert any("gave no distance: the server did not start" in said for said in made.cautions)
    assert any("fewer than 3 fresh runs" in said for said in made.cautions)


def test_a_run_that_neighbours_disturbed_is_made_again(tmp_path: Path) -> None:
    cache = Cache(0.0)

    def make(settings: Mapping[str, str], number: int) -> Tried:
        tried = cache(settings, number)
        return Tried(tried.profile, tried.parameters, tried.run_id, is_disturbed=number % 2 == 1)

    target = Cache(0.0).profile({"target_hit_ratio": 0.7, "depth": 2, "connections": 50})
    made = Calibrator(plan(tmp_path, target, 4, repeats=1), make).run()
    assert cache.runs == 2 * (3 + len(made.trials) + 2)
    assert not any("disturbed" in said for said in made.cautions)


def test_a_search_without_time_makes_one_trial_and_says_so(tmp_path: Path) -> None:
    target = Cache(0.0).profile({"target_hit_ratio": 0.7, "depth": 2, "connections": 50})
    made = Calibrator(plan(tmp_path, target, 10, repeats=1), Cache(0.0), is_over=lambda: True).run()
    assert len(made.trials) == 1
    assert "the search ended after 1 of 10 trials: its time was used up" in made.cautions


def test_a_benchmark_that_never_runs_is_an_error(tmp_path: Path) -> None:
    target = Cache(0.0).profile(START)
    with pytest.raises(WorkloadFailedError, match="gave no profile: no server"):
        Calibrator(plan(tmp_path, target), lambda settings, number: Tried(None, missing="no server")).run()


def test_noisy_metrics_are_worth_less() -> None:
    def run(throughput: float) -> WorkloadProfile:
        metrics = {"throughput_per_s": throughput, "hit_ratio": 0.9}
        return WorkloadProfile(
            "run", "run", {name: measurement(name, each) for name, each in metrics.items()}
        )

    weights = weights_of([run(100), run(150), run(120)])
    assert weights["hit_ratio"] == 1
    assert weights["throughput_per_s"] < 0.1


def test_metrics_are_held_out_by_rule_or_by_name() -> None:
    names = [
        "latency_p50_ns",
        "latency_p95_ns",
        "latency_p99_ns",
        "ipc",
        "cpu_user_ratio",
        "cpu_kernel_ratio",
    ]
    assert held_out_of(names, []) == ["cpu_kernel_ratio", "latency_p99_ns"]
    assert held_out_of(names, ["ipc"]) == ["ipc"]
    with pytest.raises(UsageError, match="--hold-out retiring_ratio"):
        held_out_of(names, ["retiring_ratio"])
    with pytest.raises(UsageError, match="every metric is held out"):
        held_out_of(["ipc"], ["ipc"])


@pytest.mark.parametrize(
    ("vary", "least", "most", "is_log"),
    [
        ("depth=2..8", 2, 8, False),
        ("depth=2..8:log", 2, 8, True),
        ("depth", 1, 16, True),
        ("memory=16MiB..64MiB:log", 16 << 20, 64 << 20, True),
    ],
)
def test_ranges_are_read(vary: str, least: float, most: float, is_log: bool) -> None:
    [one] = searched(vary)
    assert (one.range.least, one.range.most, one.range.is_log) == (least, most, is_log)


def test_values_are_read() -> None:
    [one] = searched("backend_delay=none,constant:1ms")
    assert one.range.choices == ("none", "constant:1ms")


@pytest.mark.parametrize(
    ("vary", "said"),
    [
        ("dept=1..2", "no parameter 'dept'.*did you mean depth"),
        ("depth=8..2", "the range is empty"),
        ("depth=0..2:log", "allowed is 1..1024"),
        ("depth=1..8:lin", "only :log"),
        ("depth=4", "a range"),
        ("io=auto..uring", "io is no number"),
        ("io=auto,quick", "allowed is auto"),
        ("keys", "declares no range"),
    ],
)
def test_ranges_that_are_none_are_refused(vary: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        searched(vary)


def test_without_vary_what_moves_a_metric_of_the_target_is_searched() -> None:
    found = space_of(PARAMETERS, DECLARATION.search, [], ["hit_ratio"], owner="tao")
    assert [each.name for each in found] == ["target_hit_ratio"]
    with pytest.raises(UsageError, match="declares no parameters"):
        space_of(PARAMETERS, DECLARATION.search, [], ["retiring_ratio"], owner="tao")
    with pytest.raises(UsageError, match="twice"):
        searched("depth", "depth=1..2")


def test_declared_ranges_are_of_parameters_and_metrics_that_exist() -> None:
    from steelyard.bench import declaration
    from steelyard.decide.fidelity.catalogue import CATALOGUE

    for entry in declaration.working():
        if not entry.search:
            continue
        known = {parameter.name: parameter for parameter in entry.load().parameters}
        for each in entry.search:
            assert set(each.moves) <= set(CATALOGUE), (entry.name, each.parameter)
            one = Searched(known[each.parameter], each)
            texts = each.choices or tuple(map(one.text, each.ends))
            for text in texts:
                known[each.parameter].parse(text)


def test_a_profile_compared_with_itself_is_where_the_search_would_end() -> None:
    target = Cache(0.0).profile(START)
    assert compare(target, target).overall.distance == 0
    assert SearchRange("depth", 1, 2).ends == (1, 2)
