"""What is encoded: combinations of clip, encoder, quality and rung, and ffmpeg's commands for them.

In: clips, encoders, rungs. Out: `Kind`s, the order in which they run, and command lines.

The order is in rounds: each holds every kind once, shuffled by the seed. So a run that is stopped at any
moment has done each kind about equally often.

Not here: running commands (``pool``).
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from steelyard.benchmarks.transcode.clips import Clip
from steelyard.benchmarks.transcode.tuning import FRAME_RATE, QUALITIES, Encoder, Tuning

FEWEST_FRAMES = 4
"""Of a job: fewer do not show motion."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One combination. A job is one encoding of a kind."""

    clip: int
    """Place of the clip in the list of clips."""
    encoder: str
    quality: str
    rung: int
    """Height of the encoded frames."""
    frames: int

    def label(self, clips: Sequence[Clip]) -> str:
        """Return it for people."""
        return f"clip {clips[self.clip].name}, {self.encoder} {self.quality}, {self.rung} lines"

    def as_json(self) -> dict[str, str | int]:
        """Return the fields for a file."""
        return asdict(self)


def kinds(
    clips: Sequence[Clip],
    encoders: Sequence[Encoder],
    rungs: Sequence[int],
    clips_per_setting: int,
) -> list[Kind]:
    """Return all kinds: every encoder, quality and rung with ``clips_per_setting`` of the clips.

    Which clips a rung gets is the same for every encoder and quality, so that these can be compared.
    """
    made = []
    for turn in range(min(clips_per_setting, len(clips))):
        for encoder in encoders:
            for quality in QUALITIES:
                for step, rung in enumerate(rungs):
                    clip = (step + turn) % len(clips)
                    frames = _frames(clips[clip], encoder.frames_ratios[quality])
                    made.append(Kind(clip, encoder.name, quality, rung, frames))
    return made


def reference(kind: Kind, clip: Clip, tuning: Tuning) -> Kind:
    """Return ``kind`` with the fewest frames of any setting.

    Quality and size are compared over the same frames: the first of a stream takes many bits, which counts
    for more in a short one.
    """
    ratios = [ratio for encoder in tuning.encoders.values() for ratio in encoder.frames_ratios.values()]
    return replace(kind, frames=_frames(clip, min(ratios)))


def _frames(clip: Clip, ratio: float) -> int:
    return min(clip.frames, max(FEWEST_FRAMES, round(clip.frames * ratio)))


def order(count: int, seed: int) -> Iterator[int]:
    """Yield places of kinds without end, round by round, each shuffled."""
    shuffler = random.Random(seed)  # noqa: S311
    places = list(range(count))
    while True:
        shuffler.shuffle(places)
        yield from places


def generate_command(ffmpeg: Path, clip: Clip, output: str) -> list[str]:
    """Return the command that draws a generated clip."""
    return [
        *_base(ffmpeg, "error"),
        *("-f", "lavfi", "-i", clip.graph),
        *("-frames:v", str(clip.frames), "-pix_fmt", "yuv420p", "-f", "yuv4mpegpipe", f"file:{output}"),
    ]


def encode_command(
    ffmpeg: Path, tuning: Tuning, kind: Kind, clip: Clip, source: str, output: str
) -> list[str]:
    """Return the command that encodes ``kind`` and prints its progress on standard output."""
    encoder = tuning.encoders[kind.encoder]
    return [
        *_base(ffmpeg, "error"),
        *("-progress", "pipe:1", "-stats_period", "10"),
        *_input(tuning, clip, source),
        *("-map", "0:v:0", "-vf", _scaled(tuning, kind, clip)),
        *("-r", str(FRAME_RATE), "-map_metadata", "-1", "-threads", str(tuning.threads)),
        *encoder.arguments(kind.quality),
        *("-f", encoder.format, f"file:{output}"),
    ]


def quality_command(
    ffmpeg: Path, tuning: Tuning, kind: Kind, clip: Clip, source: str, encoded: str
) -> list[str]:
    """Return the command that prints PSNR and SSIM of a stream against the scaled source."""
    graph = (
        f"[0:v]setpts=N/{FRAME_RATE}/TB,format=yuv420p,split[a][b];"
        f"[1:v]{_scaled(tuning, kind, clip)},split[c][d];[a][c]psnr[p];[b][d]ssim[s]"
    )
    return [
        *_base(ffmpeg, "info"),
        *("-threads", str(tuning.threads), "-f", tuning.encoders[kind.encoder].format),
        *("-i", f"file:{encoded}"),
        *_input(tuning, clip, source),
        *("-filter_complex", graph, "-map", "[p]", "-f", "null", "-", "-map", "[s]", "-f", "null", "-"),
    ]


def _base(ffmpeg: Path, level: str) -> list[str]:
    options = ("-hide_banner", "-nostdin", "-nostats", "-y", "-v", level)
    return [str(ffmpeg), *options, "-filter_threads", "1", "-filter_complex_threads", "1"]


def _input(tuning: Tuning, clip: Clip, source: str) -> list[str]:
    # A user's file may be a playlist: ffmpeg must read files and nothing else.
    form = ("-f", "yuv4mpegpipe") if clip.graph else ()
    return ["-threads", str(tuning.threads), *form, "-protocol_whitelist", "file", "-i", f"file:{source}"]


def encoded_width(clip: Clip, rung: int) -> int:
    """Return the width of frames of height ``rung`` with the clip's shape: even, as 4:2:0 needs it."""
    return max(2, round(clip.width * rung / clip.height / 2) * 2)


def _scaled(tuning: Tuning, kind: Kind, clip: Clip) -> str:
    """Return the filters that make what the encoder gets; the frame rate is that of all streams."""
    return (
        f"trim=end_frame={kind.frames},"
        f"scale={encoded_width(clip, kind.rung)}:{kind.rung}:flags={tuning.scaler},"
        f"format=yuv420p,setpts=N/{FRAME_RATE}/TB"
    )
