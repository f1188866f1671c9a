"""One run of a co-location, in a process of its own: ``python -m steelyard.bench.colocation.member FILE``.

In: a file with the request. Out: the run, and another file that says where it is, or why there is none.

A process of its own, because a run moves its process to other CPUs, answers signals, and ends with everything
that it started when whoever started it is killed.
"""

import json
import sys
from pathlib import Path

from steelyard._base import ExitCode, SteelyardError
from steelyard._base.request import from_document
from steelyard.bench.launch import execute
from steelyard.bench.progress import Silence
from steelyard.bench.request import RunRequest


def answer_path(request: Path) -> Path:
    """Return where the answer to a request is."""
    return request.with_suffix(".answer.json")


def main() -> int:
    """Make the run."""
    path = Path(sys.argv[1])
    request = from_document(RunRequest, json.loads(path.read_text()))
    answer: dict[str, object] = {}
    code = ExitCode.OK
    try:
        launched = execute(request, progress=Silence())
        attempt = launched.attempts[0]
        answer["run_id"] = attempt.directory.name
        error = attempt.error
    except SteelyardError as refusal:
        error = refusal
    if error is not None:
        code = error.exit_code
        answer |= {"message": error.message, "hint": error.hint, "exit_code": int(code)}
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(answer))
    partial.rename(answer_path(path))
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
