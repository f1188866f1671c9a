"""Several outputs of perf stat in one file: all of them are read, or it is said which are not."""

from pathlib import Path

import pytest

from steelyard.analyze.counters.use import outputs_of
from steelyard.telemetry.perf_stat.output import PerfStat, parse_perf_stat, read_perf_stat

STARTED = "# started on Mon Jan  5 10:00:00 2026\n\n"


def counts(found: PerfStat) -> dict[str, float | None]:
    [series] = found.series
    return {name: event.count[0] for name, event in series.events.items()}


def csv(*rows: tuple[str, int]) -> str:
    return "".join(f"{value},,{event},1000,100.00,,\n" for event, value in rows)


def plain(target: str, seconds: float, *rows: tuple[str, int]) -> str:
    lines = "".join(f"{value:>18}      {event}\n" for event, value in rows)
    head = f"\n Performance counter stats for '{target}':\n\n"
    return f"{STARTED}{head}{lines}\n       {seconds:.9f} seconds time elapsed\n\n"


def test_outputs_of_different_events_are_one() -> None:
    found = parse_perf_stat(
        STARTED + csv(("cycles", 10), ("r11", 1)) + STARTED + csv(("instructions", 20), ("r12", 2))
    )
    assert counts(found) == {"cycles": 10, "r11": 1, "instructions": 20, "r12": 2}
    assert (found.outputs, found.left_out, found.repeated) == (2, None, ())
    assert outputs_of(found, "a.csv").endswith("2 outputs of perf stat of different events, which are joined")


def test_an_event_of_several_outputs_has_their_mean() -> None:
    text = plain("sleep 1", 1.0, ("cycles", 100), ("faults", 7)) + plain("sleep 1", 3.0, ("cycles", 200))
    found = parse_perf_stat(text)
    assert counts(found) == {"cycles": 150, "faults": 7}
    assert (found.duration_s, found.repeated) == (2.0, ("cycles",))
    # The standard deviation of the mean of 100 and 200 is 50.
    assert found.variation_ratio["cycles"] == pytest.approx(50 / 150)
    assert "counts of cycles are means" in outputs_of(found, "a")


def test_outputs_of_different_commands_leave_the_last_and_say_so() -> None:
    found = parse_perf_stat(plain("sleep 1", 1.0, ("cycles", 100)) + plain("true", 0.1, ("faults", 2)))
    assert counts(found) == {"faults": 2}
    assert "the last one is taken, since they are of different commands" in outputs_of(found, "a")


@pytest.mark.parametrize("between", ["", "\n", "# 2 threads\n"], ids=["nothing", "blank", "comment"])
def test_outputs_without_a_header_are_separated(between: str) -> None:
    """Seven outputs of the same events, of which one was read."""
    outputs = [csv(("cycles", 100 * n), ("instructions", 50 * n), ("r11", n)) for n in range(1, 8)]
    found = parse_perf_stat(between.join(outputs))
    assert counts(found) == {"cycles": 400, "instructions": 200, "r11": 4}
    assert (found.outputs, found.unread) == (7, 0)


@pytest.mark.parametrize("events", [("cycles",), ("cycles", "r11")])
def test_outputs_of_one_or_two_events_are_separated_as_well(events: tuple[str, ...]) -> None:
    found = parse_perf_stat("".join(csv(*((event, n) for event in events)) for n in (10, 20, 60)))
    assert counts(found) == dict.fromkeys(events, 30)
    assert found.outputs == 3


def test_units_of_the_uncore_are_added_and_are_no_outputs() -> None:
    found = parse_perf_stat(csv(("uncore_imc/cas_count_read/", 10), ("uncore_imc/cas_count_read/", 30)))
    assert counts(found) == {"uncore_imc/cas_count_read/": 40}
    assert found.outputs == 1


def test_an_event_that_perf_counted_twice_is_no_second_output() -> None:
    found = parse_perf_stat(csv(("cycles", 5), ("instructions", 9), ("cycles", 6), ("r11", 1)))
    assert found.outputs == 1
    assert counts(found)["instructions"] == 9


@pytest.mark.parametrize("codec", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_files_of_editors_are_read(codec: str, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(plain("sleep 1", 1.0, ("cycles", 100)).encode(codec))
    assert counts(read_perf_stat(path)) == {"cycles": 100}
