"""Every unit in the sources of both languages and in the data is one of ``data/units.json``."""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

from steelyard._base import data_dir
from steelyard.bench.parameters import Parameter
from steelyard.records import Metric

ROOT = Path(__file__).resolve().parents[2]
PLACES = {"Quantity": 1, "of": 1, "Evidence": 2}
"""Functions whose argument at this place is a unit."""
NOT_YET = {"": "an experiment's metric before its first trial names it"}


def _of_python(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call):
            continue
        values = [keyword.value for keyword in node.keywords if keyword.arg in ("unit", "x_unit", "y_unit")]
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        of = getattr(getattr(node.func, "value", None), "id", None)
        at = PLACES.get(name)
        if at is not None and len(node.args) > at and (name != "of" or of == "Quantity"):
            values.append(node.args[at])
        yield from (
            each.value for each in values if isinstance(each, ast.Constant) and isinstance(each.value, str)
        )


def _of_rust(path: Path) -> Iterator[str]:
    text = path.read_text()
    yield from re.findall(r'\b(?:counter|gauge)\(\s*"\w+",\s*"([^"]+)"', text)


def _of_data(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for name, each in value.items():
            if name == "unit" and isinstance(each, str):
                yield each
            yield from _of_data(each)
    elif isinstance(value, list):
        for each in value:
            yield from _of_data(each)


def test_every_unit_is_of_the_list() -> None:
    listed = json.loads((data_dir() / "units.json").read_text())["units"]
    found: dict[str, str] = {}
    for path in sorted((ROOT / "python/steelyard").rglob("*.py")):
        found |= dict.fromkeys(_of_python(path), str(path))
    for path in sorted((ROOT / "crates").rglob("*.rs")):
        found |= dict.fromkeys(_of_rust(path), str(path))
    files = [*(ROOT / "data/events").glob("*.json"), *(ROOT / "data/baselines").glob("*.json")]
    for path in sorted([ROOT / "data/checks.json", *files, *(ROOT / "schemas/golden").glob("*.json")]):
        found |= dict.fromkeys(_of_data(json.loads(path.read_text())), str(path))
    assert len(found) > 15
    unknown = {unit: path for unit, path in found.items() if unit not in listed and unit not in NOT_YET}
    assert unknown == {}, "a unit of data/units.json, or a new one there"


def test_a_share_and_a_number_of_things_have_units_of_their_own() -> None:
    """What a name says, the unit says: no page has to guess."""
    wrong = []
    for path in sorted((ROOT / "python/steelyard").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Dict):
                continue
            for key, each in zip(node.keys, node.values, strict=True):
                if not (isinstance(key, ast.Constant) and isinstance(each, ast.Call)):
                    continue
                units = [keyword.value for keyword in each.keywords if keyword.arg == "unit"]
                texts = [unit.value for unit in units if isinstance(unit, ast.Constant)]
                if str(key.value).endswith("_ratio") and texts not in ([], ["ratio"]):
                    wrong.append(f"{path.name}: {key.value}: {texts}")
    assert wrong == []
    assert Parameter("share", "ratio", "a share").unit == "ratio"
    assert Metric(value=0.5, unit="ratio").unit == "ratio"
