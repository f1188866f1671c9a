"""Writes what Sphinx reads: the pages of docs/ and of the root, with links that lead somewhere in the site.

In: the repository. Out: a folder of Markdown, in which files that have not changed keep their time, so that
only what changed is built again.

Links between pages stay. Links to other files of the repository, which the site has not, become their text;
one to a schema leads to its section of the reference.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
END = ".md"
PROJECT = ("ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")
OTHERS = (".png", ".svg", ".ipynb")
START = ("getting-started", "guides/install", "guides/read-a-report", "gallery")
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
_FENCE = re.compile(r"^\s*(```|~~~)")
_SCHEMAS = "reference/schemas"


def stage(folder: Path, examples: Mapping[str, str]) -> None:
    """Write the pages into ``folder``; ``examples`` are titles of example pages by their names."""
    wanted = {f"index{END}": _index(), **{f"project/{name}": _moved(ROOT / name) for name in PROJECT}}
    for path in sorted(DOCS.rglob("*.md")):
        if path != DOCS / "README.md":
            name = path.relative_to(DOCS).as_posix()
            # The journal's index lists its entries; in the sidebar of every page they would double the time.
            head = "---\norphan: true\n---\n" if re.match(r"journal/\d", name) else ""
            wanted[name] = head + _moved(path)
    wanted[f"gallery{END}"] += _links_to(examples)
    for name, text in wanted.items():
        _write(folder / name, text.encode())
    others = [path for path in DOCS.rglob("*") if path.suffix in OTHERS]
    for path in others:
        _write(folder / path.relative_to(DOCS), path.read_bytes())
    kept = {folder / name for name in wanted} | {folder / path.relative_to(DOCS) for path in others}
    for path in folder.rglob("*"):
        if path.suffix in (".md", *OTHERS) and path not in kept:
            path.unlink()


def _write(path: Path, data: bytes) -> None:
    if path.is_file() and path.read_bytes() == data:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def _index() -> str:
    """Return the first page: the list of documents, with what the sidebar shows of them."""
    text = _moved(DOCS / "README.md")
    listed = re.findall(r"\]\(([\w/-]+)\.md", (DOCS / "README.md").read_text(encoding="utf-8"))
    paths = [path.relative_to(DOCS) for path in DOCS.rglob("*.md") if not re.match(r"\d|README", path.name)]
    pages = {path.with_suffix("").as_posix() for path in paths}
    order = [name for name in dict.fromkeys(listed) if name in pages]
    order += sorted(pages - set(order))
    of = {
        folder: [name for name in order if name.startswith(f"{folder}/") and name not in START]
        for folder in ("guides", "concepts", "reference")
    }
    more = [name for name in order if "/" not in name and name not in START]
    project = [f"project/{Path(name).stem}" for name in PROJECT]
    return text + "".join(
        [
            _toctree("Start", [name for name in START if name in pages]),
            _toctree("Guides", of["guides"]),
            _toctree("Concepts", of["concepts"]),
            _toctree("Reference", [*of["reference"], *more]),
            _toctree("Project", [*project, "journal/README"]),
        ]
    )


def _toctree(caption: str, names: list[str]) -> str:
    head = f":hidden:\n:maxdepth: 1\n:caption: {caption}\n"
    return f"\n```{{toctree}}\n{head}\n" + "\n".join(names) + "\n```\n"


def _links_to(examples: Mapping[str, str]) -> str:
    """Return links to pages that no document of Sphinx is: as HTML, which it leaves alone."""
    if not examples:
        return ""
    items = "".join(
        f'<li><a href="examples/{name}.html">{title}</a></li>\n' for name, title in examples.items()
    )
    made = "Made when this site was built, from the tables of the guides."
    return f"\n## Open a page\n\n{made}\n\n<ul>\n{items}</ul>\n"


def _moved(path: Path) -> str:
    """Return a document with the links that it has in the site."""
    return "\n".join(_lines(path)) + "\n"


def _lines(path: Path) -> Iterator[str]:
    fence = ""
    for line in path.read_text(encoding="utf-8").splitlines():
        mark = _FENCE.match(line)
        if mark is not None and (not fence or line.strip().startswith(fence)):
            fence = "" if fence else mark[1]
        elif not fence and not line.startswith("    "):
            line = _LINK.sub(lambda found: _link(path, found), line)
        yield line


def _link(path: Path, found: re.Match[str]) -> str:
    picture, text, target = found.groups()
    if picture or re.match(r"[a-z]+:|#", target):
        return found[0]
    file, _, anchor = target.partition("#")
    aim = (path.parent / file).resolve()
    place = _place(aim)
    if place is None:
        return text
    if aim.suffix == ".json":
        anchor = aim.name.removesuffix(".schema.json").lower()
    own = _place(path)
    assert own is not None
    relative = os.path.relpath(place, Path(own).parent)
    return f"[{text}]({relative}{'#' if anchor else ''}{anchor})"


def _place(path: Path) -> str | None:
    """Return where a file of the repository is in the site, None where it is not."""
    if path in (DOCS / "README.md", ROOT / "README.md", DOCS):
        return f"index{END}"
    if path.parent == ROOT and path.name in PROJECT:
        return f"project/{path.name}"
    if path.is_relative_to(ROOT / "schemas") and path.name.endswith(".schema.json"):
        return f"{_SCHEMAS}{END}"
    if path.is_relative_to(DOCS):
        if path.is_dir():
            return f"index{END}"
        return path.relative_to(DOCS).as_posix()
    return None
