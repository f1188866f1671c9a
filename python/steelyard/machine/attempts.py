"""Asking the kernel by trying: what no file in /proc or /sys tells for certain.

In: nothing. Out: ``None`` where the attempt worked, else the kernel's reason. Every attempt undoes itself (a
descriptor is closed, a mask is set to what it was), so that diagnosing changes nothing.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from dataclasses import dataclass

_PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241, "riscv64": 241}
_IO_URING_SETUP = 425
_PR_GET_PDEATHSIG = 2
_PERF_TYPE_HARDWARE, _PERF_TYPE_SOFTWARE = 0, 1
_CYCLES, _CPU_CLOCK = 0, 0
_ATTRIBUTE_BYTES = 112
# Bits of perf_event_attr's flags: disabled, exclude_kernel, exclude_hv.
_FLAGS = 1 | 1 << 5 | 1 << 6


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why the kernel said no."""

    number: int
    """errno."""
    text: str
    """errno in words."""


def io_uring() -> Refusal | None:
    """Try to set up a ring of two entries."""
    parameters = ctypes.create_string_buffer(120)
    return _descriptor(_IO_URING_SETUP, 2, ctypes.byref(parameters))


def hardware_counter() -> Refusal | None:
    """Try to count this process's cycles in user mode."""
    return _counter(_PERF_TYPE_HARDWARE, _CYCLES)


def software_counter() -> Refusal | None:
    """Try to open the clock that profiles without hardware counters sample by."""
    return _counter(_PERF_TYPE_SOFTWARE, _CPU_CLOCK)


def counter_of_all_processes() -> Refusal | None:
    """Try to open such a clock for whatever runs on a CPU, which takes more rights."""
    return _counter(_PERF_TYPE_SOFTWARE, _CPU_CLOCK, process=-1, cpu=min(os.sched_getaffinity(0)))


def affinity() -> Refusal | None:
    """Try to set this process's CPUs to those it has."""
    try:
        os.sched_setaffinity(0, os.sched_getaffinity(0))
    except OSError as error:
        return _refusal(error.errno or 0)
    return None


def parent_death_signal() -> Refusal | None:
    """Try to read this process's parent-death signal."""
    signal = ctypes.c_int(0)
    status = _libc().prctl(_PR_GET_PDEATHSIG, ctypes.byref(signal), 0, 0, 0)
    return None if status == 0 else _refusal(ctypes.get_errno())


def _counter(kind: int, config: int, *, process: int = 0, cpu: int = -1) -> Refusal | None:
    number = _PERF_EVENT_OPEN.get(platform.machine())
    if number is None:
        return Refusal(0, f"the number of perf_event_open on {platform.machine()} is not known here")
    # struct perf_event_attr: type, size, config, sample_period, sample_type, read_format, flags, then zeros.
    head = struct.pack("=IIQQQQQ", kind, _ATTRIBUTE_BYTES, config, 0, 0, 0, _FLAGS)
    attribute = ctypes.create_string_buffer(head, _ATTRIBUTE_BYTES)
    # Process 0 is this one, CPU -1 any; no group, no flags.
    return _descriptor(number, ctypes.byref(attribute), process, cpu, -1, 0)


def _descriptor(number: int, *arguments: object) -> Refusal | None:
    """Call a system call that returns a descriptor, and close it."""
    longs = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    descriptor = _libc().syscall(ctypes.c_long(number), *longs)
    if descriptor < 0:
        return _refusal(ctypes.get_errno())
    os.close(descriptor)
    return None


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _refusal(number: int) -> Refusal:
    return Refusal(number, os.strerror(number))
