"""SparkBench for real: whole runs, an executor that is killed, and the same query on another engine."""

import json
import os
import signal
import subprocess
import sys

import pytest

from steelyard._base import executable
from steelyard.bench import runs
from steelyard.bench.stack.recipe import prepared_dir
from steelyard.benchmarks.spark import parameters
from steelyard.records import Level, RunStatus
from tests.bench.conftest import linked_stacks, marked
from tests.benchmarks.spark.spark_driver import SOURCE, load_driver
from tests.fleet.store.spark_cluster import cluster
from tests.ssh_server import serving

TINY = ("scale=1MB", "warmups=0")


@pytest.fixture
def stack(monkeypatch, tmp_path):
    """Spark as it is installed, without tables."""
    monkeypatch.setenv("STEELYARD_STACKS", str(linked_stacks(tmp_path, "spark")))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_run_has_three_stages_and_the_same_result_again(runner, stack):
    live = runner.start(settings=(*TINY, "queries=2"), benchmark="spark")
    code, output, errors = live.finish(400)
    # Other work on the machine makes the verdict invalid: that is 1.
    assert code in (0, 1), errors
    run = live.run()
    assert {step.name for step in run.steps} == {
        f"{step}-{query}" for step in ("first_scan", "second_scan", "compare") for query in (1, 2)
    }
    assert run.metrics["queries_per_hour"].value > 0
    assert run.metrics["server_cpu_ratio"].value > 0
    assert run.metrics["tables_bytes"].value == pytest.approx(1e6, rel=0.2)
    rows = run.metrics["rows_per_s"].value * run.metrics["query_s"].value
    assert rows == pytest.approx(parameters.rows_of(10**6) + 50_360)
    checks = {check.id: check for check in run.verdict.checks}
    assert checks["result"].level is Level.VALID
    assert checks["failed-tasks"].level is Level.VALID
    # Executors still run at the end of the phase, and name what they have compiled.
    assert "no_java_names" not in run.hooks["profile"]
    assert "org.apache.spark.unsafe.types.UTF8String" in (live.directory / "profile.folded").read_text()
    (tables,) = prepared_dir("spark").iterdir()
    assert not [path for path in live.directory.iterdir() if path.name == "scratch"]
    assert json.loads(output)["runs"][0]["run_id"] == run.run_id
    # The same tables on another cluster, with a result that is not theirs.
    (tables / ".result.json.crc").unlink()
    (tables / "result.json").write_text(json.dumps({"rows": 1, "sum": "1"}))
    elsewhere = runner.out.parent / "other"
    other = runner.start(
        "--out", str(elsewhere), settings=(*TINY, "queries=1", "master=local[1]"), benchmark="spark"
    )
    assert other.finish(400)[0] == 1
    (folder,) = elsewhere.iterdir()
    checks = {check.id: check for check in runs.load(folder).verdict.checks}
    assert checks["result"].level is Level.INVALID


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_an_executor_that_is_killed_makes_the_run_incomplete(runner, stack):
    live = runner.start(settings=(*TINY, "queries=1000"), benchmark="spark")
    live.until(lambda: live.in_phase("measure"), 300.0)
    executors = [
        pid for pid, command in marked(live.mark).items() if "CoarseGrainedExecutorBackend" in command
    ]
    for pid in executors:
        os.kill(pid, signal.SIGKILL)
    assert executors
    assert live.finish(120)[0] == 4
    assert "executor 0 was lost in phase measure: Command exited with code 137" in live.complaint()
    assert live.run().status is RunStatus.INCOMPLETE
    assert not list(live.directory.glob("scratch"))
    # What was made before stays; what was being written is gone.
    assert [path.name[:2] for path in prepared_dir("spark").iterdir()] == ["v1"]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_executors_on_two_hosts_give_one_result_with_the_telemetry_of_each(runner, stack, tmp_path):
    """Two addresses of this machine are two hosts to Spark; one of them is recorded over ssh."""
    with (
        cluster(tmp_path, ("127.0.0.1", "127.0.0.2")) as master,
        serving(tmp_path / "ssh") as far,
    ):
        live = runner.start(
            settings=(
                *("scale=4MB", "warmups=1", "queries=2", f"master={master}", f"tables={tmp_path}"),
                *("executors=2", "executor_cores=1", "memory=1GiB"),
                "conf=spark.driver.host=127.0.0.1 spark.driver.bindAddress=127.0.0.1",
                *(f"executor_hosts=127.0.0.2={far.address} 127.0.0.9={far.address}", f"ssh={far.ssh}"),
                f"remote_probe={executable('steelyard-probe')}",
            ),
            benchmark="spark",
        )
        code, _, errors = live.finish(400)
    assert code in (0, 1), errors
    run = live.run()
    assert run.metrics["executor_hosts"].value == 2
    assert 1.0 <= run.metrics["host_cpu_skew_ratio"].value < 2.0
    document = json.loads((live.directory / "stages.json").read_text())
    stages = [
        stage for query in document["queries"] for stage in (*query["steps"].values(), *query["others"])
    ]
    hosts = {host["host"]: host for host in document["hosts"]}
    assert set(hosts) == {"127.0.0.1", "127.0.0.2", "127.0.0.9"}
    did = [hosts[name]["did"] for name in ("127.0.0.1", "127.0.0.2")]
    assert all(one["tasks"] > 0 and one["cpu_s"] > 0 for one in did)
    for figure in ("tasks", "read_bytes", "shuffle_written_bytes", "shuffle_read_bytes", "written_bytes"):
        assert sum(one[figure] for one in did) == sum(stage[figure] for stage in stages), figure
    # Half of what is shuffled is on the other host.
    assert sum(one["remote_read_bytes"] for one in did) > 0
    here, there = hosts["127.0.0.1"]["telemetry"], hosts["127.0.0.2"]["telemetry"]
    assert there["cpu_ratio"] == pytest.approx(here["cpu_ratio"], abs=0.1)
    assert there["least_available_bytes"] == pytest.approx(here["least_available_bytes"], rel=0.1)
    assert hosts["127.0.0.9"]["did"] is None
    page = (live.directory / "report.html").read_text()
    assert "from other executors" in page
    assert "no executor was here" in page
    assert live.left() == {}
    assert not list((live.directory / "hosts").glob("*.tar"))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_another_file_system_keeps_the_tables_and_what_a_killed_run_leaves_is_named(runner, stack, tmp_path):
    """The user's configuration says what ``viewfs:`` is, as it would of an object store."""
    configuration = tmp_path / "conf"
    configuration.mkdir()
    store = tmp_path / "store"
    store.mkdir()
    (configuration / "core-site.xml").write_text(
        "<configuration><property><name>fs.viewfs.mounttable.store.link./warehouse</name>"
        f"<value>{store.as_uri()}</value></property></configuration>"
    )
    # Steelyard's own settings win: it follows a log in one file.
    (configuration / "spark-defaults.conf").write_text("spark.eventLog.compress true\nspark.x.y z\n")
    settings = (*TINY, "tables=viewfs://store/warehouse", f"spark_conf={configuration}")
    killed = runner.start(settings=(*settings, "queries=1000"), benchmark="spark")
    killed.until(lambda: killed.in_phase("measure") and any(store.glob("steelyard-*-output")), 300.0)
    killed.process.send_signal(signal.SIGKILL)
    killed.finish(60)
    killed.until(lambda: not killed.left(), 60.0)
    # Each query replaces it: between two there is none.
    left = {path.name for path in store.iterdir() if path.name.startswith("steelyard-")}
    assert left <= {f"steelyard-{killed.directory.name}-output"}
    elsewhere = runner.out.parent / "other"
    other = runner.start("--out", str(elsewhere), settings=(*settings, "queries=1"), benchmark="spark")
    code, _, errors = other.finish(400)
    assert code in (0, 1), errors
    assert f"left viewfs://store/warehouse/steelyard-{killed.directory.name}-partial and " in errors
    # The tables are used again; of the run that ended nothing is left, neither there nor in the journal.
    (folder,) = elsewhere.iterdir()
    assert json.loads((folder / "stages.json").read_text())["tables"]["reused"] is True
    names = {path.name for path in store.iterdir() if not path.name.startswith(".")}
    assert names == {*left, f"v1-seed1-rows{parameters.rows_of(10**6)}"}
    journal = runner.state / "steelyard" / "undo"
    assert [path.name for path in journal.glob("*.json")] == [f"{killed.directory.name}-remote.json"]


DUCKDB = """
WITH weeks AS (
    SELECT period, user_id, category_id, market_id, query, title, trace,
           (quantity * paid_cents * rate_millionths) // 1000000 AS spent_cents
    FROM events JOIN items USING (item_id) JOIN regions USING (region_id) JOIN devices USING (device_id)
    WHERE NOT is_robot),
sums AS (
    SELECT period, user_id, category_id, count(*) AS events, sum(spent_cents) AS spent_cents,
           max(market_id) AS market_id, sum(levenshtein(query, title)) AS distance,
           max(length(title)) AS longest, max(query) AS query,
           min(sha256(concat(trace, regexp_replace(title, '[aeiou]+', '*', 'g')))) AS digest
    FROM weeks GROUP BY ALL)
SELECT user_id, category_id, coalesce(b.events, 0), coalesce(b.events, 0) - coalesce(a.events, 0),
       coalesce(b.spent_cents, 0) - coalesce(a.spent_cents, 0), coalesce(b.market_id, a.market_id),
       coalesce(b.distance, 0) - coalesce(a.distance, 0), greatest(a.longest, b.longest),
       levenshtein(coalesce(a.query, ''), coalesce(b.query, '')),
       sha256(concat(coalesce(a.digest, ''), coalesce(b.digest, ''))),
       CASE WHEN a.events IS NULL THEN 'new' WHEN b.events IS NULL THEN 'gone'
            WHEN b.spent_cents > a.spent_cents THEN 'more' ELSE 'less' END
FROM (FROM sums WHERE period = 0) a FULL JOIN (FROM sums WHERE period = 1) b USING (user_id, category_id)
WHERE abs(coalesce(b.spent_cents, 0) - coalesce(a.spent_cents, 0)) >= 1000 ORDER BY ALL
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_another_engine_has_the_same_result(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    driver = load_driver()
    tables, output = tmp_path / "tables", tmp_path / "output"
    rows = 20_000
    command = [
        *(sys.executable, str(SOURCE / "driver.py"), "--master", "local[2]", "--rows", str(rows)),
        *(
            "--tables",
            tables.as_uri(),
            "--partial",
            (tmp_path / "partial").as_uri(),
            "--output",
            output.as_uri(),
        ),
        *("--data-seed", "5", "--partitions", "3", "--keep-output", "--warmups", "0", "--queries", "1"),
    ]
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_CONF_DIR": str(SOURCE / "conf")}
    (tmp_path / "events").mkdir()
    command += ["--conf", f"spark.eventLog.dir={(tmp_path / 'events').as_uri()}"]
    done = subprocess.run(
        command, input="go\n", capture_output=True, text=True, check=False, timeout=500, env=environment
    )
    assert done.returncode == 0, done.stderr
    connection = duckdb.connect()
    for name in ("events", "items", "regions", "devices"):
        connection.sql(f"CREATE VIEW {name} AS FROM read_parquet('{tables}/{name}/**/*.parquet')")
    columns = (
        "user_id, category_id, events, events_change, spent_change_cents, market_id, distance_change,"
        " longest, query_change, digest, trend"
    )
    found = connection.sql(f"SELECT {columns} FROM read_parquet('{output}/query-1/*.parquet') ORDER BY ALL")
    wanted = connection.sql(DUCKDB).fetchall()
    assert len(wanted) > 1000
    assert found.fetchall() == wanted
    # Cardinality and skew are those that the document states.
    counts = dict(connection.sql("SELECT user_id, count(*) FROM events GROUP BY 1").fetchall())
    users = max(1000, rows // driver.ROWS_PER_USER)
    assert min(counts) >= 1
    assert max(counts) <= users
    expected = rows * (2**0.2 - 1) / ((users + 1) ** 0.2 - 1)
    assert counts[1] == pytest.approx(expected, rel=0.15)
    assert connection.sql("SELECT count(DISTINCT event_id), count(*) FROM events").fetchall() == [
        (rows, rows)
    ]
