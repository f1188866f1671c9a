"""Folders with odd names and records are in the list, and hide nothing else; a list that fails says so."""

import json
import os
import shutil
import unicodedata
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard._base import RecordError
from steelyard.agents.data import MOST_LETTERS, quoted
from steelyard.catalog import index as index_module
from steelyard.catalog.filters import RunFilter
from steelyard.catalog.folder import Settings
from steelyard.catalog.index import Index, RefreshError, Unread
from steelyard.catalog.roots import NotThereError, folder_at, listed_path, real_path, shown_path
from steelyard.web.app import make_app
from steelyard.web.context import Context
from steelyard.web.security import Policy
from tests.agents.client import Agent, Raw, converse
from tests.catalog.test_index import index_of
from tests.cli.suites import write_suite
from tests.report.runs import write_run
from tests.web.serving import asked, many_runs, served

PLAIN = ("telemetry", "cache_stats", "load")


def not_utf8(folder: Path) -> None:
    """Give a folder the name ``caf`` and a byte that is no letter."""
    os.rename(folder, os.path.join(os.fsencode(folder.parent), b"caf\xe9"))


def reasons(index: Index) -> dict[str, str]:
    rows = index.rows(RunFilter(members=True)).entries
    return {entry.path: entry.reason for entry in rows}


def test_a_name_that_is_not_utf8_hides_no_other(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    write_run(root / "good", without=PLAIN)
    not_utf8(write_run(root / "bad", without=PLAIN))
    write_suite(root / "suite-1", ("tao", "feed"))
    not_utf8(root / "suite-1" / "feed-1")
    with served(root) as server:
        found = {one["path"]: one for one in server.json("/api/v1/runs?members=yes")["runs"]}
        assert set(found) == {"good", "caf%E9", "suite-1", "suite-1/tao-1", "suite-1/caf%E9"}
        assert found["caf%E9"]["status"] == "unreadable"
        assert found["caf%E9"]["reason"] == "the folder's name is not UTF-8"
        for path in ("caf%E9", "suite-1/caf%E9"):
            answer = server.get(f"/api/v1/runs/{quote(path)}")
            assert (answer.status, answer.json()["hint"]) == (422, "rename it")
            assert server.get(f"/runs/{quote(path)}/report.html").status == 422
        for path in ("good", "suite-1"):
            assert "cannot be shown" not in server.text(f"/runs/{path}/report.html")
        assert "caf%E9" in server.text("/runs")

    async def say(agent: Agent) -> None:
        listed = await agent.data("list_runs")
        assert listed["total"] == 3
        (bad,) = (one for one in listed["folders"] if one.get("status") == "unreadable")
        assert "is not UTF-8" in await agent.error("explain_run", path=bad["path"])

    converse(root, say=say)


def test_one_spelt_like_it_is_not_taken_for_it(tmp_path: Path) -> None:
    write_run(tmp_path / "caf%E9", without=PLAIN)
    index = index_of(tmp_path)
    assert reasons(index) == {"caf%E9": ""}
    assert folder_at(tmp_path, "caf%E9").name == "caf%E9"
    index.close()


def test_repeats_are_shown_beside_one_whose_name_is_not_utf8(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    write_run(root / "tao-1", count=2, without=("telemetry",))
    not_utf8(write_run(root / "tao-2", index=2, count=2, without=("telemetry",)))
    with served(root) as server:
        assert "../caf%E9/report.html" in server.text("/runs/tao-1/report.html")


def test_a_record_that_no_index_can_keep_hides_no_other(tmp_path: Path) -> None:
    many_runs(tmp_path, 3)
    machine = {"cpu": {"model": "\ud800", "logical_cpus": 10**30}}
    (tmp_path / "tao-000001" / "machine.json").write_text(json.dumps(machine))
    record = json.loads((tmp_path / "tao-000002" / "run.json").read_text())
    record["clock"]["realtime_ns"] = 2**63 + 1
    (tmp_path / "tao-000002" / "run.json").write_text(json.dumps(record))
    index = index_of(tmp_path)
    found = reasons(index)
    assert set(found) == {f"tao-{at:06}" for at in range(3)}
    assert [path for path, reason in found.items() if reason] == ["tao-000002"]
    index.close()


def test_an_error_of_ours_in_one_folder_is_that_ones_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    many_runs(tmp_path, 2)

    def load(folder: Path) -> None:
        raise KeyError(folder.name)

    monkeypatch.setattr("steelyard.catalog.entries.runs.load", load)
    index = index_of(tmp_path)
    assert set(reasons(index).values()) == {"an error in Steelyard: KeyError"}
    assert "Traceback" in capsys.readouterr().err
    index.close()


def test_a_link_to_itself_hides_no_run(tmp_path: Path) -> None:
    write_run(tmp_path / "good", without=PLAIN)
    (tmp_path / "loop").symlink_to("loop")
    index = index_of(tmp_path)
    assert reasons(index) == {"good": ""}
    index.close()


def fail(*_: object) -> None:
    raise RuntimeError("secret")


def test_a_refresh_that_fails_says_so_until_one_succeeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    many_runs(tmp_path, 1)
    index = Index(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(index_module, "folders", fail)
        app = make_app(Context(Settings(tmp_path), index), Policy())
        said = "the folder of runs cannot be listed: an error in Steelyard: RuntimeError"
        for path in ("/api/v1/runs", "/api/v1/trends"):
            status, text = asked(app, path)
            assert (status, json.loads(text)) == (500, {"error": said, "hint": None})
        status, text = asked(app, "/runs")
        assert status == 500
        assert said[1:] in text
        assert "0 runs" not in text
        for _ in range(2):
            with pytest.raises(RefreshError):
                index.refresh()
    assert "Traceback" in capsys.readouterr().err
    index.refresh()
    assert index.rows(RunFilter()).total == 1
    index.close()


def test_a_folder_of_runs_that_is_gone_is_no_empty_one(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    many_runs(root, 1)
    moved = tmp_path / "elsewhere"
    with served(root) as server:
        assert server.json("/api/v1/runs")["total"] == 1
    shutil.rmtree(root)
    index = Index(root, Path(":memory:"))
    with pytest.raises(RefreshError, match="No such file or directory"):
        index.refresh()
    index.close()
    many_runs(root, 1)
    with Raw(root) as server:
        root.rename(moved)
        failed = server.tool("list_runs")
        assert failed["isError"]
        assert "cannot be listed: No such file" in failed["structuredContent"]["error"]["message"]
        moved.rename(root)
        assert server.tool("list_runs")["structuredContent"]["data"]["total"] == 1


def test_a_server_outlives_a_first_look_that_fails(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    many_runs(root, 1)
    with served(root, "--index", str(tmp_path / "index.sqlite")) as server:
        root.rename(tmp_path / "elsewhere")
        answers = [server.get("/api/v1/runs") for _ in range(200)]
        # What was read before is fresh for a second.
        assert {answer.status for answer in answers} <= {200, 500}
        assert all(answer.json()["total"] == 1 for answer in answers if answer.status == 200)
        (tmp_path / "elsewhere").rename(root)


@pytest.mark.parametrize(
    "name", ["new\nline", "end\n", "\nbegin", "tab\tand\x1b[31mred", "a\u202eb", "100%41"]
)
def test_a_folder_of_any_name_opens(name: str, tmp_path: Path) -> None:
    root = tmp_path / "runs"
    write_run(root / name, without=PLAIN)
    path = quote(name)
    with served(root) as server:
        assert [one["path"] for one in server.json("/api/v1/runs")["runs"]] == [name]
        assert server.json(f"/api/v1/runs/{path}")["path"] == name
        assert "cannot be shown" not in server.text(f"/runs/{path}/report.html")
        assert server.get(f"/runs/{path}").headers["Location"] == f"/runs/{path}/report.html"
        assert "EPYC" in server.text(f"/runs/{path}/machine.html")
        assert server.get(f"/runs/{path}/live.json").status != 404


def test_a_record_that_nests_too_deeply_is_an_error_of_the_record(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    write_run(root / "deep", without=PLAIN)
    (root / "deep" / "run.json").write_text("[" * 100_000)
    with served(root) as server:
        answer = server.get("/api/v1/runs/deep")
        assert answer.status == 422
        assert answer.json()["error"] == "deep/run.json: not JSON of a record: it nests too deeply"


def test_folders_that_are_not_looked_into_are_named(tmp_path: Path) -> None:
    index = index_of(tmp_path)
    assert index.unread.note == ""
    many_runs(tmp_path / "series", 2)
    write_suite(tmp_path / "suite-1", ("tao", "feed"))
    (tmp_path / "suite-1" / "notes").mkdir()
    (tmp_path / "health" / "machine").mkdir(parents=True)
    (tmp_path / ".hidden").mkdir()
    index.refresh()
    assert index.unread == Unread(1, ("series",))
    assert index.unread.note == "1 folder has no record and was not searched for runs: series"
    for name in ("a\x1b", "b", "c"):
        (tmp_path / name).mkdir()
    index.refresh()
    many = "4 folders have no record and were not searched for runs: a%1B, b, c and 1 more"
    assert index.unread.note == many
    shutil.rmtree(tmp_path / "series")
    index.refresh()
    assert index.unread.count == 3
    index.close()


@given(st.binary(min_size=1, max_size=40))
def test_what_is_shown_of_a_path_is_printable_and_gives_it_back(name: bytes) -> None:
    path = os.fsdecode(name)
    shown = shown_path(path)
    assert not {unicodedata.category(letter) for letter in shown} & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    assert quoted(shown) == shown
    assert len(shown) < MOST_LETTERS
    shown.encode()
    listed_path(path).encode()


@pytest.mark.parametrize(
    "name", ["esc\x1b[31mred", "a\u202eb", "two  spaces ", "%41", "%", "%%41", "\u2028", "plain"]
)
def test_a_shown_path_is_of_its_folder_alone(name: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    assert real_path(tmp_path, shown_path(name)) == name
    (tmp_path / shown_path(name)).mkdir(exist_ok=True)
    assert real_path(tmp_path, shown_path(name)) == name
    with pytest.raises(NotThereError):
        folder_at(tmp_path, "..%2f")


def test_an_encoded_path_leads_nowhere_else(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    root.mkdir()
    write_run(tmp_path / "outside", without=PLAIN)
    not_utf8(write_run(tmp_path / "other", without=PLAIN))
    for path in ("%2e%2e/outside", "..%2Foutside", "%2e%2e/caf%E9", "%2Fetc", "a%00b", "\ud800", "%ED%A0%80"):
        with pytest.raises(NotThereError):
            folder_at(root, path)
        assert real_path(root, path) == path
    (root / "caf").mkdir()
    not_utf8(root / "caf")
    with pytest.raises(RecordError, match="not UTF-8"):
        real_path(root, "caf%E9")
