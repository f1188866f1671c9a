"""The units of every figure, which stand once for both languages in ``data/units.json``.

Out: how each is written. A test compares the units in both languages' sources with the list.
"""

import functools
import json
from collections.abc import Mapping
from typing import Any

from steelyard._base import data_dir


@functools.cache
def symbols() -> Mapping[str, str]:
    """Return how each unit is written behind a figure, empty for plain numbers.

    >>> symbols()["hz"], symbols()["count"]
    ('Hz', '')
    """
    document: dict[str, Any] = json.loads((data_dir() / "units.json").read_text("utf-8"))
    return {name: unit["shown"] for name, unit in document["units"].items()}
