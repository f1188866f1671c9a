"""``steelyard mcp`` and clients that are wrong, huge, hostile or gone."""

import contextlib
import json
import os
import re
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from steelyard._base import UsageError
from steelyard.agents.context import Context
from steelyard.agents.server import _answer, context_of
from steelyard.agents.tools import tools
from steelyard.agents.wire import MOST_BYTES
from steelyard.catalog.index import FILE, Index
from steelyard.cli.serving.mcp import McpRequest
from steelyard.records import Run, RunStatus, read
from tests.agents.client import Agent, Raw, converse
from tests.calling import call
from tests.report.runs import write_run

SETTINGS = {
    "memory": "8MiB",
    "warmup_min": "1",
    "warmup_max": "1",
    "window": "0.1",
    "measure": "1",
    "rate": "500",
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served") / "runs"
    write_run(folder / "run-1", without=("telemetry", "cache_stats"))
    return folder


def memory_kb(pid: int) -> int:
    return int(re.findall(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[0])


def huge(head: bytes, size: int) -> bytes:
    return head + b"x" * size + b'"}}}\n'


CALL = (
    b'{"jsonrpc": "2.0", "id": 7, "method": "tools/call",'
    b' "params": {"name": "list_runs", "arguments": {"search": "'
)
TOOL = b'{"jsonrpc": "2.0", "id": 6, "method": "tools/call", "params": '
DEEP = b'{"jsonrpc": "2.0", "id": 4, "params": ' + b'{"a": ' * 5_000 + b"1" + b"}" * 5_001


def test_a_huge_request_is_one_error_and_memory_stays_bounded(runs: Path) -> None:
    with Raw(runs) as server:
        server.tool("list_runs")
        before = memory_kb(server.process.pid)
        for size in (10 << 20, 100 << 20):
            server.send(huge(CALL, size))
            answer = server.read()
            assert answer["id"] == 7
            assert answer["error"]["code"] == -32600
            assert f"at most {MOST_BYTES:,} are read" in answer["error"]["message"]
        assert memory_kb(server.process.pid) - before < 32_000
        # What fits a message and no argument is an error of the tool.
        server.send(huge(CALL, MOST_BYTES // 2))
        answer = server.read()["result"]
        assert answer["isError"]
        assert "search: 524,288 characters, and at most 2,000 are read" in answer["content"][0]["text"]
        assert server.tool("list_runs")["structuredContent"]["data"]["total"] == 1


@pytest.mark.parametrize(
    ("line", "code", "number"),
    [
        (b"not json\n", -32700, None),
        (b'{"jsonrpc": "2.0", "id": 3, "method": \n', -32700, 3),
        (b"\xff\xfe\x00\x01\n", -32700, None),
        (b"[" * 100_000 + b"\n", -32700, None),
        (DEEP + b"\n", None, 4),
        (b"[]\n", -32600, None),
        (b"42\n", -32600, None),
        (b'{"jsonrpc": "2.0", "id": {"a": 1}, "method": "ping"}\n', -32600, None),
        (b'{"id": 5, "method": "ping"}\n', -32600, 5),
        (TOOL + b'{"name": 1}}\n', None, 6),
        (TOOL + b'{"name": "choose", "arguments": []}}\n', None, 6),
        (b'{"jsonrpc": "2.0", "id": 8, "method": "no/such/method"}\n', -32601, 8),
    ],
)  # fmt: skip
def test_what_is_no_request_is_one_error(
    line: bytes, code: int | None, number: int | None, runs: Path
) -> None:
    with Raw(runs) as server:
        server.send(b"\n  \n")
        server.send(line)
        answer = server.read()
        assert answer["id"] == number
        assert answer["error"]["code"] < 0 if code is None else answer["error"]["code"] == code
        assert len(json.dumps(answer)) < 500
        # Each got one answer, and the next request gets its own.
        assert server.ask(method="ping")["id"] == 1


def test_a_request_without_its_end_is_none(runs: Path) -> None:
    with Raw(runs) as server:
        assert server.process.stdin is not None
        server.process.stdin.write(CALL)
        server.process.stdin.close()
        assert server.process.wait(10) == 0


def test_arguments_of_wrong_types_say_what_fits(runs: Path) -> None:
    async def say(agent: Agent) -> None:
        for given, line in (
            ({"path": 5}, "there is no '5' here"),
            ({"path": ["run-1"]}, "path: not a text but a list"),
            ({"path": {"a": 1}}, "path: not a text but an object"),
            ({"path": None}, "explain_run needs path"),
            ({"path": "run-1", "part": "all"}, "one of summary, figures, findings, checks"),
            ({"path": "run-1", "part": True}, "part: not a text but a truth value"),
            ({"path": "run-1", "cursor": "1"}, "a summary has one page"),
            ({"path": "run-1", "part": "figures", "cursor": "x"}, "this cursor is from no answer"),
            ({"path": "run-1", "else": 1}, "explain_run has no argument 'else'"),
        ):
            assert line in await agent.error("explain_run", **given)
        assert "ascending: neither true nor false" in await agent.error("list_runs", ascending="yes")
        assert "is no date" in await agent.error("list_runs", since="yesterday")
        assert "compare_runs needs paths" in await agent.error("compare_runs")
        assert "201 values" in await agent.error("compare_runs", paths=["a"] * 201)
        assert "years: 1000" in await agent.error("choose", years=1000)
        assert "not a table of NAME = VALUE" in await agent.error("choose", weights=["a"])
        assert "no store is served" in await agent.error("fleet_query", name="top")

    converse(runs, say=say)


def test_no_path_outside_the_roots_is_read_or_named(tmp_path: Path) -> None:
    secret = write_run(tmp_path / "outside" / "secret", changes={"run_id": "SECRET-RUN"})
    (tmp_path / "outside" / "secret.csv").write_text("machine,SECRET\nA,1\nB,2\n")
    served = tmp_path / "served"
    write_run(served / "run-1", without=("telemetry",))
    (served / "link").symlink_to(secret)
    (served / "inner").mkdir()
    for name in os.listdir(secret):
        (served / "inner" / name).symlink_to(secret / name)
    (served / "up").symlink_to("..")
    (served / "broken").mkdir()
    (served / "broken" / "run.json").write_text("{")
    (tmp_path / "bad.csv").write_text("\x00\x01")
    paths = [
        str(secret), "../outside/secret", "run-1/../../outside/secret", "link", "inner", "up/outside/secret",
        "/etc/passwd", "/proc/self/environ", ".", "..", "run-1\x00", "run-1/", "~", "broken", "a" * 1999, "",
    ]  # fmt: skip

    async def say(agent: Agent) -> None:
        listed = await agent.data("list_runs")
        assert "SECRET" not in str(listed)
        for path in paths:
            for name in ("explain_run", "profile_top"):
                await agent.error(name, path=path)
            await agent.error("compare_runs", paths=[path, "run-1"])
            await agent.error("profile_diff", a="run-1", b=path)
            for name in ("choose", "project", "size", "score"):
                await agent.error(name, table=path)
        await agent.error("choose", table="bad.csv")
        await agent.call("describe")

    answers = converse(served, "--table", tmp_path / "bad.csv", say=say)
    assert len(answers) > 100
    for answer in answers:
        assert "SECRET" not in answer
        assert str(tmp_path) not in answer
        assert "internal error" not in answer


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_each_call_without_arguments_gets_one_answer_and_a_signal_ends_the_server(
    runs: Path, sent: signal.Signals
) -> None:
    with Raw(runs) as server:
        for name in tools(allow_run=False):
            assert server.tool(name)["content"]
        server.process.send_signal(sent)
        # The client keeps the server's input open.
        assert server.process.wait(60) == 0
        assert server.process.stderr is not None
        assert server.process.stderr.read() == b""


def test_a_client_that_is_killed_leaves_no_server(runs: Path) -> None:
    server = Raw(runs)
    server.send({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {"name": "explain_run",
                 "arguments": {"path": "run-1"}}})  # fmt: skip
    for stream in (server.process.stdin, server.process.stdout):
        assert stream is not None
        with contextlib.suppress(BrokenPipeError):
            stream.close()
    assert server.process.wait(15) == 0
    assert server.process.stderr is not None
    assert b"Traceback" not in server.process.stderr.read()


def test_calls_that_are_cancelled_are_not_answered_and_make_place(runs: Path) -> None:
    with Raw(runs) as server:
        for number in range(100, 160):
            server.send(call_of(number, "explain_run", path="run-1", part="figures"))
            about = {"requestId": number, "reason": "changed my mind"}
            server.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": about})
        server.send(call_of(7, "list_runs"))
        answered: list[int] = []
        while 7 not in answered:
            answered.append(server.read()["id"])
        assert len(answered) == len(set(answered))
        assert len(answered) < 60, "a call that nobody waits for is not worked at"


@pytest.mark.parametrize("name", ["kind", "status", "verdict", "order"])
def test_a_word_that_no_folder_has_is_refused(name: str) -> None:
    tool = tools(allow_run=False)["list_runs"]
    known = tool.input_schema["properties"][name]["enum"]
    assert getattr(tool.read({name: known[0]}), name) == known[0]
    assert getattr(tool.read({name: tool.fields[name].default}), name) == tool.fields[name].default
    with pytest.raises(UsageError) as refused:
        tool.read({name: "foo"})
    assert refused.value.hint == f"one of {', '.join(known)}"


def test_commands_name_the_folder_of_runs_as_it_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "deep" / "runs" / "run-1")
    context = context_of(McpRequest(runs=Path("deep/runs")), ())
    assert context.catalog.without_root(f"steelyard report {tmp_path}/deep/runs/run-1") == (
        "steelyard report deep/runs/run-1"
    )
    context.close()


@pytest.mark.parametrize("steps", range(8))
def test_a_call_that_is_cancelled_at_any_step_gives_its_place_back(tmp_path: Path, steps: int) -> None:
    """Also between the step that takes the place and the one that starts the thread."""
    write_run(tmp_path / "run-1")
    context = Context(tmp_path, None, ())
    limiter = anyio.CapacityLimiter(1)
    tool = tools(allow_run=False)["list_runs"]

    async def call() -> None:
        await _answer(context, tool, tool.read({}), limiter)

    async def cancelled() -> None:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(call)
                for _ in range(steps):
                    await anyio.lowlevel.checkpoint()
                scope.cancel()
        # The place is free once the thread has ended, if one was started.
        with anyio.fail_after(60):
            await call()
            while limiter.borrowed_tokens:
                await anyio.sleep(0.01)

    with ThreadPoolExecutor(1) as pool:
        pool.submit(anyio.run, cancelled).result()
    context.close()


def call_of(number: int, name: str, /, **arguments: str) -> dict[str, object]:
    params = {"name": name, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def test_words_that_are_also_names_of_folders_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run(tmp_path / "runs" / "run-1", without=("telemetry", "cache_stats"))
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "steelyard-store.json").write_text("{")
    monkeypatch.chdir(tmp_path)

    async def say(agent: Agent) -> None:
        assert "two to 8 runs are compared" in await agent.error("compare_runs", paths=["run-1"])
        assert "STORE/steelyard-store.json cannot be read" in await agent.error("fleet_query", name="top")

    converse("runs", "--store", "store", say=say)


def test_an_index_that_is_there_is_used(tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "run-1", without=("telemetry", "cache_stats"))
    index = Index(tmp_path / "runs")
    index.refresh()
    index.close()
    assert (tmp_path / "runs" / FILE).is_file()

    async def say(agent: Agent) -> None:
        assert [one["path"] for one in (await agent.data("list_runs"))["folders"]] == ["run-1"]

    converse(tmp_path / "runs", say=say)


def children_named(text: str) -> list[str]:
    listed = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if text in line and "mcp" not in line]


def test_benchmarks_run_within_the_budget_of_a_session(tmp_path: Path) -> None:
    out = tmp_path / "runs"
    out.mkdir()

    async def say(agent: Agent) -> None:
        before = (await agent.data("describe"))["seconds_left_for_benchmarks"]
        assert before == 60
        notes: list[str] = []

        async def note(passed: float, total: float | None, message: str | None) -> None:
            assert total is None
            notes.append(message or "")

        asked = {"name": "tao", "settings": SETTINGS}
        found = await agent.client.call_tool("run_benchmark", asked, progress_callback=note)
        made = found.structured_content["data"]
        assert any("measure" in one or "warmup" in one for one in notes), notes
        assert all(str(out) not in one for one in notes)
        (path,) = made["paths"]
        assert made["exit_code"] in (0, 1)
        assert 0 < made["took_s"] < 60
        assert made["seconds_left_for_benchmarks"] == pytest.approx(60 - made["took_s"], abs=0.2)
        left = (await agent.data("describe"))["seconds_left_for_benchmarks"]
        assert left == pytest.approx(made["seconds_left_for_benchmarks"], abs=0.1)
        found = await agent.data("explain_run", path=path)
        assert found["metrics"]["requests_per_s"]["value"] > 0
        # A stall is caught up with, so that a second beside other work may have more than its rate.
        parameters = json.loads((out / path / "run.json").read_text())["parameters"]
        assert parameters["rate"]["value"] == float(SETTINGS["rate"])
        assert "nothing-like-it" in await agent.error("run_benchmark", name="nothing-like-it")
        error = await agent.error("run_benchmark", name="tao", settings={"hosts": "elsewhere"})
        assert "hosts is no setting for agents" in error
        error = await agent.error("run_benchmark", name="tao", settings={"no-such": "1"})
        assert "nothing was run: exit code 2" in error
        assert str(out) not in error

    converse(out, "--allow-run", "--budget", "60", say=say)


def test_a_benchmark_beyond_the_budget_is_interrupted(tmp_path: Path) -> None:
    out = tmp_path / "runs"
    out.mkdir()

    async def say(agent: Agent) -> None:
        document, failed = await agent.ask(
            "run_benchmark", {"name": "tao", "settings": {**SETTINGS, "measure": "60"}}
        )
        assert failed or document["data"]["exit_code"] == 4
        assert "the budget for benchmarks is used up" in await agent.error("run_benchmark", name="tao")

    converse(out, "--allow-run", "--budget", "4", say=say)
    for folder in out.iterdir():
        assert read(Run, folder / "run.json").status is RunStatus.INCOMPLETE
    assert not children_named(str(out))


def test_a_client_that_leaves_ends_the_benchmark(tmp_path: Path) -> None:
    out = tmp_path / "runs"
    out.mkdir()
    with Raw(out, "--allow-run") as server:
        server.send({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "run_benchmark",
                     "arguments": {"name": "tao", "settings": {**SETTINGS, "measure": "60"}}}})  # fmt: skip
        until_s = time.monotonic() + 30
        while not any(out.glob("*/run.json")) and time.monotonic() < until_s:
            time.sleep(0.05)
        assert any(out.glob("*/run.json"))
        assert server.process.stdin is not None
        server.process.stdin.close()
        assert server.process.wait(30) == 0
    until_s = time.monotonic() + 10
    while children_named(str(out)) and time.monotonic() < until_s:
        time.sleep(0.05)
    assert not children_named(str(out))
    (manifest,) = out.glob("*/run.json")
    assert read(Run, manifest).status is RunStatus.INCOMPLETE


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["nothing"], "nothing does not exist"),
        (["--budget", "5"], "--budget is for --allow-run"),
        (["--table", "no.csv"], "--table no.csv: there is no such file"),
        (["--table", "a/t.csv", "--table", "b/t.csv"], "--table t.csv: tables are known by their names"),
        (["--allow-run", "--budget", "0"], "--budget"),
    ],
)
def test_what_cannot_be_served_is_one_line(words: list[str], line: str, tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "t.csv").touch()
    done = call("mcp", *words, folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert line in done.stderr
