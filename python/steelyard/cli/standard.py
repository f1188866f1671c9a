"""Standard output and error of the command: text that any encoding takes, and writes that fail in one line.

In: the descriptors that the process was started with. Out: streams in their place. A letter that the locale
has not is replaced; a full disk or a descriptor that was closed is an expected error (`OutputLostError`); a
reader that has left stays a ``BrokenPipeError``.

Not here: what is printed (``output``).
"""

import codecs
import io
import os
import sys
from collections.abc import Callable
from typing import Any, TextIO

from steelyard._base import ExitCode, SteelyardError

_ERROR = 2
"""Standard error's descriptor."""
_HANDLER = "steelyard.replaced"
_REPLACED = {
    "\N{NARROW NO-BREAK SPACE}": " ",
    "\N{NO-BREAK SPACE}": " ",
    "\N{MIDDLE DOT}": "-",
    "\N{EN DASH}": "-",
    "\N{EM DASH}": "-",
    "\N{MICRO SIGN}": "u",
    "\N{GREEK SMALL LETTER MU}": "u",
    "\N{MULTIPLICATION SIGN}": "x",
    "\N{RIGHTWARDS ARROW}": "->",
    "\N{LEFTWARDS ARROW}": "<-",
    "\N{HORIZONTAL ELLIPSIS}": "...",
    "\N{RIGHT SINGLE QUOTATION MARK}": "'",
    "\N{DEGREE SIGN}": " deg ",
    "\N{PLUS-MINUS SIGN}": "+-",
    "\N{GREATER-THAN OR EQUAL TO}": ">=",
    "\N{LESS-THAN OR EQUAL TO}": "<=",
    "\N{ALMOST EQUAL TO}": "~",
    "\N{MINUS SIGN}": "-",
}


class OutputLostError(SteelyardError):
    """What a command printed has not arrived."""

    exit_code = ExitCode.FAILED


class _Descriptor(io.FileIO):
    """A descriptor whose first failed write is an expected error; what follows is dropped without a word.

    Errors of standard error itself are not reported: there is no other place for them.
    """

    is_lost = False

    def write(self, data: Any) -> int:
        if self.is_lost:
            return memoryview(data).nbytes
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            self.is_lost = True
            if self.fileno() == _ERROR:
                return memoryview(data).nbytes
            raise OutputLostError(f"cannot write to standard output: {error.strerror}") from error


def replaced(error: UnicodeError) -> tuple[str, int]:
    """Return what stands for letters that an encoding has not, and where to go on."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = error.object[error.start : error.end]
    return "".join(_REPLACED.get(letter, "?") for letter in letters), error.end


def take_streams() -> None:
    """Put the streams into the place of Python's own; others, of somebody who captures them, stay."""
    codecs.register_error(_HANDLER, replaced)
    _fill_closed()
    if sys.stdout is sys.__stdout__:
        sys.stdout = _stream(1, sys.stdout)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _stream(_ERROR, sys.stderr)


def _fill_closed() -> None:
    """Open for reading what was closed at the start: no file of ours may get its number."""
    while True:
        descriptor = os.open(os.devnull, os.O_RDONLY)
        if descriptor > _ERROR:
            os.close(descriptor)
            return


def _stream(descriptor: int, present: TextIO | None) -> TextIO:
    if present is not None:
        present.flush()
    encoding = getattr(present, "encoding", None) or "utf-8"
    raw = _Descriptor(descriptor, "wb", closefd=False)
    by_line = descriptor == _ERROR or raw.isatty()
    return io.TextIOWrapper(
        io.BufferedWriter(raw), encoding=encoding, errors=_HANDLER, line_buffering=by_line
    )


def flushed(complain: Callable[[SteelyardError], None]) -> bool:
    """Write what is buffered; return False where output is lost, which is said once."""
    try:
        sys.stdout.flush()
    except OutputLostError as error:
        complain(error)
    except (BrokenPipeError, ValueError):
        # `finish_output` knows what to do about it.
        return True
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return not getattr(raw, "is_lost", False)
