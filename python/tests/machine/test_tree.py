"""Kernel formats: what is written is read back, and nonsense raises nothing."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from steelyard.machine.tree import Tree, format_list, keyed, parse_list, parse_mask, parse_size

numbers = st.sets(st.integers(min_value=0, max_value=1023))


@given(numbers)
def test_a_list_is_read_back(cpus: set[int]) -> None:
    assert parse_list(format_list(list(cpus))) == sorted(cpus)


@given(numbers)
def test_a_mask_is_read_back(cpus: set[int]) -> None:
    bits = f"{sum(1 << cpu for cpu in cpus):x}"
    padded = bits.zfill(-(-len(bits) // 8) * 8)
    words = [padded[index : index + 8] for index in range(0, len(padded), 8)]
    assert parse_mask(",".join(words)) == sorted(cpus)


@given(st.text(alphabet="0123456789-,x kMB\n\0:", max_size=12))
def test_nonsense_raises_nothing(text: str) -> None:
    parse_size(text)
    keyed(text)
    parse_mask(text)
    if not any(len(part) > 5 for part in text.replace("-", ",").split(",")):
        parse_list(text)


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
