"""``steelyard machine counters``.

In: the name of a machine, a scope, metrics. Out: a table, one JSON document, and a plan for
``steelyard-probe record --counters``. Not here: choosing (``analyze.counters.choice``).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from steelyard._base import EnvironmentLacksError, ExitCode
from steelyard.analyze.counters.choice import choose
from steelyard.cli.machine.inventory import find
from steelyard.cli.output import print_json, show_answer
from steelyard.records import write


def show_counters(
    name: str,
    out: Path,
    *,
    scope: str,
    metrics: Sequence[str],
    plan: Path | None,
    checkout: Path | None,
    as_json: bool,
) -> int:
    """Print what can be counted on a machine; write the plan of it where one is asked for.

    Raises EnvironmentLacksError for a plan without an event.
    """
    among = None
    if checkout is not None:
        from steelyard.analyze.counters.checkouts import load_definitions

        among = load_definitions(checkout)
    choice = choose(find(name, out), scope, metrics or None, among=among)
    if plan is not None:
        if not choice.plan.events:
            reason = next(iter(choice.missing.values()), "none was requested")
            raise EnvironmentLacksError(f"no event can be counted here: {reason}")
        write(choice.plan, plan)
    if as_json:
        definition = choice.definition
        print_json(
            {
                "machine": name,
                "definition": {
                    "id": definition.id,
                    "name": definition.name,
                    "reason": choice.reason,
                    "sources": list(definition.sources),
                    "checked": definition.checked or None,
                },
                "scope": choice.scope,
                "metrics": [
                    {
                        "name": each.name,
                        "unit": each.unit or None,
                        "meaning": each.meaning or None,
                        "formula": each.formula,
                        "source": each.source,
                        "events": list(each.events),
                        "missing": each.missing,
                    }
                    for each in choice.metrics
                ],
                "plan": choice.plan.model_dump(mode="json"),
            }
        )
    else:
        from steelyard.report.counters.definitions_table import answer

        show_answer(answer(choice), None)
        if plan is not None:
            print(f"plan written to {plan}", file=sys.stderr)
    return int(ExitCode.OK)
