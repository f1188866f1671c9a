#!/usr/bin/env python3
"""steelyard-cache beside Debian's memcached: throughput and p99 of GET hits, and memory per stored byte.

Both servers have one thread on one CPU and are driven by the same steelyard-load on another; they take
turns, round by round, and each figure is the median over the rounds. Prints one JSON line a row (see
benches/run.py).
"""

import json
import os
import random
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = int(os.environ.get("STEELYARD_BENCH_ROUNDS", "5"))
SECONDS = float(os.environ.get("STEELYARD_BENCH_SECONDS", "2"))
MEMORY_MIB = 128
# A round in which other processes used more CPU than this is set aside, as often as twice the rounds.
FOREIGN_CPUS = 0.1
Figures = dict[str, float]


def binary(name: str) -> str:
    """Return the path of one of our executables."""
    folder = os.environ.get("STEELYARD_BIN_DIR", str(Path(sys.executable).parent))
    path = Path(folder) / name
    if not path.exists():
        sys.exit(f"{name} is not in {folder}: run `make build`")
    return str(path)


def cpus() -> tuple[str, str]:
    """Return the CPU of the server and that of the load; the same one where there is no other."""
    usable = sorted(os.sched_getaffinity(0))
    return str(usable[0]), str(usable[-1])


@contextmanager
def running(name: str) -> Iterator[tuple[int, int]]:
    """Run a server; its process id and port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    if name == "ours":
        command = [binary("steelyard-cache"), "--listen", f"127.0.0.1:{port}", "--fast-threads", "1"]
        command += ["--memory", f"{MEMORY_MIB}MiB", "--mode", "look-aside"]
    else:
        command = [
            shutil.which("memcached") or sys.exit("memcached is missing: run scripts/install-bench-packages")
        ]
        command += ["-l", "127.0.0.1", "-p", str(port), "-t", "1", "-m", str(MEMORY_MIB)]
        command += ["-u", "root"] if os.geteuid() == 0 else []
    server = subprocess.Popen(
        ["taskset", "-c", cpus()[0], *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(500):
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                time.sleep(0.02)
        yield server.pid, port
    finally:
        server.kill()
        server.wait()


def cpu_s(pid: int) -> float:
    """User and system time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def load(port: int, depth: int, seconds: float) -> dict[str, object]:
    """Put load on a server and return the result."""
    command = [binary("steelyard-load"), "--target", f"127.0.0.1:{port}", "--json", "--progress", "none"]
    command += ["--connections", "16", "--depth", str(depth), "--threads", "1", "--cpus", cpus()[1]]
    command += ["--keys", "10000", "--key-sizes", "16", "--value-sizes", "200", "--prefill"]
    command += ["--warmup", "500ms", "--duration", f"{seconds}s"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if not done.stdout:
        sys.exit(f"steelyard-load failed ({done.returncode})")
    return json.loads(done.stdout)


def children_cpu_s() -> float:
    """User and system time of the processes that we started and that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def machine_cpu_s() -> float:
    """User and system time of the whole machine. Interrupts are left out: they work for us too."""
    user, nice, system = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:4]
    return (int(user) + int(nice) + int(system)) / os.sysconf("SC_CLK_TCK")


def drive(name: str, depth: int) -> Figures:
    """One round: requests per second, p99, CPU of the server per request, and what others used meanwhile."""
    with running(name) as (pid, port):
        load(port, depth, 0.2)
        ours, machine, begin = cpu_s(pid), machine_cpu_s() - children_cpu_s(), time.monotonic()
        result = load(port, depth, SECONDS)
        spent = cpu_s(pid) - ours
        foreign = machine_cpu_s() - children_cpu_s() - machine - spent
        elapsed = time.monotonic() - begin
    requests, latency = result["requests"], result["latency"]
    gets = result["operations"]["get"]
    if requests["errors"] or gets["misses"]:
        sys.exit(f"{name}: {requests['errors']} errors, {gets['misses']} misses")
    completed = sum(row["completed"] for row in result["series"])
    return {
        "rate": result["throughput_per_s"],
        "p99_us": latency["response"]["p99_ns"] / 1000,
        "cpu_us": 1e6 * spent / completed,
        "client_busy": max(thread["busy_ratio"] for thread in result["threads"]),
        "foreign": max(0.0, foreign / elapsed),
    }


def alternate(depth: int) -> tuple[dict[str, list[Figures]], int]:
    """Measure both servers in turn; the rounds, and how many were set aside because others used the CPUs."""
    rounds: dict[str, list[Figures]] = {"ours": [], "theirs": []}
    aside = 0
    while len(rounds["ours"]) < ROUNDS:
        # Each goes first as often as the other, so that a drift of the machine favours neither.
        first = (len(rounds["ours"]) + aside) % 2
        order = ("theirs", "ours") if first else ("ours", "theirs")
        pair = {name: drive(name, depth) for name in order}
        if aside < 2 * ROUNDS and max(each["foreign"] for each in pair.values()) > FOREIGN_CPUS:
            aside += 1
            continue
        for name, figures in pair.items():
            rounds[name].append(figures)
    return rounds, aside


def row(name: str, ours: float, theirs: float, ratio: float, unit: str, bar: str, note: str = "") -> None:
    """Print a row."""
    sign, bound = bar.split()
    met = ratio >= float(bound) if sign == ">=" else ratio <= float(bound)
    line = {
        "name": name,
        "ours": ours,
        "theirs": theirs,
        "unit": unit,
        "ratio": ratio,
        "bar": bar,
        "met": met,
    }
    print(json.dumps(line | {"note": note}), flush=True)


def speed(depth: int, label: str, bar: str) -> None:
    """Print the rows of one depth."""
    rounds, aside = alternate(depth)

    def median(server: str, figure: str) -> float:
        return statistics.median(each[figure] for each in rounds[server])

    def ratio(figure: str) -> float:
        pairs = zip(rounds["ours"], rounds["theirs"], strict=True)
        return statistics.median(mine[figure] / other[figure] for mine, other in pairs)

    note = (
        f"server CPU {median('ours', 'cpu_us'):.2f} against {median('theirs', 'cpu_us'):.2f} us a request, "
        f"client {median('ours', 'client_busy'):.0%} against {median('theirs', 'client_busy'):.0%} busy"
        + (f"; {aside} rounds were disturbed by other processes and set aside" if aside else "")
    )
    what = f"cache server, GET hits, closed loop, 200 B values, {label}"
    row(
        f"{what}: throughput",
        median("ours", "rate"),
        median("theirs", "rate"),
        ratio("rate"),
        "1/s",
        bar,
        note,
    )
    row(f"{what}: p99", median("ours", "p99_us"), median("theirs", "p99_us"), ratio("p99_us"), "us", "<= 1.0")


def items(count: int) -> list[tuple[bytes, int]]:
    """Keys and value lengths with TaoBench's sizes, the same at every call."""
    quantiles = json.loads((ROOT / "data/tao/object-sizes.json").read_text())["quantiles"]
    draw = random.Random(1)  # noqa: S311

    def size() -> int:
        at = draw.random()
        for (low, below), (high, above) in pairwise(quantiles):
            if at <= high:
                return round(below + (above - below) * (at - low) / (high - low))
        return int(quantiles[-1][1])

    return [(b"key-%026d" % number, size()) for number in range(count)]


def memory_per_byte(name: str, stored: list[tuple[bytes, int]]) -> float:
    """Resident bytes per byte of keys and values that a full server holds."""
    body = b"v" * 70_000
    with running(name) as (pid, port), socket.create_connection(("127.0.0.1", port)) as connection:
        for at in range(0, len(stored), 2000):
            batch = stored[at : at + 2000]
            connection.sendall(
                b"".join(b"set %s 0 0 %d noreply\r\n%s\r\n" % (k, n, body[:n]) for k, n in batch)
            )
        held = 0
        lines = connection.makefile("rb")
        for at in range(0, len(stored), 50):
            connection.sendall(b"get %s\r\n" % b" ".join(key for key, _ in stored[at : at + 50]))
            while (line := lines.readline()) != b"END\r\n":
                _, key, _, length = line.split()
                lines.read(int(length) + 2)
                held += len(key) + int(length)
        lines.close()
        resident = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
    return resident / held


def memory() -> None:
    """Print the row of memory."""
    stored = items(MEMORY_MIB * 2**20 // 356 * 5 // 4)
    ours, theirs = memory_per_byte("ours", stored), memory_per_byte("theirs", stored)
    note = f"both with a limit of {MEMORY_MIB} MiB, a quarter more offered than fits"
    row("cache server memory per stored byte", ours, theirs, ours / theirs, "bytes/byte", "<= 1.1", note)


def main() -> None:
    """Print all rows."""
    memory()
    speed(1, "depth 1", ">= 1.2")
    speed(16, "16 in flight", ">= 3")


if __name__ == "__main__":
    main()
