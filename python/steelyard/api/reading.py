"""What is in a folder: its record, its answer, and everything that can be exported of it.

In: a path, or an id in the folder of runs. Out: a `Reading`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steelyard._base import ResultSaysNoError, UsageError
from steelyard.api.calls import checked
from steelyard.api.result import Result, frame_of

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from steelyard.analyze.profiles.profile import Profile
    from steelyard.records import Metric, Run, Verdict
    from steelyard.report.exports.findings import ExportedFinding
    from steelyard.report.exports.runs import ExportedRun
    from steelyard.report.folders.kinds import Kind


@dataclass(frozen=True, repr=False)
class Reading(Result[Any]):
    """A folder that Steelyard wrote, and a path to it. ``result`` is its record."""

    folder: Path
    kind: Kind

    def __fspath__(self) -> str:
        """Return its folder: a reading stands wherever a path does."""
        return os.fspath(self.folder)

    @property
    def record(self) -> Any:
        """The record: `Run`, `Suite`, `Experiment`, `Tuning`, `Colocation` or `HealthResult`."""
        return self.result

    @property
    def runs(self) -> list[Run]:
        """The runs in it, itself included. Raises RecordError for one that cannot be read."""
        return [one.run for one in self._exported]

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """The results of the run, by name. Raises UsageError for what is no run."""
        return self._only_run().metrics

    @property
    def verdict(self) -> Verdict | None:
        """Whether the run may be believed, and what objects. Raises UsageError for what is no run."""
        return self._only_run().run.verdict

    def findings(self) -> list[ExportedFinding]:
        """Return what rules find in its runs, with evidence and next step.

        Raises ResultSaysNoError for a run that came to no result.
        """
        from steelyard.report.exports.findings import findings_of

        return [finding for one in self._exported for finding in findings_of(one)]

    def series(self) -> pa.Table:
        """Return what was recorded over time, a row a reading.

        Its columns are ``run``, ``benchmark``, ``source``, ``entity``, ``name``, ``unit``, ``time_ns`` since
        1970, ``count`` of counters and ``value`` of other readings. The table's metadata names what is
        missing.

        Raises ResultSaysNoError where nothing was recorded.
        """
        import pyarrow as pa

        from steelyard.report.exports.series import series_of

        missing: list[str] = []
        tables = [table for one in self._exported for table in series_of(one, missing)]
        if not tables:
            raise ResultSaysNoError("nothing was recorded over time", hint="; ".join(missing) or None)
        return pa.concat_tables(tables).replace_schema_metadata({"missing": "\n".join(missing)})

    def series_to_pandas(self) -> pd.DataFrame:
        """Return `series` as a data frame. Raises EnvironmentLacksError where pandas is not installed."""
        return frame_of(self.series())

    def profile(self, side: str = "server") -> Profile:
        """Return the profile of a run's servers, or of its load.

        Raises ResultSaysNoError where none was recorded.
        """
        from steelyard.analyze.run_files import PROFILES
        from steelyard.report.exports.profiles import profile_of

        if side not in PROFILES:
            raise UsageError(f"{side!r} is no side of a run", hint=f"one of {', '.join(PROFILES)}")
        return profile_of(self._only_run(), side)

    def _runs(self) -> list[ExportedRun]:
        from steelyard.report.folders.kinds import Kind

        return self._exported if self.kind in (Kind.RUN, Kind.SUITE) else []

    def _only_run(self) -> ExportedRun:
        from steelyard.report.folders.kinds import Kind

        if self.kind is not Kind.RUN:
            raise UsageError(f"{self.folder} is no run but a {self.kind}", hint="see .runs")
        return self._exported[0]

    @cached_property
    def _exported(self) -> list[ExportedRun]:
        from steelyard.report.exports.runs import runs_in

        try:
            return runs_in(self.folder)
        except ResultSaysNoError as error:
            raise ResultSaysNoError(error.message, hint="figures() has the figures of any folder") from error


@checked
def read(
    path: str | os.PathLike[str], *, runs: str | os.PathLike[str] = "runs", baseline: str | None = None
) -> Reading:
    """Return what is in a folder of a run, a suite, an experiment, a tuning, a co-location or a health check.

    ``path`` is a folder, its record, an id in the folder ``runs``, or ``latest`` of it. Runs and suites are
    scored against ``baseline``.

    >>> import shutil, tempfile
    >>> from steelyard._base import schemas_dir
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = shutil.copy(schemas_dir() / "golden" / "experiment.json", folder)
    ...     found = read(folder)
    >>> found.kind.value, found.record.metric.name, [arm.name for arm in found.record.arms]
    ('experiment', 'elapsed_s', ['1', '9'])
    >>> found.figures()[0].unit
    '1/s'

    Raises UsageError where there is no such folder, RecordError for a record that cannot be read.
    """
    from steelyard.report.folders.answers import answer_of, record_of
    from steelyard.report.folders.kinds import kind_of
    from steelyard.report.folders.naming import find

    folder = find(os.fspath(path), Path(runs))
    kind = kind_of(folder)
    assert kind is not None
    return Reading(record_of(folder), answer_of(folder, baseline=baseline), folder, kind)
