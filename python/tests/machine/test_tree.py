"""Kernel formats: what is written is read back, and nonsense raises nothing."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from steelyard.machine.tree import Tree, keyed, parse_size


@given(st.text(alphabet="0123456789-,x kMB\n\0:", max_size=12))
def test_nonsense_raises_nothing(text: str) -> None:
    parse_size(text)
    keyed(text)


def test_what_cannot_be_read_is_none(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    (tmp_path / "number").write_text("12\n\0")
    (tmp_path / "folder").mkdir()
    assert (tree.text("nothing"), tree.number("nothing"), tree.link("nothing")) == (None, None, None)
    assert (tree.text("folder"), tree.names("nothing"), tree.exists("nothing")) == (None, [], False)
    assert (tree.number("number"), tree.first_text("nothing", "number"), tree.number("folder")) == (
        12,
        "12",
        None,
    )
    assert not tree.is_live
    assert Tree().is_live
