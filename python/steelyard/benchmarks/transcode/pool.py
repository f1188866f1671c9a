"""The program that makes clips, encodes them on every CPU, and compares the results with their sources.

    python -m steelyard.benchmarks.transcode.pool PLAN

In: a `Plan` in a file, and the words `warm`, `measure`, `quality` on standard input, each of which begins the
next step. Out: a line of JSON on standard output when a step has ended, ``transcode.json`` after the last;
what fails is one line on standard error and exit code 4.

Clips and encoded streams are files without a name: the kernel frees their space when this program ends,
however that happens. ffmpeg opens them by their numbers below /proc/self/fd.

In the measure phase every CPU has an encoder until its end. It ends when its time is over and every kind of
job was completed once; what then runs is stopped and counts nowhere. So no CPU waits for the last job.
Not here: which jobs there are (``jobs``), running them (``crew``), metrics (``metrics``).
"""

import contextlib
import hashlib
import json
import os
import re
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from steelyard._base import ExitCode
from steelyard.benchmarks.transcode import jobs, tuning
from steelyard.benchmarks.transcode.clips import Clip
from steelyard.benchmarks.transcode.crew import Crew, Done, Task
from steelyard.benchmarks.transcode.jobs import Kind
from steelyard.benchmarks.transcode.record import ClipRecord, KindRecord, TranscodeResult
from steelyard.records import write

LOOK_S = 0.2
READ_AT_MOST_BYTES = 256 << 20
"""Of a user's file, to have it in memory: jobs read the beginning only."""
_PSNR = re.compile(r"PSNR y:(\S+)")
_SSIM = re.compile(r"SSIM .*All:(\S+)")


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do."""

    ffmpeg: str
    versions: str
    cpus: list[int]
    clips: list[Clip]
    kinds: list[Kind]
    time_s: float
    limit_s: float
    """When the measure phase ends even if some kind was never completed."""
    seed: int
    folder: str
    """Where files without a name are made."""
    result: str

    @classmethod
    def read(cls, path: Path) -> "Plan":
        """Read a plan that `write` wrote."""
        fields = json.loads(path.read_text())
        clips = [Clip(**one) for one in fields.pop("clips")]
        kinds = [Kind(**one) for one in fields.pop("kinds")]
        return cls(clips=clips, kinds=kinds, **fields)

    def write(self, path: Path) -> None:
        """Write the plan."""
        fields: dict[str, Any] = {name: getattr(self, name) for name in self.__slots__}
        fields["clips"] = [clip.as_json() for clip in self.clips]
        fields["kinds"] = [kind.as_json() for kind in self.kinds]
        path.write_text(json.dumps(fields, indent=1))


class FailedError(Exception):
    """The work cannot go on; the text says why."""


@dataclass(slots=True)
class _Tally:
    """What jobs of one kind did in the measure phase."""

    jobs: int = 0
    encodings: int = 0
    time_ns: int = 0
    user_s: float = 0.0
    system_s: float = 0.0
    rss_bytes_max: int = 0
    frames: int = 0
    stream_bytes: int = 0
    sha256: list[str] = field(default_factory=list)
    stream: IO[bytes] | None = None
    """The first stream, kept for the comparison with the source, or the reference in its place."""
    reference_frames: int = 0
    reference_bytes: int = 0
    psnr_y_db: float | None = None
    ssim: float | None = None
    missing: str | None = "no job of it was completed"


class Pool:
    """The steps, in order."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.crew = Crew(plan.cpus)
        self.ffmpeg = Path(plan.ffmpeg)
        self.tuning = tuning.load()
        self.tallies = [_Tally() for _ in plan.kinds]
        self.clip_files: list[IO[bytes]] = []
        self.clip_sums: list[str | None] = []
        self.span = (0, 0)
        self.busy_ratio: float | None = None
        self.own_cpu_s = 0.0
        self._order = jobs.order(len(plan.kinds), plan.seed)

    def prepare(self) -> None:
        """Draw generated clips, open the user's."""
        tasks = []
        for clip in self.plan.clips:
            if not clip.graph:
                # Open until the program ends.
                self.clip_files.append(open(clip.path, "rb"))  # noqa: SIM115
                continue
            file = self._nameless()
            self.clip_files.append(file)
            command = jobs.generate_command(self.ffmpeg, clip, _path(file))
            tasks.append(Task(f"making clip {clip.name}", command, (file.fileno(),)))
        self.crew.run_all(tasks)
        self._check()
        for clip, file in zip(self.plan.clips, self.clip_files, strict=True):
            self.clip_sums.append(_sha256(file) if clip.graph else None)

    def warm_up(self) -> None:
        """Read the clips into memory, and run one short job per CPU."""
        for file in self.clip_files:
            file.seek(0)
            left = READ_AT_MOST_BYTES
            while left > 0 and (block := file.read(1 << 20)):
                left -= len(block)
        fast = [at for at, kind in enumerate(self.plan.kinds) if kind.quality == tuning.QUALITIES[0]]
        tasks = [self._task(fast[turn % len(fast)]) for turn in range(len(self.plan.cpus))]
        self.crew.run_all(tasks, self._note_stream)
        self._check()

    def measure(self) -> None:
        """Encode on every CPU until the time is over and every kind was completed."""
        before, own_s = _idle(self.plan.cpus), time.process_time()
        begin_ns = time.monotonic_ns()
        say("measure", begin_ns=begin_ns)
        workers = self.crew.run(lambda: self._task(next(self._order)), self._count)
        until_ns, limit_ns = (
            begin_ns + int(seconds * 1e9) for seconds in (self.plan.time_s, self.plan.limit_s)
        )
        reported_ns = begin_ns
        while self.crew.failure is None:
            now_ns = time.monotonic_ns()
            with self.crew.lock:
                completed = sum(tally.jobs for tally in self.tallies)
                missing = sum(tally.jobs == 0 for tally in self.tallies)
            if (now_ns >= until_ns and not missing) or now_ns >= limit_ns:
                break
            if now_ns - reported_ns > 1e9:
                say("progress", jobs=completed, missing=missing)
                reported_ns = now_ns
            time.sleep(LOOK_S if missing else max(0.001, min(LOOK_S, (until_ns - now_ns) / 1e9)))
        after, end_ns = _idle(self.plan.cpus), time.monotonic_ns()
        self.crew.stop()
        for worker in workers:
            worker.join()
        self._check()
        self.span = (begin_ns, end_ns)
        self.own_cpu_s = time.process_time() - own_s
        if before is not None and after is not None:
            total = after[1] - before[1]
            self.busy_ratio = 1 - (after[0] - before[0]) / total if total > 0 else None
        say("end", end_ns=end_ns)

    def _task(self, at: int, reference: Kind | None = None) -> Task:
        """Return a job of the kind at a place of the plan, or its reference."""
        kind = reference or self.plan.kinds[at]
        clip, source = self.plan.clips[kind.clip], self.clip_files[kind.clip]
        output = self._nameless()
        command = jobs.encode_command(self.ffmpeg, self.tuning, kind, clip, _path(source), _path(output))
        files = (source.fileno(), output.fileno())
        return Task(kind.label(self.plan.clips), command, files, at, output)

    def _note_stream(self, done: Done) -> tuple[_Tally, IO[bytes]]:
        """Note the checksum of a completed job's stream; return its kind's tally, and the stream."""
        tally, output = self.tallies[done.task.kind], done.task.output
        if output is None:
            raise AssertionError("jobs have an output")
        tally.encodings += 1
        checksum = _sha256(output)
        if checksum not in tally.sha256:
            tally.sha256.append(checksum)
        return tally, output

    def _count(self, done: Done) -> None:
        """Add a completed job of the measure phase."""
        tally, output = self._note_stream(done)
        tally.jobs += 1
        tally.time_ns += done.end_ns - done.begin_ns
        tally.user_s += done.usage.ru_utime
        tally.system_s += done.usage.ru_stime
        tally.rss_bytes_max = max(tally.rss_bytes_max, done.usage.ru_maxrss * 1024)
        if tally.stream is None:
            tally.stream = output
            tally.stream_bytes = output.seek(0, os.SEEK_END)
            tally.frames = _frames(done.stdout)
            expected = self.plan.kinds[done.task.kind].frames
            if not tally.frames:
                self.crew.failure = f"{done.task.label}: ffmpeg encoded no frame"
            elif tally.frames < expected:
                self.crew.failure = (
                    f"{done.task.label}: ffmpeg encoded {tally.frames} of {expected} frames: the clip has"
                    " fewer than it announces"
                )

    def compare(self) -> None:
        """Measure PSNR and SSIM of a stream of every kind, all over the same frames of their clips.

        Kinds with more frames are encoded once more with as many as the others have.
        """
        references = [
            jobs.reference(kind, self.plan.clips[kind.clip], self.tuning) for kind in self.plan.kinds
        ]
        there = [at for at, tally in enumerate(self.tallies) if tally.stream is not None]
        longer = [at for at in there if references[at] != self.plan.kinds[at]]
        self.crew.run_all([self._task(at, references[at]) for at in longer], self._take_reference)
        self._check()
        tasks = []
        for at in there:
            kind, tally = references[at], self.tallies[at]
            clip, source, stream = self.plan.clips[kind.clip], self.clip_files[kind.clip], tally.stream
            if stream is None:
                raise AssertionError("only kinds with a stream")
            tally.reference_frames = min(kind.frames, tally.frames)
            tally.reference_bytes = stream.seek(0, os.SEEK_END)
            command = jobs.quality_command(self.ffmpeg, self.tuning, kind, clip, _path(source), _path(stream))
            label = f"PSNR of {kind.label(self.plan.clips)}"
            tasks.append(Task(label, command, (source.fileno(), stream.fileno()), at))
        self.crew.run_all(tasks, self._take_quality)
        self._check()

    def _take_reference(self, done: Done) -> None:
        self.tallies[done.task.kind].stream = done.task.output

    def _take_quality(self, done: Done) -> None:
        tally = self.tallies[done.task.kind]
        psnr, ssim = _PSNR.search(done.stderr), _SSIM.search(done.stderr)
        if psnr is None or ssim is None:
            tally.missing = "ffmpeg printed no PSNR or SSIM"
            return
        tally.ssim = float(ssim[1])
        tally.missing = "luma is identical to the source: PSNR is infinite" if psnr[1] == "inf" else None
        tally.psnr_y_db = None if psnr[1] == "inf" else float(psnr[1])

    def record(self) -> TranscodeResult:
        """Return what was measured."""
        stopped = [done.usage for done in self.crew.stopped]
        return TranscodeResult(
            versions=self.plan.versions,
            tuning={
                f"{encoder.name}_{quality}": encoder.arguments(quality)
                for encoder in self.tuning.encoders.values()
                for quality in tuning.QUALITIES
                if any(kind.encoder == encoder.name for kind in self.plan.kinds)
            },
            cpus=self.plan.cpus,
            begin_ns=self.span[0],
            end_ns=self.span[1],
            clips=[
                ClipRecord(
                    name=clip.name, width=clip.width, height=clip.height, frames=clip.frames, sha256=checksum
                )
                for clip, checksum in zip(self.plan.clips, self.clip_sums, strict=True)
            ],
            kinds=[
                _kind_record(kind, tally, self.plan.clips[kind.clip])
                for kind, tally in zip(self.plan.kinds, self.tallies, strict=True)
            ],
            stopped_jobs=len(stopped),
            cpu_user_s=sum(tally.user_s for tally in self.tallies) + sum(one.ru_utime for one in stopped),
            cpu_system_s=sum(tally.system_s for tally in self.tallies) + sum(one.ru_stime for one in stopped),
            pool_cpu_s=self.own_cpu_s,
            busy_ratio=self.busy_ratio,
        )

    def _nameless(self) -> IO[bytes]:
        return tempfile.TemporaryFile(dir=self.plan.folder)

    def _check(self) -> None:
        if self.crew.failure is not None:
            raise FailedError(self.crew.failure)


def _kind_record(kind: Kind, tally: _Tally, clip: Clip) -> KindRecord:
    return KindRecord(
        clip=clip.name,
        encoder=kind.encoder,
        quality=kind.quality,
        rung=kind.rung,
        frames=tally.frames,
        pixels=tally.frames * jobs.encoded_width(clip, kind.rung) * kind.rung,
        input_bytes=tally.frames * clip.width * clip.height * 3 // 2,
        jobs=tally.jobs,
        encodings=tally.encodings,
        time_ns=tally.time_ns,
        cpu_user_s=tally.user_s,
        cpu_system_s=tally.system_s,
        rss_bytes_max=tally.rss_bytes_max,
        stream_bytes=tally.stream_bytes,
        sha256=tally.sha256,
        reference_pixels=tally.reference_frames * jobs.encoded_width(clip, kind.rung) * kind.rung,
        reference_bytes=tally.reference_bytes,
        psnr_y_db=tally.psnr_y_db,
        ssim=tally.ssim,
        missing=tally.missing,
    )


def _path(file: IO[bytes]) -> str:
    return f"/proc/self/fd/{file.fileno()}"


def _sha256(file: IO[bytes]) -> str:
    checksum = hashlib.sha256()
    file.seek(0)
    while block := file.read(1 << 20):
        checksum.update(block)
    return checksum.hexdigest()


def _frames(stdout: str) -> int:
    """Return the frames that ffmpeg's last report of its progress names."""
    found = re.findall(r"^frame=\s*(\d+)", stdout, flags=re.MULTILINE)
    return int(found[-1]) if found else 0


def _idle(cpus: Sequence[int]) -> tuple[int, int] | None:
    """Return idle time (waiting for I/O is idle) and all time of ``cpus`` since boot, in ticks."""
    idle = total = 0
    names = {f"cpu{cpu}" for cpu in cpus}
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/stat").read_text().splitlines():
            name, *ticks = line.split()
            if name in names:
                # Guest time, after the eighth, is part of user time.
                idle += int(ticks[3]) + int(ticks[4])
                total += sum(map(int, ticks[:8]))
    return (idle, total) if total else None


def say(event: str, **fields: Any) -> None:
    """Tell the session what has happened."""
    print(json.dumps({"event": event, **fields}), flush=True)


def main(plan_path: str) -> int:
    """Do the steps as they are asked for; return an exit code."""
    # Every CPU has three files open, and every kind of job one.
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    plan = Plan.read(Path(plan_path))
    pool = Pool(plan)
    try:
        pool.prepare()
        say("prepared")
        for word, step in (("warm", pool.warm_up), ("measure", pool.measure), ("quality", pool.compare)):
            if sys.stdin.readline().strip() != word:
                raise FailedError(f"expected the word {word} on standard input")
            step()
            say(f"{word} ended")
        write(pool.record(), Path(plan.result))
    except (FailedError, OSError) as error:
        print(error, file=sys.stderr)
        return ExitCode.FAILED
    return ExitCode.OK


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
