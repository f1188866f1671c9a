"""A running service as the workload: variants applied by commands, seen through an endpoint or a log."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from steelyard.bench.clock import SystemClock
from steelyard.bench.signals import Interrupts
from steelyard.experiment.live import LiveTrials
from steelyard.experiment.request.fields import ExperimentRequest
from steelyard.experiment.request.record import begin
from tests.calling import call
from tests.experiment.test_experiment import record, start, steelyard, until

SET = "import sys,urllib.request;urllib.request.urlopen(sys.argv[1]).read()"


@dataclass(frozen=True)
class Service:
    """A service that runs."""

    process: subprocess.Popen[bytes]
    address: str
    log: Path

    def variant(self, rate: float, p99: float = 10.0) -> str:
        """Return the command that changes it."""
        return f"{sys.executable} -c '{SET}' '{self.address}/set?rate={rate:g}&p99={p99:g}'"

    def source(self, metric: str) -> str:
        return f"prometheus,name={metric},interval=0.25:{self.address}/metrics#{metric}"

    def rate(self) -> float:
        """Return the rate that it is set to."""
        with urllib.request.urlopen(f"{self.address}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        found = re.search(r"^rate (\S+)", text, re.MULTILINE)
        assert found is not None
        return float(found[1])


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    port, log = tmp_path / "port", tmp_path / "access.log"
    process = subprocess.Popen([sys.executable, str(Path(__file__).with_name("service.py")), port, log])
    try:
        until(port.exists)
        yield Service(process, f"http://127.0.0.1:{port.read_text()}", log)
    finally:
        process.terminate()
        process.wait(10)


@pytest.fixture(autouse=True)
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "steelyard" / "undo"


def test_variants_of_a_running_service_are_measured_from_where_they_settled(
    service: Service, tmp_path: Path, journal: Path
) -> None:
    # Gauges: on a busy machine readings are late, and a rate of one interval is of little worth.
    words = [
        *("--ops", service.source("speed"), "--ops", service.source("latency_p99_ms")),
        *("--ops", service.source("requests_total")),
        *("--guard", "latency_p99_ms=+20%", "--window", "6s", "--blocks", "4", "--budget", "1s"),
        *("--least-effect", "5%", "--a", service.variant(1000), "--b", service.variant(1500, 15)),
    ]
    document = steelyard(tmp_path / "runs", *words, code=1)
    made = record(document)
    assert (made["metric"]["name"], made["live"]["window_s"]) == ("speed", 6.0)
    given = [trial for trial in made["trials"] if trial["value"] is not None]
    assert {trial["arm"] for trial in given} == {"a", "b"}, [trial["reason"] for trial in made["trials"]]
    for trial in given:
        rate, latency = {"a": (1000, 10), "b": (1500, 15)}[trial["arm"]]
        # From where it has settled: the way from one rate to the other is no part.
        assert trial["value"] == pytest.approx(rate, rel=0.05)
        assert trial["readings"]["latency_p99_ms"] == pytest.approx(latency, rel=0.05)
        assert trial["readings"]["requests_total"] == pytest.approx(rate, rel=0.2)
        assert len(trial["intervals"]) >= 10
    # One block decides nothing, but tells the ratios.
    (answer,) = document["answers"]
    (guard,) = answer["guards"]
    assert (answer["outcome"], answer["blocks"], guard["bound"]) == ("undecided", 1, 1.2)
    assert answer["ratio"] == pytest.approx(1.5, rel=0.05)
    assert guard["ratio"] == pytest.approx(1.5, rel=0.05)
    # It was neither started nor ended, and has its first variant again.
    assert service.process.poll() is None
    assert service.rate() == 1000
    assert list(journal.iterdir()) == []


def test_a_log_is_counted_and_a_source_without_values_says_why(service: Service, tmp_path: Path) -> None:
    log = rf"log,name=lines:{service.log}:(?P<time>\S+) .* 200$"
    other = f"log,name=errors:{service.log}: 500$"
    one, two = service.variant(800), service.variant(400)
    request = ExperimentRequest(a=one, b=two, sources=[log, other], window="14s", out=tmp_path)
    experiment = begin(request)
    trials = LiveTrials(experiment, tmp_path, SystemClock(), Interrupts())
    measured = trials.measure(experiment.arms[1], 0)
    assert measured.reason is None
    assert measured.value == pytest.approx(400, rel=0.1)
    assert measured.reason is None
    assert "errors" in measured.missing


def test_a_service_that_is_killed_meanwhile_gives_no_value(service: Service, tmp_path: Path) -> None:
    arms = {"a": service.variant(1000), "b": "true"}
    source = service.source("requests_total")
    experiment = begin(ExperimentRequest(**arms, sources=[source], window="5s", out=tmp_path))
    trials = LiveTrials(experiment, tmp_path, SystemClock(), Interrupts())
    service.process.kill()
    service.process.wait(10)
    assert (trials.measure(experiment.arms[0], 0).reason or "").startswith("python")
    assert "nothing listens there" in (trials.measure(experiment.arms[1], 0).reason or "")


@pytest.mark.parametrize("kill", [signal.SIGINT, signal.SIGKILL])
def test_the_first_variant_is_applied_again_whatever_ends_it(
    service: Service, tmp_path: Path, journal: Path, kill: signal.Signals
) -> None:
    words = ["--ops", service.source("requests_total"), "--window", "1h", "--seed", "3"]
    arms = ["--a", service.variant(1000), "--b", service.variant(1500)]
    # Whichever arm is drawn first, its trial lasts longer than this test.
    process = start(tmp_path / "runs", *words, *arms)
    until(lambda: any(tmp_path.glob("runs/*/operations/*/0.jsonl")))
    urllib.request.urlopen(service.address + "/set?rate=1234", timeout=10).read()
    process.send_signal(kill)
    process.communicate(timeout=60)
    if kill is signal.SIGKILL:
        assert service.rate() == 1234
        assert len(list(journal.iterdir())) == 1
        # The next start of anything that measures.
        done = call("experiment", "--out", str(tmp_path / "next"), "--a", "false", "--b", "true")
        assert "undid a change of a killed run: variant of a service" in done.stderr
    assert service.rate() == 1000
    assert list(journal.iterdir()) == []
    assert service.process.poll() is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tao", "--a", "", "--b", "memory=8MiB"], "--ops looks at a running service"),
        (["--a", "true", "--b", "false", "--metric", "speed"], "--metric speed: no source has this name"),
        (["--a", "true", "--b", "false", "--guard", "speed=+5%"], "the service has no such metric"),
        (["--a", "true", "--b", "false", "--guard", "two=5%"], "--guard two: say which way is worse"),
        (["--a", "true", "--b", "false", "--window", "1s"], "--window=1s: allowed is 5s"),
        (["--a", "true", "--b", "false", "--ops", "load:x"], "a load result is of a run that is over"),
        (["--a", "true", "--b", "false", "--ops", "log,name=two:{log}"], "two sources are called two"),
        (["--a", "true", "--b", "false", "--ops", "log:{log}/no"], "there is no folder"),
    ],
)
def test_what_is_no_experiment_with_a_service_is_refused(
    tmp_path: Path, words: list[str], message: str
) -> None:
    log = tmp_path / "some.log"
    log.write_text("one\n")
    sources = ["--ops", f"log,name=one:{log}", "--ops", f"log,name=two:{log}"]
    words = [word.replace("{log}", str(log)) for word in words]
    done = call("experiment", "--out", str(tmp_path / "runs"), *sources, *words)
    assert done.returncode in (2, 3)
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "runs").exists()
