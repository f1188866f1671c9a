"""Text files of editors and spreadsheets: read in their encodings, or refused by name."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard._base import RecordError, text_of
from steelyard._base.toml import read_toml
from steelyard.experiment.curves import read_curves

CODECS = ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"]


@pytest.mark.parametrize("codec", CODECS)
def test_toml_and_csv_are_read_in_the_encodings_that_programs_write(codec: str, tmp_path: Path) -> None:
    toml = tmp_path / "a.toml"
    toml.write_bytes('name = "caf\u00e9"\n[part]\nvalue = 1\n'.encode(codec))
    assert read_toml(toml) == {"name": "caf\u00e9", "part": {"value": 1}}
    table = tmp_path / "a.csv"
    table.write_bytes("arm,replicate,rate\na,1,10\nb,1,20\n".encode(codec))
    assert "rate" in repr(read_curves(table))


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=4))
def test_any_latin_text_is_the_same_in_each(text: str) -> None:
    for codec in CODECS:
        assert text_of(text.encode(codec), "test") == text


def test_another_encoding_is_refused_with_its_first_byte(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_bytes('name = "caf\u00e9"\n'.encode("latin-1"))
    with pytest.raises(RecordError, match=r"a\.toml: no TOML: not UTF-8 text: byte 0xe9 at 11") as caught:
        read_toml(path)
    assert caught.value.hint == "save it as UTF-8"
