"""The answer of a suite. In: a suite with its scores, and its members' runs. Out: an `Answer`.

Not here: the words and figures of a member (``words``), its own page (``html``), and scores (``decide``).
"""

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from steelyard._base import SteelyardError
from steelyard.analyze.checks import advice
from steelyard.analyze.utilisation import CPU_REACHED
from steelyard.decide.score import Refusal, Score
from steelyard.records import Level, Machine, Run, RunStatus, Suite, SuiteMember, read
from steelyard.report import format as fmt
from steelyard.report.answer import (
    Answer,
    Block,
    Cell,
    Column,
    Figure,
    Links,
    Notes,
    Paragraph,
    Section,
    Table,
    grid,
    table,
    written,
)
from steelyard.report.machine.table import machine_groups, machine_line
from steelyard.report.score_text import member_text, overall_text, short_interval
from steelyard.report.suite import words
from steelyard.report.template import PAGE

_ROOM = 1.12
"""How much longer than the longest bar its rail is."""


@dataclass(frozen=True)
class MemberRun:
    """One run of a member, and where its page is, relative to the suite's; None when it has none."""

    run: Run
    page: str | None


def link_to(run_directory: Path) -> str:
    """Return the link to a member's page from the suite's."""
    return f"{quote(os.fsencode(run_directory.name))}/{PAGE}"


def machine_of(directory: Path) -> Machine | None:
    """Return the machine of a suite, which every member has written down alike."""
    for path in sorted(directory.glob("*/machine.json")):
        try:
            return read(Machine, path)
        except SteelyardError:
            continue
    return None


def answer(
    suite: Suite,
    runs: Mapping[str, Sequence[MemberRun]],
    scores: Mapping[str, Score | Refusal],
    machine: Machine | None,
) -> Answer:
    """Return the overall score and verdict, a row a member, and of each why it is not valid."""
    of_members = {name: [each.run for each in found] for name, found in runs.items()}
    overall = None if suite.overall is None else overall_text(suite.overall)
    level, word = words.verdict(suite)
    says = words.says(suite, of_members)
    sections = [Section("members", "Members", (_members(suite, of_members),))]
    sections += [_member(member, runs.get(member.benchmark, ()), suite.repeats) for member in suite.members]
    return Answer(
        f"{suite.suite} · {suite.suite_id}",
        f"{overall.ratio} overall" if overall is not None else "No overall score",
        [section for section in (*sections, _scores(suite, scores), _machine(machine)) if section.blocks],
        lines=[*_against(suite), f"{says[:1].upper()}{says[1:]}.", suite.status_reason or "", _when(suite)],
        level=level,
        verdict=word,
        eyebrow="suite",
        command=shlex.join(suite.command),
        command_title="Run this suite again",
        rows=len(suite.members),
        source=f"the runs in this folder; run with Steelyard {suite.steelyard_version}."
        " `steelyard report` draws it again",
    )


def _against(suite: Suite) -> list[str]:
    """Return what the overall score is, or why there is none."""
    overall = suite.overall
    text = None if overall is None else overall_text(overall)
    if overall is None or text is None:
        withheld = "" if overall is None else overall.withheld or ""
        return [f"{withheld[:1].upper()}{withheld[1:]}."] if withheld else []
    count = fmt.several(len(suite.members), "score")
    lines = [f"The geometric mean of {count} against {overall.baseline_title or 'the baseline'}", *text.notes]
    if overall.suspect:
        lines.append(f"rests on suspect results of {', '.join(overall.suspect)}")
    return ["; ".join(lines) + "."]


def _when(suite: Suite) -> str:
    """Return which suite it is, when it began and how long it took."""
    took = words.lasted(suite)
    resumed = ", ".join(fmt.moment(clock.realtime_ns) for clock in suite.resumed)
    parts = (
        f"suite {suite.suite}",
        suite.tier if suite.tier != suite.suite else "",
        f"{suite.repeats} runs of each" if suite.repeats > 1 else "",
        suite.suite_id,
        fmt.moment(suite.clock.realtime_ns),
        f"took {took}" if took else "",
        f"resumed {resumed}" if resumed else "",
    )
    return " · ".join(filter(None, parts))


def _members(suite: Suite, runs: Mapping[str, Sequence[Run]]) -> Table:
    known = [member.score for member in suite.members if member.score is not None]
    longest = _ROOM * max([1.0, *known])
    columns = [
        Column("member", is_text=True),
        Column("verdict", is_text=True, is_answer=True),
        Column("result"),
        Column("score", rank=1),
        Column("95 % interval", rank=2),
        Column("", rank=6),
        Column("CPU reached", "ratio", rank=3),
        Column("CPU expected", is_text=True, rank=4),
        Column("objecting checks", is_text=True, rank=5),
    ]
    rows = [_row(member, runs.get(member.benchmark, ()), longest) for member in suite.members]
    kept = [at for at in range(len(columns)) if known or at not in (3, 4, 5)]
    return table(
        [columns[at] for at in kept],
        [[row[at] for at in kept] for row in rows],
        caption="CPU reached is what the servers used of their CPUs, expected what they use where the CPUs"
        " are the limit; below it a result is suspect."
        + (" The line across the bars is 1×, the baseline machine." if known else ""),
    )


def _row(member: SuiteMember, runs: Sequence[Run], longest: float) -> list[object]:
    level, word, _ = words.state_of(member)
    text, score = member_text(member), member.score
    reached, usual, source = words.cpu_of(member, runs)
    is_idle = any(check.id == CPU_REACHED for check in words.objecting(member))
    idle = Cell(fmt.quantity(reached, "ratio"), repr(reached), level="suspect", figure=Figure(reached))
    shown: object = None
    if text is not None and score is not None:
        shown = written(text.ratio, score, member.score_low, member.score_high, unit="ratio")
    return [
        Cell(member.benchmark, href=f"#{member.benchmark}", is_text=True),
        Cell(word.lower(), level=level, is_text=True),
        words.value_of(member, runs),
        shown,
        Cell(short_interval(member), member.no_interval or "", is_text=True),
        "" if score is None else Cell("", bar=score / longest, mark=1 / longest),
        idle if is_idle else reached,
        Cell(usual, source, is_text=True),
        words.objections(member),
    ]


def _member(member: SuiteMember, runs: Sequence[MemberRun], repeats: int) -> Section:
    """Return what lies behind a row: further figures, what bears on the score, why it is not valid."""
    title, doc = words.member_title(member.benchmark)
    missing = words.state_of(member)[2]
    complete = [one.run for one in runs if one.run.status is RunStatus.COMPLETE]
    tiles = words.tiles_of(complete[0]) if complete else None
    blocks: list[Block] = [tiles] if tiles is not None and tiles.items else []
    if missing:
        blocks.append(Paragraph(missing, "incomplete"))
    for check in words.objecting(member):
        todo = advice(check)
        text = f"{check.id}: {check.claim}" + (f" → {todo}" if todo else "")
        blocks.append(Paragraph(text, check.level.value))
    score = member_text(member)
    notes = [f"score: {note}" for note in (score.notes if score else ())]
    if member.no_score and not missing and member.value is not None:
        notes.append(f"no score: {member.no_score}")
    if repeats > 1:
        counted = sum(run.level is not None and run.level is not Level.INVALID for run in member.runs)
        notes.append(
            (
                f"result and score: median of {counted} of {repeats} runs"
                if counted
                else "result: median of all runs, none of which counts"
            )
            + "; CPU: median of the complete ones"
            + ("; the other figures are the first run's" if blocks and blocks[0] is tiles else "")
        )
    if notes:
        blocks.append(Notes(tuple(notes)))
    if runs:
        blocks.append(Links(tuple(_link(one, repeats) for one in runs)))
    heading = title if title == member.benchmark else f"{title} ({member.benchmark})"
    return Section(
        member.benchmark, heading, tuple(blocks), intro=f"{doc[:1].upper()}{doc[1:]}." if doc else ""
    )


def _link(one: MemberRun, repeats: int) -> tuple[str, str, str]:
    run = one.run
    if one.page is None:
        return run.run_id, "", "has no page"
    if repeats == 1:
        return f"Full report of {run.benchmark}", one.page, ""
    word = words.WORDS[run.verdict.level] if run.verdict else "Incomplete"
    return f"Run {run.series.index}", one.page, word.lower()


def _scores(suite: Suite, scores: Mapping[str, Score | Refusal]) -> Section:
    found = [(name, item) for name, item in scores.items() if isinstance(item, Score)]
    rows = [(name, item.provenance, "; ".join(item.reservations)) for name, item in found]
    intro = (
        "A score is a member's result over that of the baseline machine; the overall score is their geometric"
        " mean, and is withheld when a member has none."
    )
    blocks = (table(("member", "baseline", "reservations"), rows),) if rows else ()
    return Section("scores", "Scores", blocks, intro, on_terminal=False)


def _machine(machine: Machine | None) -> Section:
    groups = [
        grid(
            ("what", "value"),
            [(Cell(name), Cell(value, is_text=True)) for name, value in rows],
            title,
            closed=True,
        )
        for title, rows in machine_groups(machine)
    ]
    return Section("machine", "Machine", tuple(groups), machine_line(machine) or "", on_terminal=False)
