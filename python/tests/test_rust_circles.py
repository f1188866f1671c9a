"""Modules of one crate do not import each other in a circle of more than a few files.

A module is a file. It imports what its ``use`` lines and paths name; a name that another module only passes
on with ``pub use`` leads to the module that has it, so that ``crate::Recorder`` is an import of ``recorder``.
Tests are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CRATES = sorted(path.parents[1].name for path in ROOT.glob("crates/*/src/lib.rs"))
FILES_AT_MOST = 5
Name = tuple[str, ...]
_USE = re.compile(r"^\s*(pub(?:\([a-z ]+\))?\s+)?use\s+([^;]+);", re.MULTILINE)
_PATH = re.compile(r"(?<![:\w])[a-z_][a-z0-9_]*(?:::\w+)+")


def _sources(crate: str) -> dict[Name, str]:
    root = ROOT / "crates" / crate / "src"
    found = {}
    for path in root.rglob("*.rs"):
        name = path.relative_to(root).with_suffix("").parts
        if {"bin", "tests", "testing"} & set(name) or name[-1].endswith("_tests"):
            continue
        text, _, _ = re.sub(r"//.*", "", path.read_text()).partition("#[cfg(test)]\nmod tests {")
        found[() if name == ("lib",) else name[:-1] if name[-1] == "mod" else name] = text
    return found


def _leaves(tree: str) -> Iterator[str]:
    """Yield the paths of a use tree such as ``a::{b, c::{d, e}}``."""
    head, brace, rest = tree.partition("{")
    if not brace:
        yield tree.split(" as ")[0].strip()
        return
    depth, part = 0, ""
    for letter in rest.rstrip().removesuffix("}") + ",":
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            yield from (head.strip() + leaf for leaf in _leaves(part.strip()) if leaf)
            part = ""
        else:
            part += letter


def _absolute(modules: dict[Name, str], module: Name, path: str) -> Name | None:
    """Return a path from the crate's root; ``None`` where it leads to another crate."""
    first, *rest = path.split("::")
    if first == "crate":
        return tuple(rest)
    if first == "self":
        return module + tuple(rest)
    if first == "super":
        return _absolute(modules, module[:-1], "::".join(["self", *rest]).replace("self::super", "super"))
    return (*module, first, *rest) if (*module, first) in modules else None


def imports_of(crate: str) -> dict[Name, set[Name]]:
    """Return the modules that each module of a crate imports."""
    modules = _sources(crate)
    passed_on: dict[tuple[Name, str], Name] = {}
    named: dict[Name, list[Name]] = {}
    for module, text in modules.items():
        uses = [(bool(public), leaf) for public, tree in _USE.findall(text) for leaf in _leaves(tree)]
        for public, leaf in uses:
            target = _absolute(modules, module, leaf)
            if public and target is not None:
                passed_on[module, target[-1]] = target
        paths = [leaf for public, leaf in uses if not public] + _PATH.findall(_USE.sub("", text))
        targets = (_absolute(modules, module, path) for path in paths)
        named[module] = [target for target in targets if target is not None]

    def owner(target: Name) -> Name:
        end = next(end for end in range(len(target), -1, -1) if target[:end] in modules)
        known = passed_on.get((target[:end], target[end])) if end < len(target) else None
        return target[:end] if known in (None, target) else owner(known + target[end + 1 :])

    return {module: {owner(target) for target in targets} - {module} for module, targets in named.items()}


def largest_circle(imports: dict[Name, set[Name]]) -> list[str]:
    """Return the largest set of modules that all lead to each other."""
    reached: dict[Name, set[Name]] = {}
    for module in imports:
        waiting, seen = [module], set[Name]()
        while waiting:
            new = imports[waiting.pop()] - seen
            seen |= new
            waiting.extend(new)
        reached[module] = seen
    circles = [{other for other in reached[one] if one in reached[other]} for one in imports]
    return sorted("::".join(name) or "lib" for name in max(circles, key=len, default=set()))


@pytest.mark.parametrize("crate", CRATES)
def test_no_large_circle_of_modules(crate: str) -> None:
    circle = largest_circle(imports_of(crate))
    assert len(circle) <= FILES_AT_MOST, circle


def test_a_circle_is_found() -> None:
    imports = {("a",): {("b",)}, ("b",): {("c",)}, ("c",): {("a",)}, ("d",): {("a",)}}
    assert largest_circle(imports) == ["a", "b", "c"]
    assert largest_circle({("a",): {("b",)}, ("b",): set()}) == []
    assert list(_leaves("a::{b, c::{self, d as e}}")) == ["a::b", "a::c::self", "a::c::d"]
