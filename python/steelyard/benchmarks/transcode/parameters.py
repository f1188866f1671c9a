"""Parameters of the benchmark of video transcoding, and what the tiers make of them."""

from collections.abc import Mapping
from dataclasses import dataclass

from steelyard._base import EnvironmentLacksError, UsageError
from steelyard.bench.parameters import Parameter, Setting
from steelyard.benchmarks.transcode import programs
from steelyard.benchmarks.transcode.clips import CONTENTS
from steelyard.benchmarks.transcode.tuning import ENCODERS, chosen_encoders


@dataclass(frozen=True, slots=True)
class _Size:
    """What a tier encodes."""

    time_s: float
    source_height: int
    rungs: str
    frames: int
    contents: int
    clips_per_setting: int


_SIZES = {
    "smoke": _Size(3.0, 180, "180,90", 12, 2, 1),
    "quick": _Size(60.0, 720, "480,360,240", 64, 3, 1),
    "standard": _Size(240.0, 720, "720,480,360", 64, 4, 2),
    "full": _Size(900.0, 1080, "1080,720,480,360", 128, 6, 6),
}
"""Full has the sizes of videos on the web; the others are cut so that two CPUs end in time."""
NONE_HERE = "not found"
"""Value of ``versions`` where there is no usable ffmpeg: `checks` then says why."""

PARAMETERS = (
    Parameter(
        "time",
        "seconds",
        "least time of the measure phase, which lasts until every combination was encoded once",
        derived="per tier: 3 s, 60 s, 4 min, 15 min",
        minimum=0.1,
        maximum=86_400.0,
    ),
    Parameter(
        "clips",
        "text",
        "folder of videos to encode; empty for generated clips",
        default="",
    ),
    Parameter(
        "contents",
        "count",
        f"how many of the generated clips: {', '.join(CONTENTS)}",
        derived="per tier: 2, 3, 4, 6",
        minimum=1,
        maximum=len(CONTENTS),
    ),
    Parameter(
        "source_height",
        "count",
        "height of generated clips in pixels; they are 16:9",
        derived="per tier: 180, 720, 720, 1080",
        minimum=64,
        maximum=4320,
    ),
    Parameter(
        "frames",
        "count",
        "frames of a clip; settings that take long encode a part of them",
        derived="per tier: 12, 64, 64, 128",
        minimum=4,
        maximum=100_000,
    ),
    Parameter(
        "rungs",
        "text",
        "heights that clips are scaled to, separated by commas",
        derived="per tier: the largest is 180, 480, 720, 1080",
    ),
    Parameter(
        "clips_per_setting",
        "count",
        "clips that each encoder, quality and rung encodes",
        derived="per tier: 1, 1, 2, 6; all of a user's",
        minimum=1,
        maximum=10_000,
    ),
    Parameter(
        "encoders",
        "text",
        "encoders to run, separated by commas",
        default=",".join(ENCODERS),
    ),
    Parameter(
        "versions",
        "text",
        "versions of ffmpeg and the encoders; results of others are not comparable",
        derived="ffmpeg's",
    ),
    Parameter("clip_seed", "count", "seed of generated clips", default=1, minimum=0, maximum=2**31),
    Parameter("seed", "count", "seed of the order of jobs", derived="random", minimum=0, maximum=2**53),
)


def suggestions(chosen: Mapping[str, Setting], tier: str) -> dict[str, Setting]:
    """Return what follows from the tier and ffmpeg."""
    size = _SIZES[tier]
    try:
        versions = programs.versions(chosen_encoders(str(chosen.get("encoders", ",".join(ENCODERS)))))
    except (EnvironmentLacksError, UsageError):
        # Whoever only asks what would run is not to be refused; `checks` refuses a run.
        versions = NONE_HERE
    return {
        "time": size.time_s,
        "contents": size.contents,
        "source_height": size.source_height,
        "frames": size.frames,
        "rungs": size.rungs,
        "clips_per_setting": 10_000 if chosen.get("clips") else size.clips_per_setting,
        "versions": versions,
    }
