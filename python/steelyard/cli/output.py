"""How commands speak: results on standard output, everything else on standard error.

Invariants: with ``--json`` nothing but one JSON document reaches standard output; an expected error is one
line with its hint; no traceback is ever shown unless ``STEELYARD_DEBUG`` is set.
"""

import json
import os
import sys
from typing import Any

from steelyard._base import ExitCode, SteelyardError

EXIT_CODES = (
    "Exit codes: 0 done; 1 done, and the answer is no (an invalid result); 2 wrong arguments;"
    " 3 this machine lacks something; 4 the work failed."
)


def print_json(document: Any) -> None:
    """Write one JSON document to standard output."""
    json.dump(document, sys.stdout, indent=2, allow_nan=False)
    sys.stdout.write("\n")


def complain(error: SteelyardError) -> None:
    """Tell an expected error in one line."""
    hint = f" ({error.hint})" if error.hint else ""
    line = " ".join(f"{error.message}{hint}".split())
    print(f"steelyard: {line}", file=sys.stderr)


def unexpected(error: BaseException) -> ExitCode:
    """Tell a bug in one line."""
    if os.environ.get("STEELYARD_DEBUG"):
        raise error
    line = " ".join(f"{type(error).__name__}: {error}".split())
    print(f"steelyard: internal error: {line} (STEELYARD_DEBUG=1 shows where)", file=sys.stderr)
    return ExitCode.FAILED
