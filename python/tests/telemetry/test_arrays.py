"""Arrays of lists are what Arrow makes of them."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.telemetry.arrays import floats, integers, texts

WHOLE = st.integers(-(2**63), 2**63 - 1)


@pytest.mark.parametrize(
    ("make", "kind", "values"),
    [(texts, pa.string(), st.text()), (floats, pa.float64(), st.floats()), (integers, pa.int64(), WHOLE)],
)
@given(data=st.data())
def test_an_array_is_what_arrow_makes_of_the_list(data: Any, make: Any, kind: Any, values: Any) -> None:
    found = data.draw(st.lists(st.none() | values.filter(lambda value: value == value), max_size=40))
    made = make(found)
    made.validate(full=True)
    assert made.equals(pa.array(found, kind))
