"""Lists and masks of CPUs: both languages give the answers of one file, and what is written is read back."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard._base import format_cpu_list, parse_cpu_list, parse_cpu_mask, schemas_dir

VECTORS = json.loads((schemas_dir() / "golden" / "cpu_list_vectors.json").read_text())

cpu_sets = st.sets(st.integers(min_value=0, max_value=1023))


@pytest.mark.parametrize(("text", "numbers"), VECTORS["lists"])
def test_lists_are_those_of_the_vectors(text: str, numbers: list[int] | None) -> None:
    assert parse_cpu_list(text) == numbers


@pytest.mark.parametrize(("text", "numbers"), VECTORS["masks"])
def test_masks_are_those_of_the_vectors(text: str, numbers: list[int] | None) -> None:
    assert parse_cpu_mask(text) == numbers


@given(cpu_sets)
def test_a_list_is_read_back(cpus: set[int]) -> None:
    assert parse_cpu_list(format_cpu_list(cpus)) == sorted(cpus)


@given(cpu_sets)
def test_a_mask_is_read_back(cpus: set[int]) -> None:
    bits = f"{sum(1 << cpu for cpu in cpus):x}"
    padded = bits.zfill(-(-len(bits) // 8) * 8)
    words = [padded[index : index + 8] for index in range(0, len(padded), 8)]
    assert parse_cpu_mask(",".join(words)) == sorted(cpus)


@given(st.text(alphabet="0123456789-,x \n\0:", max_size=12))
def test_no_text_raises_anything(text: str) -> None:
    numbers = parse_cpu_list(text)
    assert numbers is None or all(0 <= number < 65_536 for number in numbers)
    parse_cpu_mask(text)
