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
    mapped = re.search(r"## The map\n(.*?)\n## ", text, re.DOTALL)
    assert mapped is not None
    crates = {path.parent.name for path in ROOT.glob("crates/*/Cargo.toml")}
    packages = {path.parent.name for path in ROOT.glob("python/steelyard/*/__init__.py")}
    assert set(re.findall(r"^    crates/(\w+)", mapped[1], re.MULTILINE)) == crates
    assert set(re.findall(r"^      (\w+) ", mapped[1], re.MULTILINE)) == packages


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
    ranks = re.search(r"^Rust: ((?:`\w+`(?:, | <- ))+`\w+`)\.", directions[1], re.MULTILINE)
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
