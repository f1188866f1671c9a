"""Video transcoding as a benchmark: ffmpeg scales and encodes clips, one process per CPU.

In: settings that follow from the tier. Out: pixels encoded per second, by encoder and quality, with the
quality that was paid for it.

The program ``pool`` has every CPU: the benchmark has no load. This module orders it to begin each step.

Not here: jobs (``jobs``), running them (``pool``), metrics (``metrics``).
"""

import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from steelyard._base import EnvironmentLacksError, UsageError, WorkloadFailedError
from steelyard.bench.benchmark import Benchmark, Outcome
from steelyard.bench.footprint import Disk, Footprint
from steelyard.bench.limits.memory import available_memory_bytes
from steelyard.bench.parameters import Parameter, Setting
from steelyard.bench.placement import Placement
from steelyard.bench.stack import recipe
from steelyard.benchmarks.transcode import clips as clip_files
from steelyard.benchmarks.transcode import jobs, programs
from steelyard.benchmarks.transcode.clips import Clip
from steelyard.benchmarks.transcode.parameters import PARAMETERS, suggestions
from steelyard.benchmarks.transcode.tuning import chosen_encoders, chosen_rungs

if TYPE_CHECKING:
    from steelyard.bench.executor import Process
    from steelyard.records import Machine

LOOK_S = 0.25
"""How often the program is looked at while it measures: every look takes a moment of a CPU."""
STEP_TIMEOUT_S = 3600.0
"""Of the steps that have no time of their own: clips, warm-up, comparison."""
RESULT = "transcode.json"
PLAN = "transcode-plan.json"
DISK_RESERVE_BYTES = 64 << 20
"""Disk space that stays free beside clips and streams: telemetry, logs."""
_BASE_BYTES = 200 << 20
_BYTES_PER_PIXEL = 200
"""Memory of one encoder, about: 180 to 300 MB at 360 and 720 lines with the slowest settings."""


class TranscodeBench(Benchmark):
    """Video transcoding."""

    parameters: ClassVar[tuple[Parameter, ...]] = PARAMETERS

    @classmethod
    def suggest(
        cls, chosen: Mapping[str, Setting], *, machine: "Machine", tier: str, placement: Placement
    ) -> dict[str, Setting]:
        """Return what follows from the tier and the programs."""
        return suggestions(chosen, tier)

    @classmethod
    def checks(cls, settings: Mapping[str, Setting], *, machine: "Machine") -> None:
        """Raise UsageError or EnvironmentLacksError for settings that cannot work here."""
        encoders = chosen_encoders(str(settings["encoders"]))
        rungs = chosen_rungs(str(settings["rungs"]))
        recipe.program("ffprobe", "transcode")
        known = programs.versions(encoders)
        if settings["versions"] != known:
            raise UsageError(
                f"versions={settings['versions']}: this machine has {known}",
                hint="omit it: it separates results of different versions",
            )
        if settings["clips"]:
            clip_files.files_of(Path(str(settings["clips"])))
        elif int(settings["source_height"]) < rungs[0]:
            raise UsageError(
                f"rungs={settings['rungs']}: clips have source_height={settings['source_height']}",
                hint="scaling up adds work and no detail: make source_height larger, or omit the rung",
            )

    @classmethod
    def footprint(cls, settings: Mapping[str, Setting], *, placement: Placement) -> Footprint:
        """Return what a run takes: its time, an encoder on each CPU, the clips."""
        clips = _generated_clips(settings) if not settings["clips"] else []
        size_bytes = sum(clip.file_bytes for clip in clips)
        rung = chosen_rungs(str(settings["rungs"]))[0]
        # The size of a user's clips shows when they are looked at.
        memory_bytes = _memory_bytes(clips, rung, len(placement.server)) if clips else None
        disk = Disk(size_bytes + DISK_RESERVE_BYTES, smaller="--set frames=..., contents=..., or --out")
        time_s = float(settings["time"])
        return Footprint(time_s, time_s, "making the clips", memory_bytes, (disk,) if clips else ())

    def install(self) -> None:
        """See that every clip is a video and that disk and memory suffice."""
        rungs = chosen_rungs(self.settings.text("rungs"))
        self._clips = self._choose_clips(rungs[0])
        self._check_disk()
        self._check_memory(rungs[0])
        self._pool: Process | None = None
        self._events: dict[str, dict[str, Any]] = {}

    def _choose_clips(self, largest_rung: int) -> list[Clip]:
        frames = self.settings.count("frames")
        folder = self.settings.text("clips")
        if not folder:
            return _generated_clips(self.settings)
        probe = Path(recipe.program("ffprobe", "transcode"))
        chosen = [clip_files.probe(probe, path, frames) for path in clip_files.files_of(Path(folder))]
        for clip in chosen:
            if clip.height < largest_rung:
                raise WorkloadFailedError(
                    f"clip {clip.path} has {clip.height} lines, rungs={self.settings.text('rungs')}",
                    hint="scaling up adds work and no detail: --set rungs=... with smaller heights",
                )
        return chosen

    def _check_disk(self) -> None:
        needed = sum(clip.file_bytes for clip in self._clips)
        free = shutil.disk_usage(self.session.directory).free
        if free < needed + DISK_RESERVE_BYTES:
            raise EnvironmentLacksError(
                f"{self.session.directory}: clips take {needed >> 20} MiB and {DISK_RESERVE_BYTES >> 20} MiB"
                f" must stay free, {free >> 20} MiB are free",
                hint="choose another disk with --out, or smaller clips with --set frames=... or contents=...",
            )

    def _check_memory(self, rung: int) -> None:
        """Refuse encoders that cannot fit; what they took in fact is in the record."""
        there = available_memory_bytes(self.session.machine)
        cpus = len(self.session.placement.server)
        needed = _memory_bytes(self._clips, rung, cpus)
        if needed > there:
            raise EnvironmentLacksError(
                f"{cpus} encoders and their clips take about {needed / 2**30:.1f} GiB of memory,"
                f" {there / 2**30:.1f} GiB are there",
                hint="use fewer CPUs with --server-cpus, or smaller rungs with --set rungs=...",
            )

    def start(self) -> None:
        """Start the program, and return when it has made the clips."""
        # Not at the top: `steelyard list` would load what records are made of.
        from steelyard.benchmarks.transcode.pool import Plan

        encoders = chosen_encoders(self.settings.text("encoders"))
        time_s = self.settings.number("time")
        plan = Plan(
            ffmpeg=recipe.program("ffmpeg", "transcode"),
            versions=self.settings.text("versions"),
            cpus=list(self.session.placement.server),
            clips=self._clips,
            kinds=jobs.kinds(
                self._clips,
                encoders,
                chosen_rungs(self.settings.text("rungs")),
                self.settings.count("clips_per_setting"),
            ),
            time_s=time_s,
            limit_s=10 * time_s + 60.0,
            seed=self.settings.count("seed"),
            folder=str(self.session.directory),
            result=str(self.session.directory / RESULT),
        )
        plan.write(self.session.directory / PLAN)
        command = [sys.executable, "-m", "steelyard.benchmarks.transcode.pool"]
        self._pool = self.session.start_process(
            "encoders",
            [*command, str(self.session.directory / PLAN)],
            cpus=self.session.placement.server,
        )
        self._listen("prepared", STEP_TIMEOUT_S, what="making the clips")

    def warm_up(self) -> None:
        """Have the clips read into memory and one job run on every CPU."""
        self._begin("warm")
        self._listen("warm ended", STEP_TIMEOUT_S, what="warming up")

    def measure(self) -> int:
        """Encode until the time is over and every combination was encoded; return when that was."""
        time_s = self.settings.number("time")
        self._begin("measure")
        begun = self._listen("measure", 60.0, what="beginning to measure")
        self.session.begin_phase("measure", int(begun["begin_ns"]))
        ended = self._listen("end", 12 * time_s + 120.0, what="measuring", look_s=LOOK_S)
        return int(ended["end_ns"])

    def drain(self) -> None:
        """Have the streams compared with their sources."""
        self._begin("quality")
        self.session.join(self._process(), STEP_TIMEOUT_S, what="comparing streams with their sources")

    def collect(self) -> Outcome:
        """Return what the record says."""
        from steelyard.benchmarks.transcode.metrics import outcome
        from steelyard.benchmarks.transcode.record import TranscodeResult
        from steelyard.records import read

        result = read(TranscodeResult, self.session.directory / RESULT)
        return outcome(result, {"transcode": RESULT, "transcode_plan": PLAN})

    def _process(self) -> "Process":
        if self._pool is None:
            raise AssertionError("started in start")
        return self._pool

    def _begin(self, word: str) -> None:
        self._process().write(f"{word}\n")

    def _listen(self, event: str, timeout_s: float, *, what: str, look_s: float = 0.02) -> dict[str, Any]:
        """Return what the program said with ``event``. Raises WorkloadFailedError when it does not come."""
        until_ns = self.session.clock.monotonic_ns() + int(timeout_s * 1e9)
        while event not in self._events:
            for stream, line in self._process().lines():
                if stream == "stdout" and line.startswith("{"):
                    self._take(json.loads(line))
            if event in self._events:
                break
            self.session.check()
            if self.session.clock.monotonic_ns() > until_ns:
                raise WorkloadFailedError(f"{what} took longer than {timeout_s:g} s")
            self.session.clock.sleep(look_s)
        return self._events[event]

    def _take(self, event: dict[str, Any]) -> None:
        self._events[event["event"]] = event
        if event["event"] == "progress":
            status = {"jobs": f"{event['jobs']}"}
            if event["missing"]:
                status["still to come"] = f"{event['missing']} combinations"
            self.session.progress.status(status)


def _generated_clips(settings: Mapping[str, Setting]) -> list[Clip]:
    """Return the clips that the settings ask for, which are made when the run starts."""
    return clip_files.generated(
        int(settings["contents"]),
        height=int(settings["source_height"]),
        frames=int(settings["frames"]),
        seed=int(settings["clip_seed"]),
    )


def _memory_bytes(clips: Sequence[Clip], rung: int, encoders: int) -> int:
    """Return the memory of so many encoders at the largest ``rung``; clips stay in the page cache."""
    pixels = max(jobs.encoded_width(clip, rung) * rung for clip in clips)
    files = sum(clip.file_bytes for clip in clips)
    return encoders * (_BASE_BYTES + _BYTES_PER_PIXEL * pixels) + files
