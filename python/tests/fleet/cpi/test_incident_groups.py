"""Incidents in groups, on terminals of any width, with names that a stranger chose."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from steelyard.cli.main import invoke
from steelyard.fleet.cpi.incident_groups import group_incidents
from steelyard.fleet.cpi.incidents import Incident, RankedSuspect
from steelyard.fleet.cpi.rule import PAPER
from steelyard.report.answer.terminal import terminal
from steelyard.report.fleet.cpi_incidents import incidents_answer
from tests.fleet.fleet_rows import rows, write

ENCODE = RankedSuspect("encode", "encode/0", "batch", 0.8, 10, 2.0, True)
CACHE = RankedSuspect("cache", "cache/0", "latency-sensitive", 0.5, 10, 2.0, False)


def incident(task: str, antagonist: RankedSuspect | None, **changed: object) -> Incident:
    cap = antagonist if antagonist is not None and antagonist.may_be_capped else None
    made = Incident(
        cluster="a",
        machine="m1",
        platform="p",
        victim_job="web",
        victim_task=task,
        victim_class="latency-sensitive",
        start_unix_s=1000,
        end_unix_s=1300,
        decided_unix_s=1000,
        anomalous_samples=3,
        threshold_cpi=2.0,
        victim_cpi=3.0,
        suspects=() if antagonist is None else (antagonist,),
        antagonist=antagonist,
        cap=cap,
        cap_cpu_ratio=0.1 if cap is not None else None,
        reason=None if cap is not None else "nobody may be capped",
    )
    return replace(made, **changed)


FOUND = [
    incident("web/0", ENCODE),
    incident("web/1", ENCODE, machine="m2", start_unix_s=500, victim_cpi=5.0),
    incident("web/0", CACHE),
    incident("web/2", None, end_unix_s=None, start_unix_s=9000),
]


def test_every_incident_is_in_one_group_with_its_range_and_worst() -> None:
    groups = group_incidents(FOUND)
    assert [(one.antagonist_job, one.incidents) for one in groups] == [("encode", 2), ("cache", 1), (None, 1)]
    encode, cache, nobody = groups
    assert (encode.machines, encode.victim_tasks, encode.may_be_capped) == (2, 2, 2)
    assert (encode.first_unix_s, encode.last_unix_s, encode.highest_cpi_ratio) == (500, 1300, 2.5)
    assert (encode.highest_correlation, encode.cap_cpu_ratio, encode.reason) == (0.8, 0.1, None)
    assert (cache.may_be_capped, cache.reason) == (0, "nobody may be capped")
    assert (nobody.highest_correlation, nobody.last_unix_s) == (None, 9000)


@pytest.mark.parametrize("width", [30, 40, 60, 80, 120, 200])
@pytest.mark.parametrize("each", [False, True])
def test_whom_to_cap_is_shown_on_every_terminal(width: int, each: bool) -> None:
    answer = incidents_answer(FOUND, PAPER, "two specs", each=each)
    console = Console(file=io.StringIO(), width=width)
    console.print(terminal(answer))
    said = console.file.getvalue()
    assert said.count("to cap") == (2 if each else 1)
    assert "no room here for: to cap" not in said
    assert all(len(line) <= width for line in said.splitlines())
    assert ("Incidents" in said) is each


def test_a_page_has_groups_and_each_incident() -> None:
    answer = incidents_answer(FOUND, PAPER, "two specs")
    tables = {section.anchor: section.blocks[0] for section in answer.sections}
    assert len(tables["groups"].rows) == 3
    assert len(tables["incidents"].rows) == 4


def test_names_from_parquet_do_not_reach_the_terminal_as_commands(tmp_path, capsys) -> None:
    evil = "m\x1b]0;owned\x07\x1b[31m"
    write(tmp_path, rows(evil, job=f"{evil}job", windows=2), machine=evil)
    write(tmp_path, rows(evil, job=f"{evil}other", windows=1, start=1_767_268_920), machine=evil)
    write(tmp_path, rows(evil, windows=1, cpu_s=-1.0, start=1_767_269_920), machine=evil)
    half = next((tmp_path / "task_samples").rglob("*.parquet"))
    (half.parent / "a\x1b[2Jb.parquet").write_bytes(b"PAR1")
    for words in (
        ["check"],
        ["cpi", "specs", "--min-tasks", "1", "--min-samples", "1"],
        ["pressure"],
        ["pair"],
    ):
        invoke(["fleet", *words, "--store", str(tmp_path)])
        out, err = capsys.readouterr()
        assert out
        assert "\x1b" not in out + err
        assert "\x07" not in out + err
