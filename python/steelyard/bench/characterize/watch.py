"""Has a program's threads looked at while it runs: ``steelyard-probe watch`` beside a characterization.

In: process ids, the supervisor of a command, or a cgroup. Out: the recording ``target/`` in the run's
directory, and what it cost.

Not here: the looks themselves (``steelyard-probe``), and what they mean (``analyze.pressure.threads``).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from steelyard._base import SteelyardError, UsageError, executable
from steelyard.records import Telemetry, read

if TYPE_CHECKING:
    from steelyard.bench.executor import Process
    from steelyard.bench.session import Session

FOLDER = "target"
_STOP_S = 10.0


def cgroup_folders(path: str, root: Path = Path("/sys/fs/cgroup")) -> list[Path]:
    """Return the folder of the cgroup ``path`` in each hierarchy that has it.

    ``path`` is one below the hierarchies' root, as /proc/PID/cgroup says, or a folder. Raises UsageError when
    there is no such cgroup.
    """
    given = Path(path)
    if given.is_absolute() and (given / "cgroup.procs").is_file():
        return [given]
    below = path.strip("/")
    bases = [root, *sorted(each for each in root.glob("*") if each.is_dir())] if root.is_dir() else []
    folders = [base / below for base in bases if (base / below / "cgroup.procs").is_file()]
    if not below or not folders:
        raise UsageError(
            f"--cgroup {path}: there is no such cgroup below {root}",
            hint="/proc/PID/cgroup names a process's",
        )
    return folders


@dataclass
class Watch:
    """What is looked at: processes ``pids`` with their descendants, the descendants of ``supervisor``, or the
    members of cgroup ``folders``.
    """

    pids: Sequence[int] = ()
    supervisor: int | None = None
    folders: Sequence[Path] = ()
    _process: "Process | None" = field(default=None, repr=False)

    def start(self, session: "Session", interval_s: float) -> None:
        """Begin to look. Raises EnvironmentLacksError without ``steelyard-probe``."""
        command = [str(executable("steelyard-probe")), "watch", "--interval", f"{interval_s * 1e3:.0f}ms"]
        command += ["--out", str(session.directory / FOLDER)]
        for pid in self.pids:
            command += ["--pid", str(pid)]
        if self.supervisor is not None:
            command += ["--below", str(self.supervisor)]
        # A cgroup may lie in several hierarchies; its members are the same in each.
        command += ["--cgroup", str(self.folders[0])] if self.folders else []
        self._process = session.start_process("watch", command, cpus=None)
        session.expect_end(self._process)
        session.manifest.put_artifacts({"target": FOLDER})

    def has_ended(self) -> bool:
        """Return whether looking has ended by itself, as it does with what is looked at."""
        ending = self._process.poll() if self._process is not None else None
        return ending is not None and ending.exit_code == 0

    def stop(self, session: "Session") -> None:
        """Take the last look and complete the recording; say in the manifest what looking cost."""
        if self._process is None:
            return
        ending = self._process.stop(_STOP_S)
        session.note_end(self._process)
        if ending.exit_code != 0:
            reason = self._process.last_line() or f"it {ending}"
            session.remarks.append(f"watching the program's threads ended early: {reason}")
        cost: dict[str, JsonValue] = {
            "looks": self._looks(session.directory),
            "cpu_s": self.cpu_s(session.directory),
        }
        session.manifest.put_hook("watch", cost)
        self._process = None

    @staticmethod
    def _looks(directory: Path) -> int:
        recorded = _recorded(directory)
        rows = (source.rows for source in recorded.sources if source.name == FOLDER) if recorded else iter(())
        return next(rows, 0)

    @staticmethod
    def cpu_s(directory: Path) -> float:
        """Return the CPU time that looking took in the run in ``directory``, s."""
        recorded = _recorded(directory)
        cost = recorded.cost if recorded is not None else None
        return round(cost.cpu_user_s + cost.cpu_system_s, 4) if cost is not None else 0.0


def _recorded(directory: Path) -> Telemetry | None:
    try:
        return read(Telemetry, directory / FOLDER / "telemetry.json")
    except SteelyardError:
        return None
