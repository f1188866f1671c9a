"""Text classification as jobs of Hadoop MapReduce, after the Characterization paper.

In: texts of several classes, generated or the user's. Out: texts per second, and how many were classified
rightly.

Not here: the jobs (``workloads/hadoop/src/steelyard/hadoop/bayes``), and what it shares with other
benchmarks of Hadoop (``stack.hadoop``).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from steelyard._base import EnvironmentLacksError
from steelyard.bench.bayes.declaration import DECLARATION
from steelyard.bench.parameters import Parameter, Setting
from steelyard.bench.placement import Placement
from steelyard.bench.stack.hadoop.benchmark import Cost, HadoopBench
from steelyard.bench.stack.hadoop.parameters import PARAMETERS

if TYPE_CHECKING:
    from steelyard.records import Check, Machine, Metric

VERSION = 1
"""Of the corpus: others give other results."""
DOCUMENT_BYTES = 2_420
"""A generated document, on average."""
SCRATCH_BYTES = 4_000
"""What a document takes on disk during the jobs, amply: sums of terms are small."""
LEAST_OF_BEST_RATIO = 0.5
"""Share of the best possible accuracy that it has at least, also with few documents to learn from."""
CHANCE_RATIO = 0.01
"""How far above the best possible accuracy chance may lift it."""
_DOCUMENTS = {"smoke": 4_000, "quick": 80_000, "standard": 1_000_000, "full": 18_600_000}


class BayesBench(HadoopBench):
    """Text classification."""

    declaration = DECLARATION
    cost = Cost(data_s_per_mb=0.15, round_s_per_mb=0.2, jobs=3)
    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter(
            "documents",
            "count",
            "generated documents",
            derived="per tier: 4 thousand, 80 thousand, 1 million, 18.6 million (45 GB)",
            minimum=100,
            maximum=10**11,
        ),
        Parameter("classes", "count", "classes of generated documents", default=20, minimum=2, maximum=1000),
        Parameter(
            "training", "ratio", "share of documents to train with", default=0.2, minimum=0.01, maximum=0.99
        ),
        Parameter(
            "corpus",
            "text",
            "folder with a folder of text files for each class; empty for generated documents",
            default="",
        ),
        *PARAMETERS,
    )

    @classmethod
    def suggest(
        cls, chosen: Mapping[str, Setting], *, machine: "Machine", tier: str, placement: Placement
    ) -> dict[str, Setting]:
        """Return what follows from the machine and the tier."""
        shared = super().suggest(chosen, machine=machine, tier=tier, placement=placement)
        return {**shared, "documents": _DOCUMENTS[tier]}

    @classmethod
    def data_bytes(cls, settings: Mapping[str, Setting]) -> int:
        """Return the size of the corpus, about."""
        if settings["corpus"]:
            return sum(file.stat().st_size for file in Path(str(settings["corpus"])).glob("*/*"))
        return DOCUMENT_BYTES * int(settings["documents"])

    @classmethod
    def data_name(cls, settings: Mapping[str, Setting]) -> str:
        """Return the folder of a corpus of one version, seed, size and shape; empty for the user's."""
        if settings["corpus"]:
            return ""
        return (
            f"v{VERSION}-seed{settings['data_seed']}-documents{settings['documents']}"
            f"-classes{settings['classes']}-training{settings['training']:g}"
        )

    @classmethod
    def checks(cls, settings: Mapping[str, Setting], *, machine: "Machine") -> None:
        """Raise also where the corpus is none."""
        cls.check_corpus(settings)
        super().checks(settings, machine=machine)

    @classmethod
    def check_corpus(cls, settings: Mapping[str, Setting]) -> None:
        """Raise EnvironmentLacksError where the folder that was named is no corpus."""
        corpus = str(settings["corpus"])
        if corpus and sum(path.is_dir() for path in Path(corpus).glob("*")) < 2:
            raise EnvironmentLacksError(
                f"corpus={corpus}: has no two folders of classes",
                hint="a folder of text files for each class",
            )

    @classmethod
    def scratch_bytes(cls, settings: Mapping[str, Setting]) -> int:
        """Return the size of the jobs' files, about."""
        return cls.data_bytes(settings) * SCRATCH_BYTES // DOCUMENT_BYTES

    @classmethod
    def size(cls, settings: Mapping[str, Setting]) -> tuple[str, str]:
        """Return the corpus, or the number of documents."""
        corpus = str(settings["corpus"])
        return f"corpus={corpus}" if corpus else f"documents={settings['documents']}", "documents"

    def options(self) -> dict[str, object]:
        """Return options of the driver."""
        return {
            "documents": self.settings.count("documents"),
            "classes": self.settings.count("classes"),
            "training-ratio": self.settings.number("training"),
            "corpus": self.settings.text("corpus"),
        }

    def documents(self, facts: Mapping[str, Any]) -> int:
        """Return the documents, of training and held out."""
        return int(facts["training_documents"]) + int(facts["held_out_documents"])

    def found(
        self, facts: Mapping[str, Any], results: Mapping[str, Any]
    ) -> tuple["dict[str, Metric]", "list[Check]"]:
        """Return how many documents were classified rightly."""
        from steelyard.bench.load.metrics import value
        from steelyard.bench.stack.hadoop.metrics import documents_check
        from steelyard.records import Metric

        held_out = int(facts["held_out_documents"])
        known = facts.get("recognisable")
        best = None if known is None else int(known) / held_out
        first = results["found"][0]
        metrics = {
            "accuracy_ratio": Metric(value=first["right"] / held_out, unit="1"),
            "recognisable_ratio": value(best, "1", None, "the texts are not generated"),
            "terms": Metric(value=float(first["terms"]), unit="1"),
            "corpus_bytes": Metric(
                value=float(facts["training_bytes"] + facts["held_out_bytes"]), unit="bytes"
            ),
        }
        checks = [documents_check(results, held_out, "classified"), accuracy_check(first, held_out, best)]
        return metrics, checks


def accuracy_check(found: Mapping[str, Any], held_out: int, best_ratio: float | None) -> "Check":
    """Return whether the classifier is as good as it has to be.

    ``best_ratio`` is the best possible accuracy, that of whoever knows how the documents were made; None for
    documents that were not generated, where always naming the largest class has to be worse.
    """
    from steelyard.records import Check, Level

    accuracy = found["right"] / held_out
    if best_ratio is None:
        bound = found["largest_class"] / held_out
        holds = accuracy > bound
        told = f"the largest class has {bound:.1%}"
    else:
        bound = LEAST_OF_BEST_RATIO * best_ratio
        holds = bound <= accuracy <= best_ratio + CHANCE_RATIO
        told = f"{best_ratio:.1%} is possible"
    return Check(
        id="accuracy",
        level=Level.VALID if holds else Level.INVALID,
        claim=f"{accuracy:.1%} of {held_out} documents were classified rightly; {told}",
        value=accuracy,
        bound=bound,
        unit="1",
    )
