"""The sizes that meet a demand, from curves, sweeps and a table.

In: a `SizeRequest`, what was read, and a table of machine types. Out: a `Sizing`.

The number of machines is such that the lower ends of their predictions together meet the demand with its
headroom; without an interval it is such that the predictions do, and the size says so. A part of a machine
costs the share of the machine's cores that it takes, since its throughput is that of cores whose siblings are
idle; a rented machine is taken whole.

Invariants: a size without a latency is refused where there is a limit; a refused one is not recommended.

Not here: reading (``cli.decide.size``), words (``report.decide.size``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from steelyard._base import UsageError
from steelyard.decide.choice.demand import MOST, machines_for
from steelyard.decide.choice.economics import (
    DESIGN,
    HOURS_PER_YEAR,
    check_bounds,
    cost_of,
    currency_of,
    planned_power,
)
from steelyard.decide.choice.request import number_of, share_in
from steelyard.decide.sizing.curves import (
    LoadSweep,
    SizeCurve,
    Throughput,
    at_cpus,
    of_repeats,
)
from steelyard.decide.sizing.request import SizeRequest, quantity_in
from steelyard.decide.sizing.results import Edge, Point, Size, Sizing, SweepPoint
from steelyard.decide.sizing.sources import (
    Measured,
    check_latency,
    check_sources,
    latency_columns,
    named_in,
    throughput_column,
)
from steelyard.decide.tables.model import MachineTable, MeasuredMachine, ResultColumn
from steelyard.stats.scaling.choice import Kind
from steelyard.stats.scaling.curve import CurveFit
from steelyard.stats.scaling.prediction import WORTH_DIFFERS, SiblingWorth

FITTED = 24
"""Curves that are fitted: of more, those of the machines that are cheapest by their readings."""
ABOUT = 0.02
"""Costs that are so near to the least are about the same: fewer machines are better then."""
LATENCIES = ("p99", "p50", "mean")


@dataclass(frozen=True)
class _Asked:
    """What is asked, as numbers."""

    demand: float | None
    with_headroom: float | None
    headroom: float
    latency: str
    limit_ns: float | None
    memory: float | None
    noise: float | None
    worth: SiblingWorth | None
    request: SizeRequest


def size(measured: Measured, table: MachineTable | None, request: SizeRequest) -> Sizing:
    """Return sizes for a demand. Raises UsageError where nothing says what a machine does."""
    asked = _asked(request)
    machines = {} if table is None else {machine.name: machine for machine in table.machines}
    check_bounds(machines.values())
    column = throughput_column(table, request, measured)
    measured = _of_the_only_machine(measured, machines)
    check_sources(measured, column, machines)
    check_latency(measured, table, None if asked.limit_ns is None else asked.latency)
    memory, memory_source, edges, without = _memory(measured, asked)
    asked = replace(asked, memory=memory)
    chosen, left = _cheapest(measured.curves, machines, request)
    found: list[Size] = []
    points: list[Point] = []
    for curve in chosen:
        made, steps, more, why = _of_curve(curve, machines.get(curve.machine), asked)
        found += made
        points += steps
        edges += more
        if why is not None:
            without[curve.machine or curve.source] = why
    found += [_of_load(sweep, machines.get(sweep.machine), asked) for sweep in measured.loads]
    with_curve = named_in(measured)
    if table is not None and column is not None:
        others = [machine for machine in table.machines if machine.name not in with_curve]
        found += [_of_table(machine, table, column, asked) for machine in others]
    has_cost = any(one.cost is not None and one.refused is None for one in found)
    found = _in_order(found, by_cost=has_cost)
    fit = [one for one in found if one.refused is None]
    return Sizing(
        demand_per_s=asked.demand,
        headroom_ratio=asked.headroom,
        latency=asked.latency,
        latency_limit_ns=asked.limit_ns,
        memory_bytes=memory,
        memory_source=memory_source,
        ranked_by="cost" if has_cost else "cpus",
        currency=currency_of(machines.values()),
        economics=request.economics,
        sizes=tuple(found),
        recommended=fit[0] if fit else None,
        second=fit[1] if len(fit) > 1 else None,
        points=tuple(points),
        sweeps=tuple(_sweeps(measured, asked.latency)),
        edges=tuple(edges),
        without_edge=without,
        cautions=tuple(
            _cautions(fit, has_cost, left, len(chosen), machines, chosen, needs_memory=memory is not None)
        ),
        notes=() if table is None else table.notes,
    )


def _asked(request: SizeRequest) -> _Asked:
    if request.latency not in LATENCIES:
        raise UsageError(
            f"--latency {request.latency!r} is none of {', '.join(LATENCIES)}", hint="as --latency p99"
        )
    demand = None if request.demand is None else number_of(request.demand, "--rate", least=0)
    headroom = share_in(request.headroom, "--headroom", most=10.0)
    limit, memory, noise = request.latency_limit, request.memory, request.noise
    worth = request.sibling_worth
    return _Asked(
        demand,
        None if demand is None else demand * (1 + headroom),
        headroom,
        request.latency,
        None if limit is None else 1e9 * quantity_in(limit, "--latency-limit", "s", "5ms"),
        None if memory is None else quantity_in(memory, "--memory", "bytes", "24GiB"),
        None if noise is None else share_in(noise, "--noise", least=1e-6),
        None
        if worth is None
        else SiblingWorth(worth, worth, worth, f"as given, {WORTH_DIFFERS:.0%} of throughput more or less"),
        request,
    )


def _of_the_only_machine(measured: Measured, machines: Mapping[str, MeasuredMachine]) -> Measured:
    """Return curves and sweeps without a name as those of the table's only machine."""
    if len(machines) != 1:
        return measured
    (name,) = machines
    return Measured(
        [replace(curve, machine=curve.machine or name) for curve in measured.curves],
        [replace(sweep, machine=sweep.machine or name) for sweep in measured.loads],
        [replace(sweep, machine=sweep.machine or name) for sweep in measured.memories],
    )


def _sweeps(measured: Measured, latency: str) -> Iterator[SweepPoint]:
    """Yield what sweeps of memory and load measured."""
    for sweep in measured.memories:
        for size_bytes, values in sorted(sweep.values.items()):
            yield SweepPoint(sweep.machine or sweep.source, "memory", size_bytes, fmean(values), None)
    for load in measured.loads:
        known = load.latency_ns.get(latency)
        for at, level in enumerate(load.levels):
            worst = None if known is None else max(known[at], default=None)
            yield SweepPoint(load.machine or load.source, "load", level, fmean(load.throughput[at]), worst)


def _memory(measured: Measured, asked: _Asked) -> tuple[float | None, str, list[Edge], dict[str, str]]:
    """Return the memory that is needed, its source, the edges, and why sweeps have none."""
    edges: list[Edge] = []
    without: dict[str, str] = {}
    needed, source = asked.memory, "as stated" if asked.memory is not None else ""
    for sweep in measured.memories:
        at, why = sweep.edge_bytes()
        if at is None:
            without[f"memory of {sweep.machine or sweep.source}"] = why
            continue
        edges.append(Edge(sweep.machine or sweep.source, "memory", at))
        end = at.high if at.high is not None else at.value
        if asked.memory is None and (needed is None or end > needed):
            needed, source = end, f"the edge of {sweep.source}"
    return needed, source, edges, without


def _cheapest(
    curves: Sequence[SizeCurve], machines: Mapping[str, MeasuredMachine], request: SizeRequest
) -> tuple[list[SizeCurve], int]:
    """Return the curves to fit, and how many are left: those of machines that are cheap for what they do."""
    usable = [curve for curve in curves if not machines or not curve.machine or curve.machine in machines]
    if len(usable) <= FITTED:
        return list(usable), 0

    def worth(curve: SizeCurve) -> float:
        last = max(curve.values)
        best = max(sum(row) / len(row) for row in curve.values.values())
        machine = machines.get(curve.machine)
        cost = None if machine is None else cost_of(machine, planned_power(machine, []), request.economics)[0]
        return best / (cost.total if cost is not None else last)

    return sorted(usable, key=worth, reverse=True)[:FITTED], len(usable) - FITTED


def _of_curve(
    curve: SizeCurve, machine: MeasuredMachine | None, asked: _Asked
) -> tuple[list[Size], list[Point], list[Edge], str | None]:
    name = curve.machine or curve.source
    fit = curve.fit()
    whole = curve.cpus or (None if machine is None else _cpus(machine)) or max(curve.values)
    # What is rented is rented whole.
    is_whole = asked.request.whole or (machine is not None and machine.number("price_per_hour") is not None)
    made, points = [], []
    for cpus in curve.sizes(fit):
        latency, why = curve.latency_at(asked.latency, cpus)
        throughput = at_cpus(fit, cpus, asked.worth)
        if fit.chosen is None and cpus in curve.values:
            throughput = of_repeats([curve.values[cpus]], asked.noise)
        points.append(Point(name, cpus, throughput, latency))
        if cpus == whole or not is_whole:
            share = curve.share_of(cpus, whole)
            made.append(_made(name, machine, cpus, throughput, latency, why, (whole, share), asked))
    edges = _edges(name, fit)
    why_none = None
    if not edges:
        why_none = "one step only" if fit.chosen is None else "no model fits" if not fit.holds else "no bend"
    return made, points, edges, why_none


def _edges(name: str, fit: CurveFit) -> list[Edge]:
    if fit.at_cpus is None or not fit.holds:
        return []
    found = [Edge(name, fit.kind.value, fit.at_cpus, fit.worth_ratio, fit.is_level)]
    if fit.node_worth_ratio is not None and fit.kind is Kind.SIBLINGS and fit.node_ends:
        end = float(fit.node_ends[0])
        found.insert(0, Edge(name, Kind.NODE.value, type(fit.at_cpus)(end, end, end), fit.node_worth_ratio))
    return found


def _of_load(sweep: LoadSweep, machine: MeasuredMachine | None, asked: _Asked) -> Size:
    throughput, latency = sweep.capacity(asked.latency, asked.limit_ns)
    cpus = None if machine is None else _cpus(machine)
    why = f"no {asked.latency} latency was measured"
    name = sweep.machine or sweep.source
    return _made(name, machine, cpus, throughput, latency, why, (cpus, 1.0), asked)


def _of_table(machine: MeasuredMachine, table: MachineTable, column: ResultColumn, asked: _Asked) -> Size:
    found = machine.results.get(column.name)
    if found is None:
        throughput = Throughput(None, None, None, reason=machine.why_missing(column.name))
    else:
        throughput = of_repeats(found.sessions, asked.noise)
    cpus = _cpus(machine)
    named = latency_columns(table, asked.latency)
    latency = None
    if named and (seen := machine.results.get(named[0])) is not None:
        latency = 1e9 * max(seen.values)
    why = f"no column latency_{asked.latency}_ms"
    return _made(machine.name, machine, cpus, throughput, latency, why, (cpus, 1.0), asked)


def _cpus(machine: MeasuredMachine) -> int | None:
    cpus = machine.number("cpus")
    return None if cpus is None else round(cpus)


def _made(
    name: str,
    machine: MeasuredMachine | None,
    cpus: int | None,
    throughput: Throughput,
    latency_ns: float | None,
    why_no_latency: str,
    of_machine: tuple[int | None, float],
    asked: _Asked,
) -> Size:
    """Return a size; ``of_machine`` are the machine's CPUs and which share of it is taken."""
    whole, share = of_machine
    whole_memory = None if machine is None else machine.number("memory_bytes")
    memory = None if whole_memory is None else whole_memory * share
    refused = _refused(throughput, latency_ns, why_no_latency, memory, asked)
    least = throughput.low if throughput.low is not None else throughput.ops_per_s
    count = margin = expected = None
    if asked.with_headroom is not None and least and throughput.ops_per_s is not None:
        count = machines_for(asked.with_headroom, least)
        if count is None:
            refused = refused or f"more than {MOST:.0e} machines are needed"
    if count is not None and asked.with_headroom and least and throughput.ops_per_s is not None:
        margin = count * least / asked.with_headroom - 1
        expected = count * throughput.ops_per_s / asked.with_headroom - 1
    most = asked.request.most_machines
    if refused is None and count is not None and most is not None and count > most:
        refused = f"{count:,} machines are needed, {most:,} may be used"
    cost, missing = _cost(machine, share, asked)
    per_million = None
    if cost is not None and throughput.ops_per_s is not None:
        seconds = asked.request.years * HOURS_PER_YEAR * 3600
        per_million = cost / (throughput.ops_per_s * seconds) * 1e6
    whole_cost = cost if count is None or cost is None else cost * count
    return Size(
        name,
        cpus,
        None if whole is None else share * whole,
        memory,
        cpus is not None and whole is not None and cpus < whole,
        throughput,
        latency_ns,
        count,
        throughput.low is not None,
        margin if throughput.low is not None else None,
        expected,
        whole_cost,
        missing,
        per_million,
        refused,
    )


def _refused(
    throughput: Throughput,
    latency_ns: float | None,
    why_no_latency: str,
    memory: float | None,
    asked: _Asked,
) -> str | None:
    """Return why a size cannot serve the workload."""
    if throughput.ops_per_s is None:
        return throughput.reason or "its throughput is not known"
    if asked.limit_ns is not None and latency_ns is None:
        return why_no_latency
    if asked.limit_ns is not None and latency_ns is not None and latency_ns > asked.limit_ns:
        return f"{asked.latency} is {latency_ns / 1e6:.3g} ms, the limit {asked.limit_ns / 1e6:.3g} ms"
    if asked.memory is not None and memory is not None and memory < asked.memory:
        return f"it has {memory / 2**30:.3g} GiB of memory, {asked.memory / 2**30:.3g} GiB are needed"
    return None


def _cost(machine: MeasuredMachine | None, share: float, asked: _Asked) -> tuple[float | None, str | None]:
    if machine is None:
        return None, "the machine is in no table: give a CSV file with its price"
    power = planned_power(machine, [asked.request.workload or ""])
    found, why = cost_of(machine, power, asked.request.economics)
    return (None, why) if found is None else (share * found.total, None)


def _in_order(sizes: Sequence[Size], *, by_cost: bool) -> list[Size]:
    """Return the best first; of those that are about as good as the best, those of fewer machines."""
    found = sorted(sizes, key=lambda one: _key(one, by_cost=by_cost))
    if not found or found[0].refused is not None:
        return found
    most = _key(found[0], by_cost=by_cost)[1] * (1 + ABOUT)
    near = [one for one in found if one.refused is None and _key(one, by_cost=by_cost)[1] <= most]
    near.sort(key=lambda one: (one.count or 1, _key(one, by_cost=by_cost)))
    return [*near, *found[len(near) :]]


def _key(one: Size, *, by_cost: bool) -> tuple[bool, float, float, float]:
    count = one.count or 1
    cpus = math.inf if one.reserved_cpus is None else count * one.reserved_cpus
    if one.count is None and one.throughput.ops_per_s:
        # Without a demand, what a unit of work costs is compared.
        cpus /= one.throughput.ops_per_s
    cost = one.cost if one.count is not None else one.cost_per_million
    first = (math.inf if cost is None else cost) if by_cost else cpus
    # Where all of a machine is taken either way, more of it is used.
    used = one.throughput.low or one.throughput.ops_per_s or 0.0
    return one.refused is not None, first, float(count), -used


def _cautions(
    fit: Sequence[Size],
    has_cost: bool,
    left: int,
    fitted: int,
    machines: Mapping[str, MeasuredMachine],
    curves: Sequence[SizeCurve],
    *,
    needs_memory: bool,
) -> list[str]:
    said = []
    best = fit[0] if fit else None
    if best is not None and best.count is not None and not best.is_assured:
        said.append(
            f"No interval of {best.machine}: {best.throughput.no_interval}. The prediction alone counts."
        )
    if best is not None and not has_cost:
        by = "machines" if best.reserved_cpus is None else "CPUs"
        said.append(f"No costs ({best.cost_missing}): the order is by {by}.")
    without = [one for one in fit if has_cost and one.cost is None]
    if without:
        names = list(dict.fromkeys(one.machine for one in without))
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        said.append(f"No cost of {names[0]}{more}, listed last: {without[0].cost_missing}.")
    if left:
        said.append(
            f"{fitted} of {fitted + left:,} curves were fitted: those that do most for the cost, or for"
            " a CPU."
        )
    designed = [one.name for one in machines.values() if planned_power(one, []).source == DESIGN]
    if has_cost and designed and any(one.machine in designed for one in fit[:2]):
        said.append(f"The power of {designed[0]} is TDP, which is not what a server draws.")
    if best is not None and best.memory_bytes is None and needs_memory:
        said.append(f"The memory of {best.machine} is not known: no column memory_bytes.")
    if any(curve.is_threads for curve in curves):
        said.append(
            "Curves count threads: each has a core of its own first, as a virtual machine's CPUs may not."
        )
    return said
