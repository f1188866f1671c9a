"""Times as logs and tables write them -> wall-clock nanoseconds.

In: a text. Out: nanoseconds since 1970 (UTC), or a ValueError that says what is wrong with it. Read are ISO
8601, seconds or milliseconds, microseconds or nanoseconds since 1970 (by their size), the common
log format of HTTP servers (22/Nov/2026:02:27:14 +0000), and whatever a strptime(3) format describes.

Invariants: a stamp without a zone is never guessed: it needs one to be named.

Standard library only: the recorder's process imports it.
"""

import re
import zoneinfo
from datetime import UTC, datetime, timedelta, tzinfo

from steelyard._base.errors import UsageError

COARSE_NS, FINE_NS = 1_000_000_000, 100_000_000
"""Resolution that operations are gathered at: by whole seconds, or by tenths where stamps tell more."""
_NUMBER = re.compile(r"\d{1,20}(\.\d+)?")
_COMMON = re.compile(r"(\d\d)/([A-Z][a-z]{2})/(\d{4}):(\d\d):(\d\d):(\d\d) ([+-])(\d\d)(\d\d)")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SCALES = ((1e11, 1_000_000_000), (1e14, 1_000_000), (1e17, 1_000), (1e30, 1))
"""A number below the first is in seconds, and so on: seconds reach 1e11 in the year 5138."""


class NoZoneError(ValueError):
    """A stamp tells no zone, and none was named."""


class Stamps:
    """Reads the stamps of one source."""

    def __init__(self, form: str | None = None, zone: str | None = None) -> None:
        """Read ``form`` (strptime) or the known forms, in ``zone`` where a stamp has none of its own.

        Raises UsageError for a zone that is not known.
        """
        self._form = form
        self._zone = zone_of(zone) if zone else None
        self._last: tuple[str | None, int] = (None, 0)
        self.resolution_ns = COARSE_NS
        """`FINE_NS` as soon as a stamp had more than whole seconds."""

    def read(self, text: str) -> int:
        """Return the wall-clock time of a stamp, ns. Raises ValueError, NoZoneError for want of a zone."""
        # Lines of one moment have the same stamp: reading it once is most of the work saved.
        if text == self._last[0]:
            return self._last[1]
        time_ns = self._read(text.strip())
        if time_ns % COARSE_NS:
            self.resolution_ns = FINE_NS
        self._last = (text, time_ns)
        return time_ns

    def _read(self, text: str) -> int:
        if self._form is not None:
            return self._nanoseconds(self._by_form(text))
        if _NUMBER.fullmatch(text):
            whole, _, fraction = text.partition(".")
            scale = next(scale for limit, scale in _SCALES if int(whole) < limit)
            return int(whole) * scale + (int(float(f"0.{fraction}") * scale) if fraction else 0)
        common = _COMMON.fullmatch(text)
        if common is not None:
            return self._common(common)
        try:
            return self._nanoseconds(datetime.fromisoformat(text))
        except NoZoneError:
            raise
        except ValueError:
            raise ValueError(f"{text[:40]!r} is no time that is known") from None

    def _by_form(self, text: str) -> datetime:
        form = self._form or ""
        moment = datetime.strptime(text, form)  # noqa: DTZ007 - a stamp without a zone is refused below
        if "%Y" in form or "%y" in form or "%c" in form or "%x" in form:
            return moment
        # As in the system's log: the year is the one that makes it the past.
        now = datetime.now(tz=self._zone or UTC)
        moment = moment.replace(year=now.year)
        ahead = moment.replace(tzinfo=moment.tzinfo or self._zone or UTC) - now
        return moment.replace(year=now.year - 1) if ahead > timedelta(days=1) else moment

    def _nanoseconds(self, moment: datetime) -> int:
        if moment.tzinfo is None:
            if self._zone is None:
                raise NoZoneError("it has no time zone")
            moment = moment.replace(tzinfo=self._zone)
        passed = moment - _EPOCH
        return ((passed.days * 86_400 + passed.seconds) * 1_000_000 + passed.microseconds) * 1000

    def _common(self, match: re.Match[str]) -> int:
        day, month, year, hour, minute, second, sign, zone_hours, zone_minutes = match.groups()
        if month not in _MONTHS:
            raise ValueError(f"{month!r} is no month")
        offset = timedelta(hours=int(zone_hours), minutes=int(zone_minutes))
        moment = datetime(
            int(year), _MONTHS.index(month) + 1, int(day), int(hour), int(minute), int(second), tzinfo=UTC
        )
        return self._nanoseconds(moment - offset if sign == "+" else moment + offset)


def zone_of(name: str) -> tzinfo:
    """Return a time zone by name. Raises UsageError for one that is not known."""
    if name == "UTC":
        return UTC
    try:
        if name == "local":
            return _local()
        return zoneinfo.ZoneInfo(name)
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError) as error:
        raise UsageError(
            f"zone={name}: there is no such time zone", hint="UTC, local, or a name as Europe/Berlin"
        ) from error


def _local() -> tzinfo:
    zone = datetime.now(tz=UTC).astimezone().tzinfo
    if zone is None:
        raise ValueError("this machine has no local time")
    return zone
