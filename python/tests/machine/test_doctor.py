"""The diagnosis: of hosts that lack things, of this one, and as a terminal shows it."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from steelyard._base.documents import as_document
from steelyard.machine import Attempts, Capability, Status, diagnose
from steelyard.machine.attempts import Refusal
from steelyard.machine.doctor import telemetry
from steelyard.report.answer.terminal import terminal
from steelyard.report.machine.doctor import answer

from .trees import write_tree


def stat(busy: int, steal: int, idle: int) -> str:
    return f"cpu  {busy} 0 0 {idle} 0 0 0 {steal} 0 0\ncpu0 1 2 3\n"


def allowing(root: Path, after: str | None = None, **refusals: int) -> Attempts:
    """Attempts that work except for ``refusals``; while they wait, /proc/stat becomes ``after``."""

    def answer(name: str) -> Callable[[], Refusal | None]:
        number = refusals.get(name)
        return lambda: None if number is None else Refusal(number, os.strerror(number))

    def wait(_: float) -> None:
        if after is not None:
            (root / "proc/stat").write_text(after)

    names = ("io_uring", "hardware_counter", "software_counter", "affinity", "parent_death_signal")
    return Attempts(wait=wait, **{name: answer(name) for name in names})


def host(root: Path, **files: str) -> Path:
    tree = {
        "proc/stat": stat(1000, 0, 9000),
        "proc/meminfo": "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\nSwapTotal: 0 kB\n",
        "proc/sys/kernel/perf_event_paranoid": "1",
        "proc/self/status": "Cpus_allowed_list: 0-7\n",
        "sys/devices/system/cpu/online": "0-7",
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance",
        "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc",
        "sys/devices/system/node/node0/cpulist": "0-3",
        "sys/devices/system/node/node1/cpulist": "4-7",
    }
    tree.update({name.replace("__", "/"): text for name, text in files.items()})
    return write_tree(root, tree)


def by_name(capabilities: list[Capability]) -> dict[str, Capability]:
    found = {one.name: one for one in capabilities}
    assert len(found) == len(capabilities), "names must differ"
    return found


def test_a_quiet_bare_machine_can_do_everything(tmp_path: Path) -> None:
    root = host(tmp_path)
    found = by_name(diagnose(root=root, sources=[], trying=allowing(root, stat(1001, 0, 9999))))
    assert {name for name, one in found.items() if one.status is not Status.YES} == {
        "CPU limit of a run",
        "memory limit of a run",
        "open files",
    } - ({"open files"} if found["open files"].status is Status.YES else set())
    assert found["other load"].finding == "other work used 0 % of CPU time in 0.5 s"


def test_other_load_and_steal_are_reported_in_figures(tmp_path: Path) -> None:
    root = host(tmp_path)
    found = by_name(diagnose(root=root, sources=[], trying=allowing(root, stat(1300, 100, 9600))))
    assert (found["other load"].status, found["steal time"].status) == (Status.PARTLY, Status.PARTLY)
    assert found["other load"].finding.startswith("other work used 30 % of CPU time")
    assert "took 10.0 %" in found["steal time"].finding


@pytest.mark.parametrize(
    ("refused", "number", "name", "status", "words"),
    [
        ("io_uring", errno.ENOSYS, "io_uring", Status.PARTLY, "falls back to epoll"),
        ("io_uring", errno.EPERM, "io_uring", Status.PARTLY, "not permitted"),
        ("hardware_counter", errno.ENOENT, "hardware counters", Status.NO, "does not expose its PMU"),
        ("hardware_counter", errno.EACCES, "hardware counters", Status.NO, "perf_event_paranoid is 1"),
        ("software_counter", errno.EACCES, "profile clock", Status.NO, "Permission denied"),
        ("affinity", errno.EPERM, "CPU pinning", Status.NO, "cannot be separated"),
        ("parent_death_signal", errno.EPERM, "orphan protection", Status.NO, "may leave processes"),
    ],
)
def test_what_the_kernel_refuses_is_named_with_a_way_out(
    refused: str, number: int, name: str, status: Status, words: str, tmp_path: Path
) -> None:
    root = host(tmp_path)
    one = by_name(diagnose(root=root, sources=[], trying=allowing(root, **{refused: number})))[name]
    assert one.status is status
    assert words in one.finding
    assert one.enable


@pytest.mark.parametrize(
    ("files", "name", "status", "words"),
    [
        (
            {"proc__self__status": "Cpus_allowed_list: 3\n"},
            "separate CPUs",
            Status.NO,
            "neither is measured alone",
        ),
        ({"proc__self__status": "Cpus_allowed_list: 2-3\n"}, "separate CPUs", Status.PARTLY, "2 CPUs"),
        (
            {"sys__devices__system__cpu__cpu0__cpufreq__scaling_governor": "powersave"},
            "frequency",
            Status.PARTLY,
            "powersave",
        ),
        ({"sys__devices__system__cpu__cpufreq__boost": "1"}, "turbo", Status.PARTLY, "temperature"),
        (
            {"sys__devices__system__clocksource__clocksource0__current_clocksource": "hpet"},
            "clock",
            Status.PARTLY,
            "hpet",
        ),
        (
            {"proc__meminfo": "MemAvailable: 1024 kB\nSwapTotal: 2048 kB\n"},
            "memory",
            Status.PARTLY,
            "0.0 GiB",
        ),
        ({"proc__meminfo": "MemAvailable: 1024 kB\nSwapTotal: 2048 kB\n"}, "swap", Status.PARTLY, "2 MiB"),
        (
            {"sys__kernel__mm__transparent_hugepage__enabled": "always madvise [never]"},
            "huge pages",
            Status.PARTLY,
            "never",
        ),
        (
            {
                "proc__self__cgroup": "0::/a\n",
                "proc__self__mountinfo": "1 1 0:1 / /sys/fs/cgroup rw - cgroup2 none rw\n",
                "sys__fs__cgroup__a__cpu.max": "150000 100000",
                "sys__fs__cgroup__a__cgroup.controllers": "cpu",
            },
            "CPU quota",
            Status.PARTLY,
            "1.5 of 8 CPUs",
        ),
    ],
)
def test_conditions_that_move_results(
    files: dict[str, str], name: str, status: Status, words: str, tmp_path: Path
) -> None:
    one = by_name(diagnose(root=host(tmp_path, **files), sources=[]))[name]
    assert one.status is status
    assert words in one.finding
    assert one.enable


def test_groups_that_can_be_written_and_one_that_cannot(tmp_path: Path) -> None:
    root = host(
        tmp_path,
        proc__self__cgroup="2:memory:/\n1:cpu:/\n",
        proc__mounts="cg /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\ncg /sys/fs/cgroup/gone cgroup rw,memory 0 0\n",
        sys__fs__cgroup__cpu__tasks="",
    )
    found = by_name(diagnose(root=root, sources=[]))
    assert found["CPU limit of a run"].status is Status.YES
    assert found["memory limit of a run"].status is Status.NO
    assert "is not writable" in found["memory limit of a run"].finding


def test_a_recorded_machine_is_not_asked_what_only_a_live_one_knows(tmp_path: Path) -> None:
    names = by_name(diagnose(root=host(tmp_path), sources=[]))
    assert not {"io_uring", "hardware counters", "other load"} & set(names)


SOURCES = [
    {
        "name": "cpu",
        "available": True,
        "reason": None,
        "enable": None,
        "about": "time by mode",
        "columns": [],
    },
    {
        "name": "power",
        "available": False,
        "reason": "no RAPL",
        "enable": "modprobe intel_rapl_msr",
        "columns": [],
    },
    {
        "name": "disk",
        "available": True,
        "columns": [{"name": "flushes", "missing": "older kernel"}, {"name": "reads", "missing": None}],
    },
]


def test_sources_of_the_probe_become_capabilities() -> None:
    cpu, power, disk = telemetry(SOURCES)
    assert (cpu.status, cpu.finding) == (Status.YES, "time by mode")
    assert (power.status, power.finding, power.enable) == (Status.NO, "no RAPL", "modprobe intel_rapl_msr")
    assert (disk.status, disk.finding) == (Status.PARTLY, "without flushes: older kernel")
    (absent,) = telemetry(None)
    assert (absent.status, absent.enable) == (Status.NO, "build it: make build")


def test_the_runs_folder_is_judged_by_the_disk_it_will_be_on(tmp_path: Path) -> None:
    one = by_name(diagnose(root=host(tmp_path), sources=[], runs=tmp_path / "new" / "runs"))["runs folder"]
    assert one.finding.endswith(f"GiB free in {tmp_path}")


def test_this_machine_is_diagnosed_without_harm() -> None:
    before = os.sched_getaffinity(0), len(os.listdir("/proc/self/fd"))
    found = by_name(diagnose(sources=SOURCES, trying=Attempts(wait=lambda _: None)))
    assert before == (os.sched_getaffinity(0), len(os.listdir("/proc/self/fd")))
    assert {"io_uring", "hardware counters", "profile clock", "other load", "separate CPUs"} <= set(found)
    for one in found.values():
        assert one.finding
        assert as_document(one)["status"] in ("yes", "partly", "no")


def test_the_table_shows_everything_and_takes_no_markup_from_outside() -> None:
    nasty = Capability("telemetry", "[red]x[/red]", Status.NO, "[link=evil]why[/link]", "[bold]how")
    output = io.StringIO()
    Console(file=output, width=140, color_system=None).print(terminal(answer([nasty, *telemetry(SOURCES)])))
    text = output.getvalue()
    for part in ("[red]x[/red]", "[link=evil]why[/link]", "[bold]how", "no RAPL", "2 no", "1 yes, 1 partly"):
        assert part in text


def test_a_narrow_terminal_cuts_no_name() -> None:
    capabilities = diagnose(sources=SOURCES, trying=Attempts(wait=lambda _: None))
    output = io.StringIO()
    Console(file=output, width=80, color_system=None).print(terminal(answer(capabilities)))
    words = output.getvalue().split()
    for one in capabilities:
        # A long name is broken between its words.
        assert set(one.name.split()) <= set(words)
