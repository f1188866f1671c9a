"""``import steelyard``: its names and signatures are stable, and each function says what its command says."""

import inspect
import json
import pydoc
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from syrupy.assertion import SnapshotAssertion

import steelyard
from steelyard import api
from steelyard._base import EnvironmentLacksError, RecordError, ResultSaysNoError, UsageError, schemas_dir
from steelyard.cli.fleet.registry import queries
from steelyard.records import Run, Verdict, read
from tests.calling import call
from tests.cli.suites import write_suite
from tests.fleet.simulated import simulated_store
from tests.folded import folded
from tests.report.runs import write_run

STUB = Path(steelyard.__file__).with_name("__init__.pyi")
SERVERS = "machine,processor,cpus,mem_gib,spec,web_per_s,power_w,price_usd\n" + "".join(
    f"m{at},p{at % 4},{8 + at},{32 + at},{100 + 9 * at},{1000 + 95 * at},{150 + 7 * at},{3000 + 100 * at}\n"
    for at in range(12)
)
CURVE = "cpus,ops_per_s\n1,1000\n2,1900\n4,3500\n8,6000\n"


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    write_run(folder / "run-1")
    write_run(folder / "run-2", index=2, scale=1.4)
    write_suite(folder / "suite-1", ("tao", "feed"))
    write_suite(folder / "suite-2", ("tao", "feed"), scale=1.3)
    folded(folder / "run-1", {"web;main [web]": 5}, name="profile.folded")
    (folder / "servers.csv").write_text(SERVERS)
    (folder / "curve.csv").write_text(CURVE)
    return folder


@pytest.fixture(scope="module")
def store() -> Iterator[steelyard.FleetStore]:
    with steelyard.open_store(
        simulated_store(machines=12, days=1, platforms=2, clusters=1, step_s=120)
    ) as made:
        yield made


def printed(*words: str, folder: Path | None = None) -> Any:
    done = call(*words, "--json", folder=folder)
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)


def same(mine: dict[str, Any], theirs: dict[str, Any]) -> None:
    """Hold a document to what a command printed, but for its page and its command."""
    document = json.loads(json.dumps(mine))
    assert document.keys() <= theirs.keys()
    for name, value in document.items():
        assert rounded(theirs[name]) == rounded(value), name


def rounded(value: Any) -> Any:
    """Return a document with numbers of nine digits: threads add up in any order."""
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    if isinstance(value, list):
        return [rounded(one) for one in value]
    # A large whole number may be a sum of shares, whose last digits depend on the order too.
    is_sum = isinstance(value, float) or (isinstance(value, int) and abs(value) > 10**9)
    return float(f"{value:.9g}") if is_sum else value


def test_names_and_signatures_are_stable(snapshot: SnapshotAssertion) -> None:
    lines = []
    for name in api.__all__:
        thing = getattr(steelyard, name)
        if not inspect.isclass(thing):
            lines.append(f"{name}{inspect.signature(thing)}")
            continue
        lines.append(f"class {name}")
        members = inspect.getmembers(thing, lambda one: inspect.isfunction(one) or isinstance(one, property))
        for method, value in members:
            if not method.startswith("_") and not issubclass(thing, Exception):
                shown = inspect.signature(value) if inspect.isfunction(value) else ""
                lines.append(f"    {method}{shown}")
    assert "\n".join(lines) == snapshot


def test_the_package_has_the_names_of_the_api_and_their_types() -> None:
    assert steelyard.__all__ == api.__all__
    for name in api.__all__:
        assert getattr(steelyard, name) is getattr(api, name)
        assert f"    {name} as {name},\n" in STUB.read_text()
    assert set(api.__all__) <= set(dir(steelyard))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = steelyard.nothing  # type: ignore[attr-defined]


def test_importing_the_package_loads_nothing_else() -> None:
    code = "import sys, steelyard; print(sorted(m for m in sys.modules if m.startswith('steelyard.')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_run_is_its_record_its_answer_and_its_figures(out: Path) -> None:
    found = steelyard.read(out / "run-1")
    record = read(Run, out / "run-1" / "run.json")
    assert found.record == found.result == record
    assert found.runs == [record]
    assert found.metrics == record.metrics
    assert isinstance(found.verdict, Verdict)
    assert found.verdict.level == "suspect"
    assert found.heading == "118 k requests/s"
    same(found.to_dict(), printed("report", str(out / "run-1")))
    figures = {one.figure: one for one in found.figures() if one.table == "metrics"}
    assert figures["hit_ratio"].value == 0.9003
    assert (figures["power_w"].value, figures["power_w"].note) == (None, "no power source on this machine")
    table = found.to_arrow()
    assert isinstance(table, pa.Table)
    assert table.column_names == list(steelyard.Figure._fields)
    assert table.num_rows == len(found.figures())
    frame = found.to_pandas()
    assert frame[frame.figure == "requests_per_s"].value.tolist() == [record.metrics["requests_per_s"].value]
    assert "118 k requests/s" in str(found)
    assert "\x1b" not in str(found)
    assert [one.rule for one in found.findings()]
    assert found.profile().total == 5


def test_readings_over_time_name_what_is_missing(out: Path) -> None:
    table = steelyard.read(out / "run-1").series()
    assert table.schema.field("count").type == pa.uint64()
    assert b"power: no /sys/class/powercap here" in table.schema.metadata[b"missing"]
    frame = steelyard.read(out / "run-1").series_to_pandas()
    assert set(frame[frame.source == "cpu"].entity) == {"0", "1"}


@pytest.mark.parametrize("kind", ["experiment", "tuning", "colocation"])
def test_other_folders_are_read_by_their_own_records(kind: str, tmp_path: Path) -> None:
    golden = json.loads((schemas_dir() / "golden" / f"{kind}.json").read_text())
    (tmp_path / f"{kind}.json").write_text(json.dumps(golden))
    found = steelyard.read(tmp_path)
    same({name: value for name, value in found.to_dict().items() if name in golden}, golden)
    assert found.figures()
    with pytest.raises(UsageError, match="is no run but a"):
        _ = found.metrics


def test_a_suite_has_its_runs(out: Path) -> None:
    found = steelyard.read("suite-1", runs=out)
    assert sorted(run.benchmark for run in found.runs) == ["feed", "tao"]
    assert {one.row.split(",")[0] for one in found.figures() if one.table == "metrics"} == {"feed", "tao"}
    with pytest.raises(UsageError, match="is no run but a suite"):
        _ = found.verdict


@pytest.mark.parametrize("pair", [("run-1", "run-2"), ("suite-1", "suite-2")])
def test_compare_says_what_the_command_says(pair: tuple[str, str], out: Path) -> None:
    found = steelyard.compare(*pair, runs=out)
    same(found.to_dict(), printed("compare", *pair, "--runs", str(out)))
    assert found.figures()


def test_scores_are_those_of_the_command(out: Path) -> None:
    for name in ("run-1", "suite-1"):
        same(steelyard.score(name, runs=out).to_dict(), printed("score", name, "--runs", str(out)))
    found = steelyard.score(
        out / "servers.csv", baseline="m0", result=["spec", "web_per_s"], weight={"spec": 2}
    )
    words = ("--baseline", "m0", "--result", "spec", "--result", "web_per_s", "--weight", "spec=2")
    same(found.to_dict(), printed("score", str(out / "servers.csv"), *words))
    assert found.answer.command.startswith("steelyard score ")
    with pytest.raises(UsageError, match="noise is for several machines"):
        steelyard.score("run-1", runs=out, noise="2%")


def test_decisions_are_those_of_the_commands(out: Path) -> None:
    servers = str(out / "servers.csv")
    chosen = steelyard.choose(servers, baseline="m0", power_price=0.1, demands={"web_per_s": 1e6})
    words = ("--baseline", "m0", "--power-price", "0.1", "--demand", "web_per_s=1000000.0")
    same(chosen.to_dict(), printed("choose", servers, *words))
    projected = steelyard.project(servers, target="web_per_s")
    same(projected.to_dict(), printed("project", servers, "--target", "web_per_s"))
    sized = steelyard.size(curves=out / "curve.csv", demand="5000")
    same(sized.to_dict(), printed("size", "--curve", str(out / "curve.csv"), "--rate", "5000"))
    # The command that is shown asks for the same.
    again = call(*chosen.answer.command.split()[1:], "--json")
    same(chosen.to_dict(), json.loads(again.stdout))
    assert all(result.figures() for result in (chosen, projected, sized))


def test_every_query_of_a_fleet_is_a_method(store: steelyard.FleetStore) -> None:
    assert set(store.queries) == {name.replace(" ", "_").replace("-", "_") for name in queries()}
    assert set(store.queries) <= set(dir(store))
    assert all(store.queries.values())
    for name in queries():
        assert callable(getattr(store, name.replace(" ", "_").replace("-", "_")))


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("top", {"by": "job", "rows": 5}, ("top", "--by", "job", "--rows", "5")),
        ("cpi_specs", {}, ("cpi", "specs")),
        ("pressure", {}, ("pressure",)),
        ("diff", {"a": "to=2026-03-02T12:00", "b": "from=2026-03-02T12:00"},
         ("diff", "to=2026-03-02T12:00", "from=2026-03-02T12:00")),
    ],
)  # fmt: skip
def test_a_query_says_what_its_command_says(
    name: str, options: dict[str, Any], words: tuple[str, ...], store: steelyard.FleetStore
) -> None:
    found = getattr(store, name)(**options)
    same(found.to_dict(), printed("fleet", *words, "--store", store.url))
    assert found.to_arrow().num_rows == len(found.figures())


def test_this_machine_is_the_inventory() -> None:
    found = steelyard.this_machine()
    theirs = printed("machine", "show")
    assert found.to_dict()["cpu"]["model"] == theirs["cpu"]["model"]
    assert found.result.kernel.release == theirs["kernel"]["release"]


def test_an_experiment_is_made_and_read(tmp_path: Path) -> None:
    found = steelyard.run_experiment(a="true", b="sleep 0.05", blocks=8, out=tmp_path)
    assert found.folder.parent == tmp_path
    assert [arm.name for arm in found.record.arms] == ["a", "b"]
    assert found.record.plan.blocks == 8
    assert steelyard.read(found.folder).record == found.record
    figures = {one.figure: one for one in found.figures()}
    assert "against a" not in figures
    assert figures["change against a"].unit == "ratio"
    assert figures["blocks"].unit == "1"


@pytest.mark.parametrize(
    ("call_it", "error", "line"),
    [
        (lambda out: steelyard.read(out / "nothing"), UsageError, "unknown run"),
        (lambda out: steelyard.read(out), UsageError, "unknown run"),
        (lambda out: steelyard.read(out / "run-2").profile(), ResultSaysNoError, "no profile was recorded"),
        (lambda out: steelyard.read(out / "run-1").profile("disk"), UsageError, "is no side"),
        (lambda out: steelyard.compare("run-1", "suite-1", runs=out), UsageError, "is a suite"),
        (lambda out: steelyard.choose(out / "servers.csv", nothing=1), UsageError, "no option 'nothing'"),
        (lambda out: steelyard.choose(out / "servers.csv", years="x"), UsageError, "years: 'x' is no number"),
        (lambda out: steelyard.choose(out / "servers.csv", years=1e9), UsageError, "outside"),
        (lambda out: steelyard.choose(out / "servers.csv", weights=["a"]), UsageError, "NAME = VALUE"),
        (lambda out: steelyard.project(out / "servers.csv"), UsageError, "nothing to project"),
        (lambda out: steelyard.open_store(out), EnvironmentLacksError, "not a store"),
        (lambda _: steelyard.open_store("x", "nothing"), (UsageError, EnvironmentLacksError), "."),
        (lambda _: steelyard.run("nothing"), UsageError, "nothing"),
        (lambda _: steelyard.run("tao", settings={"depth": object()}), UsageError, "no value of a setting"),
        (lambda _: steelyard.run_experiment("tao", resume="x"), UsageError, "no option 'resume'"),
    ],
)
def test_what_cannot_be_done_is_one_error(call_it: Any, error: Any, line: str, out: Path) -> None:
    with pytest.raises(error, match=line):
        call_it(out)


def test_a_record_that_cannot_be_read_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"kind": "run", "schema_version": "9.0"}')
    with pytest.raises(RecordError):
        steelyard.read(tmp_path)


def test_queries_that_are_not_there(store: steelyard.FleetStore) -> None:
    with pytest.raises(AttributeError, match="no query 'nothing'"):
        _ = store.nothing
    with pytest.raises(UsageError, match="no query 'cpi spec'") as caught:
        store.ask("cpi spec")
    assert caught.value.hint == "did you mean cpi specs?"
    with pytest.raises(UsageError, match="no query 3"):
        store.ask(3)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"top\(\) has no option 'row'") as caught:
        store.top(row=3)
    assert caught.value.hint == "did you mean rows?"
    with pytest.raises(UsageError, match=r"diff\(\) needs a and b"):
        store.diff()


def test_help_of_a_query_shows_its_options(store: steelyard.FleetStore) -> None:
    for name in store.queries:
        method = getattr(store, name)
        parameters = inspect.signature(method).parameters
        assert all(one.kind is one.KEYWORD_ONLY for one in parameters.values()), name
        assert all(f"    {one}" in method.__doc__ for one in parameters), name
    shown = pydoc.render_doc(store.diff, renderer=pydoc.plaintext)
    assert "diff(*, a: str, b: str, by: " in shown
    assert "b: Selection to compare with" in shown


@pytest.mark.parametrize(
    ("call_it", "said", "hint"),
    [
        (lambda: steelyard.choose(baselin="x"), "choose() has no option 'baselin'", "did you mean baseline?"),
        (lambda: steelyard.run("tao", teir="quick"), "run() has no option 'teir'", "did you mean tier?"),
        (lambda: steelyard.run(), "run() needs name", "help(run) says what they are"),  # type: ignore[call-arg]
        (lambda: steelyard.compare("x"), "compare() needs b", "help(compare) says what they are"),
        (lambda: steelyard.choose(workload="a", workloads=["b"]), "choose() was given workloads twice",
         "workloads is another name of it"),
    ],
)  # fmt: skip
def test_a_call_that_does_not_fit_names_the_nearest_option(call_it: Any, said: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        call_it()
    assert (caught.value.message, caught.value.hint) == (said, hint)


def test_options_may_have_the_names_of_their_flags(out: Path) -> None:
    servers = out / "servers.csv"
    by_field = steelyard.choose(servers, baseline="m0", workloads=["web_per_s"], by="perf")
    by_flag = steelyard.choose(servers, baseline="m0", workload=["web_per_s"], order_by="perf")
    same(by_flag.to_dict(), by_field.to_dict())


def test_a_reading_stands_for_its_path(out: Path) -> None:
    run, other = steelyard.read(out / "run-1"), steelyard.read(out / "run-2")
    same(steelyard.compare(run, other).to_dict(), steelyard.compare(out / "run-1", out / "run-2").to_dict())
    assert steelyard.read(run).record == run.record
    assert steelyard.score(run).result.run_id == run.record.run_id


def test_repeats_and_tags_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def refuse(request: Any, **_: Any) -> None:
        asked.append(request)
        raise UsageError("enough")

    monkeypatch.setattr("steelyard.bench.launch.execute", refuse)
    with pytest.raises(UsageError, match="enough"):
        steelyard.run("tao", repeat=3, tags="nightly")
    assert (asked[0].repeat, asked[0].tags) == (3, ("nightly",))


def test_without_pandas_the_rest_works(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    found = steelyard.read(out / "run-1")
    with pytest.raises(EnvironmentLacksError, match="pandas is not installed") as caught:
        found.to_pandas()
    assert caught.value.hint == "pip install pandas, or take .to_arrow()"
    assert found.to_arrow().num_rows


def test_types_are_known_to_a_checker(tmp_path: Path) -> None:
    (tmp_path / "user.py").write_text(
        "import steelyard\n"
        "found = steelyard.read('x')\n"
        "value: float | None = found.metrics['a'].value\n"
        "text: str = found.heading\n"
        "ranked: str = steelyard.project('a.csv', target='b').result.target\n"
        "wrong: int = found.heading\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--cache-dir", tmp_path / "c",
         tmp_path / "user.py"],
        cwd=Path(steelyard.__file__).parents[2], capture_output=True, text=True, check=False,
    )  # fmt: skip
    errors = [line for line in done.stdout.splitlines() if "user.py" in line and ": error:" in line]
    assert len(errors) == 1, done.stdout
    assert ":6: " in errors[0]


def test_a_result_is_one_line_in_a_shell_and_its_answer_in_a_notebook(out: Path) -> None:
    run, chosen = steelyard.read(out / "run-1"), steelyard.choose(out / "servers.csv", baseline="m0")
    assert repr(run) == f"<Reading of {run.answer.title}: {run.heading}, suspect>"
    assert repr(chosen) == f"<Result of Choice: {chosen.heading}>"
    shown = chosen._repr_markdown_()
    assert shown.startswith(f"**{chosen.heading}**")
    assert "| machine |" in shown
    assert "more tables: print() shows all." in shown
    long = steelyard.choose(_many(out / "many.csv"), baseline="m0")._repr_markdown_()
    assert "10 more rows" in long
    assert len(long) < 8000


def _many(path: Path) -> Path:
    path.write_text("machine,web_per_s\n" + "".join(f"m{at},{1000 + at}\n" for at in range(30)))
    return path
