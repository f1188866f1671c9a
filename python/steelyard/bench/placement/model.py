"""Who runs where: CPUs of servers and load, by instance."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class InstancePlace:
    """Where one instance of a benchmark runs: its servers, and the load on them. CPUs ascend."""

    number: int
    """From 1."""
    server: tuple[int, ...]
    load: tuple[int, ...]
    nodes: tuple[int, ...] = ()
    """NUMA nodes of the servers' CPUs; empty where the kernel tells none."""
    memory_nodes: tuple[int, ...] = ()
    """Nodes that the servers' memory is bound to; empty when it is not bound."""
    memory_bytes: int | None = None
    """Its share of these nodes' memory, None when it is not bound or the kernel does not report it."""


@dataclass(frozen=True, slots=True)
class Placement:
    """CPUs by side, in ascending order, and by instance."""

    server: tuple[int, ...]
    load: tuple[int, ...]
    instances: tuple[InstancePlace, ...] = ()
    notes: tuple[str, ...] = ()
    """What a person should know of it: limits that were respected, choices, what is not bound and why."""

    @property
    def shared(self) -> bool:
        """Return whether some CPU serves both sides."""
        return bool(set(self.server) & set(self.load))

    @property
    def memory_bytes_min(self) -> int | None:
        """Return the least memory that an instance's nodes have for it, None when none is bound."""
        known = [instance.memory_bytes for instance in self.instances if instance.memory_bytes is not None]
        return min(known, default=None)
