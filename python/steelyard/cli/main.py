"""The ``steelyard`` command.

Each subcommand imports what it needs when it runs, so that ``list`` answers at once.
"""

import contextlib
import copy
import functools
import os
import signal
import sys
from collections.abc import Collection
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

import steelyard
from steelyard._base import ExitCode, SteelyardError
from steelyard.bench.options import RUNS
from steelyard.bench.request import CharacterizeRequest, PairRequest, RunRequest
from steelyard.cli.commands import AllCommands, use_commands
from steelyard.cli.formats import add_format
from steelyard.cli.options import Baseline, Json, Out, Report, RunName, Runs
from steelyard.cli.output import (
    complain,
    examples,
    finish_output,
    leave_pipe,
    unexpected,
)
from steelyard.cli.overview import ABOUT, EXIT_CODES, PURPOSE
from steelyard.cli.requests import command
from steelyard.cli.standard import flushed, take_streams

_own = typer.Typer(
    cls=AllCommands,
    help=PURPOSE,
    epilog=EXIT_CODES,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    # Plain help: drawing it would take longer than everything else that --help does.
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


OfSuite = Annotated[
    Path | None,
    typer.Option("--report", metavar="FILE.html", help="With --suite: write a self-contained page."),
]


def _version(requested: bool) -> None:
    if requested:
        typer.echo(f"steelyard {steelyard.__version__}")
        raise typer.Exit


@_own.callback()
def _global(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Measure servers."""


_own.command(
    "run",
    epilog=examples(
        "steelyard run", "steelyard run tao --tier smoke", "steelyard run tao --set memory=1GiB --repeat 5"
    ),
)(
    command(
        RunRequest,
        "steelyard.cli.run.make:run_or_show",
        ABOUT["run"],
        report=None,
    )
)


@_own.command(
    "list",
    help=ABOUT["list"],
    epilog=examples("steelyard list", "steelyard list runs --runs /srv/runs", "steelyard list --all"),
)
def list_(
    part: Annotated[
        str | None,
        typer.Argument(metavar="[WHAT]", help="One of benchmarks, suites, tiers, parameters, hooks, runs."),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Also list tiers, parameters, hooks and all runs.")
    ] = False,
    runs: Runs = RUNS,
    as_json: Json = False,
) -> int:
    """``steelyard list``."""
    from steelyard.cli.listing.show import show

    return show(part, runs, everything=everything, as_json=as_json)


@_own.command(
    "install",
    help=ABOUT["install"],
    epilog=examples(
        "steelyard install", "steelyard install redis", "steelyard install dcperf --cache /srv/cache"
    ),
)
def install(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Benchmarks and suites; none: show what is installed."),
    ] = None,
    cache: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder that keeps everything that is downloaded.")
    ] = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="Install from the folder of --cache and download nothing.")
    ] = False,
    smoke: Annotated[
        bool, typer.Option("--smoke/--no-smoke", help="Check the installation by a short run, or not.")
    ] = True,
    force: Annotated[bool, typer.Option("--force", help="Install again what is installed.")] = False,
    as_json: Json = False,
) -> int:
    """``steelyard install``."""
    from steelyard.cli.install import install_and_show, options

    chosen = options(cache, offline=offline, smoke=smoke, force=force)
    return install_and_show(names or [], chosen, as_json=as_json)


@_own.command(
    "uninstall",
    help=ABOUT["uninstall"],
    epilog=examples("steelyard uninstall redis", "steelyard uninstall redis --packages"),
)
def uninstall(
    name: Annotated[str, typer.Argument(help="Benchmark; see `steelyard install`.")],
    packages: Annotated[
        bool, typer.Option("--packages", help="Also remove the packages that came with it.")
    ] = False,
    as_json: Json = False,
) -> int:
    """``steelyard uninstall``."""
    from steelyard.cli.install import uninstall_and_show

    return uninstall_and_show(name, packages=packages, as_json=as_json)


@_own.command(
    "report",
    help=ABOUT["report"],
    epilog=examples("steelyard report latest", "steelyard report latest --report page.html --baseline NAME"),
)
def report(
    name: RunName,
    page: Report = None,
    baseline: Baseline = None,
    shared_script: Annotated[
        bool,
        typer.Option(
            "--shared-script",
            help="Write the chart script to a file of its own instead of into each page.",
        ),
    ] = False,
    runs: Runs = RUNS,
    as_json: Json = False,
) -> int:
    """``steelyard report``."""
    from steelyard.cli.reports import show_report

    return show_report(name, page, runs, baseline=baseline, shared_script=shared_script, as_json=as_json)


@_own.command(
    "health",
    help=ABOUT["health"],
    epilog=examples(
        "steelyard health", "steelyard health --quick --part disk", "steelyard health --against health.json"
    ),
)
def health(
    quick: Annotated[
        bool, typer.Option("--quick", help="Take about 20 s instead of some 4 minutes.")
    ] = False,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|last",
            help="Compare with this health.json, or with the last good check only.",
        ),
    ] = None,
    part: Annotated[
        list[str] | None,
        typer.Option(
            help="Check only memory_latency, memory_bandwidth, core_to_core, disk or loopback; repeatable."
        ),
    ] = None,
    directory: Annotated[
        Path | None, typer.Option(help="Folder on the disk to measure; by default the folder of the check.")
    ] = None,
    accept: Annotated[
        bool, typer.Option("--accept", help="Use this check as a good reference, whatever its result.")
    ] = False,
    out: Out = RUNS,
    as_json: Json = False,
) -> int:
    """``steelyard health``."""
    from steelyard.cli.health import HealthRequest, show_health

    request = HealthRequest(
        quick=quick, against=against, parts=part or [], directory=directory, accept=accept, out=out
    )
    return show_health(request, as_json=as_json)


_own.command(
    "characterize",
    epilog=examples(
        "steelyard characterize -- ./program --flag",
        "steelyard characterize --pid 4711 --duration 30s",
        "steelyard characterize --suite characterization --limit lo=1Gbit",
    ),
    context_settings={"allow_interspersed_args": False},
)(
    command(
        CharacterizeRequest,
        "steelyard.cli.characterize:characterize_or_show",
        ABOUT["characterize"],
        report=OfSuite,
    )
)
_own.command(
    "colocate",
    epilog=examples(
        "steelyard colocate redis memcached",
        "steelyard colocate 'redis:connections=8' 'gzip -kfc file' --duration 10s --report page.html",
    ),
)(
    command(
        PairRequest,
        "steelyard.cli.colocate:colocate_and_show",
        ABOUT["colocate"],
    )
)


@_own.command(
    "compare",
    help=ABOUT["compare"],
    epilog=examples(
        "steelyard compare RUN_A latest",
        "steelyard compare SUITE_A SUITE_B --report differences.html",
        "steelyard compare EXPERIMENT",
        "steelyard compare A.txt B.txt",
    ),
)
def compare(
    a: Annotated[
        str,
        typer.Argument(
            metavar="A", help="Id or folder of a run, a suite or an experiment, or a perf stat file."
        ),
    ],
    b: Annotated[
        str | None,
        typer.Argument(metavar="B", help="Another run, suite or file, or `latest`; none for an experiment."),
    ] = None,
    page: Report = None,
    runs: Runs = RUNS,
    as_json: Json = False,
) -> int:
    """``steelyard compare``."""
    from steelyard.cli.compare.commands import show_comparison

    return show_comparison(a, b, runs, report=page, as_json=as_json)


@_own.command(
    "top",
    help=ABOUT["top"],
    epilog=examples("steelyard top", "steelyard top --by cgroup --sort numa", "steelyard top --once --json"),
    add_help_option=False,
    context_settings={
        "ignore_unknown_options": True,
        "help_option_names": [],
        "allow_interspersed_args": False,
    },
)
def top(
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[OPTIONS]", help="Options of steelyard-top.")
    ] = None,
) -> int:
    """``steelyard top``."""
    from steelyard.cli.top import become_top

    become_top(arguments or [])


@_own.command("doctor", help=ABOUT["doctor"], epilog=examples("steelyard doctor", "steelyard doctor --json"))
def doctor(as_json: Json = False) -> int:
    """``steelyard doctor``."""
    from steelyard.cli.doctor import show_doctor

    return show_doctor(as_json=as_json)


_MODULES = {
    "experiment": "steelyard.cli.experiment.command:add_experiment",
    "scale": "steelyard.cli.scale.command:add_scale",
    "fidelity": "steelyard.cli.decide.fidelity:add_fidelity",
    "choose": "steelyard.cli.decide.choose:add_choose",
    "size": "steelyard.cli.decide.size:add_size",
    "project": "steelyard.cli.decide.project:add_project",
    "score": "steelyard.cli.decide.score:add_score",
    "export": "steelyard.cli.export:add_export",
    "serve": "steelyard.cli.serving.serve:add_serve",
    "mcp": "steelyard.cli.serving.mcp:add_mcp",
    "baseline": "steelyard.cli.decide.baseline:app",
    "machine": "steelyard.cli.machine.commands:app",
    "profile": "steelyard.cli.profile.commands:app",
    "numa": "steelyard.cli.numa:app",
    "tune": "steelyard.cli.tune.commands:app",
    "fleet": "steelyard.cli.fleet.group:app",
}
"""Where the commands are that have a module of their own: what adds one, or a group."""


def _app_of(names: Collection[str]) -> typer.Typer:
    """Return the command line with these commands only: loading all takes as long as `list` itself."""
    part = copy.copy(_own)
    part.registered_commands = [copy.copy(each) for each in _own.registered_commands if each.name in names]
    part.registered_groups = []
    for name in names:
        if name not in _MODULES:
            continue
        module, _, attribute = _MODULES[name].partition(":")
        found = getattr(import_module(module), attribute)
        if isinstance(found, typer.Typer):
            part.add_typer(found, name=name)
        else:
            found(part)
    add_format(part)
    use_commands(part)
    return part


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


@functools.cache
def parser_of(name: str = "") -> Any:
    """Return the parser of one command, of none for an option, or of all where ``name`` is none of them."""
    names = [name] if name in ABOUT else [] if name.startswith("-") else ABOUT
    return typer.main.get_command(_app_of(names))


def invoke(arguments: list[str]) -> int:
    """Run one command; return its exit code."""
    try:
        code: Any = parser_of(arguments[0] if arguments else "")(
            arguments, prog_name="steelyard", standalone_mode=False
        )
    except SteelyardError as error:
        # An interrupted import of a compiled package comes out as a package that is missing.
        if _signals:
            return _interrupted()
        complain(error)
        return int(error.exit_code)
    except _ClickError as error:
        return int(_complain_of_usage(error))
    except (KeyboardInterrupt, typer.Abort):
        return _interrupted()
    except BrokenPipeError:
        return _reader_left()
    except SystemExit as end:
        # What the parser makes of a closed pipe: exit code 1, without a word.
        if isinstance(end.__context__, BrokenPipeError):
            return _reader_left()
        raise
    except Exception as error:
        return _interrupted() if _signals else int(unexpected(error))
    # The parser turns an interrupt into the exit code that shells use for it, and says nothing.
    return _interrupted() if code == _PARSER_INTERRUPTED else int(code or 0)


def _reader_left() -> int:
    """Whoever read the output has left, which is no failure of ours."""
    sys.stdout = sys.__stdout__ or sys.stdout
    leave_pipe(sys.stdout.fileno())
    return int(ExitCode.OK)


def _interrupted() -> int:
    with contextlib.suppress(OSError):
        print("steelyard: interrupted", file=sys.stderr)
    return int(ExitCode.FAILED)


_signals: list[int] = []
"""Signals that asked this process to end."""


def _end_in_order(number: int, _frame: object) -> None:
    _signals.append(number)
    raise KeyboardInterrupt


_ONCE_MORE_S = 0.02


def _end_once_more(unraisable: Any) -> None:
    """Interrupt again after an interrupt in a place that passes no exception on, such as a finaliser."""
    if unraisable.exc_type is not KeyboardInterrupt or not _signals:
        sys.__unraisablehook__(unraisable)
        return
    # Not at the top: hardly any command is interrupted.
    import threading

    again = threading.Timer(_ONCE_MORE_S, os.kill, (os.getpid(), signal.SIGINT))
    again.daemon = True
    # No thread begins at the interpreter's end, where nothing is left to be interrupted.
    with contextlib.suppress(RuntimeError):
        again.start()


def main() -> None:
    """Run the command line and exit."""
    try:
        take_streams()
        sys.unraisablehook = _end_once_more
        signal.signal(signal.SIGINT, _end_in_order)
        for number in (signal.SIGTERM, signal.SIGHUP):
            # As an interrupt, so that children are ended and partial files removed; nohup stays in force.
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, _end_in_order)
        code = invoke(sys.argv[1:])
        # What is left is the interpreter's end: a second interrupt ends it at once and without a word.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    except KeyboardInterrupt:
        # Between these lines, before a command takes interrupts or after it has ended.
        code = _interrupted()
    if not flushed(complain):
        # A failure that was reported already keeps its exit code.
        code = code or int(ExitCode.FAILED)
    finish_output()
    sys.exit(code)


if __name__ == "__main__":
    main()
