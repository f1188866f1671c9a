"""Calls of hooks in the measure phase of real runs."""

import itertools

import pytest

from steelyard.records import RunStatus
from steelyard.report.model import gather

PLUGIN = '''
import time
from steelyard.bench.hook import Hook
from steelyard.bench.parameters import Parameter


class Pulse(Hook):
    """Writes down when it is called in the measure phase."""

    doc = "takes the pulse"
    during_interval_s = 0.2
    parameters = (
        Parameter(
            "does",
            "choice",
            "what",
            default="notes",
            choices=("notes", "blocks", "fails", "waits", "records"),
        ),
    )

    def before_measure(self, run):
        self.recorders = []
        if self.options.text("does") != "records":
            return
        for name, script in (
            ("hook-pulse-of-all", "echo nothing to record >&2; exit 3"),
            ("hook-pulse", "while sleep 0.05; do :; done"),
        ):
            self.recorders.append(run.start_process(name, ["sh", "-c", script], may_end=True))
        while not run.has_ended(self.recorders[0]):
            run.wait(0.02)

    def after_measure(self, run):
        for recorder in self.recorders:
            run.interrupt_process(recorder)
            run.wait_process(recorder, 10.0)
        if self.recorders:
            run.record("machine_missing", run.last_line(self.recorders[0]))

    def during(self, measure):
        with (measure.directory / "pulse").open("a") as file:
            file.write(f"{measure.begin_ns} {measure.elapsed_s:.3f}\\n")
        if self.options.text("does") == "blocks":
            time.sleep(0.25)
        if self.options.text("does") == "waits":
            measure.wait(0.02)
        if self.options.text("does") == "fails":
            raise RuntimeError("no pulse")
'''


@pytest.fixture
def plugin(tmp_path):
    """The hook above as a package that is installed."""
    site = tmp_path / "site"
    info = site / "pulse_hook-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "pulse_hook.py").write_text(PLUGIN)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: pulse-hook\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[steelyard.hooks]\npulse = pulse_hook:Pulse\n")
    return site


def run_with(runner, plugin, does, measure_s=2):
    """Run with the hook; return the run, the times at which it was called, s, and the hook's problems."""
    live = runner.start(
        "--hook", f"pulse:does={does}", python_path=plugin, settings=(f"measure={measure_s}",)
    )
    live.finish()
    run = live.run()
    assert run.status is RunStatus.COMPLETE
    rows = [line.split() for line in (live.directory / "pulse").read_text().splitlines()]
    measure = next(phase for phase in run.phases if phase.name == "measure")
    assert {int(row[0]) for row in rows} == {measure.begin_ns}
    problems = [check.claim for check in run.verdict.checks if check.id == "hook"]
    return run, [float(row[1]) for row in rows], problems


@pytest.mark.parametrize("does", ["notes", "waits"])
def test_a_hook_is_called_in_the_measure_phase_at_its_interval(runner, plugin, does):
    _, times, problems = run_with(runner, plugin, does)
    # A busy machine may miss some, but never calls more often, nor outside of the phase.
    assert 3 <= len(times) <= 11
    assert times[0] >= 0
    # The last one may begin in the phase and look at the clock when that is over.
    assert times[-2] < 2.5
    assert min(b - a for a, b in itertools.pairwise(times)) > 0.09
    assert problems == []


def test_a_hook_that_holds_up_the_run_is_reported_once(runner, plugin):
    _, times, problems = run_with(runner, plugin, "blocks")
    assert len(times) > 2
    assert len(problems) == 1
    assert "hook pulse at during: it held up the run for 0." in problems[0]


def test_a_hook_that_fails_is_not_called_again(runner, plugin):
    _, times, problems = run_with(runner, plugin, "fails", 1)
    assert len(times) == 1
    assert problems == ["hook pulse at during: RuntimeError: no pulse"]


def test_a_recorder_that_gave_up_hides_neither_the_cost_of_another_nor_its_reason(runner, plugin):
    run, _, problems = run_with(runner, plugin, "records", 1)
    assert problems == []
    about = run.hooks["pulse"]
    assert about["machine_missing"] == "nothing to record"
    # The other one's: what ended before the measure phase took nothing of it.
    assert about.get("cpu_missing") is None
    assert about["cpu_s"] > 0
    data = gather(runner.lives[-1].directory)
    try:
        assert [process.exit_code for process in run.processes if process.name == "hook-pulse-of-all"] == [3]
        assert "hook-pulse-of-all" not in data.logs
    finally:
        data.close()
