"""Charts of CPU time: what is written beside them is what the rest of the page says."""

from pathlib import Path

import numpy as np
import pytest

from steelyard.analyze.facts.cpus import CpuUse
from steelyard.report import model
from steelyard.report.format import quantity
from steelyard.report.machine.charts import cpu_charts
from tests.report.runs import write_run


def test_means_beside_a_chart_are_those_of_the_phase(tmp_path: Path) -> None:
    """The mean of the points was 2.97 %, that of the phase 2.45 %: the last point is of less time."""
    data = model.gather(write_run(tmp_path / "tao-1"))
    charts, panels = cpu_charts(data)
    conditions = data.conditions
    sets = {
        "Server": conditions.cpus.server.use,
        "Load": conditions.cpus.load.use,
        "All": conditions.cpus.all.use,
    }
    uses: list[CpuUse | None] = [sets[chart.title.split("'")[0].split(" ")[0]] for chart in charts]
    uses += [*conditions.cpus.by_cpu.values()][: len(panels)]
    assert charts
    differ = False
    for chart, use in zip([*charts, *panels], uses, strict=True):
        assert use is not None
        rows = {name: mean for name, mean, _, _ in chart.summary_rows}
        assert rows["user"] == quantity(use.modes["user"], "ratio")
        assert rows["system"] == quantity(use.modes["system"], "ratio")
        differ |= use.modes["user"] != pytest.approx(float(np.nanmean(chart.traces[0].y)), rel=1e-6)
    assert differ, "the means of the points would do"
