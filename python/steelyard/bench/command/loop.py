"""Runs a command again and again: ``python loop.py FILE COMMAND...``, until SIGTERM or a failure.

In: a file to write, a command. Out: a line for each iteration: its begin and end (CLOCK_MONOTONIC, ns), and
its CPU time (ns). Ends with 1, in one line, when the command fails.

It runs beside what is measured: it loads nothing of Steelyard, and sleeps while the command runs.
"""

import os
import signal
import sys
import time
from types import FrameType

_ending = False


def _end(_number: int, _frame: FrameType | None) -> None:
    global _ending
    _ending = True


def main() -> int:
    """Run the iterations."""
    path, *command = sys.argv[1:]
    signal.signal(signal.SIGTERM, _end)
    output = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    while not _ending:
        begin_ns = time.monotonic_ns()
        try:
            pid = os.posix_spawnp(command[0], command, os.environ, setsigdef=[signal.SIGTERM])
        except OSError as error:
            print(f"{command[0]}: {error.strerror}", file=sys.stderr)
            return 1
        _, status, usage = os.wait4(pid, 0)
        end_ns = time.monotonic_ns()
        if _ending:
            break
        if status != 0:
            code = os.waitstatus_to_exitcode(status)
            how = f"exit code {code}" if code > 0 else f"signal {-code}"
            print(f"{command[0]} ended with {how}", file=sys.stderr)
            return 1
        cpu_ns = round((usage.ru_utime + usage.ru_stime) * 1e9)
        os.write(output, f"{begin_ns} {end_ns} {cpu_ns}\n".encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
