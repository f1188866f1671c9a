"""What rules found in runs, a JSON object a finding and line, so that others can retrieve it or train on it.

In: runs. Out: `ExportedFinding`s: the claim with its evidence and bounds, what to do next, the rule with the
source of its bounds, and the run: benchmark, settings, machine, verdict with what objects to it, results.

Not here: the rules (``analyze.rules``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from steelyard._base import ResultSaysNoError
from steelyard._base.documents import as_document
from steelyard.analyze.rules.findings import Evidence
from steelyard.records import Check, Metric, Run, RunStatus
from steelyard.report.exports.runs import ExportedRun
from steelyard.report.model import gather


@dataclass(frozen=True)
class FindingMachine:
    """The machine of a run, as far as it is known."""

    host: str | None
    """Its name."""
    processor: str | None
    """Model of its processors."""
    architecture: str | None
    """Instruction set."""
    logical_cpus: int | None
    """Logical CPUs."""
    memory_bytes: int | None
    """Memory."""
    numa_nodes: int | None
    """NUMA nodes."""
    kernel: str | None
    """Release of the kernel."""
    hypervisor: str | None
    """Hypervisor, None where there is none, or none was seen."""


@dataclass(frozen=True)
class FindingContext:
    """The run that a finding is about."""

    run_id: str
    """Its id."""
    benchmark: str
    """Which benchmark."""
    suite: str | None
    """The suite it ran in, None when it ran alone."""
    tier: str
    """How long it ran."""
    steelyard_version: str
    """Version of Steelyard that ran it."""
    begin_ns: int
    """When measuring began, in ns since 1970."""
    duration_s: float
    """How long measuring took."""
    parameters: Mapping[str, Any]
    """Settings by name."""
    verdict: str | None
    """`valid`, `suspect` or `invalid`; None where nothing was judged."""
    objections: tuple[Check, ...]
    """The checks that object to its result, the worst first."""
    metrics: Mapping[str, Metric]
    """All results, those without a value with the reason."""
    machine: FindingMachine
    """Where it ran."""


@dataclass(frozen=True)
class ExportedFinding:
    """A finding of a rule about a run."""

    KIND: ClassVar[str] = "finding"

    rule: str
    """Stable id of the rule."""
    area: str
    """What the rule is about, such as `memory`."""
    claim: str
    """What was concluded, in a sentence or two."""
    evidence: tuple[Evidence, ...]
    """Measured values, each with the bound that it was held against, if there is one."""
    threshold: str
    """Source of the bounds; empty where the rule names none."""
    next_step: str
    """What to measure or to do next."""
    gain: str
    """What to expect of it; empty where nothing is known."""
    part: str | None
    """What holds the workload back, None where the finding does not say so."""
    is_measured: bool
    """Whether that was measured, and not concluded from signs."""
    blame: str
    """Whose doing it is: `own`, `neighbours`, `hypervisor` or `unknown`."""
    explained_ratio: float | None
    """Share of the headline's time that it explains, None for a note."""
    also: tuple[str, ...]
    """Further claims of the same cause."""
    merged: tuple[str, ...]
    """The rules that made these."""
    run: FindingContext
    """The run."""


def findings_of(one: ExportedRun) -> list[ExportedFinding]:
    """Return what rules find in a run. Raises ResultSaysNoError for a run that came to no result."""
    if one.run.status is not RunStatus.COMPLETE:
        reason = f": {one.run.status_reason}" if one.run.status_reason else ""
        raise ResultSaysNoError(f"{one.run.run_id} has no findings: it is {one.run.status}{reason}")
    data = gather(one.folder)
    try:
        found = data.findings
    finally:
        data.close()
    context = _context(one)
    return [
        ExportedFinding(
            rule=finding.id,
            area=finding.area,
            claim=finding.claim,
            evidence=finding.evidence,
            threshold=finding.threshold,
            next_step=finding.next_step,
            gain=finding.gain,
            part=finding.part,
            is_measured=finding.sure,
            blame=finding.blame,
            explained_ratio=finding.explained_ratio,
            also=finding.also,
            merged=finding.merged,
            run=context,
        )
        for finding in found
    ]


def findings_lines(runs: Iterable[ExportedRun]) -> Iterator[str]:
    """Yield what rules find in runs, a JSON object a line. Raises ResultSaysNoError as `findings_of` does."""
    for one in runs:
        for finding in findings_of(one):
            yield json.dumps(as_document(finding), allow_nan=False) + "\n"


def _context(one: ExportedRun) -> FindingContext:
    run = one.run
    return FindingContext(
        run_id=run.run_id,
        benchmark=run.benchmark,
        suite=run.suite,
        tier=run.tier,
        steelyard_version=run.steelyard_version,
        begin_ns=one.begin_ns,
        duration_s=(one.end_ns - one.begin_ns) / 1e9,
        parameters={name: parameter.value for name, parameter in run.parameters.items()},
        verdict=one.verdict or None,
        objections=_objections(run),
        metrics=run.metrics,
        machine=_machine(one),
    )


def _objections(run: Run) -> tuple[Check, ...]:
    return tuple(run.verdict.reasons) if run.verdict is not None else ()


def _machine(one: ExportedRun) -> FindingMachine:
    machine = one.machine
    if machine is None:
        return FindingMachine(one.host or None, None, None, None, None, None, None, None)
    return FindingMachine(
        host=one.host or None,
        processor=machine.cpu.model,
        architecture=machine.cpu.architecture,
        logical_cpus=machine.cpu.logical_cpus,
        memory_bytes=machine.memory.total_bytes,
        numa_nodes=len(machine.numa_nodes),
        kernel=machine.kernel.release,
        hypervisor=machine.hypervisor,
    )
