"""``steelyard experiment --plan``: how many blocks an experiment calls for, from earlier ones.

In: the record of an experiment without trials. Out: a table or one JSON document; nothing is written. Not
here: the counts (``steelyard.experiment.power``).
"""

from dataclasses import asdict
from pathlib import Path

from steelyard.cli.output import output_console, print_json
from steelyard.experiment.power import Forecast, earlier_like, forecast
from steelyard.records.experiment import Experiment


def show_plan(experiment: Experiment, out: Path, *, as_json: bool) -> int:
    """Show what ``experiment`` needs by the earlier ones below ``out``; return the exit code."""
    found = forecast(experiment, earlier_like(experiment, out))
    if as_json:
        print_json(
            {
                "benchmark": experiment.benchmark,
                "factor": experiment.factor,
                "arms": [arm.name for arm in experiment.arms],
                "metric": experiment.metric.model_dump(),
                "plan": experiment.plan.model_dump(),
                **asdict(found),
            },
            kind="experiment_plan",
        )
        return 0
    from steelyard.report.experiment.plan import plan_summary

    output_console().print(plan_summary(experiment, found, out))
    return 0


def forecast_text(experiment: Experiment, found: Forecast) -> str:
    """Return in one line how many blocks the smallest effect that matters needs."""
    from steelyard.report.experiment.plan import need_sentence

    return need_sentence(experiment, found)
