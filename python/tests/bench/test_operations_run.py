"""Operations beside real runs: nginx's log under wrk, a stranger's endpoint, tables, load results."""

import http.server
import json
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from steelyard.cli.main import invoke
from steelyard.records import Run, read
from tests.bench.conftest import until
from tests.executables.servers import executable as built


def free_port() -> int:
    """A port that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(autouse=True)
def _executables() -> None:
    for name in ("steelyard-exec", "steelyard-probe"):
        built(name)


class Caller:
    """Calls the command in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str], out: Path) -> None:
        self.capsys, self.out = capsys, out

    def __call__(self, *arguments: str) -> tuple[int, dict[str, Any], str]:
        code = invoke(["characterize", "--json", "--hz", "0", "--out", str(self.out), *arguments])
        said = self.capsys.readouterr()
        assert "Traceback" not in said.err, said.err
        return code, json.loads(said.out) if said.out else {}, said.err

    def operations(self, *arguments: str) -> dict[str, Any]:
        code, document, said = self(*arguments)
        assert code in (0, 1), said
        found: dict[str, Any] = document["operations"]
        assert Path(document["report"]).is_file()
        return {**found, "document": document}


@pytest.fixture
def characterize(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Caller:
    return Caller(capsys, tmp_path / "runs")


@contextmanager
def nginx(folder: Path) -> Iterator[tuple[str, Path]]:
    """A real nginx that answers `200` and `404`; its address and its log."""
    server = shutil.which("nginx") or "/usr/sbin/nginx"
    if not Path(server).is_file():
        pytest.skip("there is no nginx here (apt-get install nginx-light)")
    port, log = free_port(), folder / "access.log"
    (folder / "nginx.conf").write_text(
        f"""daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log;
        events {{ worker_connections 64; }}
        http {{ access_log {log}; client_body_temp_path {folder}; proxy_temp_path {folder};
          fastcgi_temp_path {folder}; uwsgi_temp_path {folder}; scgi_temp_path {folder};
          keepalive_requests 1000000;
          server {{ listen 127.0.0.1:{port};
            location / {{ return 200 "hello\\n"; }} location /none {{ return 404; }} }} }}"""
    )
    process = subprocess.Popen([server, "-c", str(folder / "nginx.conf"), "-e", str(folder / "error.log")])
    try:
        until(lambda: log.exists() and (folder / "nginx.pid").exists())
        yield f"http://127.0.0.1:{port}", log
    finally:
        process.terminate()
        process.wait()


def test_a_web_servers_log_agrees_with_the_client(tmp_path: Path, characterize: Caller) -> None:
    if shutil.which("wrk") is None:
        pytest.skip("there is no wrk here (apt-get install wrk)")
    with nginx(tmp_path) as (address, log):
        pattern = r'" (?P<status>\d\d\d) '
        found = characterize.operations(
            *("--duration", "0", "--ops", f"log:{log}:{pattern}"),
            *("--ops", rf"log,name=stamped:{log}:\[(?P<time>[^]]+)\]"),
            *("--", "wrk", "-t1", "-c4", "-d3", f"{address}/"),
        )
        folder = Path(found["document"]["directory"])
    said = re.search(r"(\d+) requests in", (folder / "logs" / "program.log").read_text())
    assert said is not None
    requests = int(said[1])
    assert requests > 1000
    # Every request has its line; those in flight at the end are the client's to leave out.
    tail = json.loads((folder / "operations" / "0.jsonl").read_text().splitlines()[-1])
    assert tail["matched"] == pytest.approx(requests, rel=0.01)
    # A look lasts a tenth of a second and more on a laden machine: at the edges of 3 s it is shared by time.
    assert found["count"]["value"] == pytest.approx(requests, rel=0.08)
    assert found["covered_ratio"] > 0.95
    [one] = found["sources"][0]["series"]
    assert one["name"] == 'status="200"'
    # By the log's own clock: whole seconds, of which a short run has few.
    stamped = found["sources"][1]["series"][0]
    assert stamped["value"] == pytest.approx(found["per_s"]["value"], rel=0.25)
    run = read(Run, folder / "run.json")
    assert run.metrics["operations_per_s"].value == pytest.approx(found["per_s"]["value"])
    assert run.metrics["operations_per_s"].better == "higher"
    assert run.metrics["operations_per_machine_cpu_s"].value
    joule = run.metrics["operations_per_joule"]
    assert (joule.value is None) == (joule.missing is not None)
    assert found["per_program_cpu_s"]["value"] > found["per_cpu_s"]["value"]
    assert found["network_bytes_per_operation"]["value"] > 50


class Stranger(http.server.BaseHTTPRequestHandler):
    """A service that counts up at a known rate, as a stranger's exporter writes it."""

    began = time.monotonic()
    per_s = 400.0
    restarts_at = 0
    """Number of the request at which it begins to count anew."""
    asked = 0
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        kind = type(self)
        kind.asked += 1
        if kind.asked == self.restarts_at:
            kind.began = time.monotonic()
        counted = passed = time.monotonic() - self.began
        text = (
            "# HELP jobs_total Jobs.\n# TYPE jobs_total counter\n"
            f'jobs_total{{queue="a"}} {int(self.per_s * 0.75 * counted)}\n'
            f'jobs_total{{queue="b"}} {int(self.per_s * 0.25 * counted)}\n'
            f"# TYPE waiting gauge\nwaiting {10 + passed:g}\nnothing NaN\n"
        ).encode()
        self.send_response(200 if self.path == "/metrics" else 404)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *words: Any) -> None:
        pass


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that has gone."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def stranger(**settings: Any) -> Iterator[str]:
    handler = type("Handler", (Stranger,), {"began": time.monotonic(), **settings})
    server = Server(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def test_an_endpoints_counter_and_gauge(characterize: Caller) -> None:
    with stranger(restarts_at=9) as address:
        found = characterize.operations(
            *("--duration", "3s", "--all", "--ops", f"prometheus,interval=0.3:{address}/metrics#waiting"),
            *("--ops", f'prometheus,interval=0.3:{address}/metrics#jobs_total{{queue=~"a|b"}}'),
        )
    gauge, jobs = found["sources"]
    assert gauge["meaning"] == "gauge"
    assert 10 < gauge["series"][0]["value"] < 20
    assert jobs["meaning"] == "counter"
    assert found["per_s"]["value"] == pytest.approx(400, rel=0.03)
    assert [one["name"] for one in jobs["series"]] == ['queue="a"', 'queue="b"']
    assert jobs["series"][0]["value"] == pytest.approx(300, rel=0.03)
    assert [one["resets"] for one in jobs["series"]] == [1, 1]
    assert "counters fell" in " ".join(jobs["notes"])
    # The interval of the reset is not known; the others are, and are long on a laden machine.
    assert 0.5 < found["covered_ratio"] < 1


def test_an_endpoint_that_dies_leaves_what_it_said_and_the_reason(
    tmp_path: Path, characterize: Caller
) -> None:
    script = (
        "import http.server,time\n"
        "began=time.monotonic()\n"
        "class H(http.server.BaseHTTPRequestHandler):\n"
        "  def do_GET(s):\n"
        "    n=50*(time.monotonic()-began)\n"
        "    s.send_response(200); s.end_headers(); s.wfile.write(b'x_total %.3f\\n' % n)\n"
        "  def log_message(s,*a): pass\n"
        "srv=http.server.HTTPServer(('127.0.0.1',0),H)\n"
        "print(srv.server_port,flush=True); srv.serve_forever()\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            port = int(server.stdout.readline())
            # It answers for most of the command's time, however slowly all starts, and then no more.
            found = characterize.operations(
                *("--ops", f"prometheus,interval=0.2:http://127.0.0.1:{port}#x_total"),
                *("--ops", f"log:{tmp_path / 'never.log'}:x"),
                *("--", "sh", "-c", f"sleep 2; kill {server.pid}; sleep 0.8"),
            )
        finally:
            server.kill()
    endpoint, log = found["sources"]
    # It counts by the clock: a slow answer is asked for less often, which is no lower rate.
    assert endpoint["series"][0]["value"] == pytest.approx(50, rel=0.1)
    assert "nothing listens there" in " ".join(endpoint["notes"])
    assert log["missing"] == "nothing was written to the log during the run"
    assert log["series"] == []


def test_a_table_that_the_program_writes(tmp_path: Path, characterize: Caller) -> None:
    table = tmp_path / "done.csv"
    script = (
        "import sys,time\n"
        "with open(sys.argv[1],'w') as f:\n"
        "  f.write('ts,total,note\\n'); begin=time.time()\n"
        "  for row in range(50):\n"
        "    ts=begin+0.05*row; time.sleep(max(0,ts-time.time()))\n"
        "    f.write('%.3f,%d,\"a, b\"\\n' % (ts, 50*row))\n"
        "  f.write('nonsense,1,x\\n%.3f,NaN,x\\n' % time.time())\n"
    )
    found = characterize.operations(
        *("--duration", "0", "--ops", f"csv,time=ts,value=total,as=counter:{table}"),
        *("--ops", f"csv,time=ts:{table}", "--", sys.executable, "-c", script, str(table)),
    )
    assert found["per_s"]["value"] == pytest.approx(1000, rel=0.03)
    counter, rows = found["sources"]
    assert "1 rows have a value that is not a number: left out" in counter["notes"]
    assert "1 rows have a time that cannot be read: left out" in counter["notes"]
    # Twenty a second by their own times, however late they were written.
    assert rows["series"][0]["value"] == pytest.approx(20, rel=0.1)


def test_a_load_result_and_the_servers_log_say_the_same(tmp_path: Path, characterize: Caller) -> None:
    load = tmp_path / "load.json"
    with nginx(tmp_path) as (address, log):
        found = characterize.operations(
            *("--duration", "0", "--ops", f"load:{load}", "--ops", f"log:{log}", "--"),
            *(str(built("steelyard-load")), "--protocol", "http", "--progress", "none"),
            *("--target", address.removeprefix("http://"), "--warmup", "0s", "--duration", "2s"),
            *("--connections", "4", "--output", str(load)),
        )
    completed = json.loads(load.read_text())["requests"]["completed"]
    generator, server = found["sources"]
    assert generator["kind"] == "load"
    assert generator["missing"] is None
    folder = Path(found["document"]["directory"])
    assert (folder / "operations" / "0-load.json").read_bytes() == load.read_bytes()
    run = read(Run, folder / "run.json")
    lasted_s = run.metrics["elapsed_s"].value
    assert lasted_s is not None
    assert found["per_s"]["value"] * lasted_s * (found["covered_ratio"]) == pytest.approx(completed, rel=0.02)
    assert server["series"][0]["value"] * lasted_s == pytest.approx(completed, rel=0.02)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--ops", "nothing", "--all"], 2, "begins with none of"),
        (["--ops", "prometheus:http://127.0.0.1:9#x_total", "--all"], 3, "nothing listens there"),
        (["--ops", "prometheus-query:http://127.0.0.1:9#up", "--all"], 3, "nothing listens there"),
        (["--ops", "log:/no/such/folder/a.log", "--all"], 2, "there is no folder"),
        (["--ops", "log:/", "--all"], 2, "is a folder"),
        (["--ops", "load:no-such-run", "--all"], 2, "there is no load result"),
        (["--ops", "log,zone=Atlantis:/var/log/x:.", "--all"], 2, "no such time zone"),
    ],
)
def test_what_can_be_known_before_is_reported_before(
    tmp_path: Path, characterize: Caller, arguments: list[str], code: int, said: str
) -> None:
    found, _, stderr = characterize("--duration", "1s", *arguments)
    assert found == code
    lines = [line for line in stderr.splitlines() if line.startswith("steelyard:")]
    assert len(lines) == 1
    assert said in lines[0]
    assert not (tmp_path / "runs").exists()


def test_an_endpoint_without_the_metric_names_those_it_has(characterize: Caller) -> None:
    with stranger() as address:
        code, _, said = characterize(
            "--duration", "1s", "--all", "--ops", f"prometheus:{address}/metrics#jobs"
        )
        assert code == 2
        assert "jobs_total" in said
        code, _, said = characterize(
            "--duration", "1s", "--all", "--ops", f"prometheus:{address}/x#jobs_total"
        )
        assert code == 3
        assert "answers 404" in said


def test_a_table_without_the_column_names_those_it_has(tmp_path: Path, characterize: Caller) -> None:
    (tmp_path / "a.csv").write_text("when;ops\n")
    code, _, said = characterize("--duration", "1s", "--all", "--ops", f"csv,time=ts:{tmp_path / 'a.csv'}")
    assert code == 2
    assert "no column 'ts'" in said
    assert "when, ops" in said
