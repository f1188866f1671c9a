"""One process per CPU: where tasks run, how they are stopped, what is said of one that fails."""

import os
import time
from types import SimpleNamespace

from steelyard.benchmarks.transcode.crew import Crew, Done, Task

CPUS = sorted(os.sched_getaffinity(0))[:2]


def test_every_task_runs_on_the_cpu_of_its_worker_alone() -> None:
    ended: list[Done] = []
    crew = Crew(CPUS)
    command = ["sh", "-c", "grep Cpus_allowed_list /proc/self/status"]
    crew.run_all([Task(str(number), command) for number in range(6)], ended.append)
    assert crew.failure is None
    assert sorted(one.task.label for one in ended) == list("012345")
    for one in ended:
        assert one.stdout.split()[-1] == str(one.cpu)
        assert one.usage.ru_maxrss > 0
    assert os.sched_getaffinity(0) >= set(CPUS), "only workers are pinned"


def test_the_time_of_a_task_holds_the_gap_before_it() -> None:
    ended: list[Done] = []
    Crew(CPUS[:1]).run_all([Task("a", ["true"]), Task("b", ["true"])], ended.append)
    first, second = ended
    assert second.begin_ns == first.end_ns


def test_stop_ends_running_tasks_and_starts_no_more() -> None:
    crew, ended = Crew(CPUS), []
    workers = crew.run(lambda: Task("endless", ["sleep", "600"]), ended.append)
    begun = time.monotonic()
    while len(crew._running) < len(CPUS) and time.monotonic() < begun + 60:
        time.sleep(0.01)
    pids = list(crew._running.values())
    crew.stop()
    for worker in workers:
        worker.join()
    assert len(pids) == len(CPUS) == len(crew.stopped)
    assert not ended
    assert crew.failure is None
    assert not [pid for pid in pids if os.path.exists(f"/proc/{pid}")]


def test_the_first_failure_stops_all_and_is_named() -> None:
    crew = Crew(CPUS)
    tasks = [Task("bad", ["sh", "-c", "echo first; echo why >&2; exit 3"])]
    tasks += [Task("endless", ["sleep", "600"])] * 8
    crew.run_all(tasks)
    assert crew.failure == "bad: sh exited with code 3: why"


def test_a_kill_for_the_memory_limit_is_named() -> None:
    crew = Crew(CPUS[:1])
    crew._memory = SimpleNamespace(kills_since_start=lambda: 1, text="64 MiB")  # type: ignore[assignment]
    crew.run_all([Task("big", ["sh", "-c", "kill -9 $$"])])
    assert crew.failure == "big: sh was killed by SIGKILL: the memory limit of 64 MiB was reached"
    other = Crew(CPUS[:1])
    other.run_all([Task("big", ["sh", "-c", "kill -9 $$"])])
    assert other.failure == "big: sh was killed by SIGKILL"


def test_a_program_that_cannot_be_started_is_named() -> None:
    crew = Crew(CPUS[:1])
    crew.run_all([Task("none", ["/nonexistent/ffmpeg"])])
    assert "FileNotFoundError" in (crew.failure or "")
