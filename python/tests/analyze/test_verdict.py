"""Each check on both sides of its bound, from the golden load result."""

import random
from dataclasses import replace

import pytest

from steelyard._base import schemas_dir
from steelyard.analyze.interference import Interference
from steelyard.analyze.verdict import Evidence, WarmUp, judge, lag_ratio
from steelyard.records import Check, Clock, Level, LoadResult, Verdict, read
from steelyard.stats import steady
from steelyard.stats.steady import Steadiness

STEADY = Steadiness(True, "steady", 0.001, None, None)
QUIET = Interference(steal_ratio=0.0, foreign_ratio=0.0, quota_throttled_ratio=0.0, thermal_throttles=0.0)


@pytest.fixture
def load():
    golden = read(LoadResult, schemas_dir() / "golden" / "load_result.json")
    requests = golden.requests.model_copy(
        update={
            "intended": 1_000_000,
            "completed": 1_000_000,
            "errors": 0,
            "errors_by_kind": {},
            "unsent": 0,
        }
    )
    threads = [thread.model_copy(update={"busy_ratio": 0.5}) for thread in golden.threads]
    return golden.model_copy(
        update={
            "requests": requests,
            "threads": threads,
            "interrupted": False,
            "achieved_ratio": None,
            "verdict": Verdict(level=Level.VALID, checks=[]),
        }
    )


@pytest.fixture
def evidence(load):
    return Evidence(
        loads=[load],
        clock_begin=Clock(monotonic_ns=10**9, realtime_ns=10**18),
        clock_end=Clock(monotonic_ns=61 * 10**9, realtime_ns=10**18 + 60 * 10**9),
        warmup=WarmUp(True, 12.0, "the hit ratio settled at 0.9 after 12.0 s"),
        measure=STEADY,
        interference=QUIET,
    )


def level(evidence, check_id):
    levels = [check.level for check in judge(evidence).checks if check.id == check_id]
    return max(levels, key=lambda one: one.severity)


def of_requests(evidence, **counts):
    load = evidence.loads[0]
    return replace(
        evidence, loads=[load.model_copy(update={"requests": load.requests.model_copy(update=counts)})]
    )


def of_load(evidence, **fields):
    return replace(evidence, loads=[evidence.loads[0].model_copy(update=fields)])


def test_a_clean_run_is_valid_and_says_what_was_asked(evidence):
    verdict = judge(evidence)
    assert verdict.level is Level.VALID
    asked = {check.id for check in verdict.checks}
    assert {"errors", "unsent", "generator-bound", "samples", "warm-up", "steady"} <= asked
    assert {"telemetry", "steal", "foreign-load", "throttled-quota", "clock", "separate-cpus"} <= asked
    assert all(check.claim for check in verdict.checks)


@pytest.mark.parametrize(
    ("errors", "expected"),
    [(0, Level.VALID), (10, Level.VALID), (11, Level.SUSPECT), (1000, Level.SUSPECT), (1001, Level.INVALID)],
)
def test_errors(evidence, errors, expected):
    found = of_requests(
        evidence, completed=1_000_000 - errors, errors=errors, errors_by_kind={"SERVER_ERROR": errors}
    )
    assert level(found, "errors") is expected


def test_errors_are_named_by_kind(evidence):
    found = of_requests(
        evidence, completed=995_000, errors=5000, errors_by_kind={"garbage": 4000, "reset": 1000}
    )
    claim = next(check.claim for check in judge(found).checks if check.id == "errors")
    assert claim == "5000 of 1000000 finished requests failed (garbage 4000, reset 1000)"


def test_no_requests_at_all_are_invalid(evidence):
    assert judge(of_requests(evidence, intended=0, completed=0)).level is Level.INVALID


def test_one_unsent_request_is_invalid(evidence):
    assert level(of_requests(evidence, unsent=1), "unsent") is Level.INVALID


@pytest.mark.parametrize(("ratio", "expected"), [(0.99, Level.VALID), (0.9899, Level.INVALID)])
def test_achieved_against_offered(evidence, ratio, expected):
    assert level(of_load(evidence, achieved_ratio=ratio), "achieved") is expected


def test_the_achieved_rate_is_of_two_counts_that_are_named(evidence):
    load = evidence.loads[0]
    seconds = (load.end_ns - load.begin_ns) / 1e9
    found = of_requests(evidence, intended=900, sent=900, completed=550, errors=350)
    found = of_load(found, throughput_per_s=550 / seconds, achieved_ratio=550 / 900)
    claims = {check.id: check.claim for check in judge(found).checks}
    assert claims["achieved"] == "61.1% of the offered rate was achieved: 550 completed for 900 due"
    assert claims["errors"].startswith("350 of 900 finished requests failed")
    assert claims["unsent"] == "0 of 900 due requests were never sent"


def busy(evidence, ratio, loop, said=()):
    load = evidence.loads[0]
    own = [Check(id="generator-bound", level=one, claim="it is busy") for one in said]
    return of_load(
        evidence,
        threads=[thread.model_copy(update={"busy_ratio": ratio}) for thread in load.threads],
        settings=load.settings.model_copy(update={"loop": loop}),
        verdict=Verdict(level=Level.VALID, checks=own),
    )


@pytest.mark.parametrize("said", list(Level))
@pytest.mark.parametrize("loop", ["open", "closed"])
def test_of_itself_the_generator_has_the_word(evidence, loop, said):
    verdict = judge(busy(evidence, 0.95, loop, [said]))
    [found] = [check for check in verdict.checks if check.id == "generator-bound"]
    assert found.level is said
    assert found.value == 0.95


@pytest.mark.parametrize(
    ("ratio", "loop", "expected"),
    [
        (0.90, "closed", Level.VALID),
        (0.91, "closed", Level.SUSPECT),
        (0.90, "open", Level.VALID),
        (0.91, "open", Level.INVALID),
    ],
)
def test_a_generator_that_does_not_say_is_judged_as_ours_would(evidence, ratio, loop, expected):
    assert level(busy(evidence, ratio, loop), "generator-bound") is expected


def lagging(evidence, ratio, loop, server_busy=None):
    load = evidence.loads[0]
    latency = load.latency
    changed = {
        "response": latency.response.model_copy(update={"mean_ns": 1e6}),
        "lag": latency.lag.model_copy(update={"mean_ns": 1e6 * ratio}),
    }
    found = of_load(
        evidence,
        latency=latency.model_copy(update=changed),
        settings=load.settings.model_copy(update={"loop": loop}),
    )
    return replace(found, interference=replace(QUIET, server_busy_ratio=server_busy))


@pytest.mark.parametrize(
    ("ratio", "loop", "server_busy", "expected"),
    [
        (0.05, "open", None, Level.VALID),
        (0.06, "open", 0.99, Level.SUSPECT),
        (0.57, "open", 0.99, Level.INVALID),
        (0.05, "closed", None, Level.VALID),
        # Of 3.44 ms 1.95: the throughput is the server's only where that was busy all the same.
        (0.57, "closed", None, Level.SUSPECT),
        (0.57, "closed", 0.60, Level.SUSPECT),
        (0.57, "closed", 0.98, Level.VALID),
        (0.04, "closed", 0.50, Level.VALID),
    ],
)
def test_lag_of_the_generator(evidence, ratio, loop, server_busy, expected):
    found = lagging(evidence, ratio, loop, server_busy)
    assert level(found, "generator-lag") is expected
    assert lag_ratio(found.loads[0]) == pytest.approx(ratio)


def test_latencies_that_are_not_the_servers_alone_are_named_where_the_throughput_stands(evidence):
    checks = judge(lagging(evidence, 0.57, "closed", 0.98)).checks
    claim = next(check.claim for check in checks if check.id == "generator-lag")
    # The sentence begins with the figure that is judged.
    assert claim.startswith("at most 2.0% of the throughput was lost")
    assert "57.0% of the response time" in claim
    assert claim.endswith("latencies include that delay")


@pytest.mark.parametrize(
    ("steal", "foreign", "expected"),
    [(0.02, 0.02, Level.VALID), (0.03, 0.04, Level.SUSPECT), (0.049, 0.0, Level.VALID)],
)
def test_what_each_neighbour_leaves_alone_all_together_may_take(evidence, steal, foreign, expected):
    found = replace(evidence, interference=replace(QUIET, steal_ratio=steal, foreign_ratio=foreign))
    verdict = judge(found)
    assert verdict.level is expected
    assert [check.id for check in verdict.reasons] == (["foreign-load"] if expected is Level.SUSPECT else [])


def test_without_a_load_generator_nothing_is_asked_about_one(evidence):
    wide = Check(id="interval", level=Level.SUSPECT, claim="the interval is 3 % wide")
    bare = replace(evidence, loads=None, warmup=None, measure=None, own=[wide])
    verdict = judge(bare)
    asked = {check.id for check in verdict.checks}
    assert not asked & {"errors", "unsent", "generator-bound", "samples", "steady", "separate-cpus"}
    assert {"interval", "foreign-load", "clock"} <= asked
    assert verdict.level is Level.SUSPECT
    assert verdict.reasons == [wide]


@pytest.mark.parametrize(
    ("completed", "expected"),
    [(10_000, Level.VALID), (9_999, Level.SUSPECT), (1_000, Level.SUSPECT), (999, Level.INVALID)],
)
def test_samples(evidence, completed, expected):
    assert level(of_requests(evidence, completed=completed), "samples") is expected


def test_a_load_that_was_stopped(evidence):
    assert level(of_load(evidence, interrupted=True), "interrupted") is Level.INVALID


def test_a_warm_up_that_never_settled(evidence):
    found = replace(evidence, warmup=WarmUp(False, 120.0, "the hit ratio had not settled after 120.0 s"))
    assert level(found, "warm-up") is Level.SUSPECT


def test_a_warm_up_too_noisy_to_tell_is_judged_with_the_measure_phase(evidence):
    """Requests that scatter by 6 %: a minute of them shows no level to 1 %, two minutes show it to 5 %."""
    generator = random.Random(3)
    flat = [34 * generator.gauss(1, 0.06) for _ in range(120)]
    claim = "the throughput had not settled after 60.0 s"
    found = replace(
        evidence, warmup=WarmUp(False, 60.0, claim, tuple(flat[:60])), measure=steady.check(flat[60:])
    )
    (check,) = (check for check in judge(found).checks if check.id == "warm-up")
    assert (check.level, check.claim) == (
        Level.VALID,
        f"{claim}; with the measure phase it is seen to have",
    )
    # Twice as fast at the end of the measure phase as in the warm-up.
    rising = [value * (1 + min(second, 100) / 100) for second, value in enumerate(flat)]
    late = WarmUp(False, 60.0, claim, tuple(rising[:60]))
    assert level(replace(found, warmup=late, measure=steady.check(rising[60:])), "warm-up") is Level.SUSPECT
    # Of a hit ratio the throughput tells nothing.
    assert level(replace(found, warmup=WarmUp(False, 60.0, claim)), "warm-up") is Level.SUSPECT


@pytest.mark.parametrize(
    ("steadiness", "expected"),
    [
        (Steadiness(None, "3 intervals are too few", None, None, None), Level.SUSPECT),
        (Steadiness(False, "drifts", -0.08, None, None), Level.SUSPECT),
        (Steadiness(False, "shifts", 0.01, 30, 0.19), Level.SUSPECT),
        (Steadiness(False, "shifts", 0.01, 30, -0.25), Level.INVALID),
        (Steadiness(False, "dips", 0.01, None, None, dip_ratio=-0.5, dip_indices=(9, 13)), Level.SUSPECT),
        (Steadiness(False, "goes up and down", 0.3, None, None, cycle_ratio=0.3), Level.SUSPECT),
        (None, Level.SUSPECT),
    ],
)
def test_a_measure_phase_that_moved(evidence, steadiness, expected):
    assert level(replace(evidence, measure=steadiness), "steady") is expected


def test_a_drift_that_may_be_chance_is_no_value_beside_its_bound(evidence):
    noisy = Steadiness(True, "drift +8.5 % over 9 intervals, which may be chance", 0.085, None, None)
    (check,) = [one for one in judge(replace(evidence, measure=noisy)).checks if one.id == "steady"]
    assert (check.level, check.value) == (Level.VALID, None)
    (check,) = [one for one in judge(replace(evidence, measure=STEADY)).checks if one.id == "steady"]
    assert check.value == 0.001


@pytest.mark.parametrize(
    ("field", "check_id", "ok", "suspect", "invalid"),
    [
        ("steal_ratio", "steal", 0.05, 0.06, 0.21),
        ("foreign_ratio", "foreign-load", 0.05, 0.06, 0.21),
        ("quota_throttled_ratio", "throttled-quota", 0.05, 0.06, 0.21),
    ],
)
def test_shares_of_the_cpus(evidence, field, check_id, ok, suspect, invalid):
    for value, expected in ((ok, Level.VALID), (suspect, Level.SUSPECT), (invalid, Level.INVALID)):
        found = replace(evidence, interference=replace(QUIET, **{field: value}))
        assert level(found, check_id) is expected


def test_a_share_that_is_not_known_is_suspect_and_says_why(evidence):
    found = replace(
        evidence,
        interference=Interference(reasons={"cpu": "fewer than two readings are in the measure phase"}),
    )
    steal = next(check for check in judge(found).checks if check.id == "steal")
    assert (steal.level, steal.value) == (Level.SUSPECT, None)
    assert "fewer than two readings" in steal.claim


def test_foreign_processes_are_named(evidence):
    found = replace(
        evidence, interference=replace(QUIET, foreign_ratio=0.5, foreign_commands=("cargo", "rustc"))
    )
    claim = next(check.claim for check in judge(found).checks if check.id == "foreign-load")
    assert "cargo, rustc" in claim


def test_heat(evidence):
    found = replace(evidence, interference=replace(QUIET, thermal_throttles=1.0))
    assert level(found, "throttled-thermal") is Level.SUSPECT


def test_a_limit_that_was_asked_for_is_no_reproach(evidence):
    throttled = replace(evidence, interference=replace(QUIET, quota_throttled_ratio=0.5))
    assert level(throttled, "throttled-quota") is Level.INVALID
    assert level(replace(throttled, limited_on_purpose=True), "throttled-quota") is Level.VALID


@pytest.mark.parametrize(
    "interference", [None, Interference(missing="the probe was killed")], ids=["none", "broken"]
)
def test_no_telemetry(evidence, interference):
    assert level(replace(evidence, interference=interference), "telemetry") is Level.SUSPECT


@pytest.mark.parametrize(("limit", "expected"), [(1 << 30, Level.VALID), ((1 << 30) - 1, Level.INVALID)])
def test_a_cache_above_its_memory_limit(evidence, limit, expected):
    found = replace(evidence, memory_needed_bytes=1 << 30, memory_limit_bytes=limit)
    assert level(found, "memory-limit") is expected


@pytest.mark.parametrize(
    ("step_s", "expected"),
    [(0.0, Level.VALID), (0.5, Level.VALID), (-0.6, Level.SUSPECT), (3600.0, Level.SUSPECT)],
)
def test_a_clock_that_was_set(evidence, step_s, expected):
    end = Clock(monotonic_ns=61 * 10**9, realtime_ns=10**18 + int((60 + step_s) * 1e9))
    assert level(replace(evidence, clock_end=end), "clock") is expected


def test_slewing_over_a_long_run_is_no_step(evidence):
    hours = 12 * 3600 * 10**9
    end = Clock(monotonic_ns=10**9 + hours, realtime_ns=10**18 + int(hours * (1 + 4e-4)))
    assert level(replace(evidence, clock_end=end), "clock") is Level.VALID


def test_circumstances(evidence):
    assert level(replace(evidence, shared_cpus=True), "separate-cpus") is Level.SUSPECT
    assert level(replace(evidence, hook_problems=["probe at after_run: no"]), "hook") is Level.SUSPECT
    assert level(replace(evidence, remarks=["log incomplete"]), "remark") is Level.SUSPECT


def test_what_the_generator_objects_to_is_passed_on(evidence):
    own = Verdict.of([Check(id="lag", level=Level.INVALID, claim="sends were late")])
    assert level(of_load(evidence, verdict=own), "lag") is Level.INVALID


@pytest.mark.parametrize("described", ["program", "machine"])
def test_what_neighbours_and_the_hypervisor_do_is_a_reservation_of_a_description(evidence, described):
    """The exit code of ``characterize -- sleep 1`` is not for neighbours to make."""
    disturbed = replace(QUIET, steal_ratio=0.9, foreign_ratio=1.0)
    verdict = judge(replace(evidence, loads=None, describes=described, interference=disturbed))
    assert verdict.level is Level.SUSPECT
    assert judge(replace(evidence, interference=disturbed)).level is Level.INVALID
