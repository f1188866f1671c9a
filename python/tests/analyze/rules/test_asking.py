"""How rules are found, registered and asked: each names the facts that it needs by its parameters."""

from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import EntryPoint
from typing import Any

import pytest

from steelyard.analyze.facts.cpus import Cpus
from steelyard.analyze.facts.memory import MemoryUse
from steelyard.analyze.pressure.threads import TargetUse
from steelyard.analyze.rules import explain as asking
from steelyard.analyze.rules.explain import explain
from steelyard.analyze.rules.findings import RULES, Evidence, Finding, Rule, rule, threshold_rule
from steelyard.analyze.rules.needs import known_facts
from tests.analyze.rules.test_rules import CALM, q


def test_rules_of_others_come_by_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [
        EntryPoint("good", "string:Template", asking.GROUP),
        EntryPoint("bad", "no_such_module_here", asking.GROUP),
    ]
    monkeypatch.setattr(asking, "entry_points", lambda group: points)
    (problem,) = asking.load_rules.__wrapped__()
    assert "rules bad (no_such_module_here) cannot be loaded" in problem


FOUND = Finding("Something.", (), "Look.", 0.5)


def broken(cpus: Cpus) -> None:
    raise ValueError("no such thing")


def test_a_broken_rule_of_others_costs_nothing_but_itself() -> None:
    found = explain(CALM, [Rule("theirs", "?", broken)])
    assert [finding.id for finding in found] == ["theirs"]
    assert "no such thing" in found[0].claim


def of_everything(conditions: Any) -> None: ...


def of_a_wrong_type(memory: TargetUse) -> None: ...


def of_any_number(**facts: Any) -> None: ...


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (of_everything, "there is no fact 'conditions' .known: activity, .*usage"),
        (of_any_number, "there is no fact 'facts'"),
        (lambda all_cpus: None, "there is no fact 'all_cpus'"),
        (of_a_wrong_type, "the fact 'memory' is no .*TargetUse.*: it is .*MemoryUse"),
    ],
)
def test_a_rule_that_names_no_fact_is_refused_when_it_is_registered(
    answer: Callable[..., None], why: str
) -> None:
    with pytest.raises(ValueError, match=f"rule odd: {why}"):
        rule("odd", "?", area="cpu", threshold="none")(answer)
    assert "odd" not in RULES


def test_a_figure_that_names_no_fact_is_refused_too() -> None:
    with pytest.raises(ValueError, match="rule odd: there is no fact 'c' "):
        threshold_rule(
            *("odd", "?", lambda c: 1.0, ("x", "1", 0.0), "X.", "Look.", 0.5),
            gain="none",
            area="cpu",
            threshold="none",
        )


def test_a_rule_gets_the_facts_that_it_names() -> None:
    def sees(memory: MemoryUse, has_load: bool, target: TargetUse | None) -> Finding:
        assert (memory, has_load, target) == (CALM.memory, CALM.has_load, CALM.target)
        return FOUND

    assert Rule("theirs", "?", sees).ask(CALM) is FOUND


def needs_memory(memory: MemoryUse) -> Finding:
    return FOUND


def takes_memory(memory: MemoryUse | None) -> Finding:
    return replace(FOUND, evidence=(Evidence("memory known", float(memory is not None), "1"),))


@pytest.mark.parametrize("answer", [needs_memory, lambda memory: FOUND])
def test_a_rule_whose_fact_is_absent_is_not_asked(answer: Callable[..., Finding]) -> None:
    assert Rule("theirs", "?", answer).ask(CALM) is FOUND
    assert Rule("theirs", "?", answer).ask(replace(CALM, memory=None)) is None


def test_a_rule_that_can_do_without_a_fact_is_asked() -> None:
    ask = Rule("theirs", "?", takes_memory).ask
    values = []
    for memory in (CALM.memory, None):
        finding = ask(replace(CALM, memory=memory))
        assert finding is not None
        values.append(finding.evidence[0].value)
    assert values == [1.0, 0.0]


def test_facts_are_followed_where_conditions_change() -> None:
    assert CALM.target is not None
    busier = replace(CALM, target=replace(CALM.target, cpus=q(1.5)))
    assert (CALM.usage.own_cpus, busier.usage.own_cpus) == (0.5, 1.5)
    assert busier.headline.usage is busier.usage


def test_every_fact_is_named_by_a_rule_but_those_of_reports_and_of_other_facts() -> None:
    asking.load_rules()
    named = {need.name for each in RULES.values() for need in each.needs}
    assert set(known_facts()) - named == {"missing", "load_counters", "own_cpu"}
