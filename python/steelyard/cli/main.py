"""The ``steelyard`` command.

Each subcommand imports what it needs when it runs, so that ``--help`` and ``list`` answer at once.
"""

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

import steelyard
from steelyard._base import ExitCode, SteelyardError
from steelyard.cli import fleet, numa, profile
from steelyard.cli.output import EXIT_CODES, complain, unexpected

app = typer.Typer(
    help="Weighs servers: runs datacenter workloads, explains where the time goes, says what to choose.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    # Plain help: drawing it would take longer than everything else that --help does.
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
Out = Annotated[Path, typer.Option("--out", help="Folder of runs; each run gets a folder of its own in it.")]
RUNS = Path("runs")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"steelyard {steelyard.__version__}")
        raise typer.Exit


@app.callback()
def _global(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Weighs servers."""


@app.command(epilog=EXIT_CODES)
def run(
    name: Annotated[str, typer.Argument(help="Suite or benchmark; `steelyard list` shows them.")] = "quick",
    tier: Annotated[str | None, typer.Option(help="smoke, quick, standard or full.")] = None,
    repeat: Annotated[int, typer.Option(help="Runs of each benchmark; the run is the replicate.")] = 1,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Set a parameter; `steelyard list` shows them."),
    ] = None,
    server_cpus: Annotated[
        str | None, typer.Option(metavar="LIST", help="CPUs of the servers, as 0-3,8.")
    ] = None,
    load_cpus: Annotated[str | None, typer.Option(metavar="LIST", help="CPUs of the load, as 0-3,8.")] = None,
    hook: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME[:OPTION=VALUE,...]", help="Add a hook; `steelyard list` shows them."),
    ] = None,
    baseline: Annotated[str | None, typer.Option(help="Machine to score against.")] = None,
    out: Out = RUNS,
    as_json: Json = False,
) -> int:
    """Run a benchmark or a suite, and judge, score and report the result."""
    from steelyard.bench.launch import Request
    from steelyard.bench.parameters import parse_assignments
    from steelyard.cli.run import run_and_show

    request = Request(
        name=name,
        tier=tier,
        repeat=repeat,
        chosen=parse_assignments(set_ or []),
        server_cpus=server_cpus,
        load_cpus=load_cpus,
        hooks=hook or [],
        out=out,
    )
    return run_and_show(request, baseline=baseline, as_json=as_json)


@app.command("list", epilog=EXIT_CODES)
def list_(
    what: Annotated[
        str, typer.Argument(help="all, benchmarks, suites, tiers, parameters, hooks or runs.")
    ] = "all",
    out: Out = RUNS,
    as_json: Json = False,
) -> int:
    """List benchmarks, suites, tiers, parameters, hooks and earlier runs."""
    from steelyard.cli.listing import show

    return show(what, out, as_json=as_json)


@app.command(epilog=EXIT_CODES)
def report(
    name: Annotated[str, typer.Argument(metavar="RUN", help="A run's id or folder, or `latest`.")],
    output: Annotated[
        Path | None, typer.Option(help="Folder to put the report in; by default the run's own.")
    ] = None,
    baseline: Annotated[str | None, typer.Option(help="Machine to score against.")] = None,
    out: Out = RUNS,
    as_json: Json = False,
) -> int:
    """Show a run again, and write its HTML report from the raw data."""
    from steelyard.cli.reports import show_report

    return show_report(name, output, out, baseline=baseline, as_json=as_json)


@app.command(epilog=EXIT_CODES)
def score(
    name: Annotated[str, typer.Argument(metavar="RUN", help="A run's id or folder, or `latest`.")],
    baseline: Annotated[str | None, typer.Option(help="Machine to score against.")] = None,
    out: Out = RUNS,
    as_json: Json = False,
) -> int:
    """Put a run in proportion to a baseline machine."""
    from steelyard.cli.reports import show_score

    return show_score(name, out, baseline=baseline, as_json=as_json)


@app.command(epilog=EXIT_CODES)
def health(
    quick: Annotated[
        bool, typer.Option("--quick", help="About 20 s instead of a couple of minutes.")
    ] = False,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|last",
            help="Compare with a health.json, or with the last good check only.",
        ),
    ] = None,
    part: Annotated[
        list[str] | None,
        typer.Option(
            help="Only memory_latency, memory_bandwidth, core_to_core, disk or loopback; repeatable."
        ),
    ] = None,
    directory: Annotated[
        Path | None, typer.Option(help="Folder on the disk to measure; by default the check's own.")
    ] = None,
    accept: Annotated[
        bool, typer.Option("--accept", help="Take this check as a good one, whatever it finds.")
    ] = False,
    out: Out = RUNS,
    as_json: Json = False,
) -> int:
    """Check memory, caches, disk and loopback network, and compare with earlier checks of this machine."""
    from steelyard.cli.health import HealthRequest, show_health

    request = HealthRequest(
        quick=quick, against=against, parts=part or [], directory=directory, accept=accept, out=out
    )
    return show_health(request, as_json=as_json)


@app.command(epilog=EXIT_CODES, context_settings={"allow_interspersed_args": False})
def characterize(
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[-- CMD...]", help="A command to start and describe.")
    ] = None,
    pid: Annotated[list[int] | None, typer.Option(help="A process to describe; repeatable.")] = None,
    cgroup: Annotated[str | None, typer.Option(metavar="PATH", help="A control group to describe.")] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Describe the whole machine; so without anything else.")
    ] = False,
    duration: Annotated[
        str | None,
        typer.Option(help="Time to measure, 10s by default; 0 until the command ends. It is then ended."),
    ] = None,
    interval: Annotated[str | None, typer.Option(help="Time between two readings.")] = None,
    hz: Annotated[
        int | None, typer.Option(help="Profiler's samples a second and CPU, 99; 0 for none.")
    ] = None,
    call_graph: Annotated[str | None, typer.Option(help="How stacks are walked: fp, dwarf or none.")] = None,
    counters: Annotated[
        bool | None,
        typer.Option("--counters/--no-counters", help="Whether performance events are counted."),
    ] = None,
    perf_stat: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="What perf stat wrote of it (-o FILE, also with -x or -j); read after the end. Repeatable.",
        ),
    ] = None,
    ops: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SOURCE",
            help="Where operations are counted: log:PATH[:REGEX], prometheus:URL#METRIC,"
            " prometheus-query:URL#PROMQL, csv,time=COLUMN:PATH or load:FILE, with options"
            " (docs/reference/operations.md); repeatable.",
        ),
    ] = None,
    out: Out = RUNS,
    as_json: Json = False,
) -> int:
    """Say what holds a workload back: a command, processes, a cgroup, or the whole machine."""
    from steelyard._base import UsageError
    from steelyard.bench.characterize import Request
    from steelyard.cli.characterize import characterize_and_show

    if everything and (command or pid or cgroup):
        raise UsageError("--all describes the machine: give no command, --pid or --cgroup with it")
    options = {"duration": duration, "interval": interval, "hz": hz, "call_graph": call_graph}
    options["counters"] = None if counters is None else str(counters).lower()
    request = Request(
        command=command or [],
        pids=pid or [],
        cgroup=cgroup,
        chosen={name: str(value) for name, value in options.items() if value is not None},
        out=out,
        perf_stat=perf_stat or [],
        ops=ops or [],
    )
    return characterize_and_show(request, as_json=as_json)


@app.command(epilog=EXIT_CODES)
def compare(
    a: Annotated[str, typer.Argument(metavar="RUN_A", help="A run's id or folder.")],
    b: Annotated[str, typer.Argument(metavar="RUN_B", help="The run to hold against it, or `latest`.")],
    out: Out = RUNS,
    as_json: Json = False,
) -> int:
    """Say what differs between two runs: results, settings, machines, findings, profiles."""
    from steelyard.cli.compare import show_comparison

    return show_comparison(a, b, out, as_json=as_json)


@app.command(
    add_help_option=False,
    context_settings={
        "ignore_unknown_options": True,
        "help_option_names": [],
        "allow_interspersed_args": False,
    },
)
def top(
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[OPTIONS]", help="Those of steelyard-top.")
    ] = None,
) -> int:
    """Show what runs now, by process or cgroup: CPU, IPC, faults, I/O, NUMA locality, instruction mix."""
    from steelyard.cli.top import become_top

    become_top(arguments or [])


@app.command(epilog=EXIT_CODES)
def doctor(as_json: Json = False) -> int:
    """Say what this machine can and cannot measure, why, and how to enable it."""
    from steelyard.cli.doctor import show_doctor

    return show_doctor(as_json=as_json)


machine = typer.Typer(
    help="Show what a machine is, what differs between two, and which settings cost performance.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(machine, name="machine")

_MACHINE = "live, a machine.json, a run, or a recorded tree (a folder, or a .tar.bz2 of one)."


@machine.command("show", epilog=EXIT_CODES)
def machine_show(
    root: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="A recorded tree, a run or a machine.json; by default this machine."
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    """Show what a machine is: processors, memory, NUMA, disks, network, kernel, firmware."""
    from steelyard.cli.machine import show_machine

    return show_machine(root, as_json=as_json)


@machine.command("diff", epilog=EXIT_CODES)
def machine_diff(
    a: Annotated[str, typer.Argument(metavar="A", help=f"A machine: {_MACHINE}")],
    b: Annotated[
        str, typer.Argument(metavar="B", help="The other one; by default this machine now.")
    ] = "live",
    out: Out = RUNS,
    as_json: Json = False,
) -> int:
    """Say what differs between two machines or moments, most telling first; 1 when something does."""
    from steelyard.cli.machine import show_diff

    return show_diff(a, b, out, as_json=as_json)


@machine.command("check", epilog=EXIT_CODES)
def machine_check(
    name: Annotated[str, typer.Argument(metavar="MACHINE", help=f"A machine: {_MACHINE}")] = "live",
    ignore: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Leave a check out; repeatable.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Show what passed, too.")] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Say no for what is worth knowing, too (low severity).")
    ] = False,
    out: Out = RUNS,
    as_json: Json = False,
) -> int:
    """Hold a machine against rules: what costs performance or spoils a measurement, why, and what to do."""
    from steelyard.cli.machine import show_check

    return show_check(name, out, ignore=ignore or [], everything=everything, strict=strict, as_json=as_json)


@machine.command("counters", epilog=EXIT_CODES)
def machine_counters(
    name: Annotated[str, typer.Argument(metavar="MACHINE", help=f"A machine: {_MACHINE}")] = "live",
    scope: Annotated[
        str, typer.Option(help="What is counted: system, cpu, process or cgroup.", metavar="SCOPE")
    ] = "system",
    metric: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this metric; repeatable.")
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write what to count, for steelyard-probe record --counters."),
    ] = None,
    definitions: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Take events and metrics from a checkout of Intel's perfmon, Arm's telemetry-solution, or"
            " the kernel's tools/perf/pmu-events.",
        ),
    ] = None,
    out: Out = RUNS,
    as_json: Json = False,
) -> int:
    """Show which metrics a machine's counters give, by which formulas, and why others cannot be had."""
    from steelyard.cli.machine_counters import show_counters

    return show_counters(
        name,
        out,
        scope=scope,
        metrics=metric or [],
        plan=plan,
        checkout=definitions,
        as_json=as_json,
    )


app.add_typer(profile.app, name="profile")
app.add_typer(numa.app, name="numa")
app.add_typer(fleet.app, name="fleet")

_ClickError: type[Exception] = next(
    base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException"
)
"""What the command line parser raises: typer brings the parser under a name of its own."""


_PARSER_INTERRUPTED = 130


def _complain_of_usage(error: Any) -> ExitCode:
    if type(error).__name__ == "NoArgsIsHelpError":
        print(error.format_message())
        return ExitCode.USAGE
    line = " ".join(error.format_message().split())
    context = getattr(error, "ctx", None)
    hint = f" (see {context.command_path} --help)" if context is not None else ""
    print(f"steelyard: {line}{hint}", file=sys.stderr)
    return ExitCode.USAGE


def invoke(arguments: list[str]) -> int:
    """Run one command; return its exit code."""
    try:
        code: Any = app(arguments, prog_name="steelyard", standalone_mode=False)
    except SteelyardError as error:
        complain(error)
        return int(error.exit_code)
    except _ClickError as error:
        return int(_complain_of_usage(error))
    except (KeyboardInterrupt, typer.Abort):
        return _interrupted()
    except BrokenPipeError:
        # Whoever read the output has left; a second complaint at exit is avoided by closing it here.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return int(ExitCode.OK)
    except Exception as error:
        return int(unexpected(error))
    # The parser turns an interrupt into the exit code that shells use for it, and says nothing.
    return _interrupted() if code == _PARSER_INTERRUPTED else int(code or 0)


def _interrupted() -> int:
    print("steelyard: interrupted", file=sys.stderr)
    return int(ExitCode.FAILED)


def main() -> None:
    """Run the command line and exit."""
    sys.exit(invoke(sys.argv[1:]))


if __name__ == "__main__":
    main()
