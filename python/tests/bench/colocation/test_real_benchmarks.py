"""Redis and memcached, as short as they run: characterized as a suite, and put together."""

import json
import re
from pathlib import Path

import pytest

from steelyard.bench import runs, tiers
from steelyard.cli.main import invoke
from steelyard.records import RunStatus
from tests.bench.colocation.conftest import Made

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
PAIR = tiers.Suite("pair", "smoke", ("redis", "memcached"))
GBIT = 125e6


@pytest.fixture(scope="module")
def characterized(tmp_path_factory):
    """The document of ``characterize --suite``, and the run of each member."""
    out = tmp_path_factory.mktemp("suite")
    known, page = tiers.suites(), out / "page.html"
    arguments = ["characterize", "--suite", "pair", "--limit", "lo=1Gbit", "--report", str(page)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiers, "suites", lambda: {**known, "pair": PAIR})
        # What it prints goes to a file: a fixture of a module has no `capsys`.
        with (out / "said").open("w") as said:
            patch.setattr("sys.stdout", said)
            code = invoke([*arguments, "--json", "--out", str(out / "runs")])
    # Other work on the machine makes a verdict invalid: that is 1.
    assert code in (0, 1)
    assert "redis" in page.read_text()
    found = {run.benchmark: run for run in map(runs.load, (out / "runs").glob("*/*/"))}
    folders = {path.name: path for path in (out / "runs").glob("*/*/")}
    return json.loads((out / "said").read_text()), found, folders


def test_each_member_has_its_pressure_points(characterized):
    document, found, _ = characterized
    assert document["kind"] == "pressure_matrix"
    assert [row["benchmark"] for row in document["rows"]] == list(PAIR.benchmarks)
    for row in document["rows"]:
        run = found[row["benchmark"]]
        assert (run.status, row["missing"]) == (RunStatus.COMPLETE, None)
        assert run.metrics["errors"].value == 0
        # The servers are what works here, whoever else does.
        assert "cpu" in row["pressure_points"]
        network = row["parts"]["network"]
        assert network["limit"].startswith("stated by --limit")
        moved = run.metrics["network_bytes_per_s"].value
        if row["benchmark"] == "memcached":
            # The loopback carries each byte once; headers are little beside values of 25 KB.
            assert network["ratio"] == pytest.approx(moved / GBIT, rel=0.5)
    assert set(document["rows"][0]["steps"]) == {"lpush", "lpop", "zadd", "zrange", "sadd"}


def test_hooks_count_events_and_name_functions(characterized):
    _, found, folders = characterized
    run = found["redis"]
    for name in ("counters", "profile"):
        if "missing" in run.hooks[name]:
            pytest.skip(f"{name} does not work on this machine: {run.hooks[name]['missing']}")
    folder = folders[run.run_id]
    assert list((folder / "counters").iterdir())
    assert run.hooks["profile"]["server_samples"] > 20
    stacks = (folder / "profile.folded").read_text()
    frames = set(re.findall(r"([^;\n]+?) \[([^\];]+)\]", stacks))
    # Functions of the server, of the kernel that carries its answers, and of the load.
    of_server = {name for name, module in frames if module.startswith("redis-")}
    assert of_server - {"[unknown]"}
    of_kernel = {name for name, module in frames if module == "kernel"}
    assert of_kernel & {"tcp_sendmsg", "vfs_write", "ksys_write"}
    load = (folder / "profile-load.folded").read_text()
    assert "sendmsg" in load or "io_send" in load


def test_two_benchmarks_are_put_together(made: Made) -> None:
    code, document, stderr = made(
        *("redis:connections=8", "memcached:memory=64MiB", "--tier", "smoke"),
        *("--repeats", "1", "--duration", "1.5s", "--seed", "7"),
    )
    assert code in (0, 1), stderr
    assert document["status"] == "complete"
    assert [each["name"] for each in document["workloads"]] == ["redis", "memcached"]
    [block] = document["blocks"]
    assert sorted(block["order"]) == ["first", "second", "together"]
    for one in block["runs"]:
        assert one["value"] > 0
        run = runs.load(Path(document["directory"]) / one["run_id"])
        assert run.status is RunStatus.COMPLETE
        assert run.metrics["errors"].value == 0
    overlaps = [one["overlap_ratio"] for one in block["runs"] if one["condition"] == "together"]
    assert len(overlaps) == 2
    assert all(overlap > 0.3 for overlap in overlaps)
    for each in document["workloads"]:
        assert each["use"]["cpu"] > 0
        assert each["prediction"]["slowdown"] >= 1
