"""The pressure point matrix in words.

In: rows of ``analyze.pressure.matrix``. Out: what differs in words. Not here: ``answer``.
"""

from collections.abc import Sequence
from dataclasses import fields

from steelyard.analyze.pressure.intensities import Intensities
from steelyard.analyze.pressure.matrix import Difference

PARTS = tuple(field.name for field in fields(Intensities))
RESOURCE_WORDS = {"cpu": "CPU", "dram": "memory", "disk": "disk", "network": "network"}


def difference_words(difference: Difference) -> str:
    """Return where a row and the paper's differ, and what was seen here."""
    claim = "only here" if difference.here else "only in the paper"
    return f"{RESOURCE_WORDS[difference.resource]} {claim}: {difference.why}"


def resources_text(names: Sequence[str]) -> str:
    """Return resources in words."""
    return ", ".join(RESOURCE_WORDS[name] for name in names) or "none"
