"""Readers of what other tools counted: perf stat and report, curves, tables of operations, logs."""

import json
from pathlib import Path

from steelyard.analyze.pressure.traffic_shaping import read_shapers
from steelyard.analyze.profiles.perf_report import parse_perf_report
from steelyard.analyze.scaling.curve import steps_of
from steelyard.analyze.scaling.measured import parse_curve
from steelyard.bench.operations import afterwards, exposition, selector
from steelyard.bench.operations.afterwards import Span
from steelyard.bench.operations.sources import parse as parse_operations
from steelyard.benchmarks.cassandra.stack.garbage import pauses_of
from steelyard.benchmarks.rocksdb import output as rocksdb
from steelyard.benchmarks.spark.stack.events import read_stages
from steelyard.cli.main import invoke
from steelyard.experiment.curves import read_curves
from steelyard.experiment.numa.figures import read_figures
from steelyard.records import Clock
from steelyard.telemetry.perf_stat.output import read_perf_stat

from .reader import Reader, holding, out

PERF_STAT = {
    "fields": """# started on Sat Nov 21 10:00:00 2026

2.31,msec,task-clock,2310000,100.00,0.021,CPUs utilized
1,,context-switches,2310000,100.00,432.9,/sec
74,,page-faults:u,2310000,100.00,32.034,K/sec
<not supported>,,cycles,0,100.00,,
1000;2;3
""",
    "intervals": """     1.001,CPU0,1000.1,msec,cpu-clock,1000100000,100.00,1.000,CPUs utilized
     1.001,CPU1,1000.1,msec,cpu-clock,1000100000,50.00,1.000,CPUs utilized
     2.002,CPU0,1000.1,msec,cpu-clock,1000100000,100.00,1.000,CPUs utilized
     2.002,CPU1,<not counted>,msec,cpu-clock,0,0.00,,
""",
    "decimal commas": """2,31;msec;task-clock;2310000;100,00;0,021;CPUs utilized
74;;page-faults:u;2310000;100,00;32,034;K/sec
""",
    "json": (
        '{"counter-value" : "2.31", "unit" : "msec", "event" : "task-clock", "event-runtime" : 2310000, '
        '"pcnt-running" : 100.00, "metric-value" : "0.021", "metric-unit" : "CPUs utilized"}\n'
        '{"interval" : 1.001, "cpu" : "0", "counter-value" : "74.0", "unit" : "", "event" : "page-faults", '
        '"event-runtime" : 2310000, "pcnt-running" : 100.00}\n'
        '{"counter-value" : "<not supported>", "unit" : "", "event" : "cycles", "event-runtime" : 0, '
        '"pcnt-running" : 100.00}\n'
    ),
    "text": """
 Performance counter stats for 'sleep 0.05' (3 runs):

              2.31 msec task-clock                       #    0.021 CPUs utilized            ( +-  2.52% )
                 1      context-switches                 #  432.900 /sec
                74      page-faults                      #   32.034 K/sec                     ( +-  0.45% )
     1,234,567,890      cycles                           #    2.500 GHz                      (49.50%)
   <not supported>      instructions

       0.052345678 +- 0.000123 seconds time elapsed  ( +-  0.24% )

       0.001234000 seconds user
       0.002345000 seconds sys
""",
    "text by interval": """#           time             counts unit events
     1.001136106 S0        1          1,000.90 msec cpu-clock                 #    1.000 CPUs utilized
     1.001136106 S0        1               310      context-switches
     2.002136106 S0        1          1,000.90 msec cpu-clock                 #    1.000 CPUs utilized
""",
}
PERF_REPORT = """# To display the perf.data header info, please use --header options.
# cmdline : /usr/bin/perf record -e {cycles,instructions} -- demo
# Samples: 2K of event 'anon group { cycles, instructions }'
# Event count (approx.): 1234567890
#
# Children      Self  Command  Shared Object      Symbol
    75.00%  70.00%  12.00%  11.00%  demo     demo               [.] spin
    20.00%  20.00%   1.00%   1.00%  demo     libc.so.6          [.] malloc
# Samples: 100  of event 'page-faults'
# Overhead  Samples  Command  Symbol
    50.00%       50  demo     [k] clear_page_erms
"""
CURVE = """# threads of a store
cpus,ops_per_s,block,instructions,cycles,elapsed_s,busy_ratio,latency_p99_us,error_ratio
1,100,1,1e9,2e9,10,0.9,5,0
1,101,2,1e9,2e9,10,0.9,5,0
2,190,1,1.1e9,2.3e9,10,0.8,6,0
2,188,2,1.1e9,2.3e9,10,0.8,6,0
4,350,1,1.3e9,2.9e9,10,0.7,7,0
4,345,2,1.3e9,2.9e9,10,0.7,,0.01
"""
TRIALS = "heap_mb,replicate,throughput,p99_ms\n" + "".join(
    f"{heap},{block},{1000 + heap / 8 + block * 3 + at},{9 - heap / 200 + block / 7}\n"
    for block in range(1, 9)
    for at, heap in enumerate((128, 256, 512, 1024))
)
LONG = "factor,level,replicate,metric,value\n" + "".join(
    f"turbo,{level},{block},{metric},{value + block}\n"
    for block in range(1, 7)
    for level, value in (("on", 100), ("off", 90))
    for metric in ("throughput", "watts")
)
SCENARIOS = "scenario,co_runner,replicate,throughput\n" + "".join(
    f"{scenario},{'stream' if scenario > 3 else ''},{replicate},{100 - scenario + replicate}\n"
    for replicate in range(1, 6)
    for scenario in range(1, 7)
)
OPERATIONS = "ts;per s;kind\n" + "".join(
    f"{1_795_314_434 + at};{at % 2 * 10 + 5};{'ab'[at % 2]}\n" for at in range(11)
)
STAMPED = "when,n\n" + "".join(f"2026-11-22T02:27:{at:02}.5Z,{at}\n" for at in range(10, 24))
METRICS = """# HELP requests_total Requests.
# TYPE requests counter
requests_total{path="/a\\"b",code="200"} 12 1795314434000
requests_total{path="/c",code="500"} 1e3 # {trace_id="a"} 1
# TYPE latency histogram
latency_bucket{le="0.5"} 3
latency_bucket{le="+Inf"} 5
latency_sum 1.5
latency_count 5
"""
ROCKSDB = """RocksDB:    version 9.10.0
WARNING: Assertions are enabled; benchmarks unnecessarily slow
readrandom   :   3.123 micros/op 640123 ops/sec 5.001 seconds 3200615 operations;   70.9 MB/s (19 of 16 found)
Microseconds per read:
Count: 3200615 Average: 6.2  StdDev: 10.1
Percentiles: P50: 5.31 P75: 7.1 P99: 21.33 P99.9: 44.0 P99.99: 100.1
"""
GARBAGE = """[5000000ns] GC(3) Pause Young (Normal) (G1 Evacuation Pause) 40M->8M(64M) 1.500ms
[7000000ns] GC(4) Pause Full (System.gc()) 1G->800M(2G) 100.25ms
[7000000ns] GC(5) Concurrent Mark 3ms
"""
SPARK = "\n".join(
    (
        '{"Event":"SparkListenerLogStart","Spark Version":"3.5.3"}',
        '{"Event":"SparkListenerJobStart","Job ID":0,"Stage IDs":[0,1],'
        '"Properties":{"spark.jobGroup.id":"q1"}}',
        '{"Event":"SparkListenerTaskEnd","Stage ID":0,"Task End Reason":{"Reason":"Success"},'
        '"Task Info":{"Launch Time":1795314434000,"Finish Time":1795314435000}}',
        '{"Event":"SparkListenerStageCompleted","Stage Info":{"Stage ID":0,"Stage Name":"scan",'
        '"Number of Tasks":1,"Submission Time":1795314434000,"Completion Time":1795314435500,"Accumulables":'
        '[{"Name":"internal.metrics.input.bytesRead","Value":"1000"},'
        '{"Name":"internal.metrics.executorRunTime","Value":900}]}}',
        "",
    )
)
_QDISC = {"dev": "eth0", "kind": "tbf", "handle": "1:", "root": True, "options": {"rate": 125000}}
SHAPING = json.dumps(
    {
        name: {
            "time_ns": time_ns,
            "qdiscs": [{**_QDISC, "bytes": sent, "drops": 0, "overlimits": 0, "backlog": 7}],
        }
        for name, time_ns, sent in (("before", 10**9, 10), ("after", 5 * 10**9, 400_010))
    }
)
BEGIN, SECOND, WALL = 500 * 10**9, 10**9, 1_795_314_434
SPAN = Span(
    BEGIN,
    BEGIN + 10 * SECOND,
    Clock(monotonic_ns=BEGIN, realtime_ns=WALL * SECOND),
    Clock(monotonic_ns=BEGIN + 10 * SECOND, realtime_ns=(WALL + 10) * SECOND),
)


def text(folder: Path) -> str:
    """Return the one file's text as readers of a program's output get it."""
    return (folder / "x").read_text(errors="replace")


def asked(*words: str) -> None:
    """Run a command here; with STEELYARD_DEBUG an internal error is raised."""
    assert invoke(list(words)) in (0, 1, 2, 3, 4)


def _operations(folder: Path, given: str) -> None:
    made = out(folder)
    made.mkdir()
    afterwards.collect(parse_operations(f"{given}:{folder / 'x'}"), made / "0.jsonl", SPAN, folder)


def _metrics(folder: Path) -> None:
    for metric in ('requests_total{code="200"}', "latency_bucket", "latency_sum"):
        exposition.read(text(folder), selector.parse(metric, where="x"))


def readers() -> list[Reader]:
    """Return them."""
    found = [
        Reader(f"perf stat {form}", holding({"x": content}), lambda folder: read_perf_stat(folder / "x"))
        for form, content in PERF_STAT.items()
    ]
    curve, trials, long = holding({"x": CURVE}), holding({"x": TRIALS}), holding({"x": LONG})
    scenarios = holding({"x": SCENARIOS})
    found += [
        Reader("perf report", holding({"x": PERF_REPORT}), lambda folder: parse_perf_report(text(folder))),
        Reader("curve of CPUs", curve, lambda folder: steps_of(parse_curve(text(folder), name="x"))),
        Reader("scale --from", curve, lambda folder: asked("scale", "--from", str(folder / "x"), "--json")),
        Reader("trials in columns", trials, lambda folder: _trials(folder / "x")),
        Reader("trials in rows", long, lambda folder: _trials(folder / "x")),
        Reader("experiment --from", trials, lambda folder: _experiment(folder / "x")),
        Reader("figures of scenarios", scenarios, lambda folder: read_figures(folder / "x")),
        Reader("numa experiment --from", scenarios, lambda folder: _scenarios(folder / "x")),
    ]
    found += [
        Reader(
            "table of rates",
            holding({"x": OPERATIONS}),
            lambda folder: _operations(folder, "csv,time=ts,value=per s,as=rate,by=kind"),
        ),
        Reader(
            "table of a counter",
            holding({"x": STAMPED}),
            lambda folder: _operations(folder, "csv,time=when,value=n,as=counter"),
        ),
        Reader("page of metrics", holding({"x": METRICS}), _metrics),
        Reader(
            "log of db_bench",
            holding({"x": ROCKSDB}),
            lambda folder: rocksdb.parse(text(folder), "readrandom"),
        ),
        Reader("log of pauses", holding({"x": GARBAGE}), lambda folder: pauses_of(folder / "x", 0, 10**12)),
        Reader("events of Spark", holding({"x": SPARK}), lambda folder: read_stages(folder / "x", 0)),
        Reader("traffic shapers", holding({"x": SHAPING}), lambda folder: read_shapers(folder / "x")),
    ]
    return found


def _trials(path: Path) -> None:
    curves = read_curves(path)
    for metric in curves.metrics:
        curves.trials(metric)


def _experiment(path: Path) -> None:
    asked("experiment", "--from", str(path), "--json")


def _scenarios(path: Path) -> None:
    asked("numa", "experiment", "--from", str(path), "--json")
