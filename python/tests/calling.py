"""Runs commands in this process, which has loaded everything already: most of a short command is loading."""

import contextlib
import io
import os
import subprocess
from pathlib import Path
from unittest import mock

from steelyard.cli.main import invoke


def call(*words: str, folder: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run ``steelyard WORDS``; return its exit code and what it said.

    In ``folder``, if one is given, and with ``environment`` beside what is there.
    """
    out, err = io.StringIO(), io.StringIO()
    here = contextlib.chdir(folder) if folder is not None else contextlib.nullcontext()
    there = mock.patch.dict(os.environ, environment)
    with here, there, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = invoke(list(words))
    return subprocess.CompletedProcess(["steelyard", *words], code, out.getvalue(), err.getvalue())
