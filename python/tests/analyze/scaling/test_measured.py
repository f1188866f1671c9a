"""Curves from CSV files: blocks that have names."""

from steelyard.analyze.scaling.measured import parse_curve

CURVE = "cpus,replicate,ops_per_s\n1,{a},100\n1,{b},101\n2,{a},190\n2,{b},195\n"


def test_names_of_blocks_are_only_names() -> None:
    named, renamed, numbered = (
        parse_curve(CURVE.format(a=a, b=b), name="curve.csv")
        for a, b in (("mon", "tue"), ("zoe", "ann"), ("0", "1"))
    )
    assert named == renamed == numbered
    assert [one.block for one in named] == [0, 1, 0, 1]
