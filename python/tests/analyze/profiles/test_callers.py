"""Samples in the kernel have the name of the program's function that asked for them."""

from pathlib import Path

import pytest

from steelyard.analyze.profiles.callers import by_caller, is_artefact
from steelyard.analyze.profiles.figures import profile_use
from steelyard.analyze.profiles.tax_map import classify
from tests.folded import profile

ENTRY = "entry_SYSCALL_64_after_hwframe [kernel];do_syscall_64 [kernel]"
FAULT = "asm_exc_page_fault [kernel];exc_page_fault [kernel]"
FUTEX = f"{ENTRY};__x64_sys_futex [kernel];do_futex [kernel];futex_wake [kernel]"
WORK = "app;start_thread [libc.so.6];work [app];pthread_mutex_lock [libc.so.6];__lll_lock_wait [libc.so.6]"


@pytest.mark.parametrize(
    ("stack", "name"),
    [
        (f"{WORK};{FUTEX};_raw_spin_unlock_irqrestore [kernel]", "work, in futex"),
        (f"{WORK};{FUTEX}", "work, in futex"),
        (f"{WORK};{ENTRY}", "work"),
        (WORK, "__lll_lock_wait"),
        ("app;work [app];asm_sysvec_apic_timer_interrupt [kernel];handle_softirqs [kernel]", "work"),
        (
            "app;work [app];asm_exc_page_fault [kernel];exc_page_fault [kernel];clear_page_erms [kernel]",
            "work, in page faults",
        ),
        (
            f"app;[unknown] [app];read [libc.so.6];{ENTRY};__x64_sys_read [kernel];vfs_read [kernel]",
            "read, in read",
        ),
        # A thread of the kernel has no caller.
        (
            "kworker/0:1;ret_from_fork [kernel];worker_thread [kernel];_raw_spin_unlock_irq [kernel]",
            "worker_thread",
        ),
        ("app;finish_task_switch.isra.0 [kernel]", "finish_task_switch"),
    ],
)
def test_the_caller_is_named(tmp_path: Path, stack: str, name: str) -> None:
    assert by_caller(profile(tmp_path, {stack: 7})) == {name: 7}


def test_all_busy_samples_are_kept(tmp_path: Path) -> None:
    one = profile(
        tmp_path,
        {
            f"{WORK};{FUTEX};_raw_spin_unlock_irqrestore [kernel]": 5,
            f"{WORK};{FUTEX}": 2,
            "app;work [app]": 4,
            "swapper;do_idle [kernel];intel_idle [kernel]": 90,
        },
    )
    assert by_caller(one) == {"work, in futex": 7, "work": 4}


def test_an_artefact_leads_no_category(tmp_path: Path) -> None:
    assert all(
        is_artefact(name) for name in ("_raw_spin_unlock_irq", "__local_bh_enable_ip", "do_syscall_64")
    )
    one = profile(
        tmp_path,
        {
            "app;schedule [kernel];finish_task_switch.isra.0 [kernel]": 5,
            "app;schedule [kernel];pick_next_task_fair [kernel]": 3,
        },
    )
    use = profile_use(one, classify(one))
    assert "finish_task_switch" not in use.leaders.values()
