"""What a NUMA experiment says, in words, and its plan.

In: the record and its verdicts; scenarios that are only planned. Out: text, and an `Answer`. Not here: tables
and charts of what was found (``scenarios_answer``).
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from steelyard.experiment.numa.production import Agreement, Cost
from steelyard.experiment.numa.scenarios import SOLO, Scenarios
from steelyard.experiment.numa.verdict import Matters, Performance, Verdict
from steelyard.fleet.numa.locality import Locality
from steelyard.records.experiment import ExperimentTrial
from steelyard.report import format as fmt
from steelyard.report.answer import Answer, Column, Remark, Remarks, Section, table, written
from steelyard.report.experiment.words import change, within


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
    return within(pair.ratio, pair.low, pair.high)


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
    return within(cost.ratio, cost.low, cost.high)


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


def plan_answer(scenarios: Scenarios, command: Sequence[str], co_runners: Sequence[str]) -> Answer:
    """Return the scenarios of a machine, with the command line of each."""
    columns = (
        Column("scenario", is_text=True),
        Column("CPUs of X", is_text=True, is_answer=True),
        Column("memory of X", is_text=True),
        Column("local", "ratio"),
        Column("caches", "1", rank=1),
        Column("score", rank=1),
        Column("CPUs of Y", is_text=True),
    )
    rows = [
        (
            str(each.scenario),
            each.cpus,
            f"node {each.memory_node}",
            written(f"{each.local_ratio:.0%}", each.local_ratio),
            each.caches,
            None if each.score is None else written(f"{each.score:.2f}", each.score),
            each.co_runner_cpus or fmt.MISSING,
        )
        for each in scenarios.scenarios
    ]
    lines = []
    for each in scenarios.scenarios:
        there = f"steelyard-exec --cpus {each.cpus} --memory-nodes {each.memory_node} --"
        beside = f"steelyard-exec --cpus {each.co_runner_cpus} --"
        others = () if each.scenario in SOLO else tuple(("beside", f"{beside} {one}") for one in co_runners)
        lines.append(Remark(f"{there} {shlex.join(command)}", str(each.scenario), details=others))
    heading = (
        f"Nodes {scenarios.first_node} and {scenarios.second_node}, distance {scenarios.distance};"
        f" {scenarios.cores} cores for X"
    )
    return Answer(
        "NUMA experiment, planned",
        heading,
        [
            Section("scenarios", "Scenarios", (table(columns, rows),)),
            Section("commands", "Commands", (Remarks(tuple(lines)),)),
        ],
        cautions=scenarios.notes,
        eyebrow="NUMA",
    )
