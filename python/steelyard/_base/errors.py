"""The one tree of expected errors: each is reported in one line with a hint, and ends in its exit code."""

from enum import IntEnum


class ExitCode(IntEnum):
    """How a command ended; the same codes in both planes."""

    OK = 0
    NO = 1
    USAGE = 2
    ENVIRONMENT = 3
    FAILED = 4


class SteelyardError(Exception):
    """Something the user can act on.

    ``message`` says what happened in one line, ``hint`` what to do about it.
    """

    exit_code: ExitCode = ExitCode.FAILED

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class ResultSaysNoError(SteelyardError):
    """The work was done and the answer is no."""

    exit_code = ExitCode.NO


class UsageError(SteelyardError):
    """The arguments do not fit."""

    exit_code = ExitCode.USAGE


class EnvironmentLacksError(SteelyardError):
    """The machine lacks something that the work needs."""

    exit_code = ExitCode.ENVIRONMENT


class WorkloadFailedError(SteelyardError):
    """The workload failed."""

    exit_code = ExitCode.FAILED


class RecordError(SteelyardError):
    """A record cannot be read: absent, of another kind, misshapen, or of an unknown major version."""

    exit_code = ExitCode.USAGE
