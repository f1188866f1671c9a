"""Every shape of `perf report --stdio` text, and other text."""

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.analyze.profiles.perf_report import parse_perf_report

RECORDED = Path(__file__).resolve().parents[5] / "shared" / "data" / "perfdata"

GROUP_WITH_CHILDREN = """
# Samples: 132  of events 'anon group { cpu-clock, task-clock }'
# Event count (approx.): 664175882
#
#         Children              Self  Command  Shared Object         Symbol
# ................  ................  .......  ....................  ..................
#
    37.87%  37.90%     0.00%   0.00%  python3  [unknown]             [.] 0x00007f5ae4c56240
            |
            ---0x7f5ae4c56240
               |--21.22%--_PyEval_EvalFrameDefault
                --1.51%--0x7f5ae442df40
    24.25%  24.20%    24.25%  24.20%  python3  libpython3.11.so.1.0  [.] _PyEval_EvalFrameDefault
     1.53%   1.53%     1.53%   1.52%  a b c    [kernel.kallsyms]     [k] handle_softirqs
"""


def test_a_group_with_children_has_a_column_for_each_event() -> None:
    [report] = parse_perf_report(GROUP_WITH_CHILDREN)
    assert report.events == ("cpu-clock", "task-clock")
    assert report.samples == 132
    assert report.unread == 0
    top, evaluate, interrupts = report.rows
    assert top.with_callees_ratios == (0.3787, 0.379)
    assert top.self_ratios == (0.0, 0.0)
    assert evaluate.self_ratios == (0.2425, 0.242)
    assert (interrupts.command, interrupts.object) == ("a b c", "[kernel.kallsyms]")


def test_samples_columns_and_folded_chains_are_passed_over() -> None:
    [report] = parse_perf_report(
        """
# Samples: 66  of event 'cpu-clock'
# Overhead       Samples  Command  Shared Object         Symbol
# ........  ............  .......  ....................  .........
    24.25%            16  12 apes  libpython3.11.so.1.0  [.] _PyEval_EvalFrameDefault
21.22% _PyEval_EvalFrameDefault;0x7f5ae46129c0;0x7f5ae4c56240
    12.11%             8  python3  libpython3.11.so.1.0  [.] operator[] [clone .part.0]
"""
    )
    assert [row.symbol for row in report.rows] == ["_PyEval_EvalFrameDefault", "operator[] [clone .part.0]"]
    assert report.rows[0].command == "12 apes"
    # Folded chains begin as rows do: they are counted as what was not read.
    assert report.unread == 1


def test_sections_of_several_events_are_reports_of_their_own() -> None:
    section = "# Samples: 5  of event '{}'\n# Overhead  Symbol\n    60.00%  [.] f\n    40.00%  [k] g\n"
    cycles, faults = parse_perf_report(section.format("cycles:u") + section.format("page-faults"))
    assert (cycles.events, faults.events) == (("cycles:u",), ("page-faults",))
    assert cycles.rows[0].object is None
    assert cycles.shares("cycles:u") == {"f": 0.6, "g": 0.4}
    assert cycles.floor("cycles:u") == 0.4


def test_the_same_function_of_two_commands_is_summed() -> None:
    [report] = parse_perf_report("  10.00%  a  x  [.] f\n   5.00%  b  x  [.] f\n")
    assert report.events == ("column 1",)
    assert round(report.shares("column 1")["f"], 6) == 0.15


def test_damaged_lines_are_counted_and_never_read() -> None:
    [report] = parse_perf_report(
        "  10.00%  a  x  [.] f\n  999.00%  a  x  [.] g\n  3.00%  a  x\n  1.0%  2.0%  a x [.] h\n"
    )
    assert [row.symbol for row in report.rows] == ["f"]
    assert report.unread == 3
    assert parse_perf_report("") == []
    assert parse_perf_report("no report at all\n# Overhead\n") == []


def test_hostile_lengths_cost_no_time_and_raise_nothing() -> None:
    long = "9" * 5000
    [report] = parse_perf_report(
        f"# Samples: {long}  of event 'cycles'\n# Event count (approx.): {long}\n"
        f"  10.00%  a  x  [.] f{' ' * 200_000}g\n  20.00%  {' ' * 200_000}\n{'1.00% ' * 20_000}\n"
    )
    assert report.samples is None
    assert report.event_count is None
    assert len(report.rows) == 1
    assert report.unread == 2


@pytest.mark.parametrize("options", [(), ("--no-children", "-n"), ("--group", "-g", "none")], ids=" ".join)
def test_what_perf_prints_of_recorded_files_is_read_whole(options: tuple[str, ...]) -> None:
    files = sorted(RECORDED.glob("perf.data*")) if RECORDED.is_dir() else []
    if not files:
        pytest.skip(f"no recorded perf.data files in {RECORDED}")
    if shutil.which("perf") is None:
        pytest.skip("perf is not installed (Debian: linux-perf)")
    read = 0
    for file in files:
        printed = subprocess.run(
            ["perf", "report", "--stdio", "-i", str(file), *options],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        ).stdout
        for report in parse_perf_report(printed):
            read += 1
            assert report.unread == 0
            assert report.samples is not None
            # Nothing is left out of these small files: each event's shares are all there is, or it has none.
            for event in report.events:
                assert sum(report.shares(event).values()) in (0, pytest.approx(1, abs=0.01))
    assert read >= len(files) - 1


line = st.one_of(
    st.text(max_size=40),
    st.from_regex(r"\A *\d{1,3}\.\d\d% +(\d+ +)?[a-z ]{0,9}[.\w\[\]]{0,9} *(\[[.kx]\])? *\w{0,6}\Z"),
    st.sampled_from(
        ["# Children  Self  Symbol", "# Samples: 9T of event ''", "# Samples: 1K of events '{a,b}'"]
    ),
)


@given(st.lists(line, max_size=12))
def test_no_text_raises_and_every_share_is_a_ratio(lines: list[str]) -> None:
    for report in parse_perf_report("\n".join(lines)):
        assert report.rows or report.unread
        for row in report.rows:
            assert len(row.self_ratios) == len(report.events)
            assert all(0 <= ratio <= 1 for ratio in row.self_ratios)
