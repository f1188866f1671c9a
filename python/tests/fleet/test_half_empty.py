"""Every query over half-empty and spoilt stores: it answers, or says in one line why not."""

import json
import math
import shlex
import tempfile
from pathlib import Path

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steelyard.cli.fleet.registry import queries
from steelyard.cli.fleet.schemas import schema_of
from steelyard.cli.main import invoke
from steelyard.fleet.cpi.specs import find_specs
from steelyard.fleet.store.schema import TABLES
from steelyard.fleet.store.store import create_store, open_store
from steelyard.telemetry.engine import fetch_rows
from tests.fleet.half_empty import Shape, google_sample, make

QUERIES = {
    **{name: [*name.split(), *shlex.split(one.examples[0])] for name, one in queries().items()},
    "cpi specs": ["cpi", "specs"],
    "cpi specs of few": ["cpi", "specs", "--min-tasks", "1", "--min-samples", "2", "--threshold", "gev"],
    "cpi outliers": ["cpi", "outliers", "--specs", "computed", "--min-tasks", "1", "--min-samples", "2"],
    "cpi outliers stored": ["cpi", "outliers"],
    "cpi incidents": ["cpi", "incidents", "--min-tasks", "1", "--min-samples", "2"],
    "cpi distribution": ["cpi", "distribution", "--min-tasks", "1", "--min-samples", "2"],
    "top by category": ["top", "--by", "category"],
    "diff": ["diff", "machine=m0", "machine=m1"],
    "smt": ["smt", "--uplift", "0.25"],
}
SHAPES = {
    "no rows": Shape(samples=0),
    "one row": Shape(samples=1, jobs=1, machines=1),
    "one job": Shape(jobs=1),
    "one machine": Shape(machines=1),
    "several of all": Shape(samples=12, jobs=3, machines=4, platforms=2, tasks=2),
    "all equal": Shape(equal=True),
    "only optional columns null": Shape(missing=frozenset("*")),
    "all values null": Shape(samples=5, null=1.0),
    "half of all values null": Shape(null=0.1),
    "figures that are no numbers": Shape(wild=0.05),
    "nothing but figures that are no numbers": Shape(samples=10, wild=1.0),
    "skewed clocks": Shape(skew_s=2000),
    "only samples of tasks": Shape(tables=frozenset({"task_samples"})),
    "only samples of machines": Shape(tables=frozenset({"machine_samples"})),
}

PAGED = ("one row", "all equal", "all values null", "only optional columns null")
QUICK = ("no rows", "one row", "only optional columns null", "figures that are no numbers")
"""Shapes that every query is asked of each time; the others are slow."""


def ask(store, words, capsys, page=None):
    """Ask a query; return its exit code and document, after what every answer must keep."""
    report = [] if page is None else ["--report", str(page)]
    code = invoke(["fleet", *words, "--store", store, "--json", *report])
    out, err = capsys.readouterr()
    assert "internal error" not in err, err
    assert code in (0, 1, 3), err
    if not out:
        assert code != 0
        assert err.count("\n") == 1
        assert err.startswith("steelyard: ")
        return code, None

    def refuse(constant):
        raise AssertionError(f"{constant} is in the document")

    document = json.loads(out, parse_constant=refuse)
    command = "_".join(words[:2] if words[0] == "cpi" else words[:1])
    jsonschema.Draft202012Validator(schema_of(command)).validate(document)
    if page is not None:
        assert "</html>" in page.read_text()
        assert invoke(["fleet", *words, "--store", store]) == code
        out, err = capsys.readouterr()
        assert "internal error" not in err, err
    return code, document


@pytest.fixture(
    scope="module",
    params=[pytest.param(one, marks=() if one in QUICK else pytest.mark.slow) for one in SHAPES],
)
def store(request, tmp_path_factory):
    return make(tmp_path_factory.mktemp("half") / "store", SHAPES[request.param]), request.param


def test_every_query_answers_or_says_why_not(store, capsys, tmp_path):
    url, shape = store
    # Pages and terminals of what has least to show; documents of all.
    page = tmp_path / "page.html" if shape in PAGED else None
    for name, words in QUERIES.items():
        try:
            ask(url, words, capsys, page)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from error


shapes = st.builds(
    Shape,
    samples=st.integers(0, 6),
    jobs=st.integers(0, 3),
    machines=st.integers(1, 3),
    platforms=st.integers(1, 2),
    tasks=st.integers(1, 2),
    missing=st.frozensets(st.sampled_from(sorted({c.name for t in TABLES.values() for c in t.columns}))),
    equal=st.booleans(),
    wild=st.sampled_from((0.0, 0.1, 0.5)),
    null=st.sampled_from((0.0, 0.0, 0.1)),
    skew_s=st.sampled_from((0, 7, 90_000)),
    tables=st.frozensets(st.sampled_from(sorted(TABLES)), min_size=1),
    seed=st.integers(0, 1000),
)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(shape=shapes, names=st.lists(st.sampled_from(sorted(QUERIES)), min_size=3, max_size=3, unique=True))
def test_any_half_empty_store_is_answered(shape, names, capsys):
    with tempfile.TemporaryDirectory() as folder:
        url = make(Path(folder) / "store", shape)
        for name in names:
            ask(url, QUERIES[name], capsys)


def test_missing_is_never_zero(capsys, tmp_path):
    url = make(tmp_path / "store", SHAPES["only optional columns null"])
    _, specs = ask(url, QUERIES["cpi specs"], capsys)
    for spec in specs["specs"]:
        assert (spec["cpi_mean"], spec["cpi_sd"], spec["threshold_cpi"]) == (None, None, None)
        assert spec["missing"] == "no sample counts"
    _, pressure = ask(url, QUERIES["pressure"], capsys)
    for job in pressure["jobs"]:
        for use in job["resources"].values():
            assert (use["mean_ratio"] is None) == bool(use["missing"])
            assert use["mean_ratio"] != 0
    _, frequency = ask(url, QUERIES["frequency"], capsys)
    total = frequency["total"]
    assert (total["frequency_hz"], total["lost_ratio"]) == (None, None)
    assert total["missing"]
    assert ask(url, QUERIES["numa"], capsys) == (1, None)


@pytest.mark.parametrize("threshold", [0.0, -1.0, math.inf, math.nan])
def test_a_stored_threshold_that_is_no_cpi_is_no_threshold(threshold, capsys, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = tmp_path / "store"
    url = make(folder, Shape(samples=12))
    (path,) = (folder / "cpi_specs").rglob("*.parquet")
    specs = pq.read_table(path, partitioning=None)
    at = specs.schema.get_field_index("threshold_cpi")
    pq.write_table(specs.set_column(at, specs.schema.field(at), pa.array([threshold])), path)
    _, incidents = ask(url, QUERIES["cpi incidents"], capsys)
    assert "from the same samples" in incidents["settings"]["specs"]
    # Too few samples for specs of their own.
    assert ask(url, QUERIES["cpi outliers stored"], capsys) == (1, None)


def test_figures_that_are_no_numbers_are_missing_and_spoil_no_other(tmp_path):
    folder = tmp_path / "store"
    make(folder, Shape(samples=20, jobs=1, machines=1))
    good = make(tmp_path / "good", Shape(samples=20, jobs=1, machines=1))
    with open_store(good) as opened:
        rows = fetch_rows(opened.table("task_samples").order_by("window_start_unix_s"))
    path = next((folder / "task_samples").rglob("*.parquet"))
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(path, partitioning=None)
    cpi = table["cpi"].to_pylist()
    cpi[3], cpi[5] = math.nan, math.inf
    cpu_s = table["cpu_s"].to_pylist()
    cpu_s[7] = math.nan
    for name, values in (("cpi", cpi), ("cpu_s", cpu_s)):
        at = table.column_names.index(name)
        table = table.set_column(at, table.schema.field(at), pa.array(values))
    pq.write_table(table, path)
    for _ in range(2):
        with open_store(str(folder)) as opened:
            found = fetch_rows(opened.table("task_samples").order_by("window_start_unix_s"))
        # What may be missing is missing; what every row must have takes its row with it.
        expected = [dict(row) for at, row in enumerate(rows) if at != 7]
        expected[3]["cpi"] = expected[5]["cpi"] = None
        assert found == expected
        assert invoke(["fleet", "compact", "--store", str(folder)]) == 0


def test_a_job_of_one_and_the_same_cpi_has_no_threshold(capsys, tmp_path):
    csv, mapping = google_sample(tmp_path)
    url = str(tmp_path / "store")
    create_store(url)
    assert invoke(["fleet", "import", "csv", str(csv), "--mapping", str(mapping), "--store", url]) == 0
    capsys.readouterr()
    with open_store(url) as opened:
        constant = next(one for one in find_specs(opened.table("task_samples")) if one.job == "j0")
    assert (constant.samples, constant.threshold_cpi) == (3476, None)
    assert constant.missing == "CPI does not vary: every sample is the same"
    for words in (*list(QUERIES.values())[:6], ["cpi", "specs", "--job", "j0"], QUERIES["pair"]):
        ask(url, words, capsys, tmp_path / "page.html")


@pytest.mark.parametrize("seed", [2, 3])
def test_other_samples_of_that_shape_are_answered(seed, capsys, tmp_path):
    csv, mapping = google_sample(tmp_path, jobs=25, seed=seed)
    url = str(tmp_path / "store")
    assert invoke(["fleet", "import", "csv", str(csv), "--mapping", str(mapping), "--store", url]) == 0
    capsys.readouterr()
    for name in ("cpi specs of few", "cpi distribution", "cpi outliers"):
        ask(url, QUERIES[name], capsys)
