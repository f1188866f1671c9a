"""What ``steelyard --help`` prints: every command in one sentence.

This is the only place that says what a command does, so that its help, the parser's and the reference say the
same. It loads nothing: `start` prints it before the parser and the requests of all commands are loaded, which
takes several times as long.
"""

import os
import textwrap

ABOUT = {
    "run": "Run a benchmark or a suite, check the result, score it and write a report.",
    "list": "List benchmarks, suites and the latest runs.",
    "install": "Install the servers and programs that benchmarks need, and check them by a short run.",
    "uninstall": "Remove what `steelyard install` brought for a benchmark.",
    "report": "Show a run, a suite, an experiment or the like, and write its report page again.",
    "health": "Check memory, caches, disk and loopback network, and compare with earlier checks.",
    "characterize": (
        "Find what limits a workload: a command, processes, a cgroup, the machine, or each of a suite."
    ),
    "colocate": "Measure what it costs two workloads to share this machine, beside what was predicted.",
    "compare": (
        "Compare two runs of a benchmark, two suites, two perf stat files, or the arms of an experiment."
    ),
    "top": "Show running processes or cgroups: CPU, IPC, faults, I/O, NUMA locality, instruction mix.",
    "doctor": "Show what this machine can measure, what it cannot, and how to enable it.",
    "experiment": "Compare two or more variants by interleaved trials, until the difference is known.",
    "scale": "Measure how throughput grows with CPUs, and name what it is lost to.",
    "fidelity": "Compare two workloads metric by metric, or calibrate a benchmark to one.",
    "choose": "Compare machines by performance per watt and per cost, and size a fleet for a demand.",
    "size": "Find the CPUs, memory and machine types that serve a rate, and their cost.",
    "project": "Project a workload's performance on machines from benchmarks, with its error.",
    "score": "Score a run or suite against a baseline machine, or rank machines.",
    "export": "Write a result as CSV, Parquet, OpenMetrics, OTLP, a profile, or findings as JSON Lines.",
    "serve": "Serve runs, comparisons, trends, a fleet and decisions as web pages.",
    "mcp": "Serve runs, profiles, a fleet and decisions to agents, over the Model Context Protocol on stdio.",
    "baseline": "Make baselines: machines that scores are over.",
    "machine": "Show and compare machines, and check their settings.",
    "profile": "Record, show, compare and export profiles.",
    "numa": "Show NUMA nodes and distances, score the locality of processes, and measure what it is worth.",
    "tune": "Find settings of the machine and the program that serve a workload best (a soft SKU).",
    "fleet": "Manage the store of a fleet, and query CPI, profiles, NUMA locality, efficiency and placement.",
}
"""What each command does, in the order of ``steelyard --help``."""
EXIT_CODES = (
    "Exit codes: 0 done; 1 done, and the answer is no (an invalid result); 2 wrong arguments;"
    " 3 this machine lacks something; 4 the work failed or was interrupted."
)
PURPOSE = "Measure servers: run datacenter workloads, show where time goes, compare machines and fleets."
_OPTIONS = {"--version": "Print the version.", "-h, --help": "Show this message and exit."}
_WIDEST, _NARROWEST = 78, 50


def overview() -> str:
    """Return the help of ``steelyard``, as wide as the terminal is, and 50 to 78 columns."""
    columns = max(_NARROWEST, min(_columns() - 2, _WIDEST))
    parts = [
        "Usage: steelyard [OPTIONS] COMMAND [ARGS]...\n",
        _indented(PURPOSE, columns),
        "Options:\n" + _listed(_OPTIONS, columns),
        "Commands:\n" + _listed(ABOUT, columns),
        _indented(EXIT_CODES, columns),
    ]
    return "\n".join(parts)


def _columns() -> int:
    # shutil has this too, and takes longer to load than all of this page.
    if os.environ.get("COLUMNS", "").isdigit():
        return int(os.environ["COLUMNS"])
    try:
        return os.get_terminal_size(1).columns
    except OSError:
        return _WIDEST + 2


def _indented(text: str, columns: int) -> str:
    return textwrap.fill(text, columns, initial_indent="  ", subsequent_indent="  ") + "\n"


def _listed(rows: dict[str, str], columns: int) -> str:
    width = max(map(len, rows)) + 4
    return "".join(
        textwrap.fill(text, columns, initial_indent=f"  {name}".ljust(width), subsequent_indent=" " * width)
        + "\n"
        for name, text in rows.items()
    )
