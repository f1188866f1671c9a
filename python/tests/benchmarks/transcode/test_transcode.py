"""Video transcoding: which jobs there are, what follows from them, and what may go wrong.

Most runs are of a script in ffmpeg's place, which encodes nothing; the slow tests run ffmpeg itself.
"""

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from steelyard._base import EnvironmentLacksError, UsageError
from steelyard.analyze.utilisation import cpu_reached
from steelyard.bench import tiers
from steelyard.bench.parameters import Settings
from steelyard.bench.placement import Placement
from steelyard.benchmarks.transcode import benchmark, clips, jobs, tuning
from steelyard.benchmarks.transcode.declaration import DECLARATION
from steelyard.benchmarks.transcode.metrics import outcome
from steelyard.benchmarks.transcode.record import ClipRecord, KindRecord, TranscodeResult
from steelyard.machine import snapshot
from steelyard.records import Level, Run, RunStatus, read
from tests.bench.conftest import MARK, Live, until

FAKE = Path(__file__).parent / "fake_ffmpeg.sh"
CLIPS = clips.generated(3, height=360, frames=64, seed=1)
Start = Callable[..., Live]


# Jobs


def test_every_setting_gets_the_same_clips() -> None:
    encoders = tuning.chosen_encoders("x264,svtav1,libaom")
    for count in (1, 2, 9):
        made = jobs.kinds(CLIPS, encoders, [240, 120], count)
        inputs = {
            (encoder.name, quality): {
                (kind.clip, kind.rung)
                for kind in made
                if (kind.encoder, kind.quality) == (encoder.name, quality)
            }
            for encoder in encoders
            for quality in tuning.QUALITIES
        }
        assert len(inputs) == 9
        assert len({frozenset(one) for one in inputs.values()}) == 1
        assert len(made) == 9 * 2 * min(count, 3) == len(set(made))


def test_a_reference_has_the_same_frames_in_every_setting() -> None:
    made = jobs.kinds(CLIPS, tuning.chosen_encoders("x264,svtav1,libaom"), [240], 1)
    assert len({kind.frames for kind in made}) > 1, "slow settings encode a part"
    references = [jobs.reference(kind, CLIPS[kind.clip], tuning.load()) for kind in made]
    assert len({kind.frames for kind in references}) == 1
    assert all(one.frames <= kind.frames for one, kind in zip(references, made, strict=True))


def test_the_order_is_in_rounds_that_the_seed_decides() -> None:
    first = list(itertools.islice(jobs.order(7, 5), 21))
    assert first == list(itertools.islice(jobs.order(7, 5), 21))
    rounds = [first[at : at + 7] for at in (0, 7, 14)]
    assert [sorted(one) for one in rounds] == [list(range(7))] * 3
    assert rounds[0] != rounds[1]
    assert first != list(itertools.islice(jobs.order(7, 6), 21))


def test_a_users_file_can_name_no_other_source() -> None:
    kind = jobs.Kind(0, "x264", "fast", 120, 8)
    own = clips.Clip("a.m3u8", 320, 180, 8, path="/v/a.m3u8")
    command = jobs.encode_command(Path("ffmpeg"), tuning.load(), kind, own, "/v/a.m3u8", "/o")
    at = command.index("-protocol_whitelist")
    assert command[at : at + 4] == ["-protocol_whitelist", "file", "-i", "file:/v/a.m3u8"]


@pytest.mark.parametrize("text", ["", "x265", "x264,av2"])
def test_unknown_encoders_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="x264, svtav1, libaom"):
        tuning.chosen_encoders(text)


@pytest.mark.parametrize("text", ["", "721", "720;480", "-480", "32", "9000"])
def test_impossible_rungs_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="rungs="):
        tuning.chosen_rungs(text)


def test_tiers_grow() -> None:
    machine, placement = snapshot(), Placement((0, 1), ())
    values = [
        benchmark.TranscodeBench.suggest({}, machine=machine, tier=tier, placement=placement)
        for tier in tiers.TIERS
    ]
    for name in ("time", "contents", "source_height", "frames", "clips_per_setting"):
        assert [float(one[name]) for one in values] == sorted(float(one[name]) for one in values)
    assert set(DECLARATION.parts) == {f"{cell}_pixels_per_s" for cell in _cells()}


# Metrics


def _cells() -> list[str]:
    return [f"{encoder}_{quality}" for encoder in tuning.ENCODERS for quality in tuning.QUALITIES]


def kind(**fields: object) -> KindRecord:
    """Return the record of a kind: two jobs of 1000 pixels, 0.5 s each."""
    known = {
        "clip": "pattern",
        "encoder": "x264",
        "quality": "fast",
        "rung": 240,
        "frames": 8,
        "pixels": 1000,
        "input_bytes": 6000,
        "jobs": 2,
        "encodings": 2,
        "time_ns": 1_000_000_000,
        "cpu_user_s": 0.8,
        "cpu_system_s": 0.1,
        "rss_bytes_max": 100,
        "stream_bytes": 125,
        "sha256": ["aa"],
        "reference_pixels": 500,
        "reference_bytes": 25,
        "psnr_y_db": 40.0,
        "ssim": 0.9,
    }
    return KindRecord.model_validate({**known, **fields})


def result(*kinds: KindRecord, **fields: object) -> TranscodeResult:
    """Return a record of four CPUs and a phase of 10 s."""
    known = {
        "versions": "ffmpeg 9",
        "tuning": {"x264_fast": ["-c:v", "libx264", "-preset", "faster"]},
        "cpus": [0, 1, 2, 3],
        "begin_ns": 0,
        "end_ns": 10_000_000_000,
        "clips": [ClipRecord(name="pattern", width=320, height=180, frames=8)],
        "kinds": list(kinds),
        "stopped_jobs": 1,
        "cpu_user_s": 36.4,
        "cpu_system_s": 2.0,
        "pool_cpu_s": 0.5,
        "busy_ratio": 0.99,
    }
    return TranscodeResult.model_validate({**known, **fields})


def levels(found: object) -> dict[str, Level]:
    """Return the level of each check of an outcome."""
    return {check.id: check.level for check in found.checks}  # type: ignore[attr-defined]


def test_speed_is_that_of_one_round_of_all_kinds() -> None:
    # 1000 pixels in 0.5 s and 3000 in 1.5 s: 2000 a second on each of four CPUs, however often each ran.
    slow = kind(quality="slow", pixels=3000, jobs=4, time_ns=6_000_000_000, psnr_y_db=44.0)
    found = outcome(result(kind(), slow), {})
    assert found.metrics["pixels_per_s"].value == pytest.approx(8000)
    assert found.metrics["input_bytes_per_s"].value == pytest.approx(24000)
    assert found.metrics["x264_slow_pixels_per_s"].value == pytest.approx(8000)
    assert found.metrics["x264_fast_bits_per_pixel"].value == pytest.approx(0.4)
    assert found.metrics["x264_slow_psnr_y_db"].value == 44.0
    assert found.metrics["server_cpu_ratio"].value == pytest.approx(0.96)
    assert found.own_cpu_s == pytest.approx(38.9), "with the CPU time of who starts the jobs"
    assert set(levels(found).values()) == {Level.VALID}


def test_a_kind_that_never_ended_withholds_the_speed() -> None:
    never = kind(quality="slow", jobs=0, encodings=0, sha256=[], psnr_y_db=None, missing="not completed")
    found = outcome(result(kind(), never), {})
    for name in ("pixels_per_s", "x264_slow_pixels_per_s", "x264_slow_psnr_y_db"):
        assert found.metrics[name].value is None
        assert found.metrics[name].missing
    assert found.metrics["x264_fast_pixels_per_s"].value is not None
    assert levels(found)["completed"] is Level.INVALID


def test_streams_that_differ_make_the_run_invalid() -> None:
    assert levels(outcome(result(kind(sha256=["aa", "bb"])), {}))["checksums"] is Level.INVALID
    assert levels(outcome(result(kind(encodings=1)), {}))["checksums"] is Level.SUSPECT


def test_idle_cpus_make_the_run_suspect() -> None:
    idle = outcome(result(kind(), cpu_user_s=35.9), {})
    check = cpu_reached("transcode", idle.metrics)
    assert check is not None
    assert check.level is Level.SUSPECT
    assert outcome(result(kind(), busy_ratio=None), {}).metrics["busy_cpu_ratio"].missing


# Disk and memory


def prepared(folder: Path, machine: object, **settings: object) -> benchmark.TranscodeBench:
    """Return a benchmark that is about to be installed in ``folder``."""
    known = {"rungs": "240", "frames": 64, "clips": "", "contents": 3, "source_height": 360, "clip_seed": 1}
    values = {name: (value, "set") for name, value in {**known, **settings}.items()}
    asked = Settings((), values)  # type: ignore[arg-type]
    session = SimpleNamespace(
        settings=asked, directory=folder, machine=machine, placement=Placement((0, 1), ())
    )
    return benchmark.TranscodeBench(session)  # type: ignore[arg-type]


def test_a_disk_without_room_for_the_clips_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed = sum(clip.file_bytes for clip in CLIPS)
    assert needed > 3 * 64 * 640 * 360 * 1.5
    room = needed + benchmark.DISK_RESERVE_BYTES
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=room))
    prepared(tmp_path, snapshot()).install()
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=room - 1))
    with pytest.raises(EnvironmentLacksError, match="clips take 63 MiB") as refused:
        prepared(tmp_path, snapshot()).install()
    assert "--out" in (refused.value.hint or "")


def test_memory_without_room_for_the_encoders_is_refused(tmp_path: Path) -> None:
    def machine(gib: float) -> object:
        return SimpleNamespace(memory=SimpleNamespace(limit_bytes=None, total_bytes=int(gib * 2**30)))

    prepared(tmp_path, machine(2)).install()
    with pytest.raises(EnvironmentLacksError, match="2 encoders and their clips") as refused:
        prepared(tmp_path, machine(0.4)).install()
    assert "--server-cpus" in (refused.value.hint or "")


# Runs of a script in ffmpeg's place


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a run with the script; what is left of it is ended, and looked for, after the test."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("ffmpeg", "ffprobe"):
        (programs / name).symlink_to(FAKE)
    lives: list[Live] = []

    def begin(*settings: str, missing: bool = False, **environment: str) -> Live:
        known = {"time": "0.1", "seed": "7"}
        known |= dict(text.split("=", 1) for text in settings)
        command = [sys.executable, "-m", "steelyard.cli.main", "run", "transcode", "--tier", "smoke"]
        for name, value in known.items():
            command += ["--set", f"{name}={value}"]
        mark = uuid.uuid4().hex
        search = str(tmp_path / "none") if missing else f"{programs}:{os.environ['PATH']}"
        process = subprocess.Popen(
            [*command, "--json", "--out", str(tmp_path / "runs")],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment, "PATH": search, MARK: mark},
            start_new_session=True,
        )
        lives.append(Live(process, tmp_path / "runs", mark))
        return lives[-1]

    yield begin
    for live in lives:
        if live.process.poll() is None:
            live.process.send_signal(signal.SIGKILL)
        live.finish()
        until(lambda live=live: not live.left())


def incomplete(live: Live, *words: str) -> Run:
    """Check that a run has ended without a result, for a reason with ``words``, and left nothing."""
    code, _, _ = live.finish()
    assert code == 4
    run = live.run()
    assert run.status is RunStatus.INCOMPLETE
    assert not run.metrics
    assert run.verdict is None
    for word in words:
        assert word in live.complaint()
        assert word in (run.status_reason or "")
    until(lambda: not live.left())
    return run


def test_a_run_comes_to_a_result_and_leaves_no_clip(start: Start) -> None:
    live = start()
    code, _, stderr = live.finish()
    assert code in (0, 1), stderr
    run = live.run()
    assert run.status is RunStatus.COMPLETE
    record = read(TranscodeResult, live.directory / "transcode.json")
    assert record.versions == "ffmpeg 9.9-fake, x264 1 r2, svtav1 3.0, libaom 4.0"
    assert len(record.kinds) == 18
    assert all(one.jobs >= 1 and len(one.sha256) == 1 for one in record.kinds)
    assert {one.psnr_y_db for one in record.kinds} == {41.5}
    measure = next(phase for phase in run.phases if phase.name == "measure")
    assert (measure.begin_ns, measure.end_ns) == (record.begin_ns, record.end_ns)
    assert run.metrics["pixels_per_s"].value
    assert run.verdict is not None
    asked = {check.id: check.level for check in run.verdict.checks}
    assert asked["completed"] is asked["checksums"] is Level.VALID
    assert "foreign-load" in asked
    assert not [path for path in live.directory.rglob("*") if path.suffix in (".y4m", ".ivf", ".h264")]
    assert "Quality over speed" in (live.directory / "report.html").read_text()


def test_streams_that_do_not_repeat_make_a_run_invalid(start: Start) -> None:
    live = start(FAKE_DIFFERS="1")
    assert live.finish()[0] == 1
    verdict = live.run().verdict
    assert verdict is not None
    assert [check.id for check in verdict.reasons if check.level is Level.INVALID].count("checksums") == 1


def test_without_ffmpeg_nothing_is_begun(start: Start, tmp_path: Path) -> None:
    live = start(missing=True)
    assert live.finish()[0] == 3
    assert "is not installed" in live.complaint()
    assert "steelyard install transcode" in live.finish()[2]
    assert not list((tmp_path / "runs").glob("*/run.json"))


def test_an_encoder_that_ffmpeg_lacks_is_named(start: Start) -> None:
    live = start(FAKE_LACKS="libsvtav1")
    assert live.finish()[0] == 3
    assert "no encoder libsvtav1" in live.complaint()
    rest = start("encoders=x264,libaom", FAKE_LACKS="libsvtav1")
    assert rest.finish()[0] in (0, 1)
    assert not [name for name in rest.run().metrics if name.startswith("svtav1")]


def test_ffmpeg_that_fails_on_one_combination_is_named(start: Start) -> None:
    live = start(FAKE_FAILS="-cpu-used 3")
    incomplete(live, "libaom slow", "ffmpeg exited with code 1", "Error while decoding stream")


def _hanging(live: Live) -> list[int]:
    return [pid for pid, command in live.left().items() if command.startswith("sleep 60")]


def test_ffmpeg_that_is_killed_is_named(start: Start) -> None:
    live = start(FAKE_HANGS="1")
    os.kill(until(lambda: _hanging(live))[0], signal.SIGKILL)
    incomplete(live, "ffmpeg was killed by SIGKILL", "x264 fast")


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_run_is_incomplete(start: Start, sent: signal.Signals) -> None:
    live = start(FAKE_HANGS="1")
    until(lambda: _hanging(live))
    live.process.send_signal(sent)
    incomplete(live, f"stopped by {sent.name}")


@pytest.mark.parametrize("victim", ["orchestrator", "encoders"])
def test_kill_9_leaves_no_process_and_no_clip(start: Start, victim: str) -> None:
    live = start(FAKE_HANGS="1")
    until(lambda: _hanging(live))
    if victim == "orchestrator":
        live.process.send_signal(signal.SIGKILL)
        live.finish()
    else:
        pid = until(lambda: live.pid_of("encoders"))
        os.kill(pid, signal.SIGKILL)
        incomplete(live, "encoders was killed by SIGKILL")
    until(lambda: not live.left())
    assert live.run().status is RunStatus.INCOMPLETE
    kept = {path.suffix for path in live.directory.rglob("*") if path.is_file()}
    assert kept <= {".json", ".log", ".html", ".parquet", ".bin", ".partial", ".arrow", ""}


def test_a_users_clip_that_is_no_video_is_named(start: Start, tmp_path: Path) -> None:
    folder = tmp_path / "videos"
    folder.mkdir()
    (folder / "good.mp4").write_text("VIDEO")
    (folder / "notes.txt").write_text("words")
    live = start(f"clips={folder}")
    incomplete(live, f"{folder}/notes.txt is no video", "Invalid data found")
    (folder / "notes.txt").unlink()
    good = start(f"clips={folder}")
    assert good.finish()[0] in (0, 1)
    names = [
        json.loads((path.parent / "transcode.json").read_text())["clips"][0]["name"]
        for path in (tmp_path / "runs").glob("*/transcode.json")
    ]
    assert names == ["good.mp4"]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (("clips=/nonexistent",), "clips=/nonexistent"),
        (("rungs=360",), "source_height=180"),
        (("encoders=x265",), "encoders=x265"),
        (("versions=other",), "versions=other"),
    ],
)
def test_what_cannot_work_is_refused(
    start: Start, tmp_path: Path, settings: tuple[str, ...], said: str
) -> None:
    live = start(*settings)
    assert live.finish()[0] == 2
    assert said in live.complaint()
    assert not list((tmp_path / "runs").glob("*/run.json"))


# ffmpeg itself


@pytest.mark.slow
def test_ffmpeg_encodes_and_repeats(tmp_path: Path) -> None:
    folder = tmp_path / "videos"
    folder.mkdir()
    for number, graph in enumerate(("testsrc2=size=320x180:rate=25", "mandelbrot=size=322x242:rate=30")):
        video = str(folder / f"{number}.mp4")
        subprocess.run(
            ["ffmpeg", "-v", "error", "-f", "lavfi", "-i", graph, "-frames:v", "20", video], check=True
        )
    sums = []
    for settings in ((), (), ("--set", f"clips={folder}")):
        out = tmp_path / uuid.uuid4().hex
        command = [sys.executable, "-m", "steelyard.cli.main", "run", "transcode", "--tier", "smoke"]
        done = subprocess.run(
            [*command, "--set", "time=0.5", "--out", str(out), *settings],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode in (0, 1), done.stderr
        (path,) = out.glob("*/transcode.json")
        record = read(TranscodeResult, path)
        sums.append(
            (record.clips, {(one.encoder, one.quality, one.rung): one.sha256 for one in record.kinds})
        )
        for one in record.kinds:
            assert one.missing is None
            assert (one.psnr_y_db or 0) > 25
            assert 0.8 < (one.ssim or 0) <= 1
            assert len(one.sha256) == 1
            assert one.pixels % (one.frames * one.rung) == 0
            assert one.rss_bytes_max > 10 << 20
    assert sums[0] == sums[1], "clips and streams repeat from run to run"
    assert [clip.frames for clip in sums[2][0]] == [12, 12]
