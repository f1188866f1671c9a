"""What a NUMA experiment says, in words, and its plan on a terminal.

In: the record and its verdicts; scenarios that are only planned. Out: text, and a renderable for a `rich`
console. Not here: tables and charts (``scenarios_answer``).
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from steelyard.experiment.numa.production import Agreement, Cost
from steelyard.experiment.numa.scenarios import SOLO, Scenarios
from steelyard.experiment.numa.verdict import Matters, Performance, Verdict
from steelyard.fleet.numa.locality import Locality
from steelyard.records.experiment import ExperimentTrial
from steelyard.report import format as fmt
from steelyard.report.experiment.words import change
from steelyard.report.terminal import safe


def headline(verdict: Verdict) -> str:
    """Return the verdict in words."""
    title = verdict.cluster.title
    match verdict.matters:
        case Matters.LOCALITY | Matters.CACHE:
            return f"{title}: {verdict.matters} matters more: {verdict.why}"
        case Matters.UNDECIDED:
            return f"{title}: undecided: {verdict.why}{_more(verdict)}"
        case Matters.NEITHER:
            return f"{title}: neither matters: {verdict.why}"
        case Matters.OTHER:
            return f"{title}: {verdict.why}"


def _more(verdict: Verdict) -> str:
    needed = [pair.answer.blocks_needed for pair in verdict.pairs if pair.answer.blocks_needed]
    have = [pair.answer.blocks for pair in verdict.pairs]
    return f"; about {max(needed)} blocks would decide" if needed and max(needed) > min(have) else ""


def pair_text(pair: Performance) -> str:
    """Return the change of performance with its interval."""
    if pair.ratio is None:
        return fmt.MISSING
    if pair.low is None or pair.high is None:
        return change(pair.ratio)
    return f"{change(pair.ratio)} ({change(pair.low)} to {change(pair.high)})"


def proof(trials: Sequence[ExperimentTrial], arm: str) -> str:
    """Return where threads and pages of an arm were read back, over all its trials with a value."""
    own = [trial.read_back for trial in trials if trial.arm == arm and trial.value is not None]
    known = [each for each in own if each is not None]
    if not known:
        return fmt.MISSING
    total: dict[str, int] = {}
    for each in known:
        for node, size in each.bytes_per_node.items():
            total[node] = total.get(node, 0) + size
    whole = sum(total.values()) or 1
    shares = ", ".join(
        f"{share / whole:.0%} on node {node}" for node, share in sorted(total.items(), key=lambda it: -it[1])
    )
    return f"{max(each.threads for each in known)} threads, pages {shares}"


def cost_text(cost: Cost) -> str:
    """Return a cost as a change with its interval."""
    if cost.low is None or cost.high is None:
        return change(cost.ratio)
    return f"{change(cost.ratio)} ({change(cost.low)} to {change(cost.high)})"


def production_line(locality: Locality, agreements: Sequence[Agreement]) -> str:
    """Return in words whether production and laboratory agree."""
    if not agreements:
        return f"{locality.job}: no scenario to compare production with"
    words = {each.agrees for each in agreements}
    latest = agreements[-1]
    if len(words) == 1:
        return f"{locality.job}: production and laboratory {_says(latest)}: {latest.why}"
    agreement = "; ".join(f"scenario {each.scenario}: {_says(each)}" for each in agreements)
    return f"{locality.job}: production and laboratory: {agreement}"


def _says(each: Agreement) -> str:
    return "are undecided" if each.agrees == "undecided" else str(each.agrees)


def render_plan(scenarios: Scenarios, command: Sequence[str], co_runners: Sequence[str]) -> RenderableType:
    """Return the scenarios of a machine, with the command line of each."""
    parts: list[RenderableType] = [
        Text(
            f"Nodes {scenarios.first_node} and {scenarios.second_node}, distance {scenarios.distance};"
            f" {scenarios.cores} cores for X"
        )
    ]
    table = Table(
        "scenario",
        "CPUs of X",
        "memory of X",
        "local",
        "caches",
        "score",
        "CPUs of Y",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    for each in scenarios.scenarios:
        table.add_row(
            str(each.scenario),
            each.cpus,
            f"node {each.memory_node}",
            f"{each.local_ratio:.0%}",
            fmt.MISSING if each.caches is None else str(each.caches),
            fmt.MISSING if each.score is None else f"{each.score:.2f}",
            each.co_runner_cpus or fmt.MISSING,
        )
    parts.append(table)
    for each in scenarios.scenarios:
        there = f"steelyard-exec --cpus {each.cpus} --memory-nodes {each.memory_node} --"
        line = f"{each.scenario}  {there} {shlex.join(command)}"
        parts.append(safe(line))
        if each.scenario not in SOLO:
            beside = f"steelyard-exec --cpus {each.co_runner_cpus} --"
            parts += [safe(f"   beside {beside} {co_runner}") for co_runner in co_runners]
    parts += [safe(f"!  {note}") for note in scenarios.notes]
    return Group(*parts)
