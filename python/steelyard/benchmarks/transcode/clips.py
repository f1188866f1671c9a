"""Clips to encode: generated ones, and a user's.

In: contents and a size, or a folder. Out: `Clip`s; for generated ones what ffmpeg is asked to draw.

Generated clips are raw (4:2:0, 8 bit), so that reading them is cheap and the encoders are what is measured.
The contents differ in what makes encoding hard: edges, detail, grain, motion without a pattern, cuts.

Not here: running ffmpeg to draw them (``pool``).
"""

import json
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path

from steelyard._base import UsageError, WorkloadFailedError
from steelyard.benchmarks.transcode.tuning import FRAME_RATE

_PROBE_TIMEOUT_S = 60.0
_Y4M_HEADER_BYTES = 128
_FRAME_HEADER_BYTES = 6

CONTENTS = {
    # Flat areas, sharp edges, text: screens and drawings.
    "pattern": "testsrc2=size={size}:rate={rate}",
    # A zoom into ever finer detail.
    "fractal": "mandelbrot=size={size}:rate={rate}:maxiter=300:start_scale={scale}:end_pts=120:bailout=4",
    # Soft shapes that move, under the grain of a film.
    "grain": "testsrc2=size={size}:rate={rate},gblur=sigma={blur},scroll=horizontal=0.004:vertical=0.002,"
    "noise=alls=14:allf=t:all_seed={seed}",
    # Small things that move without a pattern.
    "cells": "life=size={cells}:rate={rate}:mold=12:ratio=0.15:seed={seed}:life_color=0xE0C060:"
    "death_color=0x305080:mold_color=0x101018,scale={size}:flags=neighbor",
    # A camera that pans over detail.
    "pan": "mandelbrot=size={size}:rate={rate}:maxiter=300:start_scale={scale}:end_scale={scale},"
    "scroll=horizontal=0.006:vertical=0.001,noise=alls=4:allf=t:all_seed={seed}",
    # A cut every 12 frames.
    "cuts": "mandelbrot=size={size}:rate={rate}:maxiter=300:start_scale={scale}:end_pts=60,format=yuv420p[a];"
    "testsrc2=size={size}:rate={rate},format=yuv420p[b];[a][b]blend=all_expr='if(mod(floor(N/12),2),A,B)'",
}
"""Content -> the graph of ffmpeg's filters that draws it."""


@dataclass(frozen=True, slots=True)
class Clip:
    """One clip. ``graph`` draws a generated one; ``path`` is the file of a user's."""

    name: str
    width: int
    height: int
    frames: int
    graph: str = ""
    path: str = ""

    @property
    def raw_bytes(self) -> int:
        """Size of its frames as raw 4:2:0 video with 8 bits."""
        return self.frames * self.width * self.height * 3 // 2

    @property
    def file_bytes(self) -> int:
        """Size of the file that a generated clip takes, about; 0 for a user's."""
        return self.raw_bytes + self.frames * _FRAME_HEADER_BYTES + _Y4M_HEADER_BYTES if self.graph else 0

    def as_json(self) -> dict[str, str | int]:
        """Return the fields for a file."""
        return asdict(self)


def generated(count: int, *, height: int, frames: int, seed: int) -> list[Clip]:
    """Return the first ``count`` contents with 16:9 frames of ``height``."""
    width = -(-height * 16 // 9) // 2 * 2
    clips = []
    for number, (name, graph) in enumerate(CONTENTS.items()):
        text = graph.format(
            size=f"{width}x{height}",
            cells=f"{max(2, width // 4)}x{max(2, height // 4)}",
            rate=FRAME_RATE,
            seed=(seed * 1009 + number) % 2**31,
            blur=max(1, height // 60),
            scale=f"{0.2 + (seed * 37 % 100) / 1000:.3f}",
        )
        clips.append(Clip(name, width, height, frames, graph=text))
    return clips[:count]


def files_of(folder: Path) -> list[Path]:
    """Return the files of a user's folder, hidden ones left out. Raises UsageError where there is none."""
    try:
        files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    except OSError as error:
        raise UsageError(f"clips={folder}: cannot be read: {error.strerror}") from error
    if not files:
        raise UsageError(f"clips={folder}: there is no file in it", hint="name a folder of video files")
    return files


def probe(ffprobe: Path, path: Path, frames: int) -> Clip:
    """Return a user's file as a clip of at most ``frames`` frames.

    Raises WorkloadFailedError, which names the file, for one that is no video.
    """
    command = [
        *(str(ffprobe), "-v", "error", "-protocol_whitelist", "file", "-select_streams", "v:0"),
        *("-count_packets", "-read_intervals", f"%+#{frames}"),
        *("-show_entries", "stream=width,height,nb_read_packets", "-of", "json", f"file:{path.absolute()}"),
    ]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_PROBE_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired as error:
        raise WorkloadFailedError(f"clip {path}: ffprobe took longer than {_PROBE_TIMEOUT_S:g} s") from error
    stream: dict[str, object] = {}
    if done.returncode == 0:
        streams = json.loads(done.stdout or "{}").get("streams") or [{}]
        stream = streams[0]
    found = [int(str(stream.get(key) or 0)) for key in ("width", "height", "nb_read_packets")]
    if not all(found):
        lines = done.stderr.strip().splitlines()
        why = lines[-1].rpartition(": ")[2] if lines else "it has no video stream"
        raise WorkloadFailedError(f"clip {path} is no video: {why}", hint="remove it from the folder")
    return Clip(path.name, found[0], found[1], min(frames, found[2]), path=str(path.absolute()))
