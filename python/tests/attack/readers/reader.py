"""What a reader of files is, and how valid input for it is made."""

import random
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from steelyard._base import SteelyardError

from .mutations import mutated

Make = Callable[[Path], object]


@dataclass(frozen=True)
class Reader:
    """A reader with an input that it reads."""

    name: str
    make: Make
    """Writes a valid input into a folder."""
    read: Callable[[Path], object]
    """Reads the input in a folder; what it writes goes to `out`."""
    spared: tuple[str, ...] = ()
    """Endings of files that are left as they are."""
    change: Callable[[Path, random.Random], None] | None = None
    """Changes a file in its own way; by default its bytes and words are (``mutations``)."""

    def files(self, folder: Path) -> list[Path]:
        """Return the files of an input that may be changed."""
        found = sorted(path for path in folder.rglob("*") if path.is_file())
        return [path for path in found if not path.name.endswith(self.spared or ("\0",))]

    def tamper(self, path: Path, chosen: random.Random) -> None:
        """Change a file."""
        if self.change is None:
            path.write_bytes(mutated(path.read_bytes(), chosen))
        else:
            self.change(path, chosen)

    def try_once(self, folder: Path) -> None:
        """Read what is in ``folder``; what a reader may raise is no failure, all else is raised."""
        made = out(folder)
        if made.exists():
            shutil.rmtree(made)
        try:
            self.read(folder)
        except SteelyardError as error:
            if not error.message.strip():
                raise AssertionError("an error without a message") from error


def out(folder: Path) -> Path:
    """Return where a reader of ``folder`` may write."""
    return folder.with_name(f"{folder.name}-out")


def holding(files: Mapping[str, str | bytes]) -> Make:
    """Return what writes these files."""

    def make(folder: Path) -> None:
        for name, content in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)

    return make
