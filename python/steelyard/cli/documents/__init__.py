"""What commands print with ``--json``, as models: their JSON Schemas in ``schemas/`` are generated from here.

In: nothing; commands print plain values, so that those that answer at once need not load this. Tests hold
what is printed to these models, and the golden examples in ``schemas/golden/`` to the schemas.

Not here: records that are files (``records``), and what ``run``, ``report`` and ``characterize`` print, which
is such a record with its report.
"""

from steelyard.cli.documents.comparison import ComparisonDocument, SuiteComparisonDocument
from steelyard.records import Record

DOCUMENTS: tuple[type[Record], ...] = (
    ComparisonDocument,
    SuiteComparisonDocument,
)
"""Every document, in the order of its kind."""

__all__ = [
    "DOCUMENTS",
    "ComparisonDocument",
    "SuiteComparisonDocument",
]
