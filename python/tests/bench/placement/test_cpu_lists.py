import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard._base import UsageError
from steelyard.bench.placement import format_cpu_list, parse_cpu_list

cpu_sets = st.sets(st.integers(min_value=0, max_value=300), min_size=1)


@given(cpu_sets)
def test_cpu_lists_survive_being_written_and_read(cpus):
    assert parse_cpu_list(format_cpu_list(sorted(cpus))) == tuple(sorted(cpus))


@pytest.mark.parametrize("text", ["", "a", "1-", "-1", "3-1", "1,,2", "0x1", "99999999", "1;2"])
def test_other_texts_are_no_cpu_lists(text):
    with pytest.raises(UsageError):
        parse_cpu_list(text)
