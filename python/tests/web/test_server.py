"""Every page of the server over HTTP: what it shows, whom it refuses, and what it survives."""

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.catalog.folder import Settings
from steelyard.catalog.index import Index
from steelyard.cli.fleet.registry import queries
from steelyard.report.format import plain
from steelyard.web.app import make_app
from steelyard.web.context import Context
from steelyard.web.security import Policy
from tests.fleet.simulated import simulated_store
from tests.report.runs import write_run
from tests.web.serving import PATHS, Served, asked, changed_runs, served, write_all


def heading(text: str) -> str:
    found = re.search(r"<h1[^>]*>(.*?)</h1>", text, re.S)
    assert found is not None, text[:2000]
    return re.sub(r"<[^>]+>", "", found[1])


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("run", "requests/s"),
        ("suite", "overall"),
        ("experiment", "%"),
        ("tuning", ""),
        ("co-location", ""),
        ("health check", ""),
    ],
)
def test_each_kind_has_its_page(server: Served, records: Path, kind: str, says: str) -> None:
    path = PATHS[kind]
    text = server.text(f"/runs/{path}/report.html")
    assert says in heading(text).lower() or says in text
    assert "This page cannot be shown" not in text
    assert '<nav class="site"' in text
    assert text.rstrip().endswith("</html>")
    document = server.json(f"/api/v1/runs/{path}")
    assert document["kind"] == kind
    assert document["answer"]["heading"]
    assert document["record"]


@pytest.mark.parametrize("kind", ["experiment", "tuning", "co-location", "health check"])
def test_a_command_that_measures_does_not_say_that_it_shows(server: Served, kind: str) -> None:
    text = server.text(f"/runs/{PATHS[kind]}/report.html")
    assert "Measured by" in text
    assert "Shown by" not in text


def test_our_files_are_there_and_no_others(server: Served) -> None:
    text = server.text("/runs/tao-1/report.html")
    named = re.findall(r'(?:src|href)="(/static/[^"]+)"', text)
    assert {name.partition("?")[0].rpartition("/")[2] for name in named} >= {"page.js", "web.js", "web.css"}
    for name in named:
        answer = server.get(name)
        assert answer.status == 200
        assert "immutable" in answer.headers["Cache-Control"]
    for name in ("web.py", "answer.html.j2", "..%2fapp.py", "%2e%2e/app.py"):
        assert server.get(f"/static/{name}").status == 404


def test_a_port_that_is_taken_is_one_line(records: Path, server: Served) -> None:
    done = subprocess.run(
        ["steelyard", "serve", str(records), "--port", str(server.port)], capture_output=True, text=True
    )
    assert done.returncode == 3
    assert re.fullmatch(r"steelyard: 127\.0\.0\.1:\d+: .*in use.*--port.*\n", done.stderr), done.stderr
    done = subprocess.run(["steelyard", "serve", str(records / "absent")], capture_output=True, text=True)
    assert done.returncode == 2
    assert "does not exist" in done.stderr


def test_the_list_is_searched_sorted_and_exported(server: Served) -> None:
    assert heading(server.text("/runs")) == "8 runs"
    assert heading(server.text("/runs?members=yes")) == "10 runs"
    assert heading(server.text("/runs?search=tao&verdict=suspect")) == "3 runs"
    assert heading(server.text("/runs?search=nothing")) == "0 runs"
    document = server.json("/api/v1/runs?order=result&benchmark=tao&members=yes")
    values = [row["value"] for row in document["runs"]]
    assert values == sorted(values, reverse=True)
    assert server.get("/runs?order=sideways").status == 400
    members = server.text("/runs?members=yes")
    assert members.count('of <a href="/runs/suite-1/report.html">suite-1</a>') == 2
    assert "No run has all of this." in server.text("/runs?search=nothing")
    assert 'id="compare"' not in server.text("/runs?search=nothing")
    assert "fewer pages" in server.text("/runs?page=7")
    assert server.json("/api/v1/runs?page=x")["error"]


def test_a_row_says_which_run_it_is_and_its_result_as_reports_do(server: Served) -> None:
    text = server.text("/runs?members=yes")
    named = re.findall(r'<span class="quiet folder">(.*?)</span>', text)
    assert len(named) == 10
    assert {"tao-1", "tao-2", "experiment", PATHS["health check"]} <= set(named)
    results = [plain(one) for one in re.findall(r'class="wide" title="requests_per_s[^>]*>(.*?)</td>', text)]
    assert sorted(results)[0] == "106 k requests/s"
    assert not [one for one in results if not re.fullmatch(r"\d+ k requests/s|rate of .* \d+ k/s", one)], (
        results
    )


def test_runs_are_laid_over_one_another(server: Served) -> None:
    two = server.text("/compare?run=tao-1&run=tao-2")
    assert "B has 1.10 x the requests of A" in heading(two)
    three = server.text("/compare?run=tao-1&run=tao-2&run=tao-3")
    assert 'id="chart-throughput"' in three
    assert three.count("tao-3") > 1
    assert "B has" in heading(three)
    for wrong in ("run=tao-1", "run=tao-1&run=tao-1", "run=tao-1&run=experiment", "run=tao-1&run=suite-1"):
        assert server.get(f"/compare?{wrong}").status in (400, 404), wrong
    many = "&".join(f"run=tao-{at}" for at in range(9))
    assert server.get(f"/compare?{many}").status == 400
    document = server.json("/api/v1/compare?run=tao-1&run=tao-2")
    assert any(figure["figure"] == "over A" for figure in document["figures"])


def test_differences_are_held_against_earlier_sessions(changed: Served) -> None:
    rows = changed.json("/api/v1/runs?order=time&ascending=yes")["runs"]
    first, second, last = (rows[at]["path"] for at in (-3, -2, -1))
    near = changed.text(f"/compare?run={first}&run={second}")
    assert "whose noise is not known" not in near
    assert "by chance up to" in near
    text = changed.text(f"/compare?run={first}&run={last}&run={second}")
    assert "earlier sessions like these (a suite, or the runs of one day) differ by" in text
    document = changed.json(f"/api/v1/compare?run={first}&run={last}&run={second}")
    chance = [one for one in document["figures"] if one["figure"] == "by chance up to"]
    assert next(one["value"] for one in chance if one["row"] == "requests") > 1
    assert "A, B, C: suspect" in text


def test_an_invalid_run_is_never_the_best(tmp_path: Path) -> None:
    changed_runs(tmp_path, 8)
    paths = sorted(path.name for path in tmp_path.iterdir())[:3]
    record = tmp_path / paths[1] / "run.json"
    run = json.loads(record.read_text())
    run["verdict"]["level"] = "invalid"
    run["verdict"]["checks"] = [{"id": "errors", "level": "invalid", "claim": "all requests failed"}]
    run["metrics"]["requests_per_s"]["value"] *= 10
    record.write_text(json.dumps(run))
    with served(tmp_path) as server:
        said = heading(server.text("/compare?" + "&".join(f"run={path}" for path in paths)))
        assert not said.startswith("B has"), said


def test_profiles_of_two_runs_have_a_page_of_their_difference(tmp_path: Path) -> None:
    for name, count in (("tao-1", 400), ("tao-2", 900)):
        write_run(tmp_path / name)
        stacks = f"tao;main;memcpy {count}\ntao;main;hash 600\ntao;main;<script>alert(1)</script> 50\n"
        (tmp_path / name / "profile.folded").write_text(stacks)
    write_run(tmp_path / "tao-3")
    with served(tmp_path) as server:
        assert "/compare/profile" not in server.text("/compare?run=tao-1&run=tao-3")
        text = server.text("/compare?run=tao-1&run=tao-2")
        found = re.search(r'href="(/compare/profile[^"]+)"', text)
        assert found is not None
        page = until_answered(server, found[1].replace("&amp;", "&"))
        assert f"steelyard profile diff {tmp_path.name}/tao-1 {tmp_path.name}/tao-2" in page
        assert "Functions, own samples" in page
        assert "<script>alert" not in page
        assert server.get("/compare/profile?run=tao-1").status == 400
        assert server.get("/compare/profile?run=tao-1&run=tao-3").status == 404
        assert server.get("/compare/profile?run=tao-1&run=../etc").status == 404


def test_trends_answer_and_refuse(server: Served) -> None:
    text = server.text("/trends?benchmark=tao&metric=requests_per_s")
    assert "fewer than 8 sessions" in text.lower()
    assert server.text("/trends?benchmark=tao&by=kernel")
    assert server.get("/trends?benchmark=tao&by=weather").status == 400
    document = server.json("/api/v1/trends?benchmark=tao&metric=requests_per_s")
    assert document["unit"] == "1/s"
    assert len(document["points"]) == 4


def test_a_run_that_goes_while_it_is_shown_is_an_answer(tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "a")
    write_run(tmp_path / "runs" / "b")
    with served(tmp_path / "runs") as server:
        assert server.get("/runs/a/report.html").status == 200
        shutil.rmtree(tmp_path / "runs" / "a")
        assert server.get("/runs/a/report.html").status == 404
        (tmp_path / "runs" / "b" / "run.json").write_text('{"kind": "run", "schema_version": "9.0"}')
        text = server.text("/runs/b/report.html")
        assert "This page cannot be shown" in text
        assert "9.0" in text
        assert str(tmp_path) not in text


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server on runs whose level changes."""
    folder = tmp_path_factory.mktemp("changed")
    changed_runs(folder)
    with served(folder) as started:
        assert started.json("/api/v1/runs")["total"] == 60
        yield started


@pytest.mark.parametrize(
    ("by", "since"),
    [
        ("time", "since 20"),
        ("kernel", "since kernel 6.10.0 (20"),
        # In the order of their first runs, not of their letters.
        ("tag:commit", f"since commit {36 * 7919 % 4096:03x} (20"),
    ],
)
def test_a_trend_says_since_when(changed: Served, by: str, since: str) -> None:
    text = changed.text(f"/trends?benchmark=tao&metric=requests_per_s&by={by}")
    said = heading(text)
    assert re.match(r"Requests: [67]\.\d+\W% lower \(worse\) since ", said), said
    assert since in said
    assert "with kernel 6.9.1 → 6.10.0" in said
    assert "unknown host" not in text
    assert f'<option value="{by}" selected>' in text
    chart = json.loads(re.search(r'id="drawn">(.*?)</script>', text, re.S)[1])["charts"][0]  # type: ignore[index]
    assert len(chart["marks"]) == 1
    assert [series["name"] for series in chart["series"]] == ["suspect runs", "level"]


def test_a_change_inside_one_version_is_not_blamed_on_it(changed: Served) -> None:
    text = changed.text("/trends?benchmark=tao&metric=requests_per_s&by=version")
    said = heading(text)
    assert re.search(r"since 20\d\d-\d\d-\d\d, within version \S+, with kernel", said), said
    chart = json.loads(re.search(r'id="drawn">(.*?)</script>', text, re.S)[1])["charts"][0]  # type: ignore[index]
    assert chart["marks"] == []


def test_runs_without_a_tag_are_not_ordered_by_it(tmp_path: Path) -> None:
    changed_runs(tmp_path, 8)
    write_run(tmp_path / "another")
    with served(tmp_path) as server:
        text = server.text("/trends?benchmark=tao&metric=requests_per_s&by=tag:commit")
        assert "1 run without the tag commit=: not in the trend." in text


def test_names_of_several_machines_stand_in_their_order(tmp_path: Path) -> None:
    for host in ("one", "two"):
        changed_runs(tmp_path, 10, host=host)
    for path in tmp_path.glob("tao-one*/machine.json"):
        # One machine has no run with the first kernel, the other none with the last.
        path.write_text(path.read_text().replace("6.10.0", "6.11.0").replace("6.9.1", "6.10.0"))
    with served(tmp_path) as server:
        text = server.text("/trends?benchmark=tao&metric=requests_per_s&by=kernel")
        chart = json.loads(re.search(r'id="drawn">(.*?)</script>', text, re.S)[1])["charts"][0]  # type: ignore[index]
        names = dict.fromkeys(x for series in chart["series"] for x in series["x"])
        assert list(names) == ["6.9.1", "6.10.0", "6.11.0"]
        assert " on one" in text


def test_words_that_are_also_names_of_folders_are_left_alone(tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "a")
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "steelyard-store.json").write_text("{")
    (tmp_path / "table.csv").write_text("machine\n")
    options = ("--store", "store", "--table", "table.csv")
    with served(Path("runs"), *options, cwd=tmp_path) as server:
        assert "two to 8 runs are compared" in server.get("/compare?run=a").data.decode().lower()
        (tmp_path / "runs" / "a" / "run.json").write_text('{"kind": "run", "schema_version": "9.0"}')
        text = server.text("/runs/a/report.html")
        assert "a/run.json" in text.lower()
        for page in (
            text,
            until_answered(server, "/fleet/top"),
            server.text("/decide/choose?tables=table.csv"),
        ):
            assert str(tmp_path) not in page


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("two runs are compared", "two runs are compared"),
        ("/data/runs/a: no record", "a: no record"),
        ("/data/runs is empty", "the folder of runs is empty"),
        ("/data/runs-2/a", "/data/runs-2/a"),
        ("/data/runs/table.csv: no machine", "table.csv: no machine"),
        ("/data/store: no store", "store: no store"),
        ("/data/storeroom", "/data/storeroom"),
        ("steelyard run tao --out /data/runs", "steelyard run tao --out runs"),
        ("steelyard compare /data/runs/a /data/runs/b", "steelyard compare runs/a runs/b"),
        (
            "/data/runs/a: run steelyard report latest --runs /data/runs",
            "a: run steelyard report latest --runs runs",
        ),
    ],
)
def test_messages_do_not_say_where_folders_are(tmp_path: Path, text: str, shown: str) -> None:
    settings = Settings(Path("/data/runs"), "/data/store", (Path("/data/runs/table.csv"),))
    context = Context(settings, Index(tmp_path))
    assert context.without_root(text) == shown
    context.close()


def test_an_error_after_a_page_has_begun_is_said_on_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(tmp_path / "a")

    def broken(folder: Path) -> None:
        raise RuntimeError("a fault of the test")

    monkeypatch.setattr("steelyard.web.pages.folder.answer_of", broken)
    context = Context(Settings(tmp_path), Index(tmp_path))
    status, text = asked(make_app(context, Policy()), "/runs/a/report.html")
    context.close()
    assert status == 200
    assert "This page cannot be shown" in text
    assert "a fault of the test" not in text
    assert text.endswith("</html>")
    assert "RuntimeError: a fault of the test" in capsys.readouterr().err


def test_every_fleet_query_has_a_page(tmp_path: Path) -> None:
    store = simulated_store(machines=12, days=1, platforms=2, clusters=1, step_s=120)
    (tmp_path / "runs").mkdir()
    with served(tmp_path / "runs", "--store", str(store)) as server:
        index = server.text("/fleet")
        for name, query in queries().items():
            address = f"/fleet/{name.replace(' ', '/')}"
            assert f'href="{address}"' in index
            text = until_answered(server, address)
            assert '<form class="ask"' in text or query.options == []
        assert "steelyard fleet cpi specs --store store" in until_answered(server, "/fleet/cpi/specs")
        assert str(store.parent) not in until_answered(server, "/fleet/top")
        text = until_answered(server, "/fleet/top?by=category&job=&rows=5")
        assert "steelyard fleet top" in text
        assert server.get("/fleet/top?nonsense=1").status == 400
        assert "is no number" in server.text("/fleet/top?rows=many")
        assert server.get("/api/v1/fleet/top?rows=many").status == 400
        assert server.get("/fleet/nothing").status == 404
        document = server.json("/api/v1/fleet/top?by=category")
        assert document["store"]
        described = server.json("/api/v1/openapi.json")
        for name in queries():
            assert f"/api/v1/fleet/{name.replace(' ', '/')}" in described["paths"]


def until_answered(server: Served, path: str) -> str:
    """Return the page once its query is done."""
    deadline = time.monotonic() + 120
    while True:
        answer = server.get(path)
        text = answer.data.decode()
        assert answer.status == 200, (path, answer.status, text[:3000])
        if "data-job=" not in text:
            return text
        job = re.search(r'data-job="([^"]+)"', text)
        assert job is not None
        while not server.json(f"/jobs/{job[1]}")["done"]:
            assert time.monotonic() < deadline
            time.sleep(0.1)


def test_a_question_that_is_refused_keeps_its_form(server: Served) -> None:
    text = until_answered(server, "/decide/size?demand=much&tables=runs")
    assert '<form class="ask"' in text
    assert "from tables and runs." in text
    assert server.text("/decide/project").count("Fill in target, then press Decide.") == 1


def test_openapi_names_every_schema_it_uses(server: Served) -> None:
    described = server.json("/api/v1/openapi.json")
    text = json.dumps(described)
    for reference in set(re.findall(r'"#/([^"]+)"', text)):
        place = described
        for part in reference.split("/"):
            place = place[part.replace("~1", "/").replace("~0", "~")]
    assert described["openapi"].startswith("3.1")


def test_metrics_are_open_metrics(server: Served) -> None:
    answer = server.get("/metrics")
    assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
    lines = answer.data.decode().splitlines()
    assert lines[-1] == "# EOF"
    assert any(line.startswith('steelyard_requests_per_second{benchmark="tao"') for line in lines)


def test_the_server_writes_nothing_but_its_index(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    root.mkdir()
    write_all(root)

    def files() -> set[str]:
        return {
            os.path.relpath(os.path.join(folder, name), root)
            for folder, _, names in os.walk(root)
            for name in names
            if not name.startswith(".steelyard-index")
        }

    before = files()
    with served(root) as server:
        for path in (
            "/runs",
            "/runs/tao-1/report.html",
            "/runs/suite-1/report.html",
            "/decide/choose",
        ):
            assert server.get(path).data
    assert files() == before


@pytest.mark.parametrize(("store", "says"), [("nope", "there is no such folder"), ("empty", "not a store")])
def test_what_is_no_store_is_refused_at_the_start(tmp_path: Path, store: str, says: str) -> None:
    for name in ("runs", "empty"):
        (tmp_path / name).mkdir()
    command = ["steelyard", "serve", "runs", "--store", store, "--port", "0"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert done.returncode == 2
    assert done.stderr.startswith(f"steelyard: --store {store}: {says}"), done.stderr
    assert not done.stdout


def test_an_error_of_a_store_keeps_the_letters_of_its_name(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "nope").mkdir()
    marker = tmp_path / "nope" / "steelyard-store.json"
    marker.write_text("{}")
    with served(tmp_path / "runs", "--store", str(tmp_path / "nope")) as server:
        marker.unlink()
        assert "nope: not a store" in heading(until_answered(server, "/fleet/top"))


def test_a_refusal_leaves_the_name_of_a_file_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "odd.csv").write_text("db_time,calls\n1,2\n3,4\n")
    with served(tmp_path / "runs", "--table", str(tmp_path / "odd.csv")) as server:
        text = until_answered(server, "/decide/choose?tables=odd.csv")
        assert heading(text) == "odd.csv: no column names the machines"
        assert "say which in a TOML file" in text
