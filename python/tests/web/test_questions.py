"""Questions to a store and to tables: nothing is written, and what is asked for is what is answered."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlencode

import jsonschema
import pytest

from steelyard.cli.fleet.registry import queries
from steelyard.web.pages.decide import DECISIONS
from tests.calling import call
from tests.fleet.simulated import simulated_store
from tests.web.serving import Served, changed_runs, served

TWO = "machine,web_per_s,kv_per_s\nA,1000,1000\nB,1070,1000\nC,1000,1105\n"
MANY = "machine," + ",".join(f"r{at}_per_s" for at in range(14)) + "\n"
MANY += "".join(f"m{at}," + ",".join(str(1000 + at * other) for other in range(14)) + "\n" for at in range(4))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy = tmp_path_factory.mktemp("store") / "store"
    shutil.copytree(simulated_store(machines=12, days=1, platforms=2, clusters=1, step_s=120), copy)
    return copy


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, store: Path) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    changed_runs(folder / "runs", 12)
    (folder / "two.csv").write_text(TWO)
    (folder / "many.csv").write_text(MANY)
    tables = [word for name in ("two", "many") for word in ("--table", str(folder / f"{name}.csv"))]
    with served(folder / "runs", "--store", str(store), *tables) as made:
        yield made


def files(folder: Path) -> dict[str, int]:
    return {
        str(path.relative_to(folder)): path.stat().st_mtime_ns
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith(".")
    }


def test_no_question_writes_to_the_store(server: Served, store: Path) -> None:
    before = files(store)
    assert server.get("/fleet/cpi/specs?write=yes").status == 400
    answer = server.get("/api/v1/fleet/cpi/specs?write=yes")
    assert (answer.status, json.loads(answer.data)["error"]) == (
        400,
        "fleet cpi specs has no option 'write'",
    )
    described = server.json("/api/v1/openapi.json")["paths"]
    for name in queries():
        path = f"/api/v1/fleet/{quote(name.replace(' ', '/'))}"
        flags = [
            one["name"]
            for one in described[path]["get"]["parameters"]
            if one["schema"].get("enum") == ["yes", "no"]
        ]
        assert server.get(f"{path}?{urlencode(dict.fromkeys(flags, 'yes'))}").status < 500, name
    assert files(store) == before


@pytest.mark.parametrize("name", ["diff", "rue"])
def test_a_query_without_what_it_needs_says_so(server: Served, name: str) -> None:
    answer = server.get(f"/api/v1/fleet/{name}")
    assert answer.status == 400
    assert json.loads(answer.data)["error"].startswith(f"{name} needs ")


def test_a_weight_of_nothing_counts_nothing(server: Served, tmp_path: Path) -> None:
    (tmp_path / "two.csv").write_text(TWO)
    for weights in ("kv_per_s=0", "web_per_s=0", "kv_per_s=0.5"):
        name, _, value = weights.partition("=")
        theirs = json.loads(call("choose", str(tmp_path / "two.csv"), "--weight", weights, "--json").stdout)
        mine = server.json(f"/api/v1/decide/choose?tables=two.csv&{urlencode({f'weight:{name}': value})}")
        assert [one["name"] for one in mine["machines"]] == [one["name"] for one in theirs["machines"]]
        assert mine["workloads"] == theirs["workloads"]
    nothing = "weight%3Akv_per_s=0&weight%3Aweb_per_s=0"
    assert (
        "weights are 0"
        in json.loads(server.get(f"/api/v1/decide/choose?tables=two.csv&{nothing}").data)["error"]
    )


def test_a_table_of_many_results_has_weights_too(server: Served) -> None:
    all_of_them = server.text("/decide/choose?tables=many.csv")
    assert 'name="weights"' in all_of_them
    assert 'name="weight:' not in all_of_them
    two = server.text("/decide/choose?tables=many.csv&workloads=r3_per_s,r5_per_s")
    assert two.count('name="weight:') == 2
    weighed = server.json("/api/v1/decide/choose?tables=many.csv&weights=r3_per_s=5")
    assert max(one["weight"] for one in weighed["workloads"]) == pytest.approx(5 / 18)


def test_openapi_has_the_parameters_that_the_server_takes(server: Served) -> None:
    paths = server.json("/api/v1/openapi.json")["paths"]
    values = {"number": "1", "integer": "1", "array": "x", "string": "x"}
    for path, methods in paths.items():
        parameters = methods["get"]["parameters"]
        assert parameters or path == "/api/v1/fleet/summary", path
        # A query may take long whatever it is asked.
        if "{" in path or "/fleet/" in path:
            continue
        for one in parameters:
            kind = one["schema"]
            value = kind["enum"][0] if "enum" in kind else values[kind["type"]]
            said = server.get(f"{path}?{urlencode({one['name']: value})}").data.decode()
            assert "has no option" not in said, (path, one["name"])
    needed = {one["name"] for one in paths["/api/v1/compare"]["get"]["parameters"] if one["required"]}
    assert needed == {"run"}
    by_name = {one["name"]: one for one in paths["/api/v1/fleet/top"]["get"]["parameters"]}
    assert {"from", "to", "by", "rows"} <= set(by_name)
    assert by_name["rows"]["schema"]["type"] == "integer"
    assert by_name["rows"]["description"]
    assert "rules" not in by_name
    for name, one in DECISIONS.items():
        given = {each["name"] for each in paths[f"/api/v1/decide/{name}"]["get"]["parameters"]}
        assert {"tables", *one.first} <= given


def test_a_trend_of_nothing_is_refused_and_points_say_what_orders_them(server: Served) -> None:
    found = server.json("/api/v1/trends?benchmark=tao")
    assert {point["kernel"] for point in found["points"]} == {"6.9.1", "6.10.0"}
    assert all(point["version"] and "nightly" in point["tags"] for point in found["points"])
    for wrong, says in (("by=bogus", "is none of"), ("metric=nope", "metric 'nope'")):
        answer = server.get(f"/api/v1/trends?benchmark=tao&{wrong}")
        assert answer.status == 400
        assert says in json.loads(answer.data)["error"]
    assert server.get("/api/v1/trends?benchmark=nope&metric=requests_per_s").status == 400


def test_what_is_wrong_has_the_name_of_its_field(server: Served) -> None:
    for path, says in (
        ("/api/v1/decide/size?tables=two.csv&workload=web_per_s&demand=lots", "demand 'lots'"),
        ("/api/v1/fleet/top?by=nothing", "nothing"),
    ):
        document = json.loads(server.get(path).data)
        assert says in document["error"]
        assert "--" not in document["error"] + (document["hint"] or "")


@pytest.mark.parametrize(
    "question",
    [
        "choose?tables=two.csv",
        "size?tables=two.csv&demand=1e5&workload=web_per_s",
        "project?tables=many.csv&target=r1_per_s",
    ],
)
def test_decisions_fit_their_schema(server: Served, question: str) -> None:
    whole = server.json("/api/v1/openapi.json")
    path = f"/api/v1/decide/{question.partition('?')[0]}"
    schema = whole["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    jsonschema.Draft202012Validator({**schema, "components": whole["components"]}).validate(
        server.json(f"/api/v1/decide/{question}")
    )


def test_numbers_of_openapi_have_their_range_and_default(server: Served) -> None:
    paths = server.json("/api/v1/openapi.json")["paths"]

    def schema(path: str, name: str) -> dict[str, object]:
        found = next(one for one in paths[path]["get"]["parameters"] if one["name"] == name)
        return dict(found["schema"])

    years = schema("/api/v1/decide/size", "years")
    assert years == {"type": "number", "minimum": 0.1, "maximum": 30, "default": 4.0}
    assert schema("/api/v1/fleet/top", "rows")["type"] == "integer"
    assert schema("/api/v1/fleet/top", "by")["default"] == "function"


@pytest.mark.parametrize("price", ["12", "0.6"])
def test_a_slider_is_no_limit(server: Served, price: str) -> None:
    asked = "/api/v1/decide/size?tables=two.csv&demand=1e5&workload=web_per_s&pue=2.5&years=0.5"
    asked += f"&power_price={price}"
    assert server.json(asked)["recommended"]
    assert server.get(asked + "&tier=quick").status == 200
    assert server.get(asked.replace("pue=2.5", "pue=0.5")).status == 400


def test_a_flag_is_yes_or_no(server: Served) -> None:
    asked = "/api/v1/decide/project?tables=many.csv&target=r1_per_s&explain="
    answer = server.get(asked + "maybe")
    assert answer.status == 400
    assert "neither yes nor no" in answer.data.decode()
    assert server.get(asked + "no").status == 200


def test_a_benchmark_that_nobody_ran_has_no_trend(server: Served) -> None:
    answer = server.get("/api/v1/trends?benchmark=foo")
    assert answer.status == 400
    assert "there are runs of tao" in answer.data.decode()


def test_a_query_of_other_days_names_those_of_the_store(server: Served) -> None:
    for query in ("smt", "pressure", "top"):
        said = server.get(f"/api/v1/fleet/{query}?from=2037-01-01").data.decode()
        assert "from 2037-01-01 on; the store has" in said, query


def test_metrics_are_scraped_however_old_the_runs_are(server: Served) -> None:
    lines = [line for line in server.get("/metrics").data.decode().splitlines() if line[0] != "#"]
    # A name with labels and a value, and no time stamp.
    assert all(len(line.rpartition("}")[2].split()) == 1 for line in lines), lines
    results = [line for line in lines if line.startswith("steelyard_requests_per_second{")]
    assert len(results) == 1
    assert "path=" not in results[0]
    begins = [line for line in lines if line.startswith("steelyard_latest_run_begin_seconds{")]
    assert len(begins) == 1
    assert 'verdict="' in begins[0]


def test_folders_that_are_not_looked_into_are_named(server: Served, tmp_path: Path) -> None:
    assert server.json("/api/v1/runs")["not_read"] is None
    changed_runs(tmp_path / "series", 2)
    with served(tmp_path) as other:
        note = other.json("/api/v1/runs")["not_read"]
        assert "1 folder" in note
        assert "series" in note
        assert note in other.get("/runs").data.decode()


def test_a_run_is_compared_with_the_one_before_where_there_is_one(server: Served) -> None:
    runs = server.json("/api/v1/runs?ascending=yes")["runs"]
    linked = [
        "with=earlier" in server.get(f"/runs/{one['path']}/report.html").data.decode() for one in runs[:2]
    ]
    assert linked == [False, True]
