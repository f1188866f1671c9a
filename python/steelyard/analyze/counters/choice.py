"""Which events to count on a machine: its definition, what of it can be counted here, and the plan.

In: the machine's record, a scope, and the metrics that are wanted. Out: `Choice`: the definition with the
reason for it, every metric with the events that it needs or why it cannot be had, and the `CounterPlan`
that ``steelyard-probe record --counters`` opens.

A processor that no definition is for, and one with cores of several kinds, gets the kernel's generic events.

Invariants: a pure function of the record; each wanted metric is either planned or missing with a reason;
the plan has each event once, and nothing that no metric needs.

Not here: formats of the kernel's terms and grouping to the counters that are free (``crates/probe``),
evaluation (``metrics``).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from steelyard._base import UsageError
from steelyard.analyze.counters.definitions import (
    KERNEL_TYPES,
    Definition,
    Event,
    Formula,
    Match,
    Metric,
    definitions,
)
from steelyard.analyze.counters.formulas import literals_in, names_in
from steelyard.analyze.counters.topdown import Model, events_of
from steelyard.analyze.counters.topdown_models import MODELS, NEOVERSE_N2_R0P0, skylake
from steelyard.machine.features import has_hardware_counters
from steelyard.machine.identity import CpuIdentity, read_identifier
from steelyard.records import CounterPlan, Machine, Modes, PlannedEvent

SCOPES = ("system", "cpu", "process", "cgroup")
TOP_DOWN = "topdown"
"""What the top-down tree is called among the metrics that may be wanted."""

_WHOLE_SYSTEM = ("power", "uncore_", "amd_l3", "amd_df", "amd_umc", "arm_cmn")
"""PMUs of what cores share: they count everybody's work."""
_ARM_CORE = "armv8_pmuv3"


@dataclass(frozen=True)
class MachineFacts:
    """What formulas ask of a machine. None where it is not known."""

    scope: str = "system"
    smt_on: bool | None = None
    cores: int | None = None
    packages: int | None = None
    cpus: int | None = None
    """Logical CPUs online."""
    tsc_hz: float | None = None
    slots: int | None = None
    identifier: str | None = None

    def literal(self, name: str) -> float | None:
        """Return the value of ``#name``, None where it is not known or no such thing."""
        values: Mapping[str, float | bool | None] = {
            "smt_on": self.smt_on,
            "core_wide": self.scope == "system",
            "num_cores": self.cores,
            "num_packages": self.packages,
            "num_cpus": self.cpus,
            "num_cpus_online": self.cpus,
            "counted_cpus": {"system": self.cpus, "cpu": 1}.get(self.scope),
            "system_tsc_freq": self.tsc_hz,
            "slots": self.slots,
        }
        value = values.get(name.casefold())
        return None if value is None else float(value)


def facts_of(machine: Machine | None, scope: str, definition: Definition | None = None) -> MachineFacts:
    """Return what formulas may ask of a machine; nothing is known without one."""
    slots = definition.slots if definition is not None else None
    if machine is None:
        return MachineFacts(scope=scope, slots=slots)
    threads = machine.cpu.threads_per_core
    return MachineFacts(
        scope=scope,
        smt_on=None if threads is None else threads > 1,
        cores=machine.cpu.cores,
        packages=machine.cpu.sockets,
        cpus=machine.cpu.logical_cpus,
        tsc_hz=_named_frequency_hz(machine.cpu.model),
        slots=slots,
        identifier=machine.cpu.identifier,
    )


def _named_frequency_hz(model: str | None) -> float | None:
    """Return the frequency of the time-stamp counter, which Intel's model names carry.

    As perf's tools/perf/arch/x86/util/tsc.c does.

    >>> _named_frequency_hz("Intel(R) Xeon(R) Gold 6230 CPU @ 2.10GHz")
    2100000000.0
    """
    match = re.search(r"@ (\d+(?:\.\d+)?)GHz", model or "")
    return round(float(match[1]) * 1e9, 3) if match else None


def definition_of(
    machine: Machine | None, among: Mapping[str, Definition] | None = None
) -> tuple[Definition, str]:
    """Return the definition of a machine's processor, and why it is that one.

    ``among`` are others than those that Steelyard ships (`checkouts`).
    """
    known = definitions() if among is None else among
    generic = definitions()["generic"]
    if machine is None:
        return generic, "the processor is not known"
    kinds = [name for name in machine.cpu.performance_monitors if _is_core(name)]
    if len(kinds) > 1:
        return generic, f"it has cores of several kinds ({', '.join(kinds)}), which no definition is for"
    identifier = machine.cpu.identifier
    identity = read_identifier(identifier) if identifier else None
    if identifier is None or identity is None:
        return generic, "the record lacks the processor's family and model"
    for definition in known.values():
        if fits(definition, identifier):
            return definition, f"it is for {identifier}"
    return generic, f"no definition is for {identifier}"


def _is_core(pmu: str) -> bool:
    return pmu in ("cpu", "cpu_core", "cpu_atom", "cpum_cf") or pmu.startswith(("armv8_", "armv9_"))


def fits(definition: Definition, identifier: str) -> bool:
    """Return whether a definition is for the processor with an identifier."""
    identity = read_identifier(identifier)
    return identity is not None and any(_fits(match, identifier, identity) for match in definition.matches)


def _fits(match: Match, identifier: str, identity: CpuIdentity) -> bool:
    if match.pattern:
        # A pattern without a stepping holds for all of them.
        without = re.sub(r"^(\w+-\d+-[0-9A-F]+)-[0-9A-F]+$", r"\1", identifier)
        return any(re.fullmatch(match.pattern, each) for each in (identifier, without))
    if match.implementer is not None:
        return match.implementer == identity.implementer and identity.part in match.parts
    return (
        match.vendor == identity.vendor
        and match.family == identity.family
        and any(identity.model in models for models in match.models)
    )


def model_of(definition: Definition, facts: MachineFacts) -> Model | str:
    """Return the top-down model of a definition on a machine, or why there is none."""
    if definition.topdown is None:
        return definition.missing.get(TOP_DOWN, "there are no public formulas for this processor's slots")
    if definition.topdown == "intel-skylake":
        if facts.smt_on is None:
            return "whether SMT is on, on which its formulas depend, is not known"
        return skylake(smt_on=facts.smt_on)
    identity = read_identifier(facts.identifier or "")
    # Up to r0p2 the stall events of Neoverse N2 count a slot too many (erratum, as in Arm's own formulas).
    early = identity is not None and identity.variant == 0 and (identity.revision or 0) < 3
    if definition.topdown == "arm-neoverse-n2" and early:
        return NEOVERSE_N2_R0P0
    return MODELS[definition.topdown]


@dataclass(frozen=True)
class Wanted:
    """One metric of a choice: the events that are planned for it, or why it is missing."""

    name: str
    unit: str
    meaning: str
    events: tuple[str, ...] = ()
    formula: str | None = None
    source: str | None = None
    missing: str | None = None


@dataclass(frozen=True)
class Choice:
    """What to count on a machine."""

    definition: Definition
    reason: str
    """Why it is this definition."""
    scope: str
    metrics: tuple[Wanted, ...]
    plan: CounterPlan
    facts: MachineFacts = field(default_factory=MachineFacts)

    @property
    def missing(self) -> dict[str, str]:
        """Metrics that cannot be had here -> why."""
        return {each.name: each.missing for each in self.metrics if each.missing}


def choose(
    machine: Machine,
    scope: str = "system",
    metrics: Collection[str] | None = None,
    *,
    among: Mapping[str, Definition] | None = None,
) -> Choice:
    """Return what to count on ``machine`` for ``metrics`` (all by default).

    Raises UsageError for an unknown scope or metric.
    """
    if scope not in SCOPES:
        raise UsageError(f"there is no scope {scope!r}", hint=f"one of {', '.join(SCOPES)}")
    definition, reason = definition_of(machine, among)
    facts = facts_of(machine, scope, definition)
    known = [*definition.metrics, TOP_DOWN, *definition.missing]
    unknown = sorted(set(metrics or ()) - set(known))
    if unknown:
        every = {name for each in definitions().values() for name in (*each.metrics, *each.missing)}
        lost = [name for name in unknown if name not in every]
        if lost:
            raise UsageError(f"there is no metric {lost[0]!r}", hint="steelyard machine counters lists them")
    chosen = [
        _wanted(machine, definition, facts, name)
        for name in dict.fromkeys([*known, *unknown])
        if metrics is None or name in metrics
    ]
    return Choice(definition, reason, scope, tuple(chosen), _plan(machine, definition, chosen), facts)


def shared_metrics(machine: Machine) -> list[str]:
    """Return the metrics that can be had of the whole machine only: they need counters that cores share."""
    definition, _ = definition_of(machine)
    found = []
    for each in choose(machine, "system").metrics:
        events = [definition.event(name) for name in each.events]
        if any(event is not None and event.pmu.startswith(_WHOLE_SYSTEM) for event in events):
            found.append(each.name)
    return found


def _wanted(machine: Machine, definition: Definition, facts: MachineFacts, name: str) -> Wanted:
    if name == TOP_DOWN:
        return _wanted_tree(machine, definition, facts)
    metric = definition.metrics.get(name)
    if metric is None:
        why = definition.missing.get(name, f"{definition.name} has no definition of it")
        return Wanted(name, "", "", missing=why)
    reasons = []
    for formula in metric.formulas:
        events = tuple(dict.fromkeys(definition.events_of_formula(formula, (name,))))
        reason = _why_not(machine, definition, facts, metric, formula, events)
        if reason is None:
            return Wanted(name, metric.unit, metric.meaning, events, formula.text, formula.source)
        reasons.append(reason)
    return Wanted(name, metric.unit, metric.meaning, missing="; ".join(dict.fromkeys(reasons)))


def _wanted_tree(machine: Machine, definition: Definition, facts: MachineFacts) -> Wanted:
    meaning = "where issue slots go, levels 1 and 2"
    model = model_of(definition, facts)
    if isinstance(model, str):
        return Wanted(TOP_DOWN, "ratio", meaning, missing=model)
    needed = [event for name in events_of(model) if (event := definition.event(name)) is not None]
    for event in needed:
        reason = why_not_countable(machine, event, facts.scope)
        if reason is not None:
            return Wanted(TOP_DOWN, "ratio", meaning, missing=reason)
    return Wanted(TOP_DOWN, "ratio", meaning, tuple(event.name for event in needed), None, model.source)


def _why_not(
    machine: Machine,
    definition: Definition,
    facts: MachineFacts,
    metric: Metric,
    formula: Formula,
    events: Sequence[str],
) -> str | None:
    """Return why a formula cannot be used here, None where it can."""
    scopes = scopes_of(definition, metric, formula)
    if facts.scope not in scopes:
        return f"it holds for {' and '.join(scopes)} only"
    for literal in literals_in(formula.node):
        if facts.literal(literal) is None:
            return f"#{literal.casefold()} of this machine is not known"
    for name in events:
        event = definition.event(name)
        if event is None:
            return f"{name} is not among the events that are defined"
        reason = why_not_countable(machine, event, facts.scope)
        if reason is not None:
            return reason
    return None


def scopes_of(definition: Definition, metric: Metric, formula: Formula) -> tuple[str, ...]:
    """Return the scopes that a formula holds for, its own and those of the metrics in it."""
    scopes = formula.scopes or SCOPES
    for name in names_in(formula.node):
        if name in definition.metrics and name != metric.name:
            inner = definition.metrics[name]
            allowed = {scope for each in inner.formulas for scope in scopes_of(definition, inner, each)}
            scopes = tuple(scope for scope in scopes if scope in allowed)
    return scopes


def why_not_countable(machine: Machine, event: Event, scope: str) -> str | None:
    """Return why an event cannot be counted on a machine, None where it can as far as its record tells."""
    if event.pmu.startswith(_WHOLE_SYSTEM) and scope != "system":
        return f"{event.pmu} counts for the whole system only"
    if event.pmu == "software":
        return None
    monitors = machine.cpu.performance_monitors
    if not monitors:
        return "the record lacks the kernel's performance monitors (sys/bus/event_source)"
    if event.pmu in KERNEL_TYPES or event.pmu == "cpu" or event.pmu == _ARM_CORE:
        if not has_hardware_counters(machine):
            whose = f"the hypervisor ({machine.hypervisor})" if machine.hypervisor else "the kernel"
            return f"{whose} offers no counters of the processor"
        if event.pmu in KERNEL_TYPES:
            return None
    if not _folders(event.pmu, monitors):
        return f"the kernel has no performance monitor {event.pmu} here"
    is_register = event.pmu == "power" or (event.pmu == "msr" and event.name != "msr/tsc/")
    if is_register and machine.hypervisor and not has_hardware_counters(machine):
        # The folder of either may be there without these events: the kernel lists those that work.
        return f"a guest ({machine.hypervisor}) without counters has none of the other registers either"
    return None


def _folders(pmu: str, monitors: Sequence[str]) -> list[str]:
    """Return the folders that a PMU's name stands for: itself, its instances by number, an Arm core's own."""
    if pmu == _ARM_CORE:
        return [name for name in monitors if name.startswith("armv8_")]
    return [name for name in monitors if re.fullmatch(rf"{re.escape(pmu)}(_\d+)?", name)]


def _plan(machine: Machine, definition: Definition, chosen: Sequence[Wanted]) -> CounterPlan:
    needed = {name for each in chosen for name in each.events}
    planned = []
    for name, event in definition.events.items():
        if name not in needed:
            continue
        pmu = event.pmu
        if pmu == _ARM_CORE:
            # One kind of core, whose folder may carry its name (armv8_neoverse_n1).
            pmu = _folders(pmu, machine.cpu.performance_monitors)[0]
        planned.append(
            PlannedEvent(
                name=name,
                pmu=pmu,
                terms=dict(event.terms),
                modifiers=Modes(event.modifiers),
                fixed=event.fixed,
                group=event.group,
            )
        )
    only_software = all(event.pmu == "software" for event in planned)
    return CounterPlan(cpu="software" if only_software else definition.id, events=planned)
