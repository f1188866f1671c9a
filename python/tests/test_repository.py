"""What prose says of the repository is compared with the repository."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

import steelyard

ROOT = Path(__file__).resolve().parents[2]


def test_architecture_maps_every_crate_and_package() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    mapped = re.search(r"## The map\n(.*?)\nPython, (.*?)\n## ", text, re.DOTALL)
    assert mapped is not None
    crates = {path.parent.name for path in ROOT.glob("crates/*/Cargo.toml")}
    packages = {path.parent.name for path in ROOT.glob("python/steelyard/*/__init__.py")}
    assert set(re.findall(r"^    (\w+) ", mapped[1], re.MULTILINE)) == crates
    assert set(re.findall(r"^    (\w+) ", mapped[2], re.MULTILINE)) == packages


def test_architecture_says_what_each_crate_sees() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    directions = re.search(r"## Directions\n(.*?)\nPython:", text, re.DOTALL)
    assert directions is not None
    rows = re.findall(r"^    (\w+) +([\w, ]+)$", directions[1], re.MULTILINE)
    seen = {}
    for manifest in ROOT.glob("crates/*/Cargo.toml"):
        names = tomllib.loads(manifest.read_text()).get("dependencies", {})
        seen[manifest.parent.name] = {name[10:] for name in names if name.startswith("steelyard-")}
    del seen["steelyard"]
    assert {name: set(crates.split(", ")) for name, crates in rows} == {n: s for n, s in seen.items() if s}
    ranks = re.search(
        r"^Rust: ((?:`\w+`(?:, | <- ))+`\w+`)\.", directions[1].replace(",\n", ", "), re.MULTILINE
    )
    assert ranks is not None
    rank_of = {
        name: rank
        for rank, names in enumerate(ranks[1].split(" <- "))
        for name in re.findall(r"`(\w+)`", names)
    }
    assert set(rank_of) == {*seen, "steelyard"}
    for name, others in seen.items():
        assert all(rank_of[other] < rank_of[name] for other in others), name


def test_one_version_everywhere() -> None:
    root = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    rust = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    assert {root, rust} == {steelyard.__version__}


def test_scripts_are_executable_and_parse() -> None:
    for script in (ROOT / "scripts").iterdir():
        if script.is_file() and script.read_bytes().startswith(b"#!/usr/bin/env bash"):
            assert script.stat().st_mode & 0o111, script.name
            subprocess.run(["bash", "-n", str(script)], check=True)


@pytest.mark.parametrize("name", ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_links_between_documents_lead_somewhere(name: str) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", (ROOT / name).read_text()):
        assert (ROOT / target).exists(), f"{name} points to {target}"


PROSE = ("*.md", "*.py", "*.rs", "*.toml", "Makefile", "scripts/*", "benches/*", "workloads/*")
ELSEWHERE = re.compile(r"https?://\S+|\]\(https?:[^)]*\)")
OF_OTHERS = {
    "index.md": "the site's, made when it is built",
    "project/ARCHITECTURE.md": "the site's copy",
    "ClusterData2011_2.md": "Google's, of its trace of 2011",
    "trace_201708.md": "Alibaba's, of its trace of 2017",
    "schema.md": "Azure's, of its traces",
    "thrift-compact-protocol.md": "Apache Thrift's",
    "doc/specs/thrift-compact-protocol.md": "Apache Thrift's",
    "thrift-rpc.md": "Apache Thrift's",
    "docs/storage/prometheus.md": "cAdvisor's",
    "documents/agent.md": "a copy that scripts/make-deb makes",
}
"""Documents that are named and are not ours."""


def prose() -> dict[str, str]:
    """Every tracked text that may name a document or a test, without addresses on the web."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--", *PROSE], cwd=ROOT, capture_output=True, text=True, check=True
    )
    texts = {}
    for name in filter(None, listed.stdout.split("\0")):
        path = ROOT / name
        if path.is_file() and path != Path(__file__).resolve():
            texts[name] = ELSEWHERE.sub("", path.read_text(encoding="utf-8", errors="replace"))
    return texts


def exists(target: str, named_in: str) -> bool:
    """Whether a path that stands in a file is there: from the root, from the file, or from the documents."""
    places = (ROOT, (ROOT / named_in).parent, ROOT / "docs", *(ROOT / "docs").iterdir())
    return any((place / target).exists() for place in places)


def test_documents_named_in_prose_exist() -> None:
    lost = [
        f"{name}: {target}"
        for name, text in prose().items()
        for target in re.findall(r"[\w./-]*\w\.md\b", text)
        if target not in OF_OTHERS and not exists(target.removeprefix("/"), name)
    ]
    assert lost == []


def test_journal_entries_named_in_prose_exist() -> None:
    entries = {path.name[:4] for path in (ROOT / "docs/journal").glob("[0-9]*.md")}
    for name, text in prose().items():
        named = re.findall(r"\b[Jj]ournal(?:/| |, )(?:entry )?(\d{4})\b", text)
        assert set(named) <= entries, name


def test_the_journals_index_lists_every_entry() -> None:
    folder = ROOT / "docs/journal"
    rows = re.findall(
        r"^\| \[(\d{4})\]\((.*?)\) \| (\S+) \| [^|]+ \| [^|]+ \| ([^|]+) \|$",
        (folder / "README.md").read_text(),
        re.MULTILINE,
    )
    assert [file for _, file, _, _ in rows] == sorted(path.name for path in folder.glob("[0-9]*.md"))
    numbers = {number for number, *_ in rows}
    for number, file, date, state in rows:
        assert file.startswith(f"{number}-")
        assert re.fullmatch(r"20\d\d-\d\d-\d\d", date), number
        later = re.fullmatch(r"accepted|rejected|open|superseded by (\d{4})", state)
        assert later is not None, f"{number}: {state}"
        assert later[1] is None or later[1] in numbers, number


def test_source_files_named_in_documents_exist() -> None:
    ours = (
        r"\b(?:crates|python|docs|scripts|schemas|fuzz|benches|workloads)/[\w./-]*\.(?:rs|py|json|toml|sh)\b"
    )
    for name, text in prose().items():
        if name.endswith(".md"):
            lost = [path for path in re.findall(ours, text) if not exists(path, name)]
            assert lost == [], name


def test_tests_named_in_documents_exist() -> None:
    texts = prose()
    functions = {
        function
        for name, text in texts.items()
        if name.endswith((".py", ".rs"))
        for function in re.findall(r"^\s*(?:async )?(?:def|fn) (\w+)\(", text, re.MULTILINE)
    }
    for name, text in texts.items():
        if not name.endswith(".md"):
            continue
        for path in re.findall(r"[\w./-]*\btest_\w+\.py\b", text):
            assert any(one.endswith(f"/{path}") or one == path for one in texts), f"{name}: {path}"
        named = re.findall(r"`(test_\w+)`", text)
        # A test in Rust has a sentence for a name: four words and more.
        named += [word for word in re.findall(r"[Tt]ests?:? `(\w+)`", text) if word.count("_") >= 3]
        assert set(named) <= functions, f"{name}: {set(named) - functions}"
