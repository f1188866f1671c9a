"""Whose work the kernel does: samples in the kernel, by the program's function that asked for it.

In: a profile. Out: samples by function, where those in the kernel have their caller and the system call.

A clock that is no non-maskable interrupt finds the kernel where it allows interrupts again, as in
`_raw_spin_unlock_irqrestore` and `finish_task_switch`: such leaves are artefacts of sampling.
The libraries between a program and the kernel name nothing either: every lock is in ``libc``.

Not here: what a function is for (``tax_map``).
"""

from __future__ import annotations

import re

from steelyard.analyze.profiles.profile import KERNEL, Frame, Profile

_ARTEFACT = re.compile(
    r"_*raw_(?:spin|read|write)_unlock(?:_irq|_irqrestore|_bh)?|(?:raw_spin_)?rq_unlock\w*|finish_task_switch"
    r"|_*local_bh_enable(?:_ip)?|(?:native_|arch_|pv_|raw_)*(?:local_)?irq_(?:enable|restore)\w*"
    r"|exit_to_user_mode\w*|syscall_(?:enter|exit)\w*|irqentry_\w+|do_syscall_64|(?:__)?x64_sys_call"
    r"|entry_SYSCALL_64\w*|el0t?_\w+|invoke_syscall|_*do_softirq|handle_softirqs|asm_\w+|sysvec_\w+"
)
_CALL = re.compile(r"__(?:x64|arm64|riscv|s390x?|se|ia32)_(?:compat_)?sys_(\w+)")
_FAULT = re.compile(r"(?:asm_)?exc_page_fault|do_page_fault|do_mem_abort|do_translation_fault")
_BETWEEN = re.compile(r"lib(?:c|pthread)(?:-[\d.]+)?\.so(?:\.\d+)?|ld-[\w.-]+\.so[\d.]*|ld-musl.*|vdso")


def is_artefact(function: str) -> bool:
    """Return whether a leaf of this name says where interrupts were allowed, and not what took time.

    >>> is_artefact("_raw_spin_unlock_irqrestore"), is_artefact("futex_wake")
    (True, False)
    """
    return _ARTEFACT.fullmatch(function) is not None


def by_caller(profile: Profile) -> dict[str, int]:
    """Return the samples of what was not idle: in a program by function; in the kernel by the function that
    called it, with the system call (``work, in futex``), or by the kernel's where no program did.
    """
    samples: dict[str, int] = {}
    for _, stack, count in profile.busy().stacks():
        name = _name([profile.frames[number] for number in stack])
        samples[name] = samples.get(name, 0) + count
    return samples


def _name(frames: list[Frame]) -> str:
    leaf = frames[-1]
    if leaf.module != KERNEL:
        return leaf.key
    at = next((at for at in range(len(frames) - 1, -1, -1) if frames[at].module != KERNEL), -1)
    caller = _caller(frames[: at + 1])
    if caller is None:
        inner = (frame.key for frame in reversed(frames[at + 1 :]) if not is_artefact(frame.key))
        return next(inner, leaf.key)
    for frame in frames[at + 1 :]:
        if call := _CALL.fullmatch(frame.function):
            return f"{caller}, in {call[1]}"
        if _FAULT.fullmatch(frame.function):
            return f"{caller}, in page faults"
    # An interrupt came by.
    return caller


def _caller(frames: list[Frame]) -> str | None:
    """Return the innermost function of a program; of a library in between where there is none."""
    known = [frame for frame in frames if frame.known]
    own = [frame for frame in known if frame.module is None or not _BETWEEN.fullmatch(frame.module)]
    return (own or known)[-1].key if own or known else None
