"""The load engine speaks CQL with a real Cassandra; cassandra-driver looks at what it has done."""

import json
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import Cluster, NoHostAvailable, Session

from tests.executables import backends, servers

CASSANDRA = servers.ROOT / "workloads" / "cassandra"
# Installing it is for scripts/install-test-packages; starting it takes seconds, more on a busy machine.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

TYPES = '''
schema_version = "1.0"
kind = "mix"
prefill = "write"
[keys]
count = 40
[values]
sizes = 25
[cql]
consistency = "ONE"
setup = [
  """CREATE KEYSPACE IF NOT EXISTS types
     WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}""",
  "DROP TABLE IF EXISTS types.all",
  """CREATE TABLE types.all (b bigint PRIMARY KEY, i int, s smallint, y tinyint, t text, a ascii, o blob,
     u uuid, v timeuuid, d double, f float, l boolean, w timestamp)""",
]
[[operation]]
name = "write"
weight = 1
effect = "write"
[operation.cql]
statement = """INSERT INTO types.all (b, i, s, y, t, a, o, u, v, d, f, l, w)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
binds = ["{key}", "{value_bytes}", "-300", "{uniform:7:7}", "{text}", "{key}", "{value}",
  "{key}", "{key}", "{key}", "0.25", "true", "{key}"]
'''

READS = """
schema_version = "1.0"
kind = "mix"
[keys]
count = 100
[[operation]]
name = "read"
weight = 1
effect = "read"
cql = { statement = "SELECT v FROM STORE WHERE k = ?", binds = ["{key}"] }
"""


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Run Cassandra, asking for passwords, and return where it listens."""
    folder = tmp_path_factory.mktemp("cassandra")
    (folder / "password").write_text("cassandra\n")
    with socket.socket() as one, socket.socket() as other:
        for probe in (one, other):
            probe.bind(("127.0.0.1", 0))
        cql, storage = one.getsockname()[1], other.getsockname()[1]
    command = [str(CASSANDRA / "serve"), "--data", str(folder / "data"), "--heap", "512M", "--password"]
    command += ["--port", str(cql), "--storage-port", str(storage)]
    with (folder / "log").open("wb") as log:
        # One that lives for seconds is up sooner when Java's second compiler stays away.
        environment = {**os.environ, "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1"}
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)
        try:
            pause = threading.Event()
            for _ in range(1200):
                assert process.poll() is None, (folder / "log").read_text()
                try:
                    socket.create_connection(("127.0.0.1", cql), timeout=5).close()
                    break
                except OSError:
                    pause.wait(0.1)
            yield cql
        finally:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def password(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file with the password."""
    file = tmp_path_factory.mktemp("password") / "password"
    file.write_text("cassandra\n")
    return file


@pytest.fixture(scope="module")
def session(port: int) -> Iterator[Session]:
    """Connect with the driver."""
    provider = PlainTextAuthProvider("cassandra", "cassandra")
    pause = threading.Event()
    for attempt in range(300):
        cluster = Cluster(["127.0.0.1"], port=port, auth_provider=provider, protocol_version=4)
        try:
            connected = cluster.connect()
            break
        except NoHostAvailable:
            # A new node makes its first user when it has begun to serve.
            cluster.shutdown()
            assert attempt < 299
            pause.wait(0.1)
    table(connected, "reads.store")
    yield connected
    cluster.shutdown()


def command(port: int, mix: str | Path, *flags: str) -> list[str]:
    """Return the command line of a short load."""
    command = [str(servers.executable("steelyard-load")), "--protocol", "cql", "--mix", str(mix)]
    command += ["--target", f"127.0.0.1:{port}", "--connections", "2", "--warmup", "100ms"]
    return [*command, "--json", "--progress", "none", *flags]


def run(port: int, mix: str | Path, password: Path, *flags: str) -> dict[str, Any]:
    """Load Cassandra and return the result."""
    line = command(port, mix, "--user", "cassandra", "--password-file", str(password), *flags)
    return backends.result_of(subprocess.run(line, check=False, capture_output=True, text=True, timeout=120))


def test_a_shipped_mix_is_set_up_filled_and_run(port: int, password: Path, session: Session) -> None:
    flags = ("--keys", "300", "--prefill", "--depth", "20", "--duration", "1s")
    result = run(port, "ycsb-a", password, *flags)
    assert result["requests"]["errors"] == 0
    assert result["requests"]["completed"] > 50
    read = result["operations"]["read"]
    assert read["completed"] == read["hits"] > 0
    assert read["misses"] == 0
    rows = list(session.execute("SELECT * FROM ycsb.usertable"))
    assert len({row.y_id for row in rows}) == 300
    assert all(len(getattr(row, f"field{i}")) == 100 for row in rows for i in range(10))


OPERATIONS = {
    "a": {"read", "update"},
    "b": {"read", "update"},
    "c": {"read"},
    "d": {"read", "insert"},
    "e": {"scan", "insert"},
    "f": {"read", "read-modify-write"},
}
"""What YCSB's core workloads do."""
READING = {"read", "scan"}
"""Those that count hits."""
ROW_BYTES = 4 + 23 + 10 * (4 + 100)
"""A row in an answer: each column has its length in front."""
MEAN_LENGTH = 50.5
"""Of a scan, from 1 to 100."""


@pytest.mark.parametrize("workload", OPERATIONS)
def test_each_core_workload_finds_its_records(
    port: int, password: Path, session: Session, workload: str
) -> None:
    keys = 2000
    flags = ("--keys", str(keys), "--prefill", "--depth", "4", "--duration", "2s")
    result = run(port, f"ycsb-{workload}", password, *flags)
    assert result["requests"]["errors"] == 0
    operations = {name: each for name, each in result["operations"].items() if each["completed"]}
    assert set(operations) == OPERATIONS[workload]
    assert result["requests"]["completed"] > 100
    for name in READING & set(operations):
        assert operations[name]["hits"] == operations[name]["completed"] > 30, name
        assert operations[name]["misses"] == 0, name
    stored = session.execute("SELECT count(*) FROM ycsb.usertable").one()[0]
    inserted = operations.get("insert", {"completed": 0})["completed"]
    assert stored >= keys + inserted
    if workload == "e":
        # Whole ranges come back; one that begins at the end of the ring is shorter.
        rows = result["received_bytes"] / ROW_BYTES / operations["scan"]["completed"]
        assert 0.75 * MEAN_LENGTH < rows < 1.25 * MEAN_LENGTH


def test_values_have_the_types_of_their_columns(
    port: int, password: Path, session: Session, tmp_path: Path
) -> None:
    mix = tmp_path / "mix.toml"
    mix.write_text(TYPES)
    result = run(port, mix, password, "--prefill", "--duration", "200ms")
    assert result["requests"]["errors"] == 0
    rows = {row.b: row for row in session.execute("SELECT * FROM types.all")}
    assert sorted(rows) == list(range(40))
    assert len({row.u for row in rows.values()} | {row.v for row in rows.values()}) == 80
    for key, row in rows.items():
        assert (row.i, row.s, row.y, row.d, row.f, row.l) == (25, -300, 7, float(key), 0.25, True)
        assert len(row.t) == len(row.o) == 25
        assert isinstance(row.o, bytes)
        assert row.w.timestamp() == key / 1000
        assert (row.u.version, row.v.version) == (4, 1)
        assert {type(row.u), type(row.v)} == {UUID}


def test_rows_are_hits_and_their_absence_misses(
    port: int, password: Path, session: Session, tmp_path: Path
) -> None:
    table(session, "reads.some")
    for key in range(0, 100, 2):
        session.execute("INSERT INTO reads.some (k, v) VALUES (%s, 'a')", (key,))
    mix = tmp_path / "mix.toml"
    mix.write_text(READS.replace("STORE", "reads.some"))
    result = run(port, mix, password, "--depth", "300", "--duration", "1s")
    counts, read = result["requests"], result["operations"]["read"]
    assert counts["errors"] == 0
    assert read["hits"] + read["misses"] == counts["completed"] > 300
    # Uniform: half of them, four standard deviations allowed.
    assert abs(read["hits"] - counts["completed"] / 2) < 2 * counts["completed"] ** 0.5


def table(session: Session, name: str) -> None:
    """Make a table anew."""
    keyspace = name.split(".")[0]
    replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
    session.execute(f"CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication = {replication}")
    session.execute(f"DROP TABLE IF EXISTS {name}")
    session.execute(f"CREATE TABLE {name} (k bigint PRIMARY KEY, v text)")


def test_a_statement_that_the_server_forgets_is_prepared_again(
    port: int, password: Path, session: Session, tmp_path: Path
) -> None:
    table(session, "reads.forgotten")
    mix = tmp_path / "mix.toml"
    mix.write_text(READS.replace("STORE", "reads.forgotten"))
    line = command(port, mix, "--user", "cassandra", "--password-file", str(password), "--duration", "60s")
    line[line.index("--progress") + 1] = "json"
    load = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert load.stderr
        events = (json.loads(text) for text in load.stderr)
        first = next(e for e in events if e["event"] == "interval" and e["completed"] > 0)
        # Whatever was prepared for the table goes with it.
        table(session, "reads.forgotten")
        session.execute("INSERT INTO reads.forgotten (k, v) VALUES (1, 'a')")
        later = next(e for e in events if e["event"] == "interval" and e.get("errors") == 0 and e != first)
        later = next(e for e in events if e["event"] == "interval" and e.get("errors") == 0 and e != later)
        assert later["completed"] > 0
        load.send_signal(2)
        out, _ = load.communicate(timeout=30)
    finally:
        load.kill()
        load.wait()
    result = json.loads(out)
    assert "unprepared" not in result["requests"]["errors_by_kind"]
    assert result["operations"]["read"]["hits"] > 0


@pytest.mark.parametrize(
    ("flags", "mix", "words"),
    [
        ((), READS, "the server asks for a password (see --user)"),
        (("--user", "cassandra"), READS, "Password must not be null"),
        (("PASSWORD",), READS.replace("STORE", "nowhere.none"), "keyspace nowhere does not exist"),
        (
            ("PASSWORD",),
            READS.replace("SELECT v FROM STORE WHERE", "SELECT ALL THE"),
            "no viable alternative",
        ),
        (
            ("PASSWORD",),
            READS.replace('"{key}"', '"{key}", "1"').replace("STORE", "system.local"),
            "Undefined column name k",
        ),
        (("PASSWORD",), TYPES.replace("DROP TABLE", "DROP NOTHING"), "DROP NOTHING"),
        (("PASSWORD",), TYPES.replace('"{value_bytes}"', '"12x"'), 'int: "12x" is none'),
    ],
)
def test_what_cannot_be_done_is_one_line(
    port: int, password: Path, session: Session, tmp_path: Path, flags: tuple[str, ...], mix: str, words: str
) -> None:
    file = tmp_path / "mix.toml"
    file.write_text(mix.replace("STORE", "reads.store"))
    if flags == ("PASSWORD",):
        flags = ("--user", "cassandra", "--password-file", str(password))
    line = command(port, file, "--duration", "200ms", *flags)
    done = subprocess.run(line, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (3, "")
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
