"""Limits on interfaces, from what ``tc`` says twice."""

import json
from pathlib import Path
from typing import Any

from steelyard.analyze.pressure.traffic_shaping import read_shapers, shapers


def answer(seconds: int, *qdiscs: dict[str, Any]) -> dict[str, Any]:
    return {"time_ns": seconds * 10**9, "qdiscs": list(qdiscs), "missing": None}


def tbf(sent: int, drops: int = 0, over: int = 0, dev: str = "veth0") -> dict[str, Any]:
    counted = {"bytes": sent, "drops": drops, "overlimits": over, "backlog": 3000}
    return {"kind": "tbf", "handle": "8001:", "dev": dev, "options": {"rate": 12_500_000}, **counted}


FIFO = {"kind": "pfifo_fast", "handle": "0:", "dev": "eth0", "options": {"bands": 3}, "bytes": 10**9}


def test_a_limit_is_held_against_what_was_sent() -> None:
    (found,) = shapers(answer(10, tbf(1000), FIFO), answer(12, tbf(24_001_000, 4, 100), FIFO))
    assert found.interface == "veth0"
    assert found.kind == "tbf"
    assert found.sent_bytes_per_s == 12e6
    assert found.used_ratio == 0.96
    assert found.drops_per_s == 2
    assert found.delays_per_s == 50
    assert found.backlog_bytes == 3000


def test_what_came_or_went_meanwhile_is_left_out() -> None:
    assert shapers(answer(10), answer(12, tbf(5))) == []
    assert shapers(answer(10, tbf(5)), answer(12)) == []
    assert shapers(answer(10, tbf(5)), answer(10, tbf(5))) == []


def test_the_most_used_comes_first() -> None:
    before = answer(0, tbf(0), tbf(0, dev="veth1"))
    after = answer(1, tbf(10), tbf(10_000_000, dev="veth1"))
    assert [one.interface for one in shapers(before, after)] == ["veth1", "veth0"]


def test_a_damaged_file_is_a_reason(tmp_path: Path) -> None:
    path = tmp_path / "shaping.json"
    for text in ("", "[]", '{"before": 1, "after": 2}', '{"before": {"time_ns": "x"}, "after": {}}'):
        path.write_text(text)
        found, why = read_shapers(path)
        assert found == []
        assert why is not None
        assert "shaping.json" in why
    path.write_text(
        json.dumps({"before": answer(0), "after": {**answer(1), "missing": "there is no tc here"}})
    )
    assert read_shapers(path) == ([], "there is no tc here")
