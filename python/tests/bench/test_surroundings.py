"""What a run reads about the machine around it, from made-up trees; and what it tells while it lasts."""

import io

import pytest

from steelyard._base import EnvironmentLacksError
from steelyard.bench.hooks.cpu_limit import parent_cgroup
from steelyard.bench.identity import cpu_cgroups, start_ticks
from steelyard.bench.limits.memory import MemoryLimit
from steelyard.cli.progress import PlainProgress


def tree(tmp_path, files):
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_the_smallest_memory_limit_above_counts_in_version_1(tmp_path):
    root = tree(
        tmp_path,
        {
            "proc/self/cgroup": "4:memory:/box/job\n1:cpu:/\n0::/\n",
            "proc/mounts": "cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{(1 << 63) - 4096}\n",
            "sys/fs/cgroup/memory/box/memory.limit_in_bytes": f"{1 << 30}\n",
            "sys/fs/cgroup/memory/box/job/memory.limit_in_bytes": f"{2 << 30}\n",
            "sys/fs/cgroup/memory/box/job/memory.oom_control": "under_oom 0\noom_kill 3\n",
        },
    )
    limit = MemoryLimit.of_this_process(root)
    assert (limit.limit_bytes, limit.text) == (1 << 30, "1024 MiB")
    assert limit.kills_since_start() == 0
    control = root / "sys/fs/cgroup/memory/box/job/memory.oom_control"
    control.write_text("under_oom 0\noom_kill 5\n")
    assert limit.kills_since_start() == 2


def test_the_memory_limit_of_version_2(tmp_path):
    root = tree(
        tmp_path,
        {
            "proc/self/cgroup": "0::/user/job\n",
            "proc/mounts": "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n",
            "sys/fs/cgroup/user/job/memory.max": "max\n",
            "sys/fs/cgroup/user/memory.max": "4096\n",
            "sys/fs/cgroup/user/job/memory.events.local": "low 0\noom_kill 0\n",
        },
    )
    limit = MemoryLimit.of_this_process(root)
    assert limit.limit_bytes == 4096
    (root / "sys/fs/cgroup/user/job/memory.events.local").write_text("low 0\noom_kill 1\n")
    assert limit.kills_since_start() == 1


def test_without_cgroups_there_is_no_limit(tmp_path):
    limit = MemoryLimit.of_this_process(tmp_path)
    assert (limit.limit_bytes, limit.kills_since_start()) == (None, 0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3:cpu,cpuacct:/a/b\n2:memory:/m\n", ["/", "/a", "/a/b", "/a/b/steelyard-x"]),
        ("0::/\n", ["/", "/steelyard-x"]),
        ("2:memory:/m\n", []),
    ],
)
def test_only_cgroups_above_the_run_bind_it(tmp_path, text, expected):
    tree(tmp_path, {"proc/self/cgroup": text})
    assert cpu_cgroups("steelyard-x", tmp_path) == expected


@pytest.mark.parametrize(
    ("groups", "mount", "opened", "expected"),
    [
        ("3:cpuacct,cpu:/a\n0::/b\n", "cgroup rw,cpu,cpuacct", "a/cgroup.procs", ("a", 1)),
        ("0::/b\n", "cgroup2 rw", "b/cgroup.subtree_control", ("b", 2)),
    ],
)
def test_the_cpu_limit_finds_the_own_group_where_it_is_mounted(tmp_path, groups, mount, opened, expected):
    mounts = f"x /groups {mount} 0 0\n"
    tree(tmp_path, {"proc/self/cgroup": groups, "proc/mounts": mounts, f"groups/{opened}": "cpu memory\n"})
    folder, version = parent_cgroup(tmp_path)
    assert (folder, version) == (tmp_path / "groups" / expected[0], expected[1])


def test_a_cpu_limit_needs_an_open_cpu_controller(tmp_path):
    tree(tmp_path, {"proc/self/cgroup": "0::/\n", "proc/mounts": "x /groups cgroup2 rw 0 0\n"})
    with pytest.raises(EnvironmentLacksError, match="no cgroup with a CPU controller"):
        parent_cgroup(tmp_path)


def test_a_process_is_identified_by_its_start_even_with_an_odd_name(tmp_path):
    fields = " ".join(["S", *("0" for _ in range(18)), "4711", "0"])
    tree(tmp_path, {"7/stat": f"7 (a) b (c) {fields}\n", "8/stat": f"8 (dead) Z {fields[2:]}\n"})
    assert start_ticks(7, tmp_path) == 4711
    assert start_ticks(8, tmp_path) is None
    assert start_ticks(9, tmp_path) is None


def test_plain_progress_tells_phases_at_once_and_figures_now_and_then(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("steelyard.cli.progress.time.monotonic", lambda: now[0])
    stream = io.StringIO()
    progress = PlainProgress(stream)
    progress.phase("measure")
    for second in range(1, 25):
        now[0] = float(second)
        progress.status({"elapsed": f"{second} s", "requests/s": "10"})
    progress.note("a note")
    assert stream.getvalue().splitlines() == [
        "measure ...",
        "measure: elapsed 10 s, requests/s 10",
        "measure: elapsed 20 s, requests/s 10",
        "a note",
    ]
