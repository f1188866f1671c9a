"""Nutch's indexing as a job of Hadoop MapReduce, after the Characterization paper.

In: the pages of a generated crawl. Out: pages per second, and whether the index finds what it should.

Not here: the jobs (``workloads/hadoop/src/steelyard/hadoop/nutch``), and what it shares with other
benchmarks of Hadoop (``stack.hadoop``).
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from steelyard.bench.parameters import Parameter, Setting
from steelyard.bench.placement import Placement
from steelyard.benchmarks.hadoop.benchmark import Cost, HadoopBench
from steelyard.benchmarks.hadoop.parameters import PARAMETERS
from steelyard.benchmarks.nutch.declaration import DECLARATION

if TYPE_CHECKING:
    from steelyard.records import Check, Machine, Metric

VERSION = 1
"""Of the crawl: others give other results."""
PAGE_BYTES = 7_700
"""A page in the crawl, with its URL, on average."""
SCRATCH_BYTES = 18_000
"""What a page takes on disk during a job, amply: map output, its merged copies, two copies of the index."""
INDEX_BYTES = 2_300
_PAGES = {"smoke": 2_000, "quick": 20_000, "standard": 400_000, "full": 10_000_000}


class NutchBench(HadoopBench):
    """Nutch's indexing."""

    declaration = DECLARATION
    cost = Cost(data_s_per_mb=0.15, round_s_per_mb=0.4, jobs=1)
    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter(
            "pages",
            "count",
            "pages of the crawl",
            derived="per tier: 2 thousand, 20 thousand, 400 thousand, 10 million",
            minimum=100,
            maximum=10**10,
        ),
        *PARAMETERS,
    )

    @classmethod
    def suggest(
        cls, chosen: Mapping[str, Setting], *, machine: "Machine", tier: str, placement: Placement
    ) -> dict[str, Setting]:
        """Return what follows from the machine and the tier."""
        shared = super().suggest(chosen, machine=machine, tier=tier, placement=placement)
        return {**shared, "pages": _PAGES[tier]}

    @classmethod
    def data_bytes(cls, settings: Mapping[str, Setting]) -> int:
        """Return the size of the crawl, about."""
        return PAGE_BYTES * int(settings["pages"])

    @classmethod
    def data_name(cls, settings: Mapping[str, Setting]) -> str:
        """Return the folder of a crawl of one version, seed and size."""
        return f"v{VERSION}-seed{settings['data_seed']}-pages{settings['pages']}"

    @classmethod
    def scratch_bytes(cls, settings: Mapping[str, Setting]) -> int:
        """Return the size of the jobs' files and of every round's index, about."""
        return int(settings["pages"]) * (SCRATCH_BYTES + int(settings["rounds"]) * INDEX_BYTES)

    @classmethod
    def size(cls, settings: Mapping[str, Setting]) -> tuple[str, str]:
        """Return the number of pages."""
        return f"pages={settings['pages']}", "pages"

    def options(self) -> dict[str, object]:
        """Return options of the driver."""
        return {"pages": self.settings.count("pages")}

    def documents(self, facts: Mapping[str, Any]) -> int:
        """Return the pages."""
        return int(facts["pages"])

    def found(
        self, facts: Mapping[str, Any], results: Mapping[str, Any]
    ) -> tuple["dict[str, Metric]", "list[Check]"]:
        """Return whether every page is indexed, and found by its words."""
        from steelyard.benchmarks.hadoop.metrics import documents_check
        from steelyard.records import Metric

        metrics = {
            "crawl_bytes": Metric(value=float(facts["html_bytes"]), unit="bytes"),
            "links": Metric(value=float(facts["links"]), unit="count"),
        }
        return metrics, [documents_check(results, int(facts["pages"]), "indexed"), queries_check(results)]


def queries_check(results: Mapping[str, Any]) -> "Check":
    """Return whether the index finds as many pages as were made with the words of each query."""
    from steelyard.analyze import checks

    asked = [(each["name"], query) for each in results["found"] for query in each["queries"]]
    wrong = [(name, query) for name, query in asked if query["hits"] != query["expected"]]
    if wrong:
        name, query = wrong[0]
        claim = f"{name}: query {query['query']!r} finds {query['hits']} pages of {query['expected']}"
    else:
        hits = ", ".join(str(query["hits"]) for query in results["found"][0]["queries"])
        claim = f"queries find the pages that were made for them: {hits}"
    return checks.measured("queries", len(wrong) / len(asked), claim)
