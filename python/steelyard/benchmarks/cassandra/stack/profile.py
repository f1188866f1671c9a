"""Profiles of Cassandra: ``workloads/cassandra/profiles/*.toml``, each setting with its reason.

In: the name of a profile, the memory of the machine. Out: values for the Java virtual machine,
``cassandra.yaml``, limits and the load.

Not here: what the settings do, which Cassandra's documentation says.
"""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass

from steelyard._base import workloads_dir
from steelyard.bench.parameters import Parameter

MIB = 1 << 20
_SIZE = Parameter("size", "bytes", "of a profile")
_HEAP_AT_LEAST = 256 * MIB
_MEMTABLE_AT_LEAST = 16 * MIB
_PLACES = ("java", "yaml", "limit", "load")


@dataclass(frozen=True, slots=True)
class ProfileSetting:
    """One setting: ``where`` it goes is ``java``, ``yaml``, ``limit`` or ``load``."""

    where: str
    name: str
    value: str
    reason: str


@dataclass(frozen=True, slots=True)
class Share:
    """A share of the machine's memory, up to a bound, bytes."""

    most_bytes: int
    memory_ratio: float

    def of(self, memory_bytes: int, at_most_bytes: int | None, at_least_bytes: int) -> int:
        """Return the share of ``memory_bytes`` in whole MiB."""
        bounds = [self.most_bytes, int(self.memory_ratio * memory_bytes)]
        size = min([*bounds, *([] if at_most_bytes is None else [at_most_bytes])])
        return max(at_least_bytes, size // MIB * MIB)


@dataclass(frozen=True, slots=True)
class Profile:
    """One profile as its file says; values may hold ``{heap_mib}`` and ``{memtable_mib}``."""

    name: str
    description: str
    heap: Share
    memtable: Share | None
    settings: tuple[ProfileSetting, ...]

    def heap_bytes(self, memory_bytes: int, at_most_bytes: int | None) -> int:
        """Return the heap on a machine with ``memory_bytes``."""
        return self.heap.of(memory_bytes, at_most_bytes, _HEAP_AT_LEAST)

    def memtable_bytes(self, memory_bytes: int, at_most_bytes: int | None) -> int:
        """Return the memory of memtables beside the heap; the least that is allowed where it sets none."""
        if self.memtable is None:
            return _MEMTABLE_AT_LEAST
        return self.memtable.of(memory_bytes, at_most_bytes, _MEMTABLE_AT_LEAST)

    def load_setting(self, name: str) -> str:
        """Return the value of a setting of the load."""
        return next(each.value for each in self.settings if (each.where, each.name) == ("load", name))

    def resolved(self, heap_bytes: int, memtable_bytes: int) -> list[ProfileSetting]:
        """Return the settings with sizes filled in."""
        sizes = {"heap_mib": heap_bytes // MIB, "memtable_mib": memtable_bytes // MIB}
        return [
            ProfileSetting(each.where, each.name, each.value.format(**sizes), each.reason)
            for each in self.settings
        ]


def load_profile(name: str) -> Profile:
    """Return the shipped profile ``name``. Raises ValueError for a file that says something unknown."""
    path = workloads_dir() / "cassandra" / "profiles" / f"{name}.toml"
    raw = tomllib.loads(path.read_text(encoding="utf-8"))
    settings = tuple(ProfileSetting(**each) for each in raw["setting"])
    unknown = [each.where for each in settings if each.where not in _PLACES]
    if unknown:
        raise ValueError(f"{path}: where={unknown[0]}: allowed is {'|'.join(_PLACES)}")
    return Profile(
        name=name,
        description=raw["description"],
        heap=_share(raw["heap"]),
        memtable=_share(raw["memtable"]) if "memtable" in raw else None,
        settings=settings,
    )


def _share(raw: dict[str, object]) -> Share:
    return Share(int(_SIZE.parse(str(raw["most"]))), float(str(raw["memory_ratio"])))


def value_of(settings: Sequence[ProfileSetting], where: str, name: str) -> str | None:
    """Return the value of one setting, None where the profile leaves it alone."""
    return next((each.value for each in settings if (each.where, each.name) == (where, name)), None)
