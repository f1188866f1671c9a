"""Sentences that say why a number came out as it did, each with its evidence: asks the rules.

In: `Conditions`. Out: `Finding`s, what explains most of the headline first. No finding does not mean "no
problem", so `Conditions.missing` is reported beside the findings.

Rules of others are found by the entry point group ``steelyard.rules``, whose entries name modules that
register rules when they are imported:

    [project.entry-points."steelyard.rules"]
    mine = "my_package.rules"

Not here: the rules themselves (the other modules), and whether the result may be believed (``verdict``).
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path

from steelyard.analyze.conditions import Conditions
from steelyard.analyze.rules.findings import RULES, Finding, Rule
from steelyard.analyze.rules.ranking import ranked

GROUP = "steelyard.rules"


@cache
def load_rules() -> tuple[str, ...]:
    """Register the rules of every module of this folder, then those of others.

    Returns why rules of others could not be loaded.
    """
    for path in sorted(Path(__file__).parent.glob("[!_]*.py")):
        import_module(f"steelyard.analyze.rules.{path.stem}")
    problems = []
    for point in sorted(entry_points(group=GROUP), key=lambda each: each.name):
        try:
            point.load()
        except Exception as error:
            problems.append(f"rules {point.name} ({point.value}) cannot be loaded: {error}")
    return tuple(problems)


def explain(conditions: Conditions, rules: Iterable[Rule] | None = None) -> list[Finding]:
    """Return what the rules (all registered ones by default) conclude, ranked by `ranking.ranked`."""
    if rules is None:
        load_rules()
        rules = RULES.values()
    findings = []
    for each in rules:
        try:
            finding = each.ask(conditions)
        except Exception as error:
            if each.answer.__module__.startswith("steelyard."):
                raise
            # Somebody else's rule must not cost the report of what was measured.
            failed = f"Rule {each.id} of {each.answer.__module__} failed: {type(error).__name__}: {error}."
            finding = Finding(failed, (), "Fix or remove the rule.", 0.0)
        if finding is not None:
            findings.append((replace(finding, id=each.id, area=each.area, threshold=each.threshold), each))
    return ranked(findings, conditions.headline)
