"""Example pages of the site: what commands of the guides write, from the tables that the guides print.

In: guides. Out: one file each, made again only where a guide or the command changed.
"""

from __future__ import annotations

import hashlib
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from staging import DOCS, ROOT

_RUN = "import sys; from steelyard.cli.start import main; sys.exit(main())"


@dataclass(frozen=True)
class Example:
    """A page, the guide whose files it is made of, and the command without `--report`."""

    name: str
    title: str
    guide: str
    command: str


EXAMPLES = (
    Example("score", "Machines in order", "score", "score results.csv --baseline small"),
    Example(
        "choose",
        "Machines by performance for their cost",
        "choose",
        "choose servers.csv prices.csv --power-price 0.12 --baseline SKU4",
    ),
    Example("project", "A workload projected", "project", "project servers.csv --target web_per_s --explain"),
    Example(
        "size", "A fleet sized", "size", "size types.csv --curve curves.csv --rate 1e5 --power-price 0.1"
    ),
    Example("fidelity", "Two workloads compared", "fidelity", "fidelity bench.csv cache-a.toml"),
)


def files_of(guide: str) -> dict[str, str]:
    """Return the files that a guide prints, by name: ```` ```csv name ````, or named in the line above."""
    text = (DOCS / "guides" / f"{guide}.md").read_text(encoding="utf-8")
    named = dict(re.findall(r"^```\w+ (\S+)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE))
    above = re.findall(r"^`([\w.-]+)`:\n\n```\w+\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return named | dict(above)


def make(out: Path, kept: Path) -> None:
    """Write the pages into ``out``; ``kept`` holds those of earlier builds."""
    out.mkdir(parents=True, exist_ok=True)
    code = hashlib.sha256()
    for path in sorted((ROOT / "python/steelyard").rglob("*.py")):
        code.update(f"{path.stat().st_mtime_ns} {path.name}".encode())
    for one in EXAMPLES:
        files = files_of(one.guide)
        mark = hashlib.sha256(f"{code.hexdigest()} {one} {sorted(files.items())}".encode()).hexdigest()[:16]
        folder = kept / f"{one.name}-{mark}"
        if not (folder / "page.html").is_file():
            for old in kept.glob(f"{one.name}-*"):
                shutil.rmtree(old)
            folder.mkdir(parents=True)
            for name, text in files.items():
                (folder / name).write_text(text, encoding="utf-8")
            command = [sys.executable, "-c", _RUN, *shlex.split(one.command), "--report", "page.html"]
            subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        shutil.copyfile(folder / "page.html", out / f"{one.name}.html")
