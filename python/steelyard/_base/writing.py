"""Files that appear under their name only when they are whole, whatever ends the writing of them."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from steelyard._base.errors import WorkloadFailedError


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give the name of a file to write, which takes the place of ``path`` at the end.

    After an error or an interrupt nothing of it is left. Raises WorkloadFailedError where it cannot be
    written.
    """
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        yield partial
        partial.replace(path)
    except OSError as error:
        raise WorkloadFailedError(f"{path}: cannot be written: {error.strerror}") from error
    finally:
        with contextlib.suppress(OSError):
            partial.unlink()
