"""TOML files of users: names of many parts are refused before the parser, and nothing else is."""

from pathlib import Path

import pytest

from steelyard._base import RecordError
from steelyard._base.toml import read_toml

PARTS = (*("a", "A-1_b"), *('"a"', '"a b"', "'='", '"\\""', '"#"', '"é"'))


def read(path: Path, text: str) -> dict[str, object]:
    path.write_text(text)
    return read_toml(path)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("dot", [".", " .\t"])
@pytest.mark.parametrize("around", ["{} = 1", "[{}]", "[[{}]]", "x = {{ y = 1, {} = 1 }}"])
def test_a_name_has_at_most_40_parts(part: str, dot: str, around: str, tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    with pytest.raises(RecordError, match=r"x\.toml: no TOML: a name has more than 40 parts"):
        read(path, around.format(dot.join([part] * 41)))
    # Values within so many tables are too deep to be shown.
    assert read(path, around.format(dot.join([part] * 35)))


@pytest.mark.parametrize(
    "value", ["x.c " * 50, "." * 100, "/a.b/c.d" * 50, "1.5, " * 50, "Much more. " * 60, "a.b=c.d;" * 50]
)
def test_dots_of_a_value_are_no_parts(value: str, tmp_path: Path) -> None:
    assert read(tmp_path / "x.toml", f'name = "{value}" # {value}\n') == {"name": value}
    assert read(tmp_path / "x.toml", f'name = """\n{value}\n"""') == {"name": f"{value}\n"}
