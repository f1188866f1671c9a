"""From a request to the placement of its benchmarks on this machine, or on a recorded one.

In: what was asked, the layout of a machine. Out: a `Placement` for each benchmark.

Not here: the choice itself (``placement``), runs (``launch``).
"""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from steelyard._base import (
    EnvironmentLacksError,
    UsageError,
    executable,
    format_cpu_list,
    parse_cpu_list,
)
from steelyard.bench.benchmark import Benchmark
from steelyard.bench.load.hosts import HOSTS
from steelyard.bench.parameters import Setting
from steelyard.bench.placement import (
    Needs,
    Placement,
    place,
    without_binding,
)
from steelyard.bench.placement.parameters import BINDING
from steelyard.machine.layout import Layout, read_layout
from steelyard.machine.tree import Tree
from steelyard.records import CpuInstance, Cpus

_CHECK_TIMEOUT_S = 30.0


def live_layout() -> Layout:
    """Return the CPUs that this process may use."""
    return read_layout(Tree(), affinity=os.sched_getaffinity(0))


def recorded_layout(root: Path) -> Layout:
    """Return the layout of a recorded tree, in a folder or packed. Raises UsageError for anything else."""
    from steelyard.machine.recording import opened

    with opened(root) as folder:
        return read_layout(Tree(folder))


def placement_of(
    benchmark: type[Benchmark],
    layout: Layout,
    chosen: Mapping[str, str],
    *,
    server_cpus: str | None = None,
    load_cpus: str | None = None,
) -> Placement:
    """Return the placement of one benchmark; ``chosen`` are its parameters as texts.

    Raises UsageError for CPUs or values that are not usable.
    """
    instances = _setting(benchmark, chosen, "instances")
    needs = Needs(
        # A load on other hosts needs no CPU here.
        load_ratio=0.0 if _setting(benchmark, chosen, HOSTS) else benchmark.load_ratio,
        cpus_per_instance=benchmark.cpus_per_instance,
        instances=None if instances is None else int(instances),
        binds_memory=_setting(benchmark, chosen, BINDING) != "none",
    )
    return place(
        layout,
        needs,
        server=None if server_cpus is None else _cpus(server_cpus, "--server-cpus"),
        load=None if load_cpus is None else _cpus(load_cpus, "--load-cpus"),
    )


def _cpus(text: str, flag: str) -> tuple[int, ...]:
    cpus = parse_cpu_list(text)
    if not cpus:
        raise UsageError(f"{flag} {text!r} is not a CPU list", hint="write it as 0-3,8")
    return tuple(sorted(cpus))


def _setting(benchmark: type[Benchmark], chosen: Mapping[str, str], name: str) -> Setting | None:
    declared = {parameter.name: parameter for parameter in benchmark.parameters}
    return declared[name].parse(chosen[name]) if name in declared and name in chosen else None


def as_allowed(placement: Placement, *, is_asked: bool) -> Placement:
    """Return the placement with memory bound as far as this kernel allows it.

    Where it does not, memory is not bound, and a note says why; when binding ``is_asked`` for,
    EnvironmentLacksError is raised instead.
    """
    nodes = sorted({node for instance in placement.instances for node in instance.memory_nodes})
    refusal = binding_refusal(nodes) if nodes else None
    if refusal is None:
        return placement
    if is_asked:
        raise EnvironmentLacksError(refusal, hint=f"--set {BINDING}=none runs without")
    return without_binding(placement, refusal)


def binding_refusal(nodes: list[int]) -> str | None:
    """Return why memory cannot be bound to ``nodes`` here, None when it can."""
    command = [str(executable("steelyard-exec")), "--memory-nodes", format_cpu_list(nodes), "--", "true"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_CHECK_TIMEOUT_S)
    if done.returncode == 0:
        return None
    return (
        done.stderr.strip().removeprefix("steelyard-exec: ") or f"steelyard-exec ended with {done.returncode}"
    )


def record_of(placement: Placement) -> Cpus:
    """Return a placement as a run's manifest holds it."""
    return Cpus(
        server=format_cpu_list(placement.server),
        load=format_cpu_list(placement.load) or None,
        instances=[
            CpuInstance(
                number=instance.number,
                server=format_cpu_list(instance.server),
                load=format_cpu_list(instance.load) or None,
                nodes=format_cpu_list(instance.nodes) or None,
                memory_nodes=format_cpu_list(instance.memory_nodes) or None,
            )
            for instance in placement.instances
        ],
        notes=list(placement.notes),
    )
