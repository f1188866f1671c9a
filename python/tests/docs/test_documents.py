"""Links between documents and to their sections lead somewhere, and the commands in them exist."""

import re
import shlex
from functools import cache
from pathlib import Path

import pytest

from steelyard.cli.manual import pages

ROOT = Path(__file__).resolve().parents[3]
DOCUMENTS = sorted(
    [
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / f"{name}.md" for name in ("README", "ARCHITECTURE", "CONTRIBUTING")),
    ]
)
NAMES = [path.relative_to(ROOT).as_posix() for path in DOCUMENTS]
FLAGS = {page.name: set(page.flags) for page in pages() if not page.commands}
LINK = re.compile(r"\]\(([^()\s]+)\)|<img[^>]* src=\"([^\"]+)\"|srcset=\"([^\"]+)\"")
ELSEWHERE = re.compile(r"[a-z]+:")


def prose(text: str) -> str:
    """Return a document without its blocks of code."""
    text = re.sub(r"^(```|~~~).*?^\1", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^    .*$", "", text, flags=re.MULTILINE))


@cache
def anchors(path: Path) -> set[str]:
    """Return the anchors of a document's headings, as GitHub and MyST make them."""
    text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)
    found: dict[str, int] = {}
    made = set()
    for heading in re.findall(r"^#{1,6} (.*?)\s*$", text, re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        count = found[slug] = found.get(slug, -1) + 1
        made.add(f"{slug}-{count}" if count else slug)
    return made


@pytest.mark.parametrize("name", NAMES)
def test_links_lead_to_files_and_sections(name: str) -> None:
    path = ROOT / name
    lost = []
    for target in ("".join(groups) for groups in LINK.findall(prose(path.read_text()))):
        if ELSEWHERE.match(target):
            continue
        file, _, anchor = target.partition("#")
        aim = (path.parent / file).resolve() if file else path
        if not aim.exists() or (anchor and aim.suffix == ".md" and anchor not in anchors(aim)):
            lost.append(target)
    assert lost == []


@pytest.mark.parametrize("name", [name for name in NAMES if "/journal/" not in name])
def test_commands_exist_with_their_flags(name: str) -> None:
    text = (ROOT / name).read_text().replace("\\\n", " ")
    for line in re.findall(r"^    (?:\.venv/bin/)?(steelyard [a-z].*)$", text, re.MULTILINE):
        words = shlex.split(line.partition("  #")[0].partition(" | ")[0].partition(" > ")[0], comments=True)
        own = words[: words.index("--")] if "--" in words else words
        named = [known for known in FLAGS if own[: len(known.split())] == known.split()]
        # `steelyard tune` alone is `steelyard tune run`.
        named = named or [f"{' '.join(own[:2])} run"]
        assert named[0] in FLAGS, f"{line}: no such command"
        given = {word.partition("=")[0] for word in own if word.startswith("--")}
        known = FLAGS[max(named, key=len)]
        # Those of `top` are the program's underneath.
        assert not known or given <= known | {"--help", "--version"}, line
