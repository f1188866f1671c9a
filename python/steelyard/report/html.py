"""The report page of a run, ``report.html``.

In: a run directory. Out: the page's path. Not here: what the page says (``page``) and draws
(``workload_charts``, ``machine.charts``), and how pages are written (``template``).
"""

from collections.abc import Sequence
from pathlib import Path

from steelyard.decide.score import Refusal, Score
from steelyard.report import page
from steelyard.report.answer.page import write_page
from steelyard.report.model import ReportData, gather
from steelyard.report.template import PAGE, page_path
from steelyard.telemetry import answers


def write(
    run_dir: Path,
    output: Path | None = None,
    *,
    score: Score | Refusal | None = None,
    headline: Sequence[str] = (),
) -> Path:
    """Write the page of the run in ``run_dir`` into ``output`` (by default its own folder).

    ``headline`` names the metrics to show first, the benchmark's own choice by default. Raises RecordError
    when the run has no readable manifest, WorkloadFailedError when the page cannot be written.
    """
    data = gather(run_dir, score=score, headline=headline)
    try:
        return write_data(data, output)
    finally:
        data.close()


def write_data(data: ReportData, path: Path | None = None) -> Path:
    """Write the page of a run that was read already, to ``path`` (by default into the run's own folder)."""
    path = data.folder / PAGE if path is None else page_path(path)
    is_beside = path.parent.resolve() == data.folder.resolve()
    written = write_page(path, page.answer(data, is_beside=is_beside))
    if is_beside:
        answers.save(data.folder)
    return written
