"""``fleet smt`` and ``fleet frequency``: closed forms, published cases, missing data."""

import json

import pytest

from steelyard._base import ResultSaysNoError, UsageError
from steelyard._base.documents import as_document
from steelyard.fleet.capacity.frequency import frequency_of_fleet
from steelyard.fleet.capacity.smt import used_of_fleet
from tests.fleet.rue.rue_samples import NOON, table_of, tables_of


def sample(**changed):
    return {
        "machine": "m0",
        "platform": "spec",
        "window_start_unix_s": NOON,
        "window_s": 60.0,
        "threads": 64,
        "cores": 32,
        "cpu_s": 0.0,
        "labels": [],
        "date": "2026-01-01",
        "cluster": "a",
    } | changed


def machine(**changed):
    return {
        "machine": "m0",
        "platform": "spec",
        "seen_unix_s": NOON,
        "nominal_frequency_hz": 2e9,
        "max_frequency_hz": 3e9,
        "labels": [],
        "date": "2026-01-01",
        "cluster": "a",
    } | changed


def used(rows, **options):
    return used_of_fleet(table_of(rows, "machine_samples"), **options)


def test_half_utilisation_was_nearly_all_of_the_capacity():
    # Chow et al., "Industry Perspectives", SPECjbb2005: one thread on each of 32 cores is 50.16 %
    # utilisation, and does 1.199 of the 1.235 Mops that both threads do: 97 % of the capacity.
    busy = sample(cpu_s=0.5016 * 64 * 60, core_busy_s=32 * 60.0)
    (one,) = used([busy], uplifts={"*": 1.235 / 1.199 - 1}).platforms
    assert one.utilisation_ratio == pytest.approx(0.5016)
    assert one.low == one.high == pytest.approx(0.97, abs=0.005)


def test_what_is_not_known_is_bounds():
    half = sample(cpu_s=32 * 60.0, core_busy_s=32 * 60.0)
    (one,) = used([half]).platforms
    # With an uplift of 1 half is used, with none all.
    assert (one.low, one.high) == pytest.approx((0.5, 1.0))
    (unknown,) = used([sample(cpu_s=32 * 60.0)], uplifts={"spec": 0.0}).platforms
    # Packed on half of the cores, or spread over all.
    assert (unknown.low, unknown.high) == pytest.approx((0.5, 1.0))
    assert used([sample(cpu_s=32 * 60.0)]).without_core_time == 1


def test_one_thread_a_core_needs_no_uplift():
    (one,) = used([sample(threads=32, cpu_s=16 * 60.0)]).platforms
    assert one.low == one.high == pytest.approx(0.5)


def test_sums_over_windows_are_those_of_each():
    rows = [
        sample(window_start_unix_s=NOON + 3600 * at, cpu_s=60.0 * at, core_busy_s=60.0 * min(at, 20))
        for at in range(33)
    ]
    (one,) = used(rows, uplifts={"*": 0.25}).platforms
    each = [(2 * min(at, 20) - at + (at - min(at, 20)) * 1.25) / (32 * 1.25) for at in range(33)]
    assert one.low == pytest.approx(sum(each) / 33)
    hours = used(rows, uplifts={"*": 0.25}).hours
    assert len(hours) == 24
    assert hours[12].hour == 12
    assert hours[12].low == pytest.approx((each[0] + each[24]) / 2)


def test_contradictions_are_counted_and_left_out():
    result = used(
        [sample(cpu_s=32 * 60.0, core_busy_s=32 * 60.0), sample(cpu_s=100 * 60.0)], uplifts={"*": 0.2}
    )
    assert result.contradictions == 1
    assert result.platforms[0].utilisation_ratio == pytest.approx(0.5)


def test_unknown_cores_and_four_threads_say_why():
    (unknown,) = used([sample(cores=None)]).platforms
    assert unknown.low is None
    assert "cores" in unknown.missing
    (four,) = used([sample(cores=16)]).platforms
    assert "two threads a core, not 4" in four.missing
    json.dumps(as_document(used([sample(cores=None)])), allow_nan=False)


def test_wrong_uplifts_are_reported():
    for uplifts, said in (({"*": 1.5}, "between 0 and 1"), ({"other": 0.2}, "no platform 'other'")):
        with pytest.raises(UsageError, match=said):
            used([sample()], uplifts=uplifts)
    with pytest.raises(ResultSaysNoError, match="no machine samples"):
        used([])


def lost(rows, machines=None, reference="nominal"):
    tables = tables_of(machine_samples=rows, machines=machines or [machine()])
    return frequency_of_fleet(tables["machine_samples"], tables["machines"], reference)


def test_what_capping_takes_is_reference_less_frequency_times_busy_time():
    rows = [
        sample(cpu_s=1000.0, frequency_hz=2.5e9, power_w=300.0, power_cap_w=350.0),
        sample(cpu_s=1000.0, frequency_hz=1.5e9, power_w=349.0, power_cap_w=350.0),
        sample(cpu_s=500.0, frequency_hz=1.0e9, throttled_s=3.0),
        sample(cpu_s=500.0, frequency_hz=1.9e9, throttled_s=0.0),
    ]
    result = lost(rows)
    total = result.total
    assert total.below_ratio == pytest.approx(3 / 4)
    assert total.capped_ratio == pytest.approx(2 / 4)
    assert total.capped_cycles == pytest.approx(0.5e9 * 1000 + 1e9 * 500)
    assert total.lost_cycles == pytest.approx(0.5e9 * 1000 + 1e9 * 500 + 0.1e9 * 500)
    assert total.lost_ratio == pytest.approx(total.lost_cycles / (2e9 * 3000))
    assert total.frequency_hz == pytest.approx((2.5e12 + 1.5e12 + 0.5e12 + 0.95e12) / 3000)
    assert result.machines[0].machine == "m0"
    assert lost(rows, reference="max").total.reference_hz == 3e9


def test_cycles_stand_in_for_a_frequency_and_nothing_is_missing_with_reason():
    total = lost([sample(cpu_s=10.0, core_cycles=15_000_000_000)]).total
    assert total.frequency_hz == pytest.approx(1.5e9)
    none = lost([sample(cpu_s=10.0)]).total
    assert none.frequency_hz is None
    assert none.lost_cycles is None
    assert "no counters" in none.missing
    assert none.no_frequency == 1
    unbought = lost([sample(cpu_s=10.0, frequency_hz=1e9)], [machine(nominal_frequency_hz=None)]).total
    assert "no reference frequency" in unbought.missing
    mixed = lost([sample(cpu_s=10.0), sample(cpu_s=10.0, frequency_hz=2e9)]).total
    assert (mixed.frequency_hz, mixed.no_frequency) == (2e9, 1)
    json.dumps(as_document(lost([sample(cpu_s=10.0)])), allow_nan=False)


def test_a_machine_seen_often_counts_once():
    seen = [machine(seen_unix_s=NOON + at) for at in range(5)]
    assert lost([sample(cpu_s=10.0, frequency_hz=1e9)], seen).total.windows == 1
    with pytest.raises(UsageError, match="reference"):
        lost([sample()], reference="cheap")
