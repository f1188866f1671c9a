"""Rates of data as people write them: ``1Gbit``, ``200MB``, ``20GiB/s``; each a second.

Bits stand for links and are decimal; bytes stand for disks and memory. Not here: writing rates.
"""

import re

_BITS = {"bit": 1.0, "kbit": 1e3, "mbit": 1e6, "gbit": 1e9}
_BYTES = {"b": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9, "kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30}
_RATE = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[A-Za-z]+)(?:/s)?")


def parse_rate(text: str) -> tuple[float, bool] | None:
    """Return bytes per second and whether ``text`` counts bits; None where it is no rate above 0.

    >>> parse_rate("1Gbit"), parse_rate("200MB/s"), parse_rate("fast")
    ((125000000.0, True), (200000000.0, False), None)
    """
    match = _RATE.fullmatch(text.strip())
    unit = match["unit"].lower() if match is not None else ""
    if match is None or (unit not in _BITS and unit not in _BYTES) or float(match["number"]) <= 0:
        return None
    in_bits = unit in _BITS
    return float(match["number"]) * (_BITS[unit] / 8 if in_bits else _BYTES[unit]), in_bits
