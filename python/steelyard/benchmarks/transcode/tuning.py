"""Settings of the encoders, from ``workloads/transcode/encoders.toml``, which gives the reason for each.

In: the file. Out: encoders with their qualities, and ffmpeg's options for them.

Not here: which combinations run (``jobs``).
"""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from steelyard._base import UsageError, workloads_dir

ENCODERS = ("x264", "svtav1", "libaom")
QUALITIES = ("fast", "medium", "slow")
FRAME_RATE = 30
"""Frames per second of every stream: a clip's own rate changes no frame and no work."""


@dataclass(frozen=True, slots=True)
class Encoder:
    """One encoder."""

    name: str
    codec: str
    """Its name in ffmpeg."""
    format: str
    """Container of its elementary stream."""
    options: tuple[str, ...]
    qualities: dict[str, tuple[str, ...]]
    """Quality -> the options that select it."""
    frames_ratios: dict[str, float]
    """Quality -> share of a clip's frames that a job encodes."""

    def arguments(self, quality: str) -> list[str]:
        """Return ffmpeg's output options that encode in ``quality``."""
        return ["-c:v", self.codec, *self.options, *self.qualities[quality]]


@dataclass(frozen=True, slots=True)
class Tuning:
    """The file."""

    scaler: str
    threads: int
    encoders: dict[str, Encoder]


@cache
def load() -> Tuning:
    """Return the settings."""
    with (workloads_dir() / "transcode" / "encoders.toml").open("rb") as file:
        text = tomllib.load(file)
    encoders = {}
    for name in ENCODERS:
        one = text["encoders"][name]
        encoders[name] = Encoder(
            name,
            one["codec"],
            one["format"],
            tuple(one["options"]),
            {quality: tuple(one["qualities"][quality]["options"]) for quality in QUALITIES},
            {quality: float(one["qualities"][quality]["frames_ratio"]) for quality in QUALITIES},
        )
    return Tuning(text["scaler"], int(text["threads"]), encoders)


def chosen_encoders(text: str) -> list[Encoder]:
    """Return the encoders that a comma-separated list names. Raises UsageError for an unknown name."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in ENCODERS]
    if unknown or not names:
        raise UsageError(f"encoders={text}: allowed are {', '.join(ENCODERS)}")
    return [load().encoders[name] for name in ENCODERS if name in names]


def chosen_rungs(text: str) -> list[int]:
    """Return the heights that a comma-separated list names, largest first. Raises UsageError otherwise."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    heights: Sequence[int] = [int(part) for part in parts if part.isdecimal()]
    if not parts or len(heights) != len(parts) or any(h % 2 or not 64 <= h <= 4320 for h in heights):
        raise UsageError(f"rungs={text}: allowed are even heights of 64 to 4320, as in 720,480,360")
    return sorted(set(heights), reverse=True)
