"""The load engine calls a Thrift service that thriftpy2 serves, in plain and in TLS."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.executables import backends, certificates, rank, servers

MIX = """
schema_version = "1.0"
kind = "mix"
[keys]
count = 50
[values]
sizes = 20
[[operation]]
name = "rank"
weight = 1
effect = "{effect}"
[operation.thrift]
method = "{method}"
arguments = [{{ id = 1, type = "struct", value = [
  {{ id = 1, type = "i64", value = "{{key}}" }},
  {{ id = 2, type = "i32", value = 100 }},
  {{ id = 3, type = "i32", value = 2 }},
  {{ id = 4, type = "string", value = "{{text}}" }},
] }}]
{expect}
"""


@contextmanager
def thrift_server(*arguments: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Run the server of thrift_server.py; what it was asked is in the dictionary after the block."""
    script = Path(__file__).with_name("thrift_server.py")
    process = subprocess.Popen(
        [sys.executable, str(script), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    asked: dict[str, Any] = {}
    try:
        assert process.stdout
        yield int(process.stdout.readline()), asked
        out, _ = process.communicate(timeout=20)
        asked.update(json.loads(out))
    finally:
        process.kill()
        process.wait()


def run(
    tmp_path: Path,
    port: int,
    *flags: str,
    method: str = "rank",
    expect: str = "expect = { fields = [1] }",
    mix: str | None = None,
) -> dict[str, Any]:
    """Load a server and return the result."""
    file = tmp_path / "mix.toml"
    file.write_text(mix or MIX.format(method=method, effect="call", expect=expect))
    command = [str(servers.executable("steelyard-load")), "--protocol", "thrift", "--mix", str(file)]
    command += [
        "--target",
        f"127.0.0.1:{port}",
        "--connections",
        "2",
        "--depth",
        "3",
        "--warmup",
        "0ms",
        "--drain",
        "20s",
    ]
    command += ["--duration", "700ms", "--json", "--progress", "none", *flags]
    return backends.result_of(
        subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    )


@pytest.mark.parametrize("secured", [False, True])
def test_calls_are_answered_and_understood(tmp_path: Path, secured: bool) -> None:
    arguments, flags = [], []
    if secured:
        files = certificates.issue(tmp_path, "localhost")
        arguments = [str(files.both)]
        flags = ["--tls", "--tls-ca", str(files.authority), "--tls-name", "localhost"]
    with thrift_server(*arguments) as (port, asked):
        result = run(tmp_path, port, *flags)
    counts = result["requests"]
    assert counts["completed"] > 50
    assert counts["errors"] == 0
    assert asked["calls"]["rank"] >= counts["completed"]
    assert asked["users"] == list(range(50))
    # A text for each key, of the size that the mix asks for.
    assert len(asked["texts"]) == 50
    assert {len(text) for text in asked["texts"]} == {20}


def test_results_are_checked_and_exceptions_counted(tmp_path: Path) -> None:
    with thrift_server() as (port, _):
        wrong = run(tmp_path, port, expect="expect = { fields = [1], i64 = 7 }")
        refused = run(tmp_path, port, method="refuse")
        unknown = run(tmp_path, port, method="absent")
    # The expected number is that of the user 0, one of fifty.
    completed, errors = wrong["requests"]["completed"], wrong["requests"]["errors"]
    assert set(wrong["requests"]["errors_by_kind"]) == {"wrong-result"}
    assert 0 < completed < errors / 20
    assert set(refused["requests"]["errors_by_kind"]) == {"declared-exception"}
    assert refused["requests"]["completed"] == 0
    assert set(unknown["requests"]["errors_by_kind"]) == {"unknown-method"}


def test_feedsim_is_called_with_a_shipped_mix_and_its_checksum_proven(tmp_path: Path) -> None:
    results = json.loads((servers.ROOT / "data" / "feed" / "checksums.json").read_text())["results"]
    signed = int(next(known for known in results if known["root"] == list(rank.SMALL))["checksums"]["12345"])
    call = MIX.format(method="rank", effect="call", expect=f"expect = {{ fields = [1], i64 = {signed} }}")
    call = call.replace("{key}", "12345").replace("value = 100", "value = 0")
    with rank.leaf(tmp_path) as leaf, rank.root(tmp_path, [leaf]) as root:
        port = int(root.ready["listen"].rsplit(":", 1)[1])
        secured = ("--tls", "--tls-ca", str(tmp_path / "ca.pem"), "--tls-name", "localhost")
        proven = run(tmp_path, port, *secured, mix=call)
        other = run(tmp_path, port, *secured, mix=call.replace(str(signed), str(signed ^ 1)))
        line = [str(servers.executable("steelyard-load")), "--protocol", "thrift", "--mix", "feed-rank"]
        line += ["--target", f"127.0.0.1:{port}", *secured, "--warmup", "0ms", "--drain", "20s"]
        done = subprocess.run(
            [*line, "--json", "--duration", "700ms"], check=False, capture_output=True, text=True, timeout=60
        )
    shipped = backends.result_of(done)
    for result in (proven, shipped):
        assert result["requests"]["errors_by_kind"] == {}
        assert result["requests"]["completed"] > 5
        assert result["settings"]["tls"] is True
    assert other["requests"]["completed"] == 0
    assert set(other["requests"]["errors_by_kind"]) == {"wrong-result"}
