"""Builds the documentation as a site of static files: .venv/bin/python scripts/site [OUT].

In: docs, ARCHITECTURE.md and the like, and commands of the guides for the example pages. Out: OUT, else site:
pages that need no network, no server and no inline script. What was built before is built again only where it
changed; a broken link is an error.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

from examples import EXAMPLES, make
from pages import without_inline
from staging import ROOT, stage

HERE = Path(__file__).resolve().parent


def main() -> int:
    """Build the site; return the exit code."""
    parser = argparse.ArgumentParser(prog="scripts/site", description="Build the documentation as a site.")
    parser.add_argument("out", nargs="?", type=Path, default=ROOT / "site", help="folder of the site")
    parser.add_argument("--work", type=Path, default=ROOT / "target" / "site", help="folder of what is kept")
    parser.add_argument("--without-examples", action="store_true", help="leave out the example pages")
    chosen = parser.parse_args()
    examples = {} if chosen.without_examples else {one.name: one.title for one in EXAMPLES}
    stage(chosen.work / "source", examples)
    html = chosen.work / "html"
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-n", "-j", "auto", "-b", "html"]
    command += ["-c", str(HERE), "-d", str(chosen.work / "doctrees"), str(chosen.work / "source"), str(html)]
    done = subprocess.run(command, check=False)
    if done.returncode:
        # Sphinx warns of a page only when it reads it: the next build must read all of them.
        shutil.rmtree(chosen.work / "doctrees", ignore_errors=True)
        return done.returncode
    if chosen.out.is_dir():
        shutil.rmtree(chosen.out)
    shutil.copytree(html, chosen.out, ignore=shutil.ignore_patterns(".buildinfo*", "*.map", "objects.inv"))
    without_inline(chosen.out)
    if examples:
        make(chosen.out / "examples", chosen.work / "examples")
    print(f"site: {chosen.out / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
