"""Scaling curves: the published case to its printed digits, losses that multiply, limits, bad files."""

from __future__ import annotations

import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard._base import UsageError
from steelyard.analyze.profiles.hot_functions import FunctionShares
from steelyard.analyze.profiles.perf_report import parse_perf_report
from steelyard.analyze.scaling.curve import Observation, Place, Step, steps_of, whole_blocks
from steelyard.analyze.scaling.limits import limits_of
from steelyard.analyze.scaling.loss import scaling_loss
from steelyard.analyze.scaling.measured import parse_curve
from steelyard.analyze.scaling.scaling import Scaling, analyse
from steelyard.report import format as fmt
from steelyard.report.scale.words import notes, sentences
from tests.analyze.operations.test_finished_ops import excerpts

HEAD = "threads,instructions,transactions,cycles,latency_mean_us,ops_per_s,elapsed\n"
BEFORE = HEAD + (
    "1,3129398329928,1510002999,1136230674488,0.199,5033342,300\n"
    "160,22625805888251,11125908840,171717420118090,4.314,37083372,300.024\n"
)
AFTER = HEAD + (
    "1,3259113189316,1588156999,1124524900793,0.189,5293853,300\n"
    "160,194183272380812,97151942840,151013619154778,0.494,323795384,300.041\n"
)


def curve(text: str) -> tuple[Step, ...]:
    return steps_of(parse_curve(text, name="curve.csv"))


def test_shares_of_a_step_with_a_disturbed_block_add_up_to_its_time() -> None:
    blocks = ((0.622, 0.326), (0.618, 0.323), (0.622, 0.317), (0.461, 0.020))
    trials = [
        Observation(2, block, 1000.0, readings={"elapsed_s": 1.0, "busy_ratio": busy, "idle_ratio": idle})
        for block, (busy, idle) in enumerate(blocks)
    ]
    (step,) = steps_of(trials)
    assert step.busy_ratio == pytest.approx(0.58075)
    assert step.idle_ratio == pytest.approx(0.2465)
    # The mean of what each block had left.
    assert step.others_ratio == pytest.approx(0.17275)


def test_a_loss_of_several_blocks_is_the_other_side_of_the_throughput() -> None:
    """Each CPU does 1.5 times less where its throughput is two thirds, however much blocks differ."""
    rates = {1: (900.0, 1100.0, 1000.0), 4: (3000.0, 1900.0, 2800.0)}
    trials = [
        Observation(
            cpus, block, rate, readings={"elapsed_s": 10.0, "instructions": 5e6 * rate, "cycles": 8e6 * rate}
        )
        for cpus, of_blocks in rates.items()
        for block, rate in enumerate(of_blocks)
    ]
    steps = steps_of(trials)
    scaling = analyse(steps)
    assert scaling.loss is not None
    efficiency = scaling.steps[1].efficiency_ratio
    assert efficiency is not None
    assert scaling.loss.factor.value == pytest.approx(1 / efficiency)
    assert steps[0].law.ops_per_s.value == pytest.approx(steps[0].ops_per_s)


@pytest.mark.parametrize(
    ("text", "path", "cpi"),
    [
        (BEFORE, ("2072.445109", "2033.614172"), ("0.363083", "7.589450")),
        (AFTER, ("2052.135394", "1998.758509"), ("0.345040", "0.777686")),
    ],
)
def test_facts_path_length_and_cpi_come_out_to_the_printed_digits(
    text: str, path: tuple[str, str], cpi: tuple[str, str]
) -> None:
    steps = curve(text)
    assert tuple(f"{step.law.path_length.value:.6f}" for step in steps) == path
    assert tuple(f"{step.law.cpi.value:.6f}" for step in steps) == cpi


def test_facts_the_loss_of_rocksdb_is_contention() -> None:
    one, many = curve(BEFORE)
    loss = scaling_loss(one, many)
    path, cpi = loss.term("path length"), loss.term("CPI")
    assert path is not None
    assert cpi is not None
    assert path.factor.value == pytest.approx(1 - 0.019, abs=0.0005)
    assert cpi.factor.value == pytest.approx(20.9, abs=0.05)
    assert loss.cause.startswith("each instruction takes more clock cycles (CPI), because of contention")
    assert loss.factor.value == pytest.approx(5033342 * 160 / 37083372, rel=1e-5)
    assert math.prod(term.factor.value or 0 for term in loss.terms) == pytest.approx(loss.factor.value or 0)
    # The fix is worth 8.73x at 160 threads.
    assert (curve(AFTER)[-1].ops_per_s or 0) / (many.ops_per_s or 1) == pytest.approx(8.73, abs=0.005)


def test_facts_finished_ops_is_named_first() -> None:
    low, high = (FunctionShares.of_report(report) for report in excerpts())
    found = analyse(curve(BEFORE), low=low, high=high)
    assert found.grown is not None
    assert found.grown.function == "rocksdb::Stats::FinishedOps"
    assert found.grown.share_of_change.value == pytest.approx(0.914, abs=0.001)


def report(shares: dict[str, float], samples: int) -> FunctionShares:
    lines = [f"# Samples: {samples} of event 'cycles'", "# Overhead  Command  Shared Object  Symbol"]
    lines += [f"  {share:.2f}%  demo  demo  [.] {name}" for name, share in shares.items()]
    return FunctionShares.of_report(parse_perf_report("\n".join(lines))[0])


def test_a_function_is_named_only_where_sampling_does_not_explain_it() -> None:
    steps = curve("cpus,ops_per_s\n1,100\n8,120\n")
    noisy = analyse(steps, low=report({"a": 50, "b": 50}, 40), high=report({"a": 55, "b": 45}, 40))
    assert noisy.grown is None
    clear = analyse(steps, low=report({"a": 50, "b": 50}, 4000), high=report({"a": 90, "b": 10}, 4000))
    assert clear.grown is not None
    assert clear.grown.function == "a"
    other = analyse(steps, low=FunctionShares.of_samples({"a": 5}, "cpu-clock"), high=report({"a": 90}, 40))
    assert other.grown is None
    assert "no event in common" in (other.functions_missing or "")


positive = st.floats(1e-3, 1e6)


@given(
    low=st.tuples(positive, positive, positive, st.floats(0.05, 1)),
    high=st.tuples(positive, positive, positive, st.floats(0.05, 1)),
    growth=st.integers(2, 400),
    counted=st.booleans(),
)
def test_factors_multiply_to_the_loss(
    low: tuple[float, ...], high: tuple[float, ...], growth: int, counted: bool
) -> None:
    def observation(cpus: int, figures: tuple[float, ...]) -> Observation:
        path, cpi, ghz, busy = figures
        cpu_s = busy * cpus
        cycles = ghz * 1e9 * cpu_s
        operations = cycles / cpi / path
        counts = {"instructions": cycles / cpi, "cycles": cycles} if counted else {}
        more = {"operations": operations, "elapsed_s": 1.0, "cpu_s": cpu_s}
        return Observation(cpus, 0, operations, readings={**counts, **more})

    first, last = steps_of([observation(1, low), observation(growth, high)])
    loss = scaling_loss(first, last)
    assert loss.factor.value == pytest.approx(
        (first.ops_per_s or 0) * growth / (last.ops_per_s or 1), rel=1e-6
    )
    assert math.prod(term.factor.value or 0 for term in loss.terms) == pytest.approx(loss.factor.value)
    names = [term.name for term in loss.terms]
    assert names == (
        ["path length", "CPI", "frequency", "CPU use"] if counted else ["CPU time per operation", "CPU use"]
    )
    shares = [term.share.value for term in loss.terms]
    if None not in shares:
        assert sum(share or 0.0 for share in shares) == pytest.approx(1.0)


def test_siblings_and_neighbours_are_said_beside_the_loss() -> None:
    counts = {"instructions": 4e9, "cycles": 2e9, "elapsed_s": 1.0}
    places = {1: Place("0", False, 1), 2: Place("0,4", True, 1)}
    rows = [
        Observation(1, 0, 100.0, readings={**counts, "cpu_s": 1.0, "idle_ratio": 0.0}),
        Observation(2, 0, 120.0, readings={**counts, "cycles": 3e9, "cpu_s": 1.0, "idle_ratio": 0.1}),
    ]
    loss = scaling_loss(*steps_of(rows, places))
    assert "at 2 CPUs threads share cores, at 1 they do not" in (loss.caveat or "")
    assert "other processes had 40% of the CPUs' time at the step of 2" in (loss.caveat or "")


def flat(idle: float, busy: float, errors: tuple[float, float] = (0.0, 0.0)) -> list[tuple[str, int]]:
    rows = [
        Observation(1, 0, 100.0, readings={"busy_ratio": 1.0, "idle_ratio": 0.0, "error_ratio": errors[0]}),
        Observation(2, 0, 195.0, readings={"busy_ratio": 1.0, "idle_ratio": 0.0, "error_ratio": errors[0]}),
        Observation(4, 0, 200.0, readings={"busy_ratio": busy, "idle_ratio": idle, "error_ratio": errors[1]}),
    ]
    return [(limit.id, limit.from_cpus) for limit in limits_of(steps_of(rows))]


def test_what_cannot_use_the_machine_is_called_so() -> None:
    assert flat(idle=0.5, busy=0.5) == [("idle", 2)]
    assert flat(idle=0.0, busy=1.0) == [("busy", 2)]
    # What others took is no fault of the workload.
    assert flat(idle=0.1, busy=0.4) == [("others", 2)]
    assert flat(idle=0.0, busy=1.0, errors=(0.0, 0.05)) == [("busy", 2), ("errors", 4)]
    assert flat(idle=0.0, busy=1.0, errors=(0.04, 0.05)) == [("busy", 2)]


@given(st.lists(st.floats(1.1, 2.0), min_size=1, max_size=9))
def test_a_curve_that_grows_at_every_step_is_not_flat(factors: list[float]) -> None:
    rate, rows = 100.0, [Observation(1, 0, 100.0)]
    for number, factor in enumerate(factors, start=1):
        rate *= factor
        rows.append(Observation(2**number, 0, rate))
    assert not limits_of(steps_of(rows))


def test_errors_of_trials_that_they_made_invalid_count() -> None:
    rows = [
        Observation(1, 0, 100.0, readings={"error_ratio": 0.0}),
        Observation(2, 0, None, "invalid: 30 of 100 requests failed", {"error_ratio": 0.3}),
    ]
    (limit,) = limits_of(steps_of(rows))
    assert limit.id == "errors"
    assert limit.claim == "errors grow from 0.000% at 1 CPUs to 30.000% at 2"


def test_only_blocks_in_which_every_step_has_a_value_are_fitted() -> None:
    rows = [Observation(n, block, 100.0 * n) for n in (1, 2, 4) for block in range(3)]
    rows[0] = Observation(1, 0, None, "killed")
    assert whole_blocks(steps_of(rows)) == {1: [100.0] * 2, 2: [200.0] * 2, 4: [400.0] * 2}
    assert whole_blocks(steps_of([Observation(1, 0, 5.0), Observation(2, 1, 7.0)])) == {1: [5.0], 2: [7.0]}
    assert whole_blocks(steps_of([Observation(1, 0, None, "killed")])) == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "curve.csv is empty"),
        ("a,b\n1,2\n", "no columns cpus and ops_per_s: its first line names a, b"),
        ("cpus,ops_per_s\n", "curve.csv has 0 trials"),
        ("cpus,ops_per_s\n1,fast\n", "line 2: ops_per_s is 'fast', no number"),
        ("cpus,ops_per_s\n1\n", "line 2: 1 fields, the first line has 2"),
        ("cpus,ops_per_s\n1.5,3\n", "line 2: a number of CPUs is a whole number"),
        ("cpus,ops_per_s\n0,3\n", "line 2: a number of CPUs is a whole number"),
        ("cpus,ops_per_s\nnan,3\n", "cpus is nan"),
        ("cpus,ops_per_s,cycles\n1,3,-5\n", "cycles is -5: it is 0, or from 1e-24 to 1e.24"),
        ("cpus,ops_per_s,cycles\n1,3,5e-324\n", "cycles is 5e-324: it is 0, or from 1e-24 to 1e.24"),
        ("cpus,ops_per_s,busy_ratio\n1,3,80\n", "busy_ratio is 80: a share is at most 1"),
        ("cpus,processors,ops_per_s\n1,1,3\n", "two columns for cpus"),
        ("cpus,cores,ops_per_s\n1,1,3\n2,2,4\n", "cores is that of the machine, and has 2 values"),
        ("threads,load,ops_per_s\n1,1,3\n", "two columns for threads"),
        ("cpus,block,ops_per_s\n1,0,3\n1,0,4\n", "block 0 has 1 CPUs twice"),
    ],
)
def test_a_file_that_is_no_curve_is_refused_by_its_line(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_curve(text, name="curve.csv")


def test_throughput_that_is_no_number_is_lost_with_its_reason() -> None:
    rows = parse_curve("cpus,ops_per_s\n1,100\n2,nan\n4,\n8,0\n9,5e-324\n", name="curve.csv")
    assert [one.ops_per_s for one in rows] == [100.0, None, None, None, None]
    assert [one.reason for one in rows[1:]] == [
        f"throughput is {shown}: a curve needs a number from 1e-24 to 1e+24"
        for shown in ("nan", "missing", "0", "4.94066e-324")
    ]
    assert analyse(steps_of(rows[1:])).law is None


@given(st.text(max_size=200))
def test_no_text_ends_otherwise_than_in_a_curve_or_one_error(text: str) -> None:
    with contextlib.suppress(UsageError):
        analyse(steps_of(parse_curve("cpus,ops_per_s\n" + text, name="curve.csv")))


def _scaled(text: str) -> Scaling:
    return analyse(steps_of(parse_curve(text, name="curve")))


FULL = "{names},ops_per_s,elapsed_s,cpu_s\n" + "".join(
    f"{threads}{{more}},{1000 * min(threads, 4)},10,{10 * min(threads, 4)}\n"
    for threads in (1, 2, 4, 8, 16, 32)
)


def test_threads_are_not_cpus() -> None:
    """A machine of 4 CPUs is full with 32 threads, and each operation takes the same CPU time."""
    for names, more in (("threads,machine_cpus", ",4"), ("load,cpus", ",4")):
        full = _scaled(FULL.format(names=names, more=more))
        assert [step.busy_ratio for step in full.steps] == [pytest.approx(1.0)] * 6
        assert [limit.id for limit in full.limits] == ["busy"]
        assert "from 4 to 32 threads" in full.limits[0].claim
        assert full.loss is not None
        assert full.loss.factor.value == pytest.approx(1.0)
    # Without the machine's CPUs nothing is idle, and the loss is of each thread.
    unknown = _scaled(FULL.format(names="threads", more=""))
    assert [step.busy_ratio for step in unknown.steps] == [None] * 6
    assert [limit.id for limit in unknown.limits] == ["flat"]
    assert "machine_cpus" in unknown.limits[0].claim
    assert unknown.loss is not None
    assert (unknown.loss.noun, unknown.loss.factor.value) == ("thread", pytest.approx(8.0))
    assert [term.name for term in unknown.loss.terms] == [
        "CPU time per operation",
        "CPU time per thread and second",
    ]
    assert unknown.loss.terms[0].factor.value == pytest.approx(1.0)
    # CPUs are CPUs: what is not used of them is idle.
    assert [limit.id for limit in _scaled(FULL.format(names="cpus", more="")).limits] == ["idle"]


def test_a_share_beside_threads_is_of_the_machine() -> None:
    rows = [(1, 0.25), (2, 0.5), (4, 1.0), (8, 1.0), (16, 1.0)]
    lines = [f"{n},{1000 * min(n, 4)},10,{100 * busy}" for n, busy in rows]
    for head, more in (("threads", ""), ("machine_cpus,threads", "4,")):
        text = f"{head},ops_per_s,elapsed_s,busy_percent\n" + "".join(f"{more}{line}\n" for line in lines)
        found = _scaled(text)
        assert [step.busy_ratio for step in found.steps] == [busy for _, busy in rows]
        assert found.loss is not None
        costs = [term.factor.value for term in found.loss.terms if term.name == "CPU time per operation"]
        assert costs == [] or costs == [pytest.approx(1.0)]


def test_a_small_rise_after_a_fall_is_no_gain() -> None:
    rates = (100, 190, 350, 586, 962, 1261, 1025, 1143)
    busy = (1, 1, 1, 1, 0.9, 0.8, 0.5, 0.3)
    lines = [f"{2**at},{rate},{use}\n" for at, (rate, use) in enumerate(zip(rates, busy, strict=True))]
    found = _scaled("cpus,ops_per_s,busy_ratio\n" + "".join(lines))
    assert [limit.id for limit in found.limits] == ["idle"]
    assert (
        found.limits[0].claim
        == "throughput falls from 32 to 128 CPUs while CPUs are idle for 70% of the time"
    )


def test_exactly_linear_is_all_of_it() -> None:
    text = "cpus,block,ops_per_s\n" + "".join(
        f"{n},{block},{333.3 * n}\n" for block in range(3) for n in (1, 2, 4, 8)
    )
    found = _scaled(text)
    assert "8.00x the work of 1, 100 % of linear" in fmt.plain(sentences(found)[0])


@pytest.mark.parametrize(
    ("last", "words"),
    [
        ((940.0, 1100.0), "throughput does not grow from 4 to 8"),
        ((890.0, 900.0), "throughput falls from 4 to 8"),
        ((1017.0, 1017.0), "throughput grows by 1.7% only from 4 to 8"),
        ((1000.0, 1000.0), "throughput is flat from 4 to 8"),
    ],
)
def test_a_flat_curve_falls_only_where_every_block_does(last: tuple[float, float], words: str) -> None:
    rates = {1: (400.0, 400.0), 4: (1000.0, 1000.0), 8: last}
    if last == (940.0, 1100.0):
        rates[8] = (800.0, 1050.0)
    trials = [
        Observation(cpus, block, rate) for cpus, both in rates.items() for block, rate in enumerate(both)
    ]
    assert any(limit.claim.startswith(words) for limit in limits_of(steps_of(trials)))


def _beside(low: tuple[float, float], high: tuple[float, float], rate: float) -> tuple[str, str]:
    """Return the cause of the loss and the limit of 1 and 2 CPUs, by shares used and idle at each."""
    rows = [
        Observation(n, 0, ops, readings={"elapsed_s": 1.0, "busy_ratio": busy, "idle_ratio": idle})
        for n, ops, (busy, idle) in ((1, 1000.0, low), (2, rate, high))
    ]
    found = analyse(steps_of(rows))
    assert found.loss is not None
    return found.loss.cause, found.limits[0].id if found.limits else ""


def test_other_processes_explain_at_most_the_time_that_they_had() -> None:
    """A lock-bound program loses as much alone as beside a neighbour that takes CPUs it leaves idle."""
    unused = "the workload leaves CPUs unused, CPU use falls from 100% to 51%"
    assert _beside((1.0, 0.0), (0.51, 0.49), 990.0) == (unused, "idle")
    cause, limit = _beside((1.0, 0.0), (0.51, 0.217), 990.0)
    assert cause == (
        f"{unused}; other processes had 27% of the CPUs' time, which explains at most 1.38x of 2.02x"
    )
    assert limit == "idle"
    left = " unless the workload waited and left it to them"
    # They had nearly all that is lost.
    cause, limit = _beside((0.97, 0.0), (0.46, 0.02), 920.0)
    assert (
        cause
        == f"other processes had 52% of the time of the 2 CPUs, which explains up to 2.08x of 2.17x,{left}"
    )
    assert limit == "others"
    cause, _ = _beside((1.0, 0.0), (0.46, 0.0), 960.0)
    assert cause == f"other processes had 54% of the time of the 2 CPUs, which explains all of it,{left}"
    # What they had at both steps made no difference.
    cause, _ = _beside((0.7, 0.0), (0.45, 0.25), 1286.0)
    assert cause.startswith("the workload leaves CPUs unused, CPU use falls from 70% to 45%")


def test_idle_time_alone_tells_that_cpus_are_unused() -> None:
    """A file with idle shares and no CPU time, as of a machine's monitoring."""
    idle = {1: 0.0, 2: 0.0, 4: 0.0, 8: 0.5}
    lines = [f"{n},{100 * min(n, 4)},{share}" for n, share in idle.items()]
    found = _scaled("cpus,ops_per_s,idle_ratio\n" + "\n".join(lines) + "\n")
    assert found.loss is not None
    assert found.loss.cause == "the workload leaves CPUs unused, CPU use falls from 100% to 50%"
    assert [(term.name, term.factor.value) for term in found.loss.terms] == [
        ("CPU time per operation", pytest.approx(1.0)),
        ("CPU use", pytest.approx(2.0)),
    ]
    assert "that of other processes is in it" in (found.loss.caveat or "")
    # Threads' own CPU time is theirs, however few CPUs are known of.
    threads = _scaled("threads,ops_per_s,elapsed_s,cpu_s\n1,100,1,1\n2,200,1,2\n4,200,1,2\n")
    assert threads.loss is not None
    assert threads.loss.terms
    assert "that of other processes" not in (threads.loss.caveat or "")
    # A share that the workload used needs no time.
    used = _scaled("cpus,ops_per_s,busy_ratio\n1,100,1\n2,100,0.5\n")
    assert used.loss is not None
    assert used.loss.cause.endswith("from 100% to 50%")
    assert used.loss.caveat is None
    # Without either, it is said what a file would need.
    without = _scaled("cpus,ops_per_s\n1,100\n8,110\n")
    assert without.loss is not None
    assert without.loss.cause == (
        "not known: the CPU time of both steps was not measured (cpu_s, busy_ratio or idle_ratio)"
    )
    assert any(": the cause is not known: the CPU time" in one for one in sentences(without))
    assert any(
        note == "CPI and path length are not known: clocks were not counted" for note in notes(without)
    )


def test_a_curve_that_rises_before_it_falls_is_said_so() -> None:
    rows = [
        Observation(n, 0, rate) for n, rate in ((1, 1000), (16, 7180), (24, 7380), (32, 7060), (48, 6080))
    ]
    assert limits_of(steps_of(rows))[0].claim.startswith(
        "throughput grows by 2.8% only from 16 to 24 CPUs, and falls from 24 to 48"
    )
