"""Processors by their names: one word for one model, and what a name says of it.

In: names as machines, sheets and clouds write them. Out: a normal form, so that ``AMD EPYC 9R14`` and
``AMD EPYC 9R14 96-Core Processor`` are one model, and numbers for a model that knows no benchmark.
"""

from __future__ import annotations

import re

_NOISE = re.compile(
    r"\((?:r|tm|c)\)|[®™]|@.*|\b\d+(?:\.\d+)?\s*[gm]hz\b|\b(?:\d+|dual|quad|six|eight|twelve|sixteen)-core\b"
    r"|\b(?:processor|cpu|with .*)\b|,",
    re.IGNORECASE,
)
_VENDORS = ("amd", "intel", "ampere", "fujitsu", "ibm", "oracle", "nvidia", "hygon", "huawei", "qualcomm")
_LINES = {
    "xeon": "intel",
    "epyc": "amd",
    "opteron": "amd",
    "neoverse": "arm",
    "cortex": "arm",
    "power": "ibm",
}
_MODEL = re.compile(r"\b(?:[a-z]{1,2}\d?-)?(\d{3,5})([a-z]{0,3}\+?)\b(?:\s*v(\d))?")
_TIERS = {"platinum": 4.0, "gold": 3.0, "silver": 2.0, "bronze": 1.0}


def model_of(name: str) -> str:
    """Return a processor's name without what differs from machine to machine.

    >>> model_of("Intel(R) Xeon(R) Platinum 8375C CPU @ 2.90GHz")
    'intel xeon platinum 8375c'
    >>> model_of("AMD EPYC 9R14 96-Core Processor") == model_of("AMD EPYC 9R14")
    True
    """
    plain = " ".join(_NOISE.sub(" ", name).split()).lower()
    return plain or name.strip().lower()


def vendor_of(name: str) -> str | None:
    """Return the maker that a processor's name says, None where it says none.

    >>> vendor_of("Neoverse-N1"), vendor_of("AMD EPYC 7R32")
    ('arm', 'amd')
    """
    plain = model_of(name)
    named = next((vendor for vendor in _VENDORS if vendor in plain), None)
    return named or next((vendor for line, vendor in _LINES.items() if line in plain), None)


def numbers_of(name: str) -> dict[str, float]:
    """Return what the model number of a processor says: its digits, its tier and its letters.

    >>> found = numbers_of("Intel Xeon Gold 6348H")
    >>> [found[key] for key in ("tier", "digit 1", "digit 2", "digit last", "letter h")]
    [3.0, 6.0, 3.0, 8.0, 1.0]
    """
    plain = model_of(name)
    found = {"tier": next((rank for word, rank in _TIERS.items() if word in plain), 0.0)}
    model = _MODEL.search(plain)
    if model is None:
        return found
    digits, letters, version = model[1], model[2], model[3]
    found |= {
        "digits": float(len(digits)),
        "digit 1": float(digits[0]),
        "digit 2": float(digits[1]),
        "digit 3": float(digits[2]),
        "digit last": float(digits[-1]),
        "version": float(version or 0),
    }
    return found | {f"letter {letter}": 1.0 for letter in letters}
