"""Two runs' counters side by side: shares of the law's terms, slots, events, and what must be refused."""

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from steelyard._base.documents import as_document
from steelyard.analyze.counters.comparison import CounterComparison, compare_counters
from steelyard.analyze.values import Quantity
from steelyard.records import Machine
from steelyard.report.answer import Answer, Section
from steelyard.report.answer.terminal import terminal
from steelyard.report.compare.counters import counter_blocks
from tests.analyze.counters.test_use import ICICLE, ROCKSDB, use_of
from tests.report.runs import machine_record

NO_POWER = (Quantity(None, "w", "not read"), Quantity(None, "w", "not read"))


def rocksdb(folder: Path, number: int, extra: str = "") -> object:
    _, threads, instructions, operations, _, cycles, _ = ROCKSDB[number]
    # perf's clock of the program's threads, all busy.
    clock = f"{threads * 300_000:.2f},msec,task-clock,1,100.00,,\n"
    text = f"{instructions},,instructions,1,100.00,,\n{cycles},,cycles,1,100.00,,\n{clock}{extra}"
    return use_of(folder, text, operations=operations)


def shown(found: CounterComparison) -> str:
    out = io.StringIO()
    console = Console(file=out, width=110)
    console.print(terminal(Answer("", "", [Section("counters", "", counter_blocks(found))])))
    return out.getvalue()


def test_rocksdb_before_and_after_the_fix(tmp_path: Path) -> None:
    """160 threads: the fix gives 8.73 times the operations, and nearly all of it is IPC."""
    found = compare_counters(
        rocksdb(tmp_path, 1), rocksdb(tmp_path, 3), (Quantity(200.0, "w"), Quantity(250.0, "w"))
    )  # type: ignore[arg-type]
    assert found is not None
    assert found.iron_law is not None
    assert found.iron_law.ratio.value == pytest.approx(8.73, abs=0.01)
    assert found.iron_law.main_term is not None
    assert found.iron_law.main_term == "IPC"
    terms = {term.name: term for term in found.iron_law.terms}
    assert terms["IPC"].factor.value == pytest.approx(7.589450 / 0.777686, rel=1e-5)
    assert terms["path length"].factor.value == pytest.approx(2033.614172 / 1998.758509, rel=1e-6)
    assert sum(term.share.value or 0.0 for term in found.iron_law.terms) == pytest.approx(1.0)
    assert found.work_per_joule is not None
    before, after = (each.value or 0.0 for each in found.work_per_joule)
    assert after / before == pytest.approx(8.7320 * 200 / 250, rel=1e-3)
    text = shown(found)
    assert "8.73 x" in text
    assert "operations per CPU-second" in text
    assert "operations per joule" in text
    # Of whole CPUs the same figures have another name, since others' work is in them.
    whole = shown(replace(found, is_of_cpus=True))
    assert "operations per busy CPU-second" in whole
    assert "CPUs busy" in whole
    assert "CPUs used" not in whole
    document = as_document(found)
    json.dumps(document, allow_nan=False)
    assert document["iron_law"]["main_term"] == "IPC"


def with_threads(count: int) -> Machine:
    machine = machine_record(16)
    return machine.model_copy(
        update={"cpu": machine.cpu.model_copy(update={"threads_per_core": count, "cores": 16})}
    )


def test_smt_modes_are_refused_unless_cores_were_counted(tmp_path: Path) -> None:
    def use(instructions: str, cycles: str, operations: int, threads: int, extra: str = "") -> object:
        text = f"{instructions},,instructions,1,100.00,,\n{cycles},,cycles,1,100.00,,\n{extra}"
        return use_of(tmp_path, text, operations=operations, seconds=1, machine=with_threads(threads))

    off, on = use("96e9", "48e9", 1000, 1), use("110e9", "96e9", 1200, 2)
    found = compare_counters(off, on, NO_POWER)  # type: ignore[arg-type]
    assert found is not None
    assert found.iron_law is None
    assert "SMT" in (found.iron_law_missing or "")
    assert "iron law not compared" in shown(found)
    counted = use("110e9", "96e9", 1200, 2, "48e9,,CPU_CLK_UNHALTED.DISTRIBUTED,1,100.00,,\n")
    by_core = compare_counters(off, counted, NO_POWER)  # type: ignore[arg-type]
    assert by_core is not None
    assert by_core.iron_law is not None
    assert by_core.is_per_core
    assert by_core.iron_law.ratio.value == pytest.approx(1.2)
    assert "by core" in shown(by_core)
    assert any("physical cores" in caution for caution in by_core.cautions)


def test_slots_and_events(tmp_path: Path) -> None:
    base = ICICLE + "  10,000,000,000      instructions\n"
    moved = base.replace("300,000,000      topdown-be-bound", "200,000,000      topdown-be-bound").replace(
        "200,000,000      topdown-fe-bound", "300,000,000      topdown-fe-bound"
    )
    a = use_of(tmp_path, base + "   50,000,000      l1i-misses\n       1,000      only_here\n")
    b = use_of(tmp_path, moved + "  150,000,000      l1i-misses\n")
    found = compare_counters(a, b, NO_POWER)
    assert found is not None
    slots = {one.name: one.difference_ratio for one in found.slots}
    assert slots["frontend_bound"] == pytest.approx(0.1)
    assert slots["backend_bound"] == pytest.approx(-0.1)
    assert "retiring" not in slots
    events = {one.name: one for one in found.events}
    assert events["l1i-misses"].a == pytest.approx(5.0)
    assert events["l1i-misses"].ratio == pytest.approx(3.0)
    assert "only_here" not in events
    line = next(line for line in shown(found).splitlines() if "l1i-misses" in line)
    assert line.split() == ["l1i-misses", "per", "1000", "instructions", "5.00", "15.0", "3"]


def test_without_counters_there_is_nothing_to_say(tmp_path: Path) -> None:
    assert compare_counters(None, None, NO_POWER) is None
    a = use_of(tmp_path, "")
    found = compare_counters(a, a, NO_POWER)
    assert found is not None
    assert found.iron_law is None
    assert shown(found) == ""
