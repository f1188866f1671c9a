"""What a cell of a table holds: nothing, a number, a date, or a price.

In: the text of a cell. Out: numbers, or None.

Not here: which column a cell belongs to (``columns``), tables (``delimited``).
"""

from __future__ import annotations

import math
import re

_NOTHING = frozenset(["", "-", "--", "na", "n/a", "nan", "none", "null", "nc", "missing", "unknown", "?"])
_MONTHS = {
    name: at
    for at, name in enumerate(
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
    )
}
_YEAR = re.compile(r"(?<!\d)(19[5-9]\d|20\d\d)(?!\d)")
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_SIGNS = {"$": "USD", "€": "EUR", "£": "GBP", "¥": "JPY"}
_ALMOST = re.compile(r"[-+$€£¥]?\s*\d[\d.,' ]*\s*[a-z/%$€£¥]{0,8}", re.IGNORECASE)
_TEXT_AT_MOST = 40


def is_nothing(text: str) -> bool:
    """Whether a cell says that it holds nothing."""
    return text.strip().lower() in _NOTHING


def number_in(text: str) -> float | None:
    """Return the finite number that a cell holds, None where it holds none.

    >>> number_in(" 1e3 "), number_in("1,000.5"), number_in("1_000"), number_in("inf")
    (1000.0, 1000.5, None, None)
    """
    if "_" in text:
        return None
    try:
        value = float(text)
    except ValueError:
        plain = text.strip()
        value = float(plain.replace(",", "")) if _THOUSANDS.fullmatch(plain) else math.nan
    return value if math.isfinite(value) else None


def price_in(text: str) -> tuple[float, str] | None:
    """Return a price and its currency, empty where the cell names none.

    >>> price_in("$1,200"), price_in("0.08 EUR"), price_in("80"), price_in("cheap")
    ((1200.0, 'USD'), (0.08, 'EUR'), (80.0, ''), None)
    """
    plain = text.strip()
    for sign, currency in _SIGNS.items():
        if plain.startswith(sign) or plain.endswith(sign):
            value = number_in(plain.strip(sign))
            return None if value is None else (value, currency)
    if named := re.fullmatch(r"(?:([A-Za-z]{3})\s+)?(.*\d)(?:\s+([A-Za-z]{3}))?", plain):
        value = number_in(named[2])
        return None if value is None else (value, (named[1] or named[3] or "").upper())
    return None


def year_in(text: str) -> float | None:
    """Return a date as a year with its fraction, None for what is no date.

    >>> year_in("2021-07"), year_in("Jan-2019"), year_in("2020"), year_in("20210715"), year_in("soon")
    (2021.5, 2019.0, 2020.0, 2021.5, None)
    >>> year_in("15.07.2021"), year_in("7/2021"), year_in("2021.25")
    (2021.5, 2021.5, 2021.25)
    """
    if (value := number_in(text)) is not None and 1950 <= value < 2100:
        return value
    if compact := re.fullmatch(r"\s*(\d{4})(\d\d)(\d\d)\s*", text):
        text = "-".join(compact.groups())
    year = _YEAR.search(text)
    if year is None:
        return None
    if (month := _month_in(text, year)) is None:
        return None
    return int(year[0]) + month / 12


def _month_in(text: str, year: re.Match[str]) -> int | None:
    """Return the month from 0, 0 where there is none, None for one that cannot be."""
    for word in re.findall(r"(?<![a-z])[a-z]{3}", text.lower()):
        if word in _MONTHS:
            return _MONTHS[word]
    after = re.match(r"[-/.](\d{1,2})(?!\d)", text[year.end() :])
    before = re.search(r"(?:(?<!\d)(\d{1,2})[-/.])?(?<!\d)(\d{1,2})[-/.]$", text[: year.start()])
    if after is not None:
        number = int(after[1])
    elif before is not None:
        # Of day and month, whichever comes first: only one of them may be above 12.
        parts = [int(part) for part in before.groups() if part is not None]
        months = [part for part in parts if 1 <= part <= 12]
        number = months[0] if len(set(months)) == 1 else 0 if not months else 1
    else:
        number = 1
    return number - 1 if 1 <= number <= 12 else None


def is_almost_number(text: str) -> bool:
    """Whether a cell holds a number that cannot be read: with a unit, or a comma for the point."""
    return number_in(text) is None and _ALMOST.fullmatch(text.strip()) is not None


def brief(text: str) -> str:
    """Return a text as a message quotes it."""
    return repr(text if len(text) <= _TEXT_AT_MOST else f"{text[:_TEXT_AT_MOST]}...")
