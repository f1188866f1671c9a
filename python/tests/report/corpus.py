"""A corpus of answers: what each command writes of the same records, in every format, to be compared later.

    python -m tests.report.corpus FOLDER

Each answer has a folder with its terminal text (100 columns), JSON, CSV, Markdown, and of its page the
visible text and what its script draws. Records are golden files, written runs and a small simulated store:
two corpora of the same sources differ only where the program says something else (``diff -r``).
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.cli.suites import write_suite
from tests.fleet.simulated import simulated_store
from tests.report import pages, pages_of_answers
from tests.report.pages_of_answers import GOLDEN
from tests.report.runs import write_run
from tests.shared_folder import VARIABLE

_FORMATS = ("table", "json", "csv", "markdown", "jsonl")
_QUIET = {"script", "style", "title"}


@dataclass(frozen=True)
class Question:
    """A command, whether it writes a page, and the formats that it has."""

    words: tuple[str, ...]
    page: bool = True
    formats: tuple[str, ...] = _FORMATS


class _Visible(HTMLParser):
    """Collects the texts that a page shows, a line each."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.chart_data = ""
        self._open: list[str] = []
        self._is_data = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _QUIET:
            self._open.append(tag)
            self._is_data = dict(attrs).get("id") == "drawn"

    def handle_endtag(self, tag: str) -> None:
        if self._open and self._open[-1] == tag:
            self._open.pop()
            self._is_data = False

    def handle_data(self, data: str) -> None:
        if self._is_data:
            self.chart_data += data
        elif not self._open and (text := " ".join(data.split())):
            self.texts.append(text)


def _questions(folder: Path) -> Iterator[tuple[str, Question]]:
    """Yield the questions by name; what they ask of is written into ``folder``."""
    store = folder / "store"
    shutil.copytree(simulated_store(machines=12, days=1, platforms=2, clusters=1, step_s=120), store)
    for name, words in pages.FLEET.items():
        given = [word.replace("{name}", "") for word in words]
        yield f"fleet-{name}", Question(("fleet", *given, "--store", "store"))
    for side, scale in (("a", 1.0), ("b", 1.3)):
        write_run(folder / f"run-{side}", scale=scale)
        write_suite(folder / f"suite-{side}", ("tao", "feed"), scale=scale)
    yield "run", Question(("report", "run-a"))
    yield "runs-compared", Question(("compare", "run-a", "run-b"))
    yield "suite", Question(("report", "suite-a"))
    yield "suites-compared", Question(("compare", "suite-a", "suite-b"))
    yield "matrix", Question(("characterize", "--suite", "suite-a"))
    for name in ("experiment", "tuning"):
        _golden(name, folder)
    yield "experiment", Question(("compare", "experiment"))
    yield "tuning", Question(("tune", "show", "tuning"))
    (folder / "ab.csv").write_text(_EXPERIMENT)
    yield "experiment-from", Question(("experiment", "--from", "ab.csv"))
    pages_of_answers.numa_scenarios(_new(folder, "numa"), "")
    yield "numa-experiment", Question(("numa", "experiment", "--from", "numa/figures.csv"))
    (folder / "curve.csv").write_text(_CURVE)
    yield "scale", Question(("scale", "--from", "curve.csv"))
    yield "scale-predicted", Question(("scale", "--from", "curve.csv", "--predict", "12"))
    for side, hot in (("a", 900), ("b", 500)):
        (folder / f"{side}.folded").write_text(
            f"app;main [app];hot [app] {hot}\napp;main [app];copy [libc.so.6] 400\n"
        )
    yield "profile", Question(("profile", "show", "a.folded"))
    yield "profiles-compared", Question(("profile", "diff", "a.folded", "b.folded"))
    _golden("machine", folder)
    yield (
        "machines-compared",
        Question(("machine", "diff", "machine/machine.json", "machine/other.json"), page=False),
    )
    for what in ("benchmarks", "suites", "tiers", "parameters", "hooks"):
        yield f"list-{what}", Question(("list", what), page=False)
    for name in ("health", "colocation"):
        pages.KINDS[name](_new(folder, name), "")


def _new(folder: Path, name: str) -> Path:
    made = folder / name
    made.mkdir(exist_ok=True)
    return made


def _golden(name: str, folder: Path) -> None:
    """Write a golden record, and of a machine another one with half of the memory."""
    path = _new(folder, name) / f"{name}.json"
    path.write_bytes((GOLDEN / path.name).read_bytes())
    if name == "machine":
        document = json.loads(path.read_text())
        document["memory"]["total_bytes"] //= 2
        (path.parent / "other.json").write_text(json.dumps(document))


def _rate(arm: str, block: int) -> float:
    noise = (block * 7 + (arm == "b") * 3) % 5 - 2
    return 100 * (1.1 if arm == "b" else 1.0) * (1 + 0.01 * noise)


_EXPERIMENT = "arm,block,rate\n" + "".join(
    f"{arm},{block},{_rate(arm, block)}\n" for block in range(1, 13) for arm in "ab"
)
_CURVE = "cpus,ops_per_s,cycles,instructions,operations\n" + "".join(
    f"{cpus},{rate},{cpus * 10**7},{rate * 2000},{rate}\n"
    for cpus, rate in ((1, 1000), (2, 1900), (4, 3300), (8, 4700))
)


def _visible(page: Path) -> tuple[str, str]:
    """Return what a page shows, a text a line, and what its script draws, a chart a line."""
    reader = _Visible()
    reader.feed(page.read_text())
    data = json.loads(reader.chart_data or "{}")
    charts = [json.dumps(chart, sort_keys=True) for chart in data.pop("charts", [])]
    return "\n".join(reader.texts), "\n".join([json.dumps(data, sort_keys=True), *charts])


def _answer(name: str, question: Question, folder: Path, out: Path) -> str:
    """Write the answer to a question in its formats; return what went wrong."""
    place = _new(out, name)
    wrong = []
    environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "PYTHONWARNINGS": "error::RuntimeWarning"}
    for output in _FORMATS:
        page = ["--report", f"{name}.html"] if question.page and output == "table" else []
        words = [str(Path(sys.executable).with_name("steelyard")), *question.words, *page, "--format", output]
        done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        (place / f"{output}.txt").write_text(done.stdout)
        if done.returncode not in (0, 1):
            wrong.append(f"{name} {output}: {done.stderr.strip()}")
    if question.page and (folder / f"{name}.html").exists():
        for kind, text in zip(("page", "drawn"), _visible(folder / f"{name}.html"), strict=True):
            (place / f"{kind}.txt").write_text(text)
    return "\n".join(wrong)


def main(out: Path) -> None:
    """Write the corpus into ``out``."""
    out.mkdir(parents=True)
    with TemporaryDirectory() as scratch:
        os.environ.setdefault(VARIABLE, scratch)
        folder = _new(Path(scratch), "records")
        questions = list(_questions(folder))
        with ThreadPoolExecutor(2) as workers:
            for wrong in workers.map(lambda one: _answer(*one, folder, out), questions):
                print(wrong, end="\n" if wrong else "", file=sys.stderr)
        for page in (path for name in ("health", "colocation") for path in (folder / name).rglob("*.html")):
            for kind, text in zip(("page", "drawn"), _visible(page), strict=True):
                (_new(out, page.parent.name) / f"{kind}.txt").write_text(text)
    print(f"{len(questions) + 2} answers in {out}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
