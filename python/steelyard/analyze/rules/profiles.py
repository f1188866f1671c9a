"""Rules about the samples of a profile.

A share of N samples has a standard error of sqrt(p (1 - p) / N): with `SAMPLES` samples 5 percentage points
at most, and below that number no rule gives a finding.

Not here: placing functions in categories (``profiles.tax_map``).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from steelyard.analyze.headline import Headline
from steelyard.analyze.own_cpu import Usage
from steelyard.analyze.pressure.threads import TargetUse
from steelyard.analyze.profiles.callers import is_artefact
from steelyard.analyze.profiles.figures import ProfileUse
from steelyard.analyze.profiles.names import short_function
from steelyard.analyze.profiles.profile import UNKNOWN
from steelyard.analyze.rules.findings import Evidence, Finding, percent, rule, without_work
from steelyard.records import Machine

SAMPLES = 100
HOT_RATIO = 0.30
COPY_RATIO = 0.40
COPY_BUSY_CPUS = 0.5
CACHE_FACTOR = 2.0
SPIN_RATIO = 0.05
FUTEX_RATIO = 0.05
INTERPRETED = "py::"
"""How names of functions begin that the profiler read from a Python interpreter."""
CALLS_RATIO = 1.5
"""A function's share with its callees is shown too from this many times its own share on."""
LEADS_RATIO = 0.05
"""Share of a category below which its largest function is not worth naming."""
TWO_THREADS = 1.5
"""Threads on average below which a program hands nothing from one to another."""
WHOLE_RATIO = 0.9
"""From this part on, a category's samples in one library are the category."""
UNRESOLVED_RATIO = 0.30
SPINNING = (
    "native_queued_spin_lock_slowpath",
    "queued_spin_lock_slowpath",
    "pv_native_queued_spin_lock_slowpath",
)
NOT_HOT = (UNKNOWN, "[no stack]", "_PyEval_EvalFrameDefault")
CONVENTION = "convention: a share at which optimising this category alone pays"


def _unnamed(function: str) -> str | None:
    """Return the library of samples without a name, as `Frame.key` writes them; None of a function."""
    return function.removeprefix(f"{UNKNOWN} [").removesuffix("]") if function.startswith(UNKNOWN) else None


@rule(
    "hot-function",
    "Does one function take much of the CPU time?",
    area="profile",
    explains="cpu",
    threshold="G. Amdahl, 1967: a function with a third of the time limits the gain of all else; a third is"
    " convention",
)
def _hot(profile: ProfileUse, headline: Headline) -> Finding | None:
    if profile.samples < SAMPLES:
        return None
    named = {
        name: share for name, share in profile.own.items() if name not in NOT_HOT and not is_artefact(name)
    }
    name = max(named, key=lambda function: named[function], default=None)
    if name is None or named[name] < HOT_RATIO:
        return None
    share = named[name]
    where = profile.modules.get(name)
    step = "Look at its callers in the flame graph, and at its instructions (perf annotate)."
    if (library := _unnamed(name)) is not None:
        what = f"{library}, whose functions have no name here"
        step = (
            "Install its debug symbols (the package -dbgsym, libc6-dbg for the C library, or debuginfod),"
            " and profile again."
        )
        if (tax := next((tax for tax in _TAXES if _is_one_library(profile, tax)), None)) is not None:
            what = f"{library}, which {tax.verb}; its functions have no name here"
            step = f"{tax.step} {step}"
    else:
        what = f"{name}{f' ({where})' if where else ''} itself"
    return Finding(
        f"{percent(share)} of the CPU time is in {what}.",
        (
            Evidence(f"samples in {library or name}", share, "ratio", HOT_RATIO),
            Evidence("samples", float(profile.samples), "1", float(SAMPLES)),
        ),
        step,
        0.35 + 0.4 * share,
        gain=f"{without_work(headline, share)}, without it (Amdahl)",
    )


@rule(
    "memory-copies",
    "Is memory bandwidth the likely limit?",
    area="profile",
    explains="cpu",
    threshold="convention: 40 % of samples copy, fill or compare memory, in a program twice as large as the"
    " last-level cache",
)
def _copies(
    machine: Machine | None,
    target: TargetUse | None,
    profile: ProfileUse,
    usage: Usage,
    headline: Headline,
) -> Finding | None:
    share = profile.share("memory")
    used = target.cpus.value or 0.0 if target else usage.busy_cpus
    if profile.samples < SAMPLES or share < COPY_RATIO or (usage.demand or used) < COPY_BUSY_CPUS:
        return None
    caches = [cache.size_bytes for cache in machine.cpu.caches] if machine else []
    resident = target.rss_high_bytes.value if target else None
    if caches and resident is not None and resident < CACHE_FACTOR * max(caches):
        # What fits the cache is copied from there.
        return None
    fits = ""
    evidence = [
        Evidence("samples in memory operations", share, "ratio", COPY_RATIO),
        Evidence("CPUs used", used, "1"),
    ]
    if caches and resident is not None:
        size, cache = resident / 2**20, max(caches) / 2**20
        fits = f", its {size:,.0f} MiB exceed the last-level cache ({cache:,.0f} MiB),"
        evidence.append(Evidence("resident memory", resident, "bytes", CACHE_FACTOR * max(caches)))
    largest = _largest(profile, ("memory",))
    return Finding(
        f"{percent(share)} of the CPU time copies, fills or compares memory"
        f"{f' ({largest})' if largest else ''}{fits} on"
        f" {used:.1f} CPUs: memory bandwidth is probably the limit. No counter was measured to confirm it.",
        tuple(evidence),
        "Measure the machine's bandwidth (`steelyard health --part memory_bandwidth`) and compare it with the"
        " counters' traffic; or check whether a second copy of the program slows the first.",
        0.55 + 0.35 * share,
        gain=f"{without_work(headline, share)} by copying less; none by a faster clock",
        part="dram_bandwidth",
        sure=False,
    )


@rule(
    "kernel-spinning",
    "Do CPUs spin on locks in the kernel?",
    area="profile",
    explains="cpu",
    threshold="convention: 5 %; only contended locks spin",
)
def _spinning(profile: ProfileUse, headline: Headline) -> Finding | None:
    share = max(profile.own.get(name, 0.0) for name in SPINNING)
    if profile.samples < SAMPLES or share < SPIN_RATIO:
        return None
    return Finding(
        f"{percent(share)} of the CPU time spins on locks in the kernel.",
        (Evidence("samples in the spin lock's slow path", share, "ratio", SPIN_RATIO),),
        "Look at the callers in the flame graph: they show the lock.",
        0.5 + 0.5 * share,
        gain=f"{without_work(headline, share)}, and more on more CPUs",
        part="locks",
    )


@rule(
    "futex-calls",
    "Does putting threads to sleep and waking them take much CPU time?",
    area="profile",
    explains="cpu",
    cause="locks",
    threshold="convention: 5 % of samples below futex; only contended locks call it",
)
def _futex(profile: ProfileUse, headline: Headline) -> Finding | None:
    names = ("__x64_sys_futex", "__arm64_sys_futex", "do_futex", "futex_wait", "futex_wake")
    share = max(profile.total.get(name, 0.0) for name in names)
    if profile.samples < SAMPLES or share < FUTEX_RATIO:
        return None
    return Finding(
        f"{percent(share)} of the CPU time is in futex: threads sleep and wake for locks or queues.",
        (Evidence("samples below futex", share, "ratio", FUTEX_RATIO),),
        "Look at the callers in the flame graph; batch hand-offs, shorten critical sections, or split the"
        " lock.",
        0.45 + 0.5 * share,
        gain=f"{without_work(headline, share)}; the waits themselves may cost more",
        part="locks",
        sure=False,
    )


@rule(
    "unresolved",
    "Is much of the profile unclassified?",
    area="profile",
    threshold="convention: 30 %",
)
def _unresolved(profile: ProfileUse) -> Finding | None:
    ratio = profile.unclassified_ratio
    if profile.samples < SAMPLES or ratio is None or ratio < UNRESOLVED_RATIO:
        return None
    return Finding(
        f"{percent(ratio)} of the samples are in functions without a name or without a category.",
        (Evidence("unclassified samples", ratio, "ratio", UNRESOLVED_RATIO),),
        "Install debug symbols, allow kernel symbols (kernel.kptr_restrict=0), write perf maps"
        " (python -X perf), or add rules to the tax map (--rules).",
        0.15,
        gain="none; the profile becomes more useful",
    )


@dataclass(frozen=True)
class _Tax:
    """A category that gives a finding from ``ratio`` on, with the next step."""

    id: str
    categories: tuple[str, ...]
    ratio: float
    verb: str
    step: str


_TAXES = (
    _Tax(
        "tax-compression",
        ("compression",),
        0.20,
        "compresses and decompresses",
        "Compare other levels and codecs on the same data: `steelyard-tax run --only compression`.",
    ),
    _Tax(
        "tax-serialization",
        ("serialization",),
        0.20,
        "serializes and parses",
        "Find the messages; for large ones that are read in part use a format without parsing.",
    ),
    _Tax(
        "tax-rpc",
        ("rpc",),
        0.25,
        "handles requests (RPC, HTTP)",
        "Batch small requests; see connections and header handling in the flame graph.",
    ),
    _Tax(
        "tax-encryption",
        ("encryption",),
        0.20,
        "runs cryptography: ciphers, or digests of a library without symbols",
        "Check that ciphers use the CPU's instructions (`steelyard-tax run --only encryption`), and whether"
        " handshakes or records dominate.",
    ),
    _Tax(
        "tax-hashing",
        ("hashing",),
        0.20,
        "hashes",
        "Compare faster hashes where cryptographic ones are not needed.",
    ),
    _Tax(
        "tax-allocation",
        ("allocation", "kernel_memory"),
        0.15,
        "allocates and frees memory",
        "Compare another allocator (LD_PRELOAD), and reuse objects.",
    ),
    _Tax("tax-logging", ("logging",), 0.10, "logs", "Log less, or log from another thread."),
    _Tax(
        "kernel-entry",
        ("kernel_entry",),
        0.10,
        "enters and leaves the kernel",
        "Count system calls (`strace -c -f`), and make fewer, larger ones.",
    ),
    _Tax(
        "kernel-faults",
        ("kernel_page_faults",),
        0.10,
        "handles page faults",
        "Keep memory mapped, or use huge pages.",
    ),
    _Tax(
        "kernel-network",
        ("kernel_network",),
        0.35,
        "is in the kernel's network stack",
        "Use larger messages, fewer packets (GRO, GSO), or zero copy with io_uring.",
    ),
    _Tax(
        "kernel-storage",
        ("kernel_storage",),
        0.35,
        "is in the kernel's file systems and storage stack",
        "Move less data per operation, or more with each: larger operations, a cache in the program.",
    ),
    _Tax(
        "kernel-scheduling",
        ("kernel_scheduling",),
        0.15,
        "schedules threads",
        "Use fewer hand-offs between threads, and larger batches.",
    ),
    _Tax(
        "kernel-processes",
        ("kernel_process",),
        0.15,
        "starts and ends processes",
        "Start a pool of processes once.",
    ),
    _Tax(
        "garbage-collection",
        ("runtime_gc",),
        0.10,
        "collects garbage",
        "Use a larger heap, or fewer short-lived objects: an allocation profile names them.",
    ),
    _Tax(
        "interpreter",
        ("runtime_interpreter",),
        0.40,
        "is interpreted application code",
        "Find its functions in the profile, and move the hottest to compiled code; perf maps give names for"
        " other languages than Python.",
    ),
    _Tax(
        "compiler",
        ("runtime_compiler",),
        0.10,
        "compiles at run time",
        "Measure after the warm-up, when compilation has ended.",
    ),
)


def _largest(profile: ProfileUse, categories: Sequence[str]) -> str:
    """Name the function with most samples of several categories, with its share of all; "" without a name."""
    leaders = [
        (profile.leader_ratios.get(category, 0.0), profile.leaders[category])
        for category in categories
        if category in profile.leaders
    ]
    if not leaders:
        return ""
    ratio, function = max(leaders)
    if ratio and ratio < LEADS_RATIO * sum(profile.categories.get(name, 0.0) for name in categories):
        # So little leads nothing: most of it is in names that say nothing (interrupts allowed again).
        return ""
    if _unnamed(function) is not None or is_artefact(function):
        return ""
    whole = profile.total.get(function, 0.0)
    share = f", {percent(ratio)}" if ratio else ""
    if share and whole >= CALLS_RATIO * ratio:
        share += f" itself and {percent(whole)} with what it calls"
    return f"the largest is {short_function(function)}{share}"


def _largest_interpreted(profile: ProfileUse) -> str:
    """Name the program's own function with most samples, of those that an interpreter ran; "" without one.

    What the interpreter's own functions do (looking up a name, counting references) is compiled code already.
    """
    names = [name for name in profile.own if name.startswith(INTERPRETED)]
    name = max(names, key=lambda function: profile.own[function], default=None)
    if name is None:
        return ""
    own, whole = profile.own[name], profile.total.get(name, 0.0)
    share = percent(own)
    if whole >= CALLS_RATIO * own:
        share += f" itself and {percent(whole)} with what it calls"
    return f"the largest of the program's functions is {short_function(name)}, {share}"


def _is_one_library(profile: ProfileUse, tax: _Tax) -> bool:
    """Return whether a category is one library without names, which `hot-function` reports with its work."""
    share = profile.share(*tax.categories)
    largest = max(tax.categories, key=lambda category: profile.leader_ratios.get(category, 0.0))
    name = profile.leaders.get(largest, "")
    own = profile.own.get(name, 0.0)
    return (
        share >= tax.ratio
        and _unnamed(name) is not None
        and own >= HOT_RATIO
        and own == max(profile.own.values())
        and profile.leader_ratios.get(largest, 0.0) >= WHOLE_RATIO * max(share, own)
    )


_OBJECTS = (
    "Make fewer objects. The interpreter has an allocator of its own, which LD_PRELOAD does not replace:"
    " PYTHONMALLOC=malloc uses the C library's."
)


_WAITS = (
    "Each wait puts the thread to sleep and wakes it: find what it waits for in the flame graph (callers of"
    " schedule), and do it in larger or fewer operations."
)


def _step(tax: _Tax, profile: ProfileUse, target: TargetUse | None) -> str:
    if tax.id == "tax-allocation" and _is_objects(profile):
        return _OBJECTS
    if tax.id == "kernel-scheduling" and target is not None and target.threads < TWO_THREADS:
        return _WAITS
    return tax.step


def _is_objects(profile: ProfileUse) -> bool:
    """Return whether most of the allocation is CPython's own."""
    leader = profile.leaders.get("allocation", "")
    return leader.lstrip("_").startswith(("PyObject_", "PyMem_", "pymalloc"))


def _answer(tax: _Tax) -> Callable[..., Finding | None]:
    def answer(target: TargetUse | None, profile: ProfileUse, headline: Headline) -> Finding | None:
        share = profile.share(*tax.categories)
        if profile.samples < SAMPLES or share < tax.ratio or _is_one_library(profile, tax):
            return None
        most = _largest_interpreted(profile) if tax.id == "interpreter" else ""
        most = most or _largest(profile, tax.categories)
        return Finding(
            f"{percent(share)} of the CPU time {tax.verb}{f'; {most}' if most else ''}.",
            (Evidence(f"samples: {', '.join(tax.categories)}", share, "ratio", tax.ratio),),
            _step(tax, profile, target),
            0.25 + 0.5 * share,
            gain=f"{without_work(headline, share)}, without it (Amdahl)",
        )

    return answer


for _tax in _TAXES:
    rule(
        _tax.id,
        f"Is there much CPU time that {_tax.verb}?",
        area="profile",
        threshold=CONVENTION,
        explains="cpu",
    )(_answer(_tax))
