"""Knobs of processors: how many the workload gets, SMT, hotplug, prefetchers, shares of the last cache."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from steelyard._base import UsageError, format_cpu_list, parse_cpu_list
from steelyard.machine.tree import Tree, keyed
from steelyard.tune.cells import AffinityCell, BitsCell, FileCell, SchemataCell
from steelyard.tune.changes import Write
from steelyard.tune.knobs.knob import FilesKnob, Found, Knob, Lacking, Risk, unwritable

_CPU = "sys/devices/system/cpu"
_RESCTRL = "sys/fs/resctrl"


def _allowed(tree: Tree) -> list[int]:
    """Return the CPUs that programs may have here: one thread of each core first, then their siblings."""
    import os

    online = parse_cpu_list(tree.text(f"{_CPU}/online") or "") or []
    if tree.is_live:
        online = sorted(os.sched_getaffinity(0))

    def place(cpu: int) -> tuple[int, int]:
        siblings = parse_cpu_list(tree.text(f"{_CPU}/cpu{cpu}/topology/thread_siblings_list") or "") or [cpu]
        return (siblings.index(cpu) if cpu in siblings else 0, cpu)

    return sorted(online, key=place)


def _doublings(count: int) -> tuple[str, ...]:
    """Return 1, 2, 4 ... and three quarters, up to ``count``."""
    steps = {1 << power for power in range(count.bit_length())} | {count, max(1, count * 3 // 4)}
    return tuple(str(step) for step in sorted(steps) if step <= count)


@dataclass
class CpuCount(Knob):
    """CPUs that the workload gets: by affinity, so that no other program notices."""

    cpus: tuple[int, ...]
    name: str = "cpus"
    about: str = "CPUs of the workload, cores first, then their second threads"
    risk: Risk = Risk.LOW
    is_ordered: bool = True
    section: str | None = "service"

    def __post_init__(self) -> None:
        self.levels = _doublings(len(self.cpus))

    def read(self) -> str:
        """Return how many there are."""
        return str(len(self.cpus))

    def check(self, level: str) -> str:
        """Return a number of CPUs. Raises UsageError."""
        if not level.isdigit() or not 1 <= int(level) <= len(self.cpus):
            raise UsageError(f"{self.name}={level}: allowed is 1..{len(self.cpus)}", hint=self.about)
        return level

    def list_of(self, level: str) -> str:
        """Return the CPUs of a level as a list."""
        return format_cpu_list(sorted(self.cpus[: int(level)]))

    def writes(self, level: str) -> list[Write]:
        """Return the affinity of this process, which the workload inherits."""
        return [(AffinityCell(), self.list_of(level))]


def cpu_count(tree: Tree) -> Found:
    """CPUs of the workload."""
    cpus = _allowed(tree)
    if len(cpus) < 2:
        return [Lacking("cpus", CpuCount.about, "one CPU")]
    return [CpuCount(tuple(cpus))]


@dataclass
class OnlineCpus(Knob):
    """CPUs that are online at all: the others are unplugged from every program."""

    root: Path
    cpus: tuple[int, ...]
    """Cores first; the first one stays."""
    name: str = "online_cpus"
    about: str = "CPUs that are online; the others are unplugged from every program"
    risk: Risk = Risk.HIGH
    is_ordered: bool = True

    def __post_init__(self) -> None:
        self.levels = _doublings(len(self.cpus))

    def _cell(self, cpu: int) -> FileCell:
        return FileCell(self.root / _CPU / f"cpu{cpu}" / "online")

    def read(self) -> str:
        """Return how many are online."""
        return str(1 + sum(self._cell(cpu).read() == "1" for cpu in self.cpus[1:]))

    def writes(self, level: str) -> list[Write]:
        """Return the switches of all but the first."""
        return [
            (self._cell(cpu), str(int(index < int(level)))) for index, cpu in enumerate(self.cpus) if index
        ]


def online_cpus(tree: Tree) -> Found:
    """Hotplug."""
    name, about = OnlineCpus.name, OnlineCpus.about
    order = _allowed(tree)
    movable = [cpu for cpu in order if tree.exists(f"{_CPU}/cpu{cpu}/online")]
    fixed = [cpu for cpu in order if cpu not in movable]
    if not movable or len(order) < 2:
        return [Lacking(name, about, "the kernel has no hotplug of CPUs")]
    cpus = [*fixed, *movable]
    if (why := unwritable(tree, [f"{_CPU}/cpu{cpu}/online" for cpu in cpus[1:]])) is not None:
        return [Lacking(name, about, why)]
    return [OnlineCpus(tree.root, tuple(cpus))]


def smt(tree: Tree) -> Found:
    """Second threads of cores."""
    name, about, path = "smt", "second hardware threads of cores", f"{_CPU}/smt/control"
    state = tree.text(path)
    if state not in ("on", "off"):
        return [
            Lacking(
                name, about, f"the processor or the hypervisor offers none (control: {state or 'absent'})"
            )
        ]
    if (why := unwritable(tree, [path])) is not None:
        return [Lacking(name, about, why)]
    return [FilesKnob(name, about, (tree.path(path),), ("on", "off"), risk=Risk.HIGH)]


@dataclass
class Prefetchers(Knob):
    """Hardware prefetchers: bits of a register that switch each of them off."""

    paths: tuple[Path, ...]
    register: int
    bits: dict[str, int] = field(default_factory=dict)
    """Name and bit of each prefetcher; a bit that is set switches it off."""
    name: str = "prefetchers"
    about: str = "hardware prefetchers that are on"
    risk: Risk = Risk.LOW

    def __post_init__(self) -> None:
        self.levels = ("all", "none", *self.bits, *(f"no-{name}" for name in self.bits))

    @property
    def _mask(self) -> int:
        return sum(1 << bit for bit in self.bits.values())

    def _off(self, level: str) -> int:
        """Return the bits that are set."""
        if level == "all":
            return 0
        if level == "none":
            return self._mask
        if level.startswith("no-"):
            return 1 << self.bits[level.removeprefix("no-")]
        return self._mask & ~(1 << self.bits[level])

    def read(self) -> str:
        """Return the level of the first CPU, or the bits where they are none of the levels."""
        off = int(BitsCell(self.paths[0], self.register, self._mask).read(), 16)
        return next((level for level in self.levels if self._off(level) == off), f"bits {off:#x}")

    def writes(self, level: str) -> list[Write]:
        """Return the bits for every CPU."""
        text = f"{self._off(level):#x}"
        return [(BitsCell(path, self.register, self._mask), text) for path in self.paths]


_PREFETCHERS = {
    # Intel, "Disclosure of Hardware Prefetcher Control on Some Intel Processors"; SDM volume 4.
    "GenuineIntel": (0x1A4, {"l2-stream": 0, "l2-adjacent": 1, "l1-next-line": 2, "l1-ip": 3}),
    # AMD, Processor Programming Reference for family 19h, MSRC000_0108.
    "AuthenticAMD": (
        0xC0000108,
        {"l1-stream": 0, "l1-stride": 1, "l1-region": 2, "l2-stream": 3, "up-down": 5},
    ),
}
_AMD_FAMILY = 25


def prefetchers(tree: Tree) -> Found:
    """Prefetchers of Intel and AMD."""
    name, about = Prefetchers.name, Prefetchers.about
    info = keyed(tree.text("proc/cpuinfo"))
    vendor = info.get("vendor_id", "")
    if vendor not in _PREFETCHERS:
        return [Lacking(name, about, "their registers are known for Intel and AMD only")]
    if vendor == "AuthenticAMD" and int(info.get("cpu family", "0")) < _AMD_FAMILY:
        return [Lacking(name, about, "AMD has the register from family 19h on")]
    register, bits = _PREFETCHERS[vendor]
    devices = [f"dev/cpu/{cpu}/msr" for cpu in tree.names("dev/cpu", r"\d+")]
    devices = [device for device in devices if tree.exists(device)]
    if not devices:
        return [Lacking(name, about, "the msr driver is not loaded: modprobe msr")]
    knob = Prefetchers(tuple(tree.path(device) for device in devices), register, dict(bits))
    try:
        knob.read()
    except OSError as error:
        return [Lacking(name, about, f"register {register:#x} cannot be read: {error.strerror}")]
    return [knob]


@dataclass
class CacheWays(Knob):
    """Ways of the last cache that the default group may fill (CAT), or code and data apart (CDP)."""

    schemata: Path
    domains: tuple[str, ...]
    ways: int
    least: int
    is_split: bool
    risk: Risk = Risk.MEDIUM

    def __post_init__(self) -> None:
        self.name = "code_data_ways" if self.is_split else "cache_ways"
        self.about = (
            "ways of the last cache: for data + for code"
            if self.is_split
            else "ways of the last cache that programs may fill"
        )
        full = self.ways
        if self.is_split:
            splits = (f"{data}+{full - data}" for data in range(self.least, full - self.least + 1))
            self.levels = (f"{full}+{full}", *splits)
        else:
            self.levels = tuple(str(count) for count in range(self.least, full + 1))
            self.is_ordered = True

    def _cells(self) -> list[SchemataCell]:
        names = ("L3DATA", "L3CODE") if self.is_split else ("L3",)
        return [SchemataCell(self.schemata, name) for name in names]

    def _mask(self, low: int, count: int) -> str:
        mask = f"{((1 << count) - 1) << low:x}"
        return ";".join(f"{domain}={mask}" for domain in self.domains)

    def writes(self, level: str) -> list[Write]:
        """Return a mask for each cache: data from below, code from above, so that they share least."""
        if not self.is_split:
            return [(self._cells()[0], self._mask(0, int(level)))]
        data, code = (int(part) for part in level.split("+"))
        masks = self._mask(0, data), self._mask(self.ways - code, code)
        return list(zip(self._cells(), masks, strict=True))

    def read(self) -> str:
        """Return the level that the masks are, or the masks."""
        now = [cell.read() for cell in self._cells()]
        for level in self.levels:
            if [text for _, text in self.writes(level)] == now:
                return level
        return " ".join(now)


def cache_ways(tree: Tree) -> Found:
    """Cache allocation by resctrl."""
    flags = keyed(tree.text("proc/cpuinfo")).get("flags", "").split()
    path = f"{_RESCTRL}/schemata"
    about = "ways of the last cache that programs may fill, or code and data apart"
    names = ("cache_ways", "code_data_ways")
    if not tree.exists(path):
        reason = (
            "resctrl is not mounted: mount -t resctrl resctrl /sys/fs/resctrl (with -o cdp for code and data)"
            if "cat_l3" in flags
            else "the processor's flags have no cat_l3"
        )
        return [Lacking(name, about, reason) for name in names]
    is_split = tree.exists(f"{_RESCTRL}/info/L3CODE")
    folder = f"{_RESCTRL}/info/{'L3CODE' if is_split else 'L3'}"
    mask, least = tree.text(f"{folder}/cbm_mask"), tree.number(f"{folder}/min_cbm_bits")
    other = Lacking(
        names[0] if is_split else names[1],
        about,
        "resctrl is mounted with cdp" if is_split else "resctrl is mounted without cdp",
    )
    here = names[1] if is_split else names[0]
    if mask is None or least is None:
        return [Lacking(here, about, f"/{folder} does not tell the ways"), other]
    if (why := unwritable(tree, [path])) is not None:
        return [Lacking(here, about, why), other]
    try:
        domains = SchemataCell(tree.path(path), "L3DATA" if is_split else "L3").read()
    except OSError as error:
        return [Lacking(here, about, f"/{path} {error.strerror}"), other]
    numbers = tuple(domain.partition("=")[0] for domain in domains.split(";"))
    return [CacheWays(tree.path(path), numbers, int(mask, 16).bit_count(), least, is_split), other]
