"""``steelyard experiment --plan`` and ``--pilot``: how many blocks an experiment calls for.

In: the record of an experiment without trials, or of a pilot. Out: a table or one JSON document; nothing is
written. Not here: the counts (``steelyard.experiment.power``).
"""

from pathlib import Path

from steelyard import machine as machines
from steelyard._base import ExitCode
from steelyard.cli.output import print_json, print_path, show_answer
from steelyard.experiment.engine import MANIFEST
from steelyard.experiment.power import Forecast, earlier_like, forecast, forecast_of_pilot, target_of
from steelyard.experiment.results import ExperimentNeeds
from steelyard.records.experiment import Experiment


def show_plan(experiment: Experiment, out: Path, *, as_json: bool) -> int:
    """Show what ``experiment`` needs by the earlier ones below ``out``; return the exit code."""
    found = forecast(experiment, earlier_like(experiment, out, machines.snapshot()))
    if as_json:
        print_json(ExperimentNeeds.of(experiment, found, None))
        return int(ExitCode.OK)
    from steelyard.report.experiment.plan import plan_answer

    show_answer(plan_answer(experiment, found, out), None)
    return int(ExitCode.OK)


def show_pilot(folder: Path | None, pilot: Experiment, *, as_json: bool) -> int:
    """Show what the experiment needs that a pilot is for; return 0 where its noise is known, else 1."""
    target, found = target_of(pilot), forecast_of_pilot(pilot)
    if as_json:
        print_json(ExperimentNeeds.of(target, found, folder))
    else:
        from steelyard.report.experiment.plan import pilot_answer

        show_answer(pilot_answer(pilot, target, found), None)
        if folder is not None:
            print_path("record", folder / MANIFEST)
    return int(ExitCode.OK if found.needs else ExitCode.NO)


def forecast_text(experiment: Experiment, found: Forecast) -> str:
    """Return in one line how many blocks the smallest effect that matters needs."""
    from steelyard.report.experiment.plan import need_sentence

    return need_sentence(experiment, found)
