"""Profiles and tables in the formats of others."""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.analyze.profiles.folded import read_folded
from steelyard.analyze.profiles.profile import Profile
from steelyard.cli.main import invoke
from steelyard.cli.manual import pages
from steelyard.report.answer import Column, Figure, table
from steelyard.report.answer.delimited import Plain, as_csv, as_markdown, of_table
from steelyard.report.profiles.exports import folded, speedscope, trace_events
from tests.fleet.simulated import simulated_store
from tests.folded import folded as write_folded
from tests.report.runs import write_run

HOSTILE = "a</script>\"'`\x1b[31m\u2028=b"
STACKS = {
    "web;main [web];serve [web];write [libc]": 7,
    "web;main [web];serve [web]": 3,
    "web;main [web];idle [web]": 2,
    f"{HOSTILE};main [web];serve [web]": 5,
    "db;main [db];main [db];main [db]": 100,
}


@pytest.fixture
def profile(tmp_path: Path) -> Profile:
    return read_folded(write_folded(tmp_path, STACKS, "# hz: 99\n# event: cycles\n"))


def _stacks(profile: Profile) -> dict[str, int]:
    return {
        ";".join([profile.commands[command], *(profile.frames[at].label for at in frames)]): count
        for command, frames, count in profile.stacks()
    }


def test_json_has_every_stack_with_its_count(
    profile: Profile, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_folded(tmp_path, STACKS, "# hz: 99\n# event: cycles\n")
    assert invoke(["profile", "export", str(file), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["event"], document["unit"]) == ("cycles", profile.unit)
    found = {
        ";".join(
            [
                row["command"],
                *(f["function"] + (f" [{f['module']}]" if f["module"] else "") for f in row["frames"]),
            ]
        ): row["count"]
        for row in document["stacks"]
    }
    assert found == _stacks(profile)
    assert document["stacks"][0]["count"] == 100
    for both in ([], ["--as", "folded", "--json"]):
        assert invoke(["profile", "export", str(file), *both]) == 2
        assert "needs one of --as FORMAT and --json" in capsys.readouterr().err


def test_speedscope_has_the_shape_of_its_schema_and_every_sample(profile: Profile) -> None:
    document = json.loads(speedscope(profile, "p"))
    assert document["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    frames = document["shared"]["frames"]
    assert all(set(frame) <= {"name", "file", "line", "col"} and frame["name"] for frame in frames)
    found = {}
    for one in document["profiles"]:
        assert set(one) == {"type", "name", "unit", "startValue", "endValue", "samples", "weights"}
        assert one["type"] == "sampled"
        assert one["unit"] in {"none", "nanoseconds", "microseconds", "milliseconds", "seconds", "bytes"}
        assert len(one["samples"]) == len(one["weights"])
        assert one["endValue"] - one["startValue"] == sum(one["weights"])
        for stack, weight in zip(one["samples"], one["weights"], strict=True):
            labels = [
                frames[at]["name"] + (f" [{frames[at]['file']}]" if "file" in frames[at] else "")
                for at in stack
            ]
            found[";".join([one["name"], *labels])] = weight
    assert document["profiles"][document["activeProfileIndex"]]["name"] == "db"
    assert found == _stacks(profile)


def test_trace_events_are_nested_and_their_widths_are_the_counts(profile: Profile) -> None:
    document = json.loads(trace_events(profile, "p"))
    tracks: dict[int, list[dict[str, object]]] = {}
    names = {}
    for event in document["traceEvents"]:
        assert event["ph"] in ("M", "X")
        if event["ph"] == "X":
            assert event["dur"] > 0
            assert event["ts"] >= 0
            tracks.setdefault(event["tid"], []).append(event)
        elif event["name"] == "thread_name":
            names[event["tid"]] = event["args"]["name"]
    assert set(tracks) == set(names)
    found: dict[str, int] = {}
    for track, events in tracks.items():
        for stack, own in _own(events):
            key = ";".join([names[track], *stack])
            found[key] = found.get(key, 0) + own
    assert {key: count for key, count in found.items() if count} == _stacks(profile)
    sample = 1e6 / 99
    roots = sum(float(str(e["dur"])) for events in tracks.values() for e in events if e["name"] == "main")
    assert roots == pytest.approx((12 + 5 + 300) * sample, rel=1e-6)


def _own(events: list[dict[str, object]]) -> Iterator[tuple[list[str], int]]:
    """Yield the stack of each event with the count of its own, as a trace processor would nest them."""

    def ns(event: dict[str, object], key: str) -> int:
        return round(float(str(event[key])) * 1e3)

    ranked = sorted(enumerate(events), key=lambda one: (ns(one[1], "ts"), -ns(one[1], "dur"), -one[0]))
    open_events: list[tuple[int, str, int]] = []
    result: dict[int, list[object]] = {}
    for at, event in ranked:
        begin = ns(event, "ts")
        end = begin + ns(event, "dur")
        while open_events and open_events[-1][0] <= begin:
            open_events.pop()
        assert not open_events or end <= open_events[-1][0], "an event that overlaps its caller's end"
        label = f"{event['name']} [{event['cat']}]"
        count = event["args"]["count"]  # type: ignore[index]
        result[at] = [[name for _, name, _ in open_events] + [label], count]
        if open_events:
            result[open_events[-1][2]][1] -= count  # type: ignore[operator]
        open_events.append((end, label, at))
    yield from result.values()  # type: ignore[misc]


def test_folded_stacks_are_read_again_as_they_were(profile: Profile, tmp_path: Path) -> None:
    again = tmp_path / "again.folded"
    again.write_text(folded(profile))
    other = read_folded(again)
    assert _stacks(other) == _stacks(profile)
    assert other.facts == profile.facts


@pytest.mark.parametrize("to", ["speedscope", "perfetto", "folded"])
def test_a_profile_is_exported_by_a_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], to: str
) -> None:
    path = write_folded(tmp_path, STACKS)
    assert invoke(["profile", "export", str(path), "--as", to]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "serve" in out
    if to != "folded":
        json.loads(out)


def test_tables_have_exact_figures_in_csv_and_no_formulas() -> None:
    made = of_table(
        table(
            (
                Column("job", is_text=True),
                Column("share", "ratio"),
                Column("CPI"),
                Column("note", is_text=True),
            ),
            [
                ("=cmd()|x", 1 / 3, Figure(1.5, 1.25, 1.75), "-1+1"),
                (HOSTILE, None, Figure(None, None, None), Figure(missing="no counters")),
                ("@x", -0.5, Figure(2.0, None, None), "-7"),
            ],
            title="Jobs",
        )
    )
    rows = list(csv.reader(io.StringIO(as_csv(made))))
    assert rows[0] == ["job", "share [ratio]", "CPI", "CPI low", "CPI high", "note"]
    assert rows[1] == ["'=cmd()|x", repr(1 / 3), "1.5", "1.25", "1.75", "'-1+1"]
    assert rows[2][1:] == ["", "", "", "", ""]
    assert "\x1b" not in rows[2][0]
    assert rows[3] == ["'@x", "-0.5", "2", "", "", "-7"]
    shown = as_markdown(made).splitlines()
    assert shown[0] == "**Jobs**"
    assert all(line.replace("\\|", "").count("|") == 5 for line in shown[2:])
    assert "<" not in shown[5].replace("\\<", "")


def test_every_command_with_json_has_the_same_flag(capsys: pytest.CaptureFixture[str]) -> None:
    seen = 0
    # top becomes another program, which has flags of its own; export has --to.
    others = (("top",), ("export",))
    for page in (page for page in pages() if not page.commands and page.path not in others):
        assert invoke([*page.path, "--help"]) == 0
        shown = capsys.readouterr().out
        assert ("--json" in shown) == ("--format" in shown), page.path
        seen += "--format" in shown
    assert seen > 25


def test_metrics_of_a_run_and_a_fleet_are_csv_and_markdown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_run(tmp_path / "tao-1")
    assert invoke(["report", str(run), "--format", "csv"]) in (0, 1)
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    by_name = {row["metric"]: row for row in rows}
    assert float(by_name["hit_ratio"]["value"]) == 0.9003
    assert by_name["power_w"]["value"] == ""
    assert by_name["power_w"]["missing"] == "no power source on this machine"
    store = str(simulated_store(machines=12, days=1, platforms=2, clusters=1, step_s=120))
    assert invoke(["fleet", "smt", "--store", store, "--format", "markdown"]) == 0
    said = capsys.readouterr().out
    assert "| --- |" in said
    assert invoke(["fleet", "smt", "--store", store, "--format", "csv", "--json"]) == 2
    assert "name two formats" in capsys.readouterr().err
    assert invoke(["report", str(run), "--format", "json"]) in (0, 1)
    assert json.loads(capsys.readouterr().out)["benchmark"] == "tao"
    assert invoke(["score", str(run), "--format", "csv"]) == 2
    assert "no table" in capsys.readouterr().err


def test_every_table_has_jsonl_with_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(tmp_path / "tao-1")
    assert invoke(["report", str(run), "--format", "jsonl"]) in (0, 1)
    lines = map(json.loads, capsys.readouterr().out.splitlines())
    rows = {row["row"].split(", ")[-1]: row for row in lines if row["figure"] == "value"}
    assert rows["hit_ratio"]["value"] == 0.9003
    assert rows["power_w"]["value"] is None
    assert rows["power_w"]["note"] == "no power source on this machine"


def test_a_table_of_nothing_is_its_head() -> None:
    assert as_csv(Plain("", ("a", "b"), ())) == "a,b\r\n"
    assert as_markdown(Plain("", ("a",), ())) == "| a |\n| --- |"


def test_a_scaling_curve_has_raw_figures_a_line_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "curve.csv"
    lines = [
        f"{n},{block},{1000 * n / (1 + 0.05 * n) + block},0.25" for n in (1, 2, 4, 8) for block in range(3)
    ]
    file.write_text("cpus,block,ops_per_s,idle_ratio\n" + "\n".join(lines) + "\n")
    assert invoke(["scale", "--from", str(file), "--predict", "6", "--format", "jsonl"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert list(rows[0]) == ["table", "row", "figure", "value", "low", "high", "unit", "note"]
    by_figure = {(row["table"], row["row"], row["figure"]): row for row in rows}
    assert by_figure["Throughput", "1", "throughput"]["value"] == pytest.approx(1000 / 1.05 + 1, abs=1e-3)
    predicted = by_figure["Predicted throughput of a trial", "6", "throughput"]
    assert predicted["low"] < predicted["value"] < predicted["high"]
    assert predicted["unit"] == "1/s"
    assert 0 < by_figure["Universal Scalability Law", "contention", "value"]["low"] < 0.1
    assert by_figure["Scaling loss", "CPU use", "8 CPUs"]["value"] == 0.75
    assert by_figure["Throughput", "8", "of linear"]["unit"] == "ratio"
    assert invoke(["scale", "--from", str(file), "--predict", "6", "--format", "csv"]) == 0
    steps = _one_table(capsys.readouterr().out)
    assert [row["CPUs"] for row in steps] == ["1", "2", "4", "8"]


def test_an_experiment_is_one_table_of_raw_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "ab.csv"
    lines = [
        f"{arm},{block},{value + block % 3}"
        for arm, value in (("old", 100), ("new", 105))
        for block in range(9)
    ]
    file.write_text("config,replicate,rate\n" + "\n".join(lines) + "\n")
    assert invoke(["experiment", "--from", str(file), "--format", "csv"]) == 0
    base, row = _one_table(capsys.readouterr().out)
    assert (base["config"], row["config"], row["outcome"]) == ("old", "new", "better")
    assert float(base["rate"]) == pytest.approx(101, abs=0.01)
    low, change, high = (float(row[f"against old [ratio]{end}"]) for end in (" low", "", " high"))
    assert low < change < high
    assert change == pytest.approx(0.0495, abs=0.001)
    assert row["blocks"] == "9"


def _one_table(text: str) -> list[dict[str, str]]:
    """Return the rows of CSV that is one table: every line has the fields of the head, none is a title."""
    lines = list(csv.reader(io.StringIO(text)))
    assert {len(line) for line in lines} == {len(lines[0])}
    assert all(lines[0])
    assert not any(cell.startswith(("'", "#", "column ")) for line in lines for cell in line)
    return list(csv.DictReader(io.StringIO(text)))
