"""The hook interface from outside, and the hooks that come with it, in real runs."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from steelyard._base import UsageError
from steelyard.bench import hook, undo
from steelyard.bench.hooks import cpu_limit
from steelyard.records import Level, RunStatus
from tests.bench.conftest import BUSY, LONG_WARMUP

PLUGIN = '''
from steelyard.bench.hook import Hook, HookContext
from steelyard.bench.parameters import Parameter


class Diary(Hook):
    """Writes down when it was called, and fails where the test asks for it."""

    doc = "keeps a diary"
    parameters = (
        Parameter("word", "text", "what to write", default="dear"),
        Parameter("fail", "text", "moment at which to fail", default=""),
        Parameter("pages", "count", "how many", default=1, minimum=1, maximum=9),
    )

    def _note(self, moment: str, context: HookContext) -> None:
        with (context.directory / "diary").open("a") as file:
            file.write(f"{self.options.text('word')} {moment} {context.failure is not None}\\n")
        context.record(moment, context.benchmark)
        if self.options.text("fail") == moment:
            raise RuntimeError("no ink\\nleft")

    def before_run(self, context): self._note("before_run", context)
    def after_start(self, context): self._note("after_start", context)
    def before_measure(self, context): self._note("before_measure", context)
    def after_measure(self, context): self._note("after_measure", context)
    def after_run(self, context): self._note("after_run", context)
'''


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """A package with a hook, installed as pip would: importable, with metadata and an entry point."""
    site = tmp_path / "site"
    (site / "diary_hook-1.0.dist-info").mkdir(parents=True)
    (site / "diary_hook.py").write_text(PLUGIN)
    (site / "diary_hook-1.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: diary-hook\nVersion: 1.0\n"
    )
    (site / "diary_hook-1.0.dist-info" / "entry_points.txt").write_text(
        "[steelyard.hooks]\ndiary = diary_hook:Diary\nbroken = diary_hook:Nothing\nprobe = diary_hook:Diary\n"
    )
    monkeypatch.syspath_prepend(str(site))
    return site


@pytest.mark.parametrize(
    ("text", "name", "options"),
    [
        ("probe", "probe", {}),
        ("probe:interval=1s,enabled=false", "probe", {"interval": "1s", "enabled": "false"}),
        ('command:before_run="cp a,b c"', "command", {"before_run": "cp a,b c"}),
        ("copymove:copy='/a b/*',to=x=y", "copymove", {"copy": "/a b/*", "to": "x=y"}),
    ],
)
def test_requests_are_read(text, name, options):
    assert hook.parse_request(text) == (name, options)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prob", "did you mean probe?"),
        ("probe:interva=1s", "did you mean interval?"),
        ("probe:interval=2h", "0s..3600s"),
        ("probe:interval", "is not name=value"),
        ("command:before_run='x", "No closing quotation"),
        ("copymove", "has nothing to do"),
        ("copymove:copy=a,to=../b", "leads out of the run's directory"),
        ("cpu-limit", "needs cpus="),
    ],
)
def test_requests_are_refused_before_anything_starts(text, message):
    with pytest.raises(UsageError) as refused:
        hook.create([text])
    assert message in refused.value.message
    assert "\n" not in refused.value.message


def test_the_hooks_that_always_run_come_first():
    always = ["probe", "counters", "topdown", "profile"]
    assert [name for name, _ in hook.create(["command:after_run=true"])] == [*always, "command"]
    assert hook.create(["command:after_run=true", "probe:interval=1s"])[0][0] == "probe"
    assert [name for name, _ in hook.create([], without=["counters", "topdown", "profile"])] == ["probe"]


def test_a_plugin_is_found_by_its_entry_point(plugin):
    assert "diary" in hook.names()
    assert hook.find("diary").doc == "keeps a diary"
    with pytest.raises(UsageError, match=r"pages=10: allowed is 1\.\.9"):
        hook.create(["diary:pages=10"])
    # A package cannot take the place of a built-in hook.
    assert hook.find("probe").__module__ == "steelyard.bench.hooks.probe"


def test_a_plugin_that_cannot_be_imported_is_reported_in_one_line(plugin):
    with pytest.raises(Exception, match=r"hook broken .* cannot be imported") as refused:
        hook.create(["broken"])
    assert "install its package again" in refused.value.hint


def test_a_plugin_hears_of_every_moment_and_its_failure_makes_the_run_suspect(runner, plugin):
    live = runner.start("--hook", "diary:word=hello,fail=before_measure", python_path=plugin)
    assert live.finish()[0] in (0, 1)
    run = live.run()
    assert run.status is RunStatus.COMPLETE
    moments = [f"hello {moment} False" for moment in hook.MOMENTS]
    assert (live.directory / "diary").read_text().splitlines() == moments
    assert run.hooks["diary"] == dict.fromkeys(hook.MOMENTS, "tao")
    assert run.verdict is not None
    assert run.verdict.level is not Level.VALID
    claims = [check.claim for check in run.verdict.checks if check.id == "hook"]
    assert claims == ["hook diary at before_measure: RuntimeError: no ink"]


def test_after_run_is_called_when_the_run_failed(runner, plugin):
    live = runner.start(
        "--hook", "diary", settings=(f"server_command={sys.executable} -c 1",), python_path=plugin
    )
    assert live.finish()[0] == 4
    assert (live.directory / "diary").read_text().splitlines() == [
        "dear before_run False",
        "dear after_run True",
    ]


def test_commands_and_files_end_up_with_the_run(runner, tmp_path):
    (tmp_path / "kept.log").write_text("kept")
    (tmp_path / "taken.log").write_text("taken")
    live = runner.start(
        *("--hook", f"copymove:copy={tmp_path}/kep*.log,move={tmp_path}/taken.log"),
        *("--hook", "command:before_run=echo 'a;b' $HOME,after_run=false"),
        *("--hook", "probe:enabled=false"),
    )
    live.finish()
    run = live.run()
    assert run.status is RunStatus.COMPLETE
    # No shell: nothing is expanded, nothing is a second command.
    assert (live.directory / "logs/command-before-run.log").read_text() == "a;b $HOME\n"
    assert (live.directory / "files/kept.log").read_text() == "kept"
    assert (live.directory / "files/taken.log").read_text() == "taken"
    assert (tmp_path / "kept.log").exists()
    assert not (tmp_path / "taken.log").exists()
    assert run.artifacts["files"] == "files"
    claims = [check.claim for check in run.verdict.checks if check.level is not Level.VALID]
    assert "hook command at after_run: false ended with code 1" in claims
    assert any("no telemetry was recorded" in claim for claim in claims)
    assert not (live.directory / "telemetry").exists()


@pytest.fixture
def cpu_cgroup():
    """The folder in which the CPU limit makes its cgroups; skips where that is not allowed."""
    try:
        folder, _ = cpu_limit.parent_cgroup()
        (folder / "steelyard-test").mkdir()
        (folder / "steelyard-test").rmdir()
    except Exception as error:
        pytest.skip(f"no CPU cgroup can be made: {error}")
    return folder


def test_a_cpu_limit_holds_and_is_undone(runner, cpu_cgroup):
    live = runner.start("--hook", "cpu-limit:cpus=0.2", settings=("measure=2", "connections=32", BUSY))
    live.finish()
    run = live.run()
    assert run.status is RunStatus.COMPLETE
    used = run.metrics["server_cpu_user_ratio"].value + run.metrics["server_cpu_system_ratio"].value
    cpus = len(run.cpus.server.split(","))
    assert used * cpus < 0.3
    throttled = next(check for check in run.verdict.checks if check.id == "throttled-quota")
    assert throttled.level is Level.VALID
    # A server that its neighbours leave less than the limit does not meet it.
    assert throttled.value > 0.01 or used * cpus < 0.2
    assert throttled.value == 0 or "as requested with the cpu-limit hook" in throttled.claim
    assert not Path(run.hooks["cpu-limit"]["cgroup"]).exists()
    assert list(runner.state.glob("steelyard/undo/*")) == []


def test_a_cpu_limit_of_a_killed_run_is_undone_by_the_next(runner, cpu_cgroup):
    live = runner.start("--hook", "cpu-limit:cpus=0.5", settings=LONG_WARMUP)
    live.until(lambda: live.in_phase("warmup"))
    left = Path(live.raw()["hooks"]["cpu-limit"]["cgroup"])
    assert (left / "cgroup.procs").read_text().split()
    live.process.send_signal(signal.SIGKILL)
    live.finish()
    live.until(lambda: not live.left())
    assert left.exists()
    assert list(runner.state.glob("steelyard/undo/*.json"))
    second = runner.start(settings=("server_command=false",))
    _, _, stderr = second.finish()
    assert f"undid a change of a killed run: limit cgroup {left}" in stderr
    assert not left.exists()
    assert list(runner.state.glob("steelyard/undo/*.json")) == []


def test_the_journal_keeps_what_cannot_be_undone_and_leaves_the_living_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    calls = []

    def refuse(details):
        calls.append(details)
        raise PermissionError("not yours")

    undo.register("test knob", refuse)
    undo.Change.begin("mine", "test knob", {"value": "1"})
    assert undo.replay() == []
    entry = json.loads((tmp_path / "steelyard/undo/mine.json").read_text())
    ended = subprocess.Popen(["true"])
    ended.wait()
    (tmp_path / "steelyard/undo/other.json").write_text(json.dumps({**entry, "pid": ended.pid}))
    assert undo.replay() == [f"{tmp_path}/steelyard/undo/other.json: test knob cannot be undone: not yours"]
    assert calls == [{"value": "1"}]
    assert (tmp_path / "steelyard/undo/other.json").exists()
    # After a reboot there is nothing to undo.
    (tmp_path / "steelyard/undo/other.json").write_text(json.dumps({**entry, "boot_id": "another"}))
    assert undo.replay() == []
    assert not (tmp_path / "steelyard/undo/other.json").exists()
    assert len(calls) == 1


def test_what_is_on_disk_is_undone_after_a_reboot_too(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    calls = []
    undo.register("test file", calls.append, on_disk=True)
    undo.Change.begin("mine", "test file", {"path": "/left"})
    journal = tmp_path / "steelyard/undo/mine.json"
    journal.write_text(json.dumps({**json.loads(journal.read_text()), "boot_id": "another"}))
    assert undo.replay() == ["undid a change of a killed run: test file /left"]
    assert calls == [{"path": "/left"}]
    assert not journal.exists()


def test_a_change_is_not_made_when_the_journal_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "steelyard").write_text("in the way")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    undo.register("test knob", lambda details: None)
    with pytest.raises(Exception, match="nothing was changed"):
        undo.Change.begin("mine", "test knob", {})
    assert os.listdir(tmp_path) == ["steelyard"]


GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guides" / "hooks.md"


def test_the_guide_lists_the_hooks_their_options_and_the_moments():
    rows = [line.split("|") for line in GUIDE.read_text().splitlines() if line.startswith("| `")]
    documented = {row[1].strip(" `"): row for row in rows}
    for name in hook.names():
        options = {part.strip(" `") for part in documented[name][3].split(",")}
        assert options == {one.name for one in hook.find(name).parameters}
    moments = [name for name in documented if name in (*hook.MOMENTS, "during")]
    assert moments == [*hook.MOMENTS[:3], "during", *hook.MOMENTS[3:]]


def test_the_example_of_the_guide_works():
    text = GUIDE.read_text()
    code = text.partition("```python\n")[2].partition("```")[0]
    space: dict[str, object] = {}
    exec(code, space)
    made = space["DropCaches"]
    assert isinstance(made, type)
    assert issubclass(made, hook.Hook)
    assert made.parameters[0].parse("2") == 2


def test_the_requests_that_the_guide_shows_are_understood():
    shown = re.findall(r"--hook (?:'([^']+)'|([^\s`]+))", GUIDE.read_text())
    requests = [quoted or plain for quoted, plain in shown if "drop-caches" not in (quoted or plain)]
    assert len(requests) >= 3
    for request in requests:
        hook.create([request])
