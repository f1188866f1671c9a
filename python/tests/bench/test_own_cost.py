"""The overhead is reported by tool; without a tool's figure there is no sum."""

import json
from pathlib import Path

import pytest

from steelyard._base import schemas_dir
from steelyard.bench.characterize.own_cost import cpus, tool_cpu_s


def recording(folder: Path, user_s: float, *, cost: bool = True) -> None:
    folder.mkdir()
    document = json.loads((schemas_dir() / "golden" / "telemetry.json").read_text())
    if cost:
        document["cost"] |= {"cpu_user_s": user_s, "cpu_system_s": 0.5}
    else:
        document["cost"] = None
    (folder / "telemetry.json").write_text(json.dumps(document))


def test_each_tool_is_asked(tmp_path: Path) -> None:
    recording(tmp_path / "telemetry", 0.25)
    recording(tmp_path / "target", 0.0)
    head = "# unit: samples\n# recorder_cpu_s: 0.0612\n# naming_cpu_s: 0.5\n"
    (tmp_path / "profile.folded").write_text(f"{head}a;b 1\n")
    found = tool_cpu_s(tmp_path, 0.1)
    assert found == {
        "steelyard itself": 0.1,
        "telemetry": 0.75,
        "looks at threads": 0.5,
        "profiler": 0.0612,
    }
    assert cpus(found, 2.0) == pytest.approx((0.1 + 0.75 + 0.5 + 0.0612) / 2)


def test_what_a_tool_does_not_say_is_not_zero(tmp_path: Path) -> None:
    recording(tmp_path / "counters", 0.0, cost=False)
    found = tool_cpu_s(tmp_path, 0.1)
    assert found["counters"] is None
    assert cpus(found, 2.0) is None
