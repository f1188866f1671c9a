"""The load engine's interval log is one that HdrHistogram's other implementations read."""

import subprocess
from collections import defaultdict
from pathlib import Path

from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

from tests.executables import backends, servers

LONGEST_NS = 3_600_000_000_000


def test_the_log_adds_up_to_the_result_when_read_by_the_python_implementation(tmp_path: Path) -> None:
    log = tmp_path / "latency.hlog"
    with servers.memcached() as server:
        command = [str(servers.executable("steelyard-load")), "--target", f"127.0.0.1:{server.port}"]
        command += ["--prefill", "--keys", "1000", "--warmup", "1s", "--duration", "2s", "--threads", "2"]
        command += ["--hlog", str(log), "--json", "--progress", "none"]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    result = backends.result_of(done)

    totals: dict[str, HdrHistogram] = defaultdict(lambda: HdrHistogram(1, LONGEST_NS, 3))
    intervals: dict[str, int] = defaultdict(int)
    reader = HistogramLogReader(str(log), HdrHistogram(1, LONGEST_NS, 3))
    while (interval := reader.get_next_interval_histogram()) is not None:
        totals[interval.get_tag()].add(interval)
        intervals[interval.get_tag()] += 1

    rows = result["series"]
    assert dict(intervals) == dict.fromkeys(("response", "service", "queued", "lag"), len(rows))
    answered = sum(row["completed"] for row in rows)
    assert answered > 0
    assert {tag: total.get_total_count() for tag, total in totals.items()} == dict.fromkeys(
        ("response", "service", "queued", "lag"), answered
    )
    # The log holds warm-up and drain too: its extremes enclose those of the measure phase.
    for tag, total in totals.items():
        found = result["latency"][tag]
        assert total.get_max_value() >= found["max_ns"] * 0.999
        assert total.get_value_at_percentile(0) <= found["min_ns"] * 1.001 + 1
