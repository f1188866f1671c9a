"""Writes the generated documents: python -m steelyard.cli.manual [--documents DIR] [--packaged DIR].

``--documents DIR`` writes the pages of the reference (`docs/reference`) that are made of declarations.

``--packaged DIR`` writes man pages and completions where packages put them: ``DIR/share/man/man1`` and so on.
"""

import argparse
import sys
from pathlib import Path

import steelyard
from steelyard.cli.manual import bash, documents, fish, man_page, pages, zsh


def packaged() -> dict[str, str]:
    """Return the text of each file that packages hold, by its path below the prefix (``/usr``)."""
    commands = list(pages())
    files = {
        f"share/man/man1/{page.name.replace(' ', '-')}.1": man_page(page, steelyard.__version__)
        for page in commands
    }
    files["share/bash-completion/completions/steelyard"] = bash(commands)
    files["share/zsh/site-functions/_steelyard"] = zsh(commands)
    files["share/fish/vendor_completions.d/steelyard.fish"] = fish(commands)
    return files


def main() -> int:
    """Write what is asked for; return the exit code."""
    parser = argparse.ArgumentParser(prog="steelyard.cli.manual", description="Write generated documents.")
    parser.add_argument("--documents", type=Path, help="folder of the reference in Markdown")
    parser.add_argument("--packaged", type=Path, help="folder of man pages and completions")
    chosen = parser.parse_args()
    for name, text in documents().items() if chosen.documents else ():
        (chosen.documents / name).write_text(text, encoding="utf-8")
    for name, text in packaged().items() if chosen.packaged else ():
        path = chosen.packaged / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
