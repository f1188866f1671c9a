"""Rules that read counters: each on counts that it objects to and on counts just short of that."""

import ast
from dataclasses import replace
from pathlib import Path

import pytest

from steelyard.analyze import Conditions, explain
from steelyard.analyze.counters.definitions import definitions
from steelyard.analyze.counters.events import EventCounts, canonical
from steelyard.analyze.counters.iron_law import Counts, iron_law
from steelyard.analyze.counters.metrics import MetricValue
from steelyard.analyze.counters.topdown import Node, TopDown
from steelyard.analyze.counters.use import CounterUse
from steelyard.analyze.rules import counters as counter_rules
from steelyard.analyze.rules.explain import load_rules
from steelyard.analyze.rules.findings import RULES
from tests.analyze.rules.test_rules import CALM
from tests.health_samples import golden


def node(name: str, ratio: float | None, *children: Node) -> Node:
    missing = None if ratio is not None else "not counted"
    return Node(name, "", ratio, ratio or 0.0, 1.0 if ratio is None else ratio, missing, False, (), children)


def tree(**level_1: float | None) -> TopDown:
    return TopDown(
        "a processor", "a document", 1e9, tuple(node(name, ratio) for name, ratio in level_1.items())
    )


def counted(
    slots: TopDown | None = None, events: dict[str, float] | None = None, used: float = 1.5, **metrics: float
) -> Conditions:
    counts = Counts(instructions=1e9, cycles=1e9, operations=None, duration_s=1.0, cpu_s=used)
    use = CounterUse(
        iron_law(counts),
        counts,
        source="a file",
        events=EventCounts(events or {}, {}, {}),
        metrics={name: MetricValue(name, value, "1") for name, value in metrics.items()},
        top_down=slots,
    )
    return replace(CALM, counters=use)


def memory_bound(ratio: float) -> TopDown:
    return TopDown("p", "d", 1e9, (node("backend_bound", 0.9, node("memory_bound", ratio)),))


CASES: dict[str, tuple[Conditions, Conditions]] = {
    "frontend-bound-code": (
        counted(tree(frontend_bound=0.3), l1i_mpki=25.0, itlb_mpki=1.0),
        counted(tree(frontend_bound=0.3), l1i_mpki=9.0, itlb_mpki=0.4),
    ),
    "branch-mispredicts": (
        counted(tree(bad_speculation=0.2), branch_mpki=8.0),
        counted(tree(bad_speculation=0.2), branch_mpki=2.0),
    ),
    "memory-bound-slots": (counted(memory_bound(0.5)), counted(memory_bound(0.19))),
    "dtlb-walks": (counted(dtlb_mpki=8.0, ipc=1.0), counted(dtlb_mpki=3.0, ipc=1.0)),
    "few-instructions-per-clock": (counted(ipc=0.13), counted(ipc=0.13, used=0.2)),
    "remote-memory-loads": (
        counted(
            events={
                "mem_load_l3_miss_retired.remote_dram": 1e6,
                "mem_load_l3_miss_retired.local_dram": 1e6,
            }
        ),
        counted(
            events={
                "mem_load_l3_miss_retired.remote_dram": 1e5,
                "mem_load_l3_miss_retired.local_dram": 1e5,
            }
        ),
    ),
    "smt-contention": (counted(tree(smt_contention=0.3)), counted(tree(smt_contention=0.1))),
    "retiring-bound": (counted(tree(retiring=0.8)), counted(tree(retiring=0.6))),
}


def test_every_rule_about_counters_has_a_case_here() -> None:
    load_rules()
    assert set(CASES) == {
        name for name, one in RULES.items() if one.answer.__module__ == "steelyard.analyze.rules.counters"
    }


@pytest.mark.parametrize("name", sorted(CASES))
def test_a_rule_about_counters_speaks_of_its_trouble_alone(name: str) -> None:
    troubled, near = CASES[name]
    (finding,) = explain(troubled)
    assert finding.id == name
    assert finding.claim.endswith(".")
    assert finding.evidence
    assert finding.gain
    assert finding.next_step
    assert explain(near) == []


@pytest.mark.parametrize("name", sorted(CASES))
def test_what_is_withheld_says_nothing(name: str) -> None:
    use = CASES[name][0].counters
    assert use is not None
    withheld = replace(
        use,
        top_down=None if use.top_down is None else tree(**{node.name: None for node in use.top_down.level_1}),
        metrics={key: replace(each, value=None, missing="no") for key, each in use.metrics.items()},
        events=EventCounts({}, {}, {}),
    )
    assert explain(replace(CALM, counters=withheld)) == []


def test_memory_bandwidth_is_the_limit_only_where_it_was_measured_as_such() -> None:
    health = golden()
    assert health.memory_bandwidth is not None
    best = max(
        row.rate_bytes_per_s.median
        for row in health.memory_bandwidth.rows
        if row.rate_bytes_per_s is not None
    )
    for share, part, word in ((0.9, "dram_bandwidth", "bandwidth is the limit"), (0.2, None, "latency")):
        conditions = counted(memory_bound(0.5), memory_bytes_per_s=best * share)
        [finding] = [
            one for one in explain(replace(conditions, health=health)) if one.id == "memory-bound-slots"
        ]
        assert finding.part == part
        assert word in finding.claim


def test_another_nodes_generic_events() -> None:
    [finding] = explain(counted(events={"node-loads": 4e6, "node-load-misses": 2e6}))
    assert finding.id == "remote-memory-loads"
    assert finding.evidence[0].value == 0.5


def test_what_rules_ask_for_is_counted_by_a_shipped_definition() -> None:
    shipped = list(definitions().values())
    events = {canonical(name)[0] for definition in shipped for name in definition.events}
    for pair in counter_rules.REMOTE_EVENTS:
        assert set(pair) <= events
    # The others are read from files of perf stat only.
    assert not {name for pair in counter_rules.REMOTE_EVENTS_OF_FILES for name in pair} & events
    # The shares of remote loads are a metric too, wherever its events are.
    for definition in shipped:
        has = any(
            set(pair) <= {canonical(name)[0] for name in definition.events}
            for pair in counter_rules.REMOTE_EVENTS
        )
        assert has == ("remote_memory_ratio" in definition.metrics), definition.id
    metrics = {name for definition in shipped for name in definition.metrics}
    asked = {
        call.args[1].value
        for path in Path(counter_rules.__file__).parent.glob("*.py")
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id == "metric"
        and isinstance(call.args[1], ast.Constant)
    }
    assert "llc_mpki" in asked
    assert asked <= metrics
