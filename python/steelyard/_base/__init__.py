"""What every package stands on: errors with exit codes, and where shipped files are.

Not here: anything that knows of runs, machines or measurements.
"""

from steelyard._base.errors import (
    EnvironmentLacksError,
    ExitCode,
    RecordError,
    ResultSaysNoError,
    SteelyardError,
    UsageError,
    WorkloadFailedError,
)
from steelyard._base.paths import data_dir, executable, schemas_dir

__all__ = [
    "EnvironmentLacksError",
    "ExitCode",
    "RecordError",
    "ResultSaysNoError",
    "SteelyardError",
    "UsageError",
    "WorkloadFailedError",
    "data_dir",
    "executable",
    "schemas_dir",
]
