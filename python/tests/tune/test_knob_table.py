"""The table of knobs on narrow terminals: what must be typed is whole."""

import pytest
from rich.console import Console

from steelyard.records.tuning import TuningKnob, TuningLack
from steelyard.report.answer.terminal import terminal
from steelyard.report.tune.knobs import knobs_answer

LEVELS = {
    "sched_autogroup_enabled": ["0"],
    "huge_pages_2MiB": ["692", "1385", "2771"],
    "huge_pages_1GiB": ["1", "2", "5"],
    "thp_defrag": ["always", "defer+madvise", "never"],
}


@pytest.mark.parametrize("columns", [60, 80, 120, 200])
def test_names_and_levels_are_whole(columns: int) -> None:
    about = "CPU time shared between sessions first, then between their threads"
    knobs = [
        TuningKnob(
            name=name,
            about=about,
            found="a value as found that is long",
            levels=levels,
            risk="medium",
            needs_reboot=False,
            reason="it needs a reboot",
        )
        for name, levels in LEVELS.items()
    ]
    lacking = [TuningLack(name="interrupt_coalescing_of_eth0", reason="the driver does not support it " * 3)]
    console = Console(width=columns)
    with console.capture() as capture:
        console.print(terminal(knobs_answer(knobs, lacking)))
    lines = [line.rstrip() for line in capture.get().splitlines()]
    assert max(map(len, lines)) <= columns
    words = {word.rstrip(":") for line in lines for word in line.split()}
    assert {
        *LEVELS,
        *(level for levels in LEVELS.values() for level in levels),
        "medium",
        "interrupt_coalescing_of_eth0",
    } <= words
    # What a knob sets is folded beside it, or it is said that there is no room.
    assert capture.get().count("reboot") == len(LEVELS) or "no room here for:" in capture.get()
