"""What a suite will take. In: a `Preflight`. Out: an `Answer`. Not here: estimates (``bench.preflight``)."""

from steelyard.bench.suites.preflight import MemberPreflight, Preflight
from steelyard.report import format as fmt
from steelyard.report.answer import Answer, Cell, Column, Figure, Notes, Section, table


def answer(preflight: Preflight) -> Answer:
    """Return one row a member, the sums, and what will not fit with what to do."""
    columns = (
        Column("member", is_text=True, is_whole=True),
        Column("time", is_text=True),
        Column("memory", "bytes"),
        Column("disk", "bytes"),
        Column("installed", is_text=True, rank=1),
        Column("will run", is_text=True, is_answer=True),
    )
    rows = [
        (
            member.benchmark,
            member_time(member),
            Figure(member.memory_bytes),
            Figure(member.disk_bytes),
            "no" if member.not_installed else "yes",
            Cell("yes") if member.misfit is None else Cell("no", level="invalid"),
        )
        for member in preflight.members
    ]
    blocks = (table(columns, rows), Notes(tuple(notes(preflight))))
    return Answer(
        "Preflight",
        _title(preflight),
        [Section("members", "Members", blocks)],
        says_no=len(preflight.ready) < len(preflight.members),
        rows=len(rows),
        eyebrow="run",
    )


def member_time(member: MemberPreflight) -> str:
    """Return the time of one run of a member, with what it rests on."""
    if member.time_least_s is None:
        return "not known" if member.past_runs == 0 else fmt.MISSING
    text = span(member.time_least_s, None if member.untimed else member.time_most_s)
    if member.past_runs:
        return f"{text}, as in {fmt.several(member.past_runs, 'run')} here"
    return text


def span(least_s: float, most_s: float | None) -> str:
    """Return a time from ``least_s`` to ``most_s``; None: nobody knows how much longer."""
    least = fmt.plain(fmt.duration(least_s * 1e9))
    if most_s is None:
        return f"at least {least}"
    most = fmt.plain(fmt.duration(most_s * 1e9))
    return least if least == most else f"{least} to {most}"


def notes(preflight: Preflight) -> list[str]:
    """Return the sums, what the times leave out, and what will not fit."""
    here = "the cgroup's limit" if preflight.memory_is_limited else "of this machine"
    disk = f"disk: {_size(preflight.free_disk_bytes)} free for {preflight.folder}"
    if preflight.disk_most_bytes:
        disk += f"; {_size(preflight.disk_most_bytes)} taken at once at the most"
    if preflight.stays_bytes:
        disk += f", {_size(preflight.stays_bytes)} kept for later runs"
    lines = [f"memory: {_size(preflight.memory_bytes)}, {here}", disk]
    least_s = preflight.time_least_s
    if least_s is not None:
        lines.insert(0, f"time: {span(least_s, preflight.time_most_s)} in all")
    for member in preflight.ready:
        if member.untimed:
            lines.append(
                f"{member.benchmark}: the time leaves out {member.untimed}: no run here has shown it yet"
            )
        if member.advice:
            lines.append(f"{member.benchmark}: {member.advice}")
    for member in preflight.members:
        if member.misfit is not None:
            hint = f": {member.hint}" if member.hint else ""
            lines.append(f"{member.benchmark} will not run: {member.misfit}{hint}")
    return lines


def _title(preflight: Preflight) -> str:
    repeats = f", {preflight.repeats} runs of each" if preflight.repeats > 1 else ""
    ready = len(preflight.ready)
    whole = "" if len(preflight.members) == 1 else f"{ready} of {len(preflight.members)} members will run"
    name = preflight.name if preflight.name == preflight.tier else f"{preflight.name} {preflight.tier}"
    parts = [f"{name}{repeats}", whole]
    return ": ".join(part for part in parts if part)


def _size(size_bytes: int | None) -> str:
    return fmt.MISSING if size_bytes is None else fmt.plain(fmt.quantity(size_bytes, "bytes"))
