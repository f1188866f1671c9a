"""Text classification as jobs of Hadoop MapReduce, after the Characterization paper.

In: texts of several classes, generated or the user's: a folder, or a dump of MediaWiki. Out: texts per
second, and how many were classified rightly.

Not here: the jobs (``workloads/hadoop/src/steelyard/hadoop/bayes``), the reader of dumps (``dump``), and what
it shares with other benchmarks of Hadoop (``stack.hadoop``).
"""

import hashlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from steelyard._base import EnvironmentLacksError, workloads_dir
from steelyard.bench.parameters import Parameter, Setting
from steelyard.bench.placement import Placement
from steelyard.benchmarks.bayes import dump
from steelyard.benchmarks.bayes.declaration import DECLARATION
from steelyard.benchmarks.hadoop.benchmark import Cost, HadoopBench
from steelyard.benchmarks.hadoop.parameters import PARAMETERS

if TYPE_CHECKING:
    from steelyard.bench.executor import Process
    from steelyard.records import Check, Machine, Metric

VERSION = 1
"""Of the corpus: others give other results."""
DOCUMENT_BYTES = 2_420
"""A generated document, on average."""
SCRATCH_BYTES = 4_000
"""What a document takes on disk during the jobs, amply: sums of terms are small."""
UNPACKED_TIMES = 5
"""Bytes of a dump over those of its .bz2, about."""
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
            "folder with a folder of text files for each class, or a dump of MediaWiki (.xml, .xml.bz2);"
            " empty for generated documents",
            default="",
        ),
        Parameter(
            "categories",
            "text",
            "file of the categories that are a dump's classes; empty for workloads/hadoop/categories.txt",
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
        corpus = Path(str(settings["corpus"]))
        if corpus.is_file():
            return corpus.stat().st_size * (UNPACKED_TIMES if corpus.suffix == ".bz2" else 1)
        if settings["corpus"]:
            return sum(file.stat().st_size for file in corpus.glob("*/*"))
        return DOCUMENT_BYTES * int(settings["documents"])

    @classmethod
    def data_name(cls, settings: Mapping[str, Setting]) -> str:
        """Return the folder of a corpus of one version, seed, size and shape; empty for a user's folder."""
        corpus = Path(str(settings["corpus"]))
        if corpus.is_file():
            # Reading a dump takes longer than the jobs: its texts are kept.
            size = corpus.stat()
            key = f"{corpus.resolve()} {size.st_size} {size.st_mtime_ns} {_categories(settings).read_text()}"
            return (
                f"v{VERSION}-dump{hashlib.sha256(key.encode()).hexdigest()[:12]}"
                f"-seed{settings['data_seed']}-training{settings['training']:g}"
            )
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
        """Raise UsageError or EnvironmentLacksError where what was named is no corpus."""
        corpus = str(settings["corpus"])
        if Path(corpus).is_file():
            dump.check(Path(corpus))
            dump.Categories.of_file(_categories(settings))
        elif corpus and sum(path.is_dir() for path in Path(corpus).glob("*")) < 2:
            raise EnvironmentLacksError(
                f"corpus={corpus}: has no two folders of classes",
                hint="a folder of text files for each class, or a dump of MediaWiki: .xml, .xml.bz2",
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
            **({"feed": self._pipe} if self._is_dump() else {"corpus": self.settings.text("corpus")}),
        }

    def _is_dump(self) -> bool:
        return Path(self.settings.text("corpus")).is_file()

    @property
    def _pipe(self) -> Path:
        return (self._folders.scratch / "corpus.pipe").absolute()

    def offer_data(self) -> None:
        """Let another process read the dump; it waits until the driver reads what it writes."""
        self._feed: Process | None = None
        if not self._is_dump():
            return
        os.mkfifo(self._pipe, 0o600)
        words = (self.settings.text("corpus"), _categories(self.settings), self._pipe)
        command = [sys.executable, "-m", "steelyard.benchmarks.bayes.feed", *map(str, words)]
        self._feed = self.session.start_process("corpus", command, cpus=self.session.placement.server)

    def end_offer(self, facts: Mapping[str, Any]) -> None:
        """Stop that process, which has written all, or nothing where the texts were there already."""
        if self._feed is not None:
            self.session.stop_process(self._feed, dies_of_sigterm=True)

    def documents(self, facts: Mapping[str, Any]) -> int:
        """Return the documents, of training and held out."""
        return int(facts["training_documents"]) + int(facts["held_out_documents"])

    def found(
        self, facts: Mapping[str, Any], results: Mapping[str, Any]
    ) -> tuple["dict[str, Metric]", "list[Check]"]:
        """Return how many documents were classified rightly."""
        from steelyard.bench.load.metrics import value
        from steelyard.benchmarks.hadoop.metrics import documents_check
        from steelyard.records import Metric

        held_out = int(facts["held_out_documents"])
        known = facts.get("recognisable")
        best = None if known is None else int(known) / held_out
        first = results["found"][0]
        metrics = {
            "accuracy_ratio": Metric(value=first["right"] / held_out, unit="ratio"),
            "recognisable_ratio": value(best, "ratio", None, "the texts are not generated"),
            "terms": Metric(value=float(first["terms"]), unit="count"),
            "corpus_bytes": Metric(
                value=float(facts["training_bytes"] + facts["held_out_bytes"]), unit="bytes"
            ),
        }
        checks = [documents_check(results, held_out, "classified"), accuracy_check(first, held_out, best)]
        if "skipped" in facts:
            skipped = sum(facts["skipped"].values())
            metrics["skipped_ratio"] = value(
                skipped / facts["pages"] if facts["pages"] else None,
                "ratio",
                None,
                "there was nothing to read",
            )
            checks.append(corpus_check(facts))
        return metrics, checks


def _categories(settings: Mapping[str, Setting]) -> Path:
    """Return the file of a dump's classes."""
    chosen = str(settings["categories"])
    return Path(chosen) if chosen else workloads_dir() / "hadoop" / "categories.txt"


def corpus_check(facts: Mapping[str, Any]) -> "Check":
    """Return how much of a user's corpus was skipped, and why."""
    from steelyard.analyze import checks
    from steelyard.records import Level

    skipped = {reason: int(count) for reason, count in facts["skipped"].items() if count}
    texts = int(facts["training_documents"]) + int(facts["held_out_documents"])
    reasons = ", ".join(f"{count} {reason}" for reason, count in skipped.items()) or "nothing"
    return checks.stated(
        "corpus",
        Level.VALID,
        f"{texts} of {facts['pages']} documents of the corpus are classified; skipped: {reasons}",
        sum(skipped.values()) / facts["pages"] if facts["pages"] else None,
    )


def accuracy_check(found: Mapping[str, Any], held_out: int, best_ratio: float | None) -> "Check":
    """Return whether the classifier is as good as it has to be.

    ``best_ratio`` is the best possible accuracy, that of whoever knows how the documents were made; None for
    documents that were not generated, where always naming the largest class has to be worse.
    """
    from steelyard.analyze import checks
    from steelyard.records import Level

    accuracy = found["right"] / held_out
    if best_ratio is None:
        bound = found["largest_class"] / held_out
        holds = accuracy > bound
        comparison = f"the largest class has {bound:.1%}"
    else:
        bound = LEAST_OF_BEST_RATIO * best_ratio
        holds = bound <= accuracy <= best_ratio + CHANCE_RATIO
        comparison = f"{best_ratio:.1%} is possible"
    return checks.stated(
        "accuracy",
        Level.VALID if holds else Level.INVALID,
        f"{accuracy:.1%} of {held_out} documents were classified rightly; {comparison}",
        accuracy,
        bounds=checks.Bounds(invalid=bound),
    )
