"""Times in every form that is read, against the standard library's own."""

import contextlib
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard._base import UsageError
from steelyard.bench.operations.stamps import COARSE_NS, FINE_NS, NoZoneError, Stamps

NS = 1_795_314_434_000_000_000
"""2026-11-22 02:27:14 UTC."""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-22T02:27:14Z", NS),
        ("2026-11-22 02:27:14+00:00", NS),
        ("2026-11-22T03:27:14.250+01:00", NS + 250_000_000),
        ("22/Nov/2026:02:27:14 +0000", NS),
        ("21/Nov/2026:21:57:14 -0430", NS),
        ("1795314434", NS),
        ("1795314434.5", NS + 500_000_000),
        ("1795314434250", NS + 250_000_000),
        ("1795314434250001", NS + 250_001_000),
        ("1795314434250001002", NS + 250_001_002),
    ],
)
def test_forms_that_are_known(text: str, expected: int) -> None:
    stamps = Stamps()
    assert stamps.read(text) == expected
    assert stamps.resolution_ns == (FINE_NS if expected % COARSE_NS else COARSE_NS)


def test_a_stamp_without_a_zone_needs_one() -> None:
    with pytest.raises(NoZoneError):
        Stamps().read("2026-11-22 02:27:14")
    assert Stamps(zone="UTC").read("2026-11-22 02:27:14") == NS
    assert Stamps(zone="Europe/Berlin").read("2026-11-22 03:27:14") == NS
    with pytest.raises(UsageError, match="no such time zone"):
        Stamps(zone="Atlantis")


def test_a_form_of_ones_own() -> None:
    assert Stamps("%d.%m.%Y %H-%M-%S", "UTC").read("22.11.2026 02-27-14") == NS


def test_without_a_year_it_is_the_past() -> None:
    then = datetime.now(tz=UTC).replace(microsecond=0) - timedelta(seconds=5)
    text = then.strftime("%b %d %H:%M:%S")
    assert Stamps("%b %d %H:%M:%S", "UTC").read(text) == int(then.timestamp()) * COARSE_NS


@pytest.mark.parametrize(
    "text", ["", "yesterday", "22/Foo/2026:02:27:14 +0000", "2026-13-01T00:00:00Z", "-5"]
)
def test_what_is_no_time_is_reported(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        Stamps().read(text)


@given(st.text(max_size=40))
def test_any_text_is_a_time_or_a_value_error(text: str) -> None:
    with contextlib.suppress(ValueError, OverflowError):
        Stamps(zone="UTC").read(text)


@given(st.datetimes(min_value=datetime(1971, 1, 1), max_value=datetime(2200, 1, 1)))  # noqa: DTZ001
def test_iso_stamps_are_read_exactly(moment: datetime) -> None:
    moment = moment.replace(tzinfo=UTC)
    passed = moment - datetime(1970, 1, 1, tzinfo=UTC)
    expected = ((passed.days * 86_400 + passed.seconds) * 10**6 + passed.microseconds) * 1000
    assert Stamps().read(moment.isoformat()) == expected
