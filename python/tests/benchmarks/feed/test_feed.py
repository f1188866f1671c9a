"""FeedSim: what it takes from searches, how it knows that the work is the same, and one whole run."""

import json
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from thriftpy2.protocol import TCompactProtocolFactory
from thriftpy2.thrift import TApplicationException, TMessageType
from thriftpy2.transport import TMemoryBuffer

from steelyard._base import WorkloadFailedError, schemas_dir
from steelyard.bench.launch import execute
from steelyard.bench.progress import Silence
from steelyard.bench.request import RunRequest
from steelyard.benchmarks.feed import load as feed_load
from steelyard.benchmarks.feed import metrics as feed_metrics
from steelyard.benchmarks.feed import rank_client
from steelyard.cli.main import invoke
from steelyard.records import CapacityInterval, CapacityResult, Level, LoadResult, RunStatus, read
from tests.executables.rank import SMALL, SMALL_LEAF, idl, leaf, root

GOLDEN = schemas_dir() / "golden"
KNOWN = {1: -17, 2: 2**62}


def search(low, high, estimate, confidence=0.97, answer="interval"):
    golden = read(CapacityResult, GOLDEN / "capacity_result.json")
    interval = CapacityInterval(low_per_s=low, high_per_s=high, confidence=confidence)
    return golden.model_copy(update={"interval": interval, "estimate_per_s": estimate, "answer": answer})


def test_capacities_of_instances_add_up_and_so_do_chances_of_error():
    found = feed_load.together([search(40.0, 50.0, 45.0), search(30.0, 36.0, 33.0)], 0, 10**9)
    assert (found.low_per_s, found.high_per_s, found.estimate_per_s) == (70.0, 86.0, 78.0)
    assert found.confidence == pytest.approx(0.94)
    assert found.rates_per_s == [40.0, 30.0]
    metrics = feed_metrics.capacity_metrics(found)
    assert metrics["requests_per_s_at_slo"].value == 78.0
    assert feed_metrics.search_checks(found)[0].level is Level.VALID


@pytest.mark.parametrize(
    ("answer", "low", "claim"),
    [
        ("never", None, "the objective is met at no rate that was offered"),
        ("at-least", 900.0, "the objective is still met at 900.0 requests/s: no limit was found"),
        ("unknown", 10.0, read(CapacityResult, GOLDEN / "capacity_result.json").ended),
    ],
)
def test_a_search_without_an_interval_is_no_result(answer, low, claim):
    found = feed_load.together([search(40.0, 50.0, 45.0), search(low, None, None, answer=answer)], 0, 10**9)
    assert found.answer == answer
    check = feed_metrics.search_checks(found)[0]
    assert check.level is Level.INVALID
    assert feed_metrics.capacity_metrics(found)["requests_per_s_at_slo"].value is None
    assert feed_metrics.capacity_metrics(found)["requests_per_s_at_slo"].missing
    if answer != "at-least":
        assert check.claim == claim
    # Without a rate that is known to be good, the lowest that was tried is measured.
    tried = [probe.rate_per_s for probe in found.searches[1].probes]
    assert found.rates_per_s[1] == (low if low is not None else min(tried))


@pytest.mark.parametrize(
    ("confidence", "estimate", "level", "reason"),
    [
        (0.95, 45.0, Level.VALID, None),
        (0.80, 45.0, Level.SUSPECT, None),
        (0.02, 45.0, Level.INVALID, "only 2.0% sure"),
        (0.95, 5.3, Level.INVALID, "is not in the interval"),
    ],
)
def test_an_interval_that_nobody_is_sure_of_gives_no_figure(confidence, estimate, level, reason):
    found = feed_load.together([search(40.0, 50.0, estimate, confidence)], 0, 1)
    assert feed_metrics.search_checks(found)[0].level is level
    metric = feed_metrics.capacity_metrics(found)["requests_per_s_at_slo"]
    assert metric.value == (estimate if reason is None else None)
    assert reason is None or reason in metric.missing


def load(**changes):
    golden = read(LoadResult, GOLDEN / "load_result.json")
    response = golden.latency.response.model_copy(update={"p95_ns": 10**8})
    latency = golden.latency.model_copy(update={"response": response})
    return golden.model_copy(update={"latency": latency, **changes})


def test_fresh_load_that_breaks_the_objective_is_suspect():
    found = feed_load.together([search(40.0, 50.0, 45.0)], 0, 1)
    [bound] = [(one.name, one.bound) for one in found.searches[0].probes[0].criteria if one.unit == "ns"]
    name = f"{bound[0].replace('.', '')}_ns"
    golden = load()

    def answering(value):
        response = golden.latency.response.model_copy(update={name: int(value)})
        latency = golden.latency.model_copy(update={"response": response})
        return golden.model_copy(update={"latency": latency})

    assert feed_metrics.hold_check(answering(bound[1]), found).level is Level.VALID
    assert feed_metrics.hold_check(answering(bound[1] + 1e6), found).level is Level.SUSPECT


def instance(checksums, work=None):
    return SimpleNamespace(checksums=checksums, work=work or {"stories": "1"}, leaf_work={})


def test_results_that_differ_are_invalid(monkeypatch):
    monkeypatch.setattr(feed_metrics, "recorded", lambda *work: KNOWN)
    check = feed_metrics.checksum_check
    assert check([instance(KNOWN), instance(KNOWN)], load()).level is Level.VALID
    assert check([instance(KNOWN), instance({**KNOWN, 2: 5})], load()).level is Level.INVALID
    assert "other work" in check([instance({**KNOWN, 1: 5})], load()).claim
    wrong = load(requests=load().requests.model_copy(update={"errors_by_kind": {"wrong-result": 3}}))
    assert check([instance(KNOWN)], wrong).level is Level.INVALID
    monkeypatch.setattr(feed_metrics, "recorded", lambda *work: None)
    assert "no results are on record" in check([instance(KNOWN)], load()).claim


def test_few_long_requests_may_differ_at_the_edges_of_the_phase():
    golden = load()
    few = load(requests=golden.requests.model_copy(update={"intended": 400}), throughput_per_s=40.0)
    assert feed_metrics.achieved_ratio_min(golden) == pytest.approx(0.99)
    response = few.latency.response.model_copy(update={"mean_ns": 2e8})
    few = few.model_copy(update={"latency": few.latency.model_copy(update={"response": response})})
    # 8 in flight, their difference over two edges has a standard deviation of 4.
    assert feed_metrics.achieved_ratio_min(few) == pytest.approx(1 - 3 * 4 / 400)
    requests = few.requests.model_copy(update={"intended": 1200})
    assert feed_metrics.drift_tolerance_ratio(few.model_copy(update={"requests": requests})) == pytest.approx(
        0.2
    )


def test_the_mix_asks_for_anybody_and_knows_some(tmp_path):
    feed_load.write_mix(tmp_path / "mix.toml", "zstd", KNOWN)
    mix = tomllib.loads((tmp_path / "mix.toml").read_text())
    assert sum(one["weight"] for one in mix["operation"]) == pytest.approx(1.0)
    assert [one["name"] for one in mix["operation"]] == ["rank", "known-1", "known-2"]
    assert mix["operation"][1]["thrift"]["expect"] == {"fields": [1], "i64": -17}
    [argument] = mix["operation"][0]["thrift"]["arguments"]
    assert [field["value"] for field in argument["value"]] == ["{key}", 0, 2]


@given(st.integers(0, 2**31 - 1), st.integers(-(2**63), 2**63 - 1))
def test_our_request_is_what_a_thrift_client_writes(seqid, user):
    buffer = TMemoryBuffer()
    protocol = TCompactProtocolFactory().get_protocol(buffer)
    protocol.write_message_begin("rank", TMessageType.CALL, seqid)
    request = idl().RankRequest(user_id=user, stories=0, compression=0)
    idl().Ranker.rank_args(request=request).write(protocol)
    protocol.write_message_end()
    assert rank_client.request(seqid, user) == buffer.getvalue()


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_result_is_read_as_a_thrift_server_writes_it(checksum):
    buffer = TMemoryBuffer()
    protocol = TCompactProtocolFactory().get_protocol(buffer)
    protocol.write_message_begin("rank", TMessageType.REPLY, 7)
    answer = idl().RankResponse(checksum=checksum, compression=0, stories=b"x", story_count=1, stages=[])
    idl().Ranker.rank_result(success=answer).write(protocol)
    protocol.write_message_end()
    assert rank_client.response(buffer.getvalue()) == checksum


@given(st.text(max_size=300), st.integers(0, 7))
def test_an_exception_is_reported_as_a_thrift_server_writes_it(text, kind):
    buffer = TMemoryBuffer()
    protocol = TCompactProtocolFactory().get_protocol(buffer)
    protocol.write_message_begin("rank", TMessageType.EXCEPTION, 300)
    TApplicationException(kind, text).write(protocol)
    protocol.write_message_end()
    with pytest.raises(ValueError, match="an exception") as refused:
        rank_client.response(buffer.getvalue())
    assert str(refused.value) == f"an exception: {text}"


@given(st.binary(max_size=60))
def test_any_other_answer_is_refused(message):
    try:
        rank_client.response(message)
    except (ValueError, IndexError):
        return
    assert message[0] == 0x82


def test_a_service_that_is_not_there_is_one_line():
    with pytest.raises(WorkloadFailedError, match="the ranking service at"):
        rank_client.checksums("127.0.0.1:1", None, "localhost", timeout_s=1.0)


def test_checksums_over_tls_are_those_on_record(tmp_path):
    with leaf(tmp_path) as behind, root(tmp_path, [behind]) as server:
        recorded = feed_metrics.recorded(server.ready["work"], behind.ready["work"])
        assert recorded
        listen, authority = server.ready["listen"], server.ready["tls_ca"]
        found = rank_client.checksums(listen, authority, "localhost", timeout_s=20.0, users=list(recorded))
    assert found == recorded


@pytest.mark.slow
def test_a_whole_run(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    chosen = {
        "root_flags": " ".join(SMALL),
        "leaf_flags": " ".join(SMALL_LEAF),
        "leaf_delay": "none",
        "probes": "5",
        "probe": "0.5s",
        "measure": "1s",
        "sweep_points": "3",
        "sweep": "0.5s",
        # So that a small service on a busy machine has a rate at which it holds.
        "slo": "p95<=400ms,errors<=0.1%,achieved>=50%",
    }
    request = RunRequest(name="feed", tier="smoke", chosen=chosen, out=tmp_path / "runs")
    [attempt] = execute(request, progress=Silence()).attempts
    assert attempt.error is None, attempt.error
    run = attempt.run
    assert run.status is RunStatus.COMPLETE
    assert [phase.name for phase in run.phases] == [
        "install", "start", "warmup", "search", "sweep", "measure", "drain",
    ]  # fmt: skip
    assert {process.exit_code for process in run.processes} <= {0, 1}
    checks = {check.id: check for check in run.verdict.checks}
    assert "2 users' results are those on record" in checks["checksum"].claim
    assert {"capacity", "slo", "errors", "generator-bound", "foreign-load"} <= set(checks)
    found = read(CapacityResult, attempt.directory / "capacity.json")
    if found.answer == "interval":
        assert run.metrics["requests_per_s_at_slo"].value == found.estimate_per_s
    stages = {name: one.value for name, one in run.metrics.items() if name.startswith("root_")}
    shares = [value for name, value in stages.items() if name.endswith("_cpu_ratio") and value is not None]
    assert sum(shares) == pytest.approx(1.0)
    assert 0 < run.metrics["server_cpu_ratio"].value <= 1.05
    assert run.metrics["feature_code_bytes"].value > 0
    # The generated keys are gone; everything else that the manifest names is there.
    assert not (attempt.directory / "tls").exists()
    assert all((attempt.directory / file).exists() for file in run.artifacts.values())
    assert invoke(["report", str(attempt.directory), "--json", "--runs", str(tmp_path / "runs")]) in (0, 1)
    page = Path(json.loads(capsys.readouterr().out)["report"]).read_text()
    for word in ("Every probe of the search", "Time of a request by stage", "curve-0", "fan out"):
        assert word in page
