#!/usr/bin/env python3
"""Makes docs/guides/python.ipynb: runs its cells here and keeps what they print.

    .venv/bin/python scripts/make_notebook.py

The cells stand below; outputs are those of the machine that made the file.
"""

import ast
import contextlib
import io
import json
import os
import tempfile
from pathlib import Path
from typing import Any

NOTEBOOK = Path(__file__).resolve().parents[1] / "docs" / "guides" / "python.ipynb"
CELLS = (
    (
        "markdown",
        (
            "# Steelyard in a notebook\n"
            "\n"
            "The verbs of the command line as functions that return results: see [the guide](python.md)."
            " This notebook measures the machine that it runs on, for some ten seconds."
        ),
    ),
    (
        "code",
        ('import steelyard\n\nrun = steelyard.run("tax", tier="smoke", out="runs")\nrun.heading'),
    ),
    (
        "markdown",
        "A result has a verdict, and says what stands against it.",
    ),
    (
        "code",
        "run.verdict.level.value, [check.id for check in run.verdict.reasons]",
    ),
    (
        "markdown",
        "Every figure of its report is a row, in base units.",
    ),
    (
        "code",
        ('run.to_arrow().select(["row", "figure", "value", "unit"]).slice(0, 5).to_pylist()'),
    ),
    (
        "markdown",
        "What was recorded over time, as a table of Arrow (`to_pandas()` needs pandas).",
    ),
    (
        "code",
        ("series = run.series()\nseries.num_rows > 100, series.column_names"),
    ),
    (
        "markdown",
        "A second run beside the first: two runs have no spread, so nothing is judged.",
    ),
    (
        "code",
        (
            'again = steelyard.run("tax", tier="smoke", out="runs")\n'
            "compared = steelyard.compare(run.folder, again.folder)\n"
            "compared"
        ),
    ),
    (
        "markdown",
        "Which of two machines, for a watt and for its cost?",
    ),
    (
        "code",
        (
            "from pathlib import Path\n"
            "\n"
            'Path("servers.csv").write_text("machine,web_per_s,power_w,price_usd\\nA,1000,200,5000\\nB,1500,280,8000\\n")\n'
            'chosen = steelyard.choose("servers.csv", baseline="A", power_price=0.1)\n'
            "chosen"
        ),
    ),
    (
        "markdown",
        "A fleet's store: here one that is simulated.",
    ),
    (
        "code",
        (
            "from steelyard.fleet.simulate import Settings, simulate\n"
            "\n"
            'simulate(Settings(machines=12, days=1, platforms=2, clusters=1, step_s=300), "store")\n'
            'with steelyard.open_store("store") as fleet:\n'
            '    top = fleet.top(by="category", rows=3)\n'
            "top"
        ),
    ),
)


def executed(source: str, names: dict[str, Any]) -> tuple[str, dict[str, str]]:
    """Run a cell; return what it printed, and how its last expression is shown, by kind of text."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), names)  # noqa: S102 - our own cells
        shown = None if last is None else eval(compile(ast.Expression(last.value), "cell", "eval"), names)  # noqa: S307
    if shown is None:
        return printed.getvalue(), {}
    markdown = getattr(shown, "_repr_markdown_", None)
    rich = {} if markdown is None else {"text/markdown": markdown()}
    return printed.getvalue(), {**rich, "text/plain": repr(shown)}


def cells(*, run: bool) -> list[dict[str, Any]]:
    """Return the cells of the notebook, with outputs where they are run."""
    names: dict[str, Any] = {}
    made = []
    for number, (kind, source) in enumerate(CELLS):
        cell: dict[str, Any] = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}}
        cell["source"] = source.splitlines(keepends=True)
        if kind == "code":
            text, shown = executed(source, names) if run else ("", {})
            cell |= {"execution_count": number, "outputs": []}
            if text:
                cell["outputs"].append(
                    {"name": "stdout", "output_type": "stream", "text": text.splitlines(keepends=True)}
                )
            if shown:
                data = {kind: text.splitlines(keepends=True) for kind, text in shown.items()}
                output = {"execution_count": number, "metadata": {}, "output_type": "execute_result"}
                cell["outputs"].append({**output, "data": data})
        made.append(cell)
    return made


def main() -> None:
    """Write the notebook."""
    with tempfile.TemporaryDirectory() as folder:
        before = Path.cwd()
        os.chdir(folder)
        try:
            made = cells(run=True)
        finally:
            os.chdir(before)
    about = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    document = {"cells": made, "metadata": about, "nbformat": 4, "nbformat_minor": 5}
    NOTEBOOK.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
