"""What every package stands on: errors with exit codes, safe reading of files, where shipped files are,
lists of CPUs, and text without its colours.

Not here: anything that knows of runs, machines or measurements.
"""

from steelyard._base.commands import command_text
from steelyard._base.cpu_lists import format_cpu_list, parse_cpu_list, parse_cpu_mask
from steelyard._base.errors import (
    EnvironmentLacksError,
    ExitCode,
    RecordError,
    ResultSaysNoError,
    SteelyardError,
    UsageError,
    WorkloadFailedError,
)
from steelyard._base.escapes import without_escapes
from steelyard._base.files import RECORD_BYTES_AT_MOST, open_regular, read_at_most, read_regular, read_tail
from steelyard._base.interrupts import held_back
from steelyard._base.paths import REPAIR_HINT, data_dir, executable, schemas_dir, users_dir, workloads_dir
from steelyard._base.rates import parse_rate
from steelyard._base.text import encoding_of, text_of
from steelyard._base.version import SCHEMA_VERSION
from steelyard._base.writing import replacing

__all__ = [
    "RECORD_BYTES_AT_MOST",
    "REPAIR_HINT",
    "SCHEMA_VERSION",
    "EnvironmentLacksError",
    "ExitCode",
    "RecordError",
    "ResultSaysNoError",
    "SteelyardError",
    "UsageError",
    "WorkloadFailedError",
    "command_text",
    "data_dir",
    "encoding_of",
    "executable",
    "format_cpu_list",
    "held_back",
    "open_regular",
    "parse_cpu_list",
    "parse_cpu_mask",
    "parse_rate",
    "read_at_most",
    "read_regular",
    "read_tail",
    "replacing",
    "schemas_dir",
    "text_of",
    "users_dir",
    "without_escapes",
    "workloads_dir",
]
