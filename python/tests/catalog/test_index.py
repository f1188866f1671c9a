"""The index says what the folders say, whatever happens to either."""

import os
import shutil
import sqlite3
import threading
from pathlib import Path
from urllib.parse import parse_qsl, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard._base import UsageError
from steelyard.catalog.filters import CHOICES, ORDERS, RunFilter
from steelyard.catalog.index import FILE, Index
from tests.report.runs import write_run
from tests.web.serving import many_runs, write_all


class Clock:
    """A clock that jumps on by a minute at each look, so that nothing known is fresh."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 60
        return self.now


def index_of(root: Path, **options: object) -> Index:
    made = Index(root, clock=Clock(), **options)  # type: ignore[arg-type]
    made.refresh()
    return made


def paths(index: Index, **asked: object) -> list[str]:
    index.refresh()
    return [entry.path for entry in index.rows(RunFilter(**asked)).entries]  # type: ignore[arg-type]


def test_each_kind_of_record_is_listed(tmp_path: Path) -> None:
    written = write_all(tmp_path)
    index = index_of(tmp_path)
    by_path = {entry.path: entry for entry in index.rows(RunFilter(members=True)).entries}
    assert {by_path[path].kind for path in written.values()} == set(written)
    assert all(entry.status != "unreadable" for entry in by_path.values()), by_path
    run = by_path["tao-1"]
    assert (run.title, run.metric, run.unit, run.verdict) == ("tao", "requests_per_s", "1/s", "suspect")
    assert run.processor
    assert run.cpus == 2
    experiment = by_path[written["experiment"]]
    assert (experiment.metric, experiment.unit) == ("9 over 1, undecided", "1")
    assert experiment.value is not None
    assert experiment.value > 0
    # Members of suites are listed where they are asked for.
    assert {entry.parent for entry in by_path.values()} == {"", "suite-1"}
    assert all("/" not in path or path.startswith("health/") for path in paths(index))
    index.close()


def test_folders_that_come_change_and_go_are_seen(tmp_path: Path) -> None:
    index = index_of(tmp_path)
    assert paths(index) == []
    write_run(tmp_path / "a")
    assert paths(index) == ["a"]
    record = (tmp_path / "a" / "run.json").read_text()
    (tmp_path / "a" / "run.json").write_text(record.replace('"tier":"quick"', '"tier":"full"').replace(
        '"tier": "quick"', '"tier": "full"'
    ))  # fmt: skip
    assert paths(index, tier="full") == ["a"]
    (tmp_path / "a" / "run.json").write_text("{")
    assert [entry.status for entry in index.rows(RunFilter()).entries] == ["complete"], "not looked again yet"
    assert paths(index, status="unreadable") == ["a"]
    shutil.rmtree(tmp_path / "a")
    assert paths(index) == []
    index.close()


def test_an_index_is_used_again_and_made_anew_when_it_is_damaged(tmp_path: Path) -> None:
    write_run(tmp_path / "a")
    index_of(tmp_path).close()
    stamp = (tmp_path / FILE).stat().st_ino
    index_of(tmp_path).close()
    assert (tmp_path / FILE).stat().st_ino == stamp
    (tmp_path / FILE).write_bytes(b"no database " * 1000)
    index = index_of(tmp_path)
    assert not index.problem
    assert paths(index) == ["a"]
    index.close()
    with sqlite3.connect(tmp_path / FILE) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    index = index_of(tmp_path)
    assert paths(index) == ["a"]
    index.close()


def test_without_a_place_to_write_it_is_kept_in_memory(tmp_path: Path) -> None:
    write_run(tmp_path / "a")
    index = index_of(tmp_path, file=tmp_path / "absent" / "index.sqlite")
    assert "kept in memory" in index.problem
    assert paths(index) == ["a"]
    index.close()


def test_a_link_is_not_followed_to_an_index_elsewhere(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.sqlite"
    root = tmp_path / "runs"
    root.mkdir()
    (root / FILE).symlink_to(elsewhere)
    index = index_of(root)
    assert "kept in memory" in index.problem
    assert not elsewhere.exists()
    index.close()


def test_two_servers_share_one_index(tmp_path: Path) -> None:
    many_runs(tmp_path, 60)
    both = [Index(tmp_path, clock=Clock()) for _ in range(2)]
    errors: list[BaseException] = []

    def work(index: Index) -> None:
        try:
            for _ in range(5):
                index.refresh()
                assert index.rows(RunFilter()).total == 60
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(index,)) for index in both for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert not any(index.problem for index in both)
    for index in both:
        index.close()


def test_links_out_of_the_folder_are_not_read(tmp_path: Path) -> None:
    root, outside = tmp_path / "runs", tmp_path / "outside"
    root.mkdir()
    write_run(outside / "secret")
    (root / "linked").symlink_to(outside / "secret")
    (root / "record").mkdir()
    (root / "record" / "run.json").symlink_to(outside / "secret" / "run.json")
    write_run(root / "part")
    (root / "part" / "logs").symlink_to(outside)
    index = index_of(root)
    rows = index.rows(RunFilter()).entries
    assert {entry.path: entry.status for entry in rows} == {"record": "unreadable", "part": "unreadable"}
    assert all("leads out" in entry.reason and str(tmp_path) not in entry.reason for entry in rows)
    index.close()


def test_what_cannot_be_read_says_why_without_the_path(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "run.json").write_text('{"kind": "run", "schema_version": "9.0"}')
    (tmp_path / "pipe").mkdir()
    os.mkfifo(tmp_path / "pipe" / "run.json")
    index = index_of(tmp_path)
    reasons = {entry.path: entry.reason for entry in index.rows(RunFilter()).entries}
    assert set(reasons) == {"other", "pipe"}
    assert all(reason and str(tmp_path) not in reason for reason in reasons.values())
    index.close()


def test_rows_come_in_pages_and_orders(tmp_path: Path) -> None:
    many_runs(tmp_path, 250)
    index = index_of(tmp_path)
    first, last = index.rows(RunFilter()), index.rows(RunFilter(page=3))
    assert (first.total, first.pages, len(first.entries), len(last.entries)) == (250, 3, 100, 50)
    assert first.entries[0].path == "tao-000000"
    assert index.rows(RunFilter(ascending=True)).entries[0].path == "tao-000249"
    assert index.rows(RunFilter(page=1000)).entries == []
    for order in ORDERS:
        assert index.rows(RunFilter(order=order)).total == 250
    assert [entry.path for entry in index.rows(RunFilter(search="TAO 000123")).entries] == ["tao-000123"]
    assert index.rows(RunFilter(search="%")).total == 0, "a wildcard is a letter"
    assert index.rows(RunFilter(since="2100-01-01")).total == 0
    points = index.series("requests_per_s", RunFilter(benchmark="tao"))
    times = [point.entry.begin_ns for point in points]
    assert len(points) == 250
    assert times == sorted(times)
    index.close()


_NAMES = st.sampled_from([*RunFilter.__dataclass_fields__, "unknown"])


@given(st.dictionaries(_NAMES, st.text(max_size=20), max_size=6))
def test_any_query_is_a_filter_or_refused(query: dict[str, str]) -> None:
    try:
        asked = RunFilter.of(query)
    except UsageError:
        return
    where, values = asked.where()
    with sqlite3.connect(":memory:") as connection:
        columns = (
            "path, kind, title, status, verdict, tier, parent, host, processor, kernel, tags, text, value"
        )
        connection.execute(f"CREATE TABLE folder ({columns}, begin_ns)")
        connection.execute(f"SELECT 1 FROM folder WHERE {where} ORDER BY {asked.order_by()}", values)
    connection.close()
    # What an address says of a filter is the filter.
    assert RunFilter.of(dict(parse_qsl(urlencode(asked.query)))) == asked or not asked.query


def test_every_word_in_an_index_may_be_asked_for(tmp_path: Path) -> None:
    write_all(tmp_path)
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / "run.json").write_text("{")
    index = index_of(tmp_path)
    for name, choices in CHOICES.items():
        if name != "order":
            assert {value for value, _ in index.values_of(name) if value} <= set(choices)
        for choice in choices:
            assert getattr(RunFilter.of({name: choice}), name) == choice
    index.close()


@pytest.mark.parametrize(
    "bad",
    [
        {"since": "yesterday"},
        {"page": "0"},
        {"page": "x"},
        {"members": "1"},
        *({name: "good"} for name in CHOICES),
    ],
)
def test_a_wrong_query_is_refused_in_one_line(bad: dict[str, str]) -> None:
    with pytest.raises(UsageError) as refused:
        RunFilter.of(bad)
    assert "\n" not in refused.value.message


def test_runs_are_found_by_their_tags(tmp_path: Path) -> None:
    write_run(tmp_path / "a", changes={"tags": ["nightly", "commit=4f1c09"]})
    write_run(tmp_path / "b", changes={"tags": ["night"]})
    index = index_of(tmp_path)
    assert paths(index, tag="night") == ["b"], "a tag is a whole word"
    assert paths(index, tag="commit=4f1c09") == ["a"]
    assert paths(index, search="4f1c") == ["a"]
    assert index.rows(RunFilter(tag="nightly")).entries[0].tags == ("nightly", "commit=4f1c09")
    index.close()
