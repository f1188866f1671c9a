"""What every server of this group serves. Not here: the servers (``web``, ``agents``)."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from steelyard._base import UsageError
from steelyard._base.request import Option


@dataclass(frozen=True, kw_only=True)
class ServedRequest:
    """The folder of runs, the store and the tables that are served."""

    runs: Annotated[Path, Option("Folder of runs.", metavar="RUNS", is_argument=True)] = Path("runs")
    store: Annotated[
        str | None, Option("Store of a fleet: a folder or s3://bucket/prefix.", metavar="STORE")
    ] = None
    tables: Annotated[
        Sequence[Path],
        Option(
            "CSV file of machines and results, for decisions; repeatable.", flag="--table", metavar="FILE"
        ),
    ] = ()

    def check(self) -> None:
        """Raise UsageError where the folder of runs, the store or a table is not there."""
        if not self.runs.is_dir():
            problem = "is no folder" if self.runs.exists() else "does not exist"
            raise UsageError(f"{self.runs} {problem}", hint="steelyard run quick makes runs in ./runs")
        self._check_store()
        for table in self.tables:
            if not table.is_file():
                raise UsageError(f"--table {table}: there is no such file")

    def _check_store(self) -> None:
        # An address is asked with the first question: whoever serves it may be away for a while.
        if self.store is None or "://" in self.store:
            return
        # Loading it takes longer than to parse a command.
        from steelyard.fleet.store.layout import MARKER

        folder = Path(self.store).expanduser()
        if not folder.is_dir():
            raise UsageError(f"--store {self.store}: there is no such folder")
        if not (folder / MARKER).exists():
            raise UsageError(
                f"--store {self.store}: not a store ({MARKER} is not in it)",
                hint="steelyard fleet simulate, or import, makes one",
            )
