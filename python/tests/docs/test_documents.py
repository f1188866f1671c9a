"""Links between documents and to their sections lead somewhere, and the commands in them exist."""

import importlib.util
import re
import shlex
from functools import cache
from pathlib import Path
from types import ModuleType

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


@pytest.fixture(scope="module")
def staging() -> ModuleType:
    spec = importlib.util.spec_from_file_location("staging", ROOT / "scripts/site/staging.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_links_of_the_site_lead_to_its_pages(staging: ModuleType, tmp_path: Path) -> None:
    staging.stage(tmp_path, {"choose": "A choice"})
    index = (tmp_path / "index.md").read_text()
    assert "[Architecture](project/ARCHITECTURE.md)" in index
    for name in ("guides/size", "reference/rules", "getting-started", "project/CHANGELOG", "journal/README"):
        assert re.search(rf"^{name}$", index, re.MULTILINE), "the sidebar lacks it"
    agent = (tmp_path / "reference/agent.md").read_text()
    assert "](schemas.md#cpi_specs)" in agent
    assert "](../" not in (tmp_path / "truth.md").read_text()
    assert 'href="examples/choose.html"' in (tmp_path / "gallery.md").read_text()
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.md")}
    staging.stage(tmp_path, {"choose": "A choice"})
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.md")} == before


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
