#!/usr/bin/env python3
"""The load engine beside memcaslap: requests per CPU-second of the client, and how late an open loop sends.

Both clients put GET hits of 200 B on the same Debian memcached, one thread and 16 connections, client on the
first CPU and server on the second, alternately, some rounds; a ratio is the median of the rounds' ratios. The
CPU time of a client is what wait4 says of the whole process, start, prefill and warm-up included.
"""

import json
import os
import re
import resource
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = int(os.environ.get("STEELYARD_BENCH_ROUNDS", "5"))
SECONDS = int(os.environ.get("STEELYARD_BENCH_SECONDS", "4"))
LOAD = Path(os.environ.get("STEELYARD_BIN_DIR", Path(sys.executable).parent)) / "steelyard-load"
KEYS = 10_000


def cpus() -> tuple[int, int]:
    """Return a CPU for the client and one for the server; they are the same on a machine with one CPU."""
    usable = sorted(os.sched_getaffinity(0))
    return usable[0], usable[-1]


def free_port() -> int:
    """Return a port that was free a moment ago."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def start_server(cpu: int) -> tuple[subprocess.Popen[bytes], int]:
    """Start memcached with one thread on ``cpu``; return it when it listens, with its port."""
    port = free_port()
    command = ["memcached", "-u", "nobody", "-l", "127.0.0.1", "-p", str(port), "-t", "1", "-m", "256"]
    server = subprocess.Popen(["taskset", "-c", str(cpu), *command], stderr=subprocess.DEVNULL)
    for _ in range(500):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return server, port
        except OSError:
            time.sleep(0.01)
    server.kill()
    raise SystemExit("bench_load: memcached does not listen")


def timed(command: list[str]) -> tuple[str, float]:
    """Run ``command`` and return its output and its CPU time in seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return done.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def ours(port: int, cpu: int) -> dict[str, float]:
    """Measure steelyard-load in a closed loop."""
    command = [str(LOAD), "--target", f"127.0.0.1:{port}", "--threads", "1", "--connections", "16"]
    command += ["--depth", "1", "--keys", str(KEYS), "--key-sizes", "16", "--value-sizes", "200", "--prefill"]
    command += [
        "--warmup",
        "0s",
        "--duration",
        f"{SECONDS}s",
        "--cpus",
        str(cpu),
        "--progress",
        "none",
        "--json",
    ]
    output, cpu_s = timed(command)
    result = json.loads(output)
    requests = result["requests"]["completed"] + KEYS
    get = result["operations"]["get"]
    if get["misses"] or result["requests"]["errors"]:
        raise SystemExit(f"bench_load: not all hits: {result['requests']}")
    return {"per_cpu_s": requests / cpu_s, "per_s": result["throughput_per_s"]}


def memcaslap(port: int, cpu: int, config: Path) -> dict[str, float]:
    """Measure memcaslap with the same requests."""
    command = ["taskset", "-c", str(cpu), "memcaslap", "-s", f"127.0.0.1:{port}", "-T", "1", "-c", "16"]
    output, cpu_s = timed([*command, "-t", f"{SECONDS}s", "-F", str(config)])
    counts = {name: int(n) for name, n in re.findall(r"(cmd_get|cmd_set|get_misses): (\d+)", output)}
    if counts["get_misses"]:
        raise SystemExit(f"bench_load: memcaslap missed: {counts}")
    requests = counts["cmd_get"] + counts["cmd_set"]
    rate = re.search(r"TPS: (\d+)", output)
    return {"per_cpu_s": requests / cpu_s, "per_s": float(rate.group(1)) if rate else 0.0}


def lag(port: int, cpu: int) -> float:
    """Return the 99.9th percentile of the schedule lag at 50,000 requests a second, ns."""
    command = [str(LOAD), "--target", f"127.0.0.1:{port}", "--threads", "1", "--connections", "16"]
    command += ["--depth", "16", "--keys", str(KEYS), "--rate", "50000", "--arrival", "constant"]
    command += [
        "--warmup",
        "1s",
        "--duration",
        f"{SECONDS}s",
        "--cpus",
        str(cpu),
        "--progress",
        "none",
        "--json",
    ]
    return float(json.loads(timed(command)[0])["latency"]["lag"]["p999_ns"])


def row(**values: object) -> None:
    """Print one row of the table."""
    print(json.dumps(values), flush=True)


def main() -> None:
    """Measure and print."""
    client_cpu, server_cpu = cpus()
    server, port = start_server(server_cpu)
    try:
        with tempfile.TemporaryDirectory() as folder:
            config = Path(folder) / "memcaslap.cfg"
            config.write_text("key\n16 16 1\nvalue\n200 200 1\ncmd\n0 0\n1 1\n")
            mine, theirs, lags = [], [], []
            for index in range(ROUNDS):
                mine.append(ours(port, client_cpu))
                theirs.append(memcaslap(port, client_cpu, config))
                if index < 3:
                    lags.append(lag(port, client_cpu))
                print(f"{mine[-1]} {theirs[-1]} lag {lags[-1]:.0f} ns", file=sys.stderr)
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()
    ratio = statistics.median(m["per_cpu_s"] / t["per_cpu_s"] for m, t in zip(mine, theirs, strict=True))
    row(
        name="load engine, requests per CPU-second, depth 1, beside memcaslap",
        ours=statistics.median(m["per_cpu_s"] for m in mine),
        theirs=statistics.median(t["per_cpu_s"] for t in theirs),
        unit="1/s",
        ratio=ratio,
        bar=">= 1.3x",
        met=ratio >= 1.3,
        note=f"throughput {statistics.median(m['per_s'] for m in mine):.0f} and "
        f"{statistics.median(t['per_s'] for t in theirs):.0f} requests/s; {ROUNDS} rounds of {SECONDS} s",
    )
    late = statistics.median(lags)
    row(
        name="load engine, p99.9 of schedule lag, 50k/s open loop",
        ours=late / 1e3,
        theirs=None,
        unit="us",
        ratio=None,
        bar="<= 50 us",
        met=late <= 50_000,
    )


if __name__ == "__main__":
    main()
