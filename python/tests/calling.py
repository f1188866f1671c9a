"""Runs commands in this process, which has loaded everything already: most of a short command is loading."""

import contextlib
import io
import subprocess
from pathlib import Path

from steelyard.cli.main import invoke


def call(*words: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run ``steelyard WORDS``, in ``folder`` if one is given; return its exit code and what it said."""
    out, err = io.StringIO(), io.StringIO()
    here = contextlib.chdir(folder) if folder is not None else contextlib.nullcontext()
    with here, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = invoke(list(words))
    return subprocess.CompletedProcess(["steelyard", *words], code, out.getvalue(), err.getvalue())
