"""What the encoders did: ``transcode.json`` of a run.

In and out: the record. What follows from it is in ``metrics``.
"""

from typing import ClassVar

from pydantic import Field

from steelyard.records import Record
from steelyard.records.values import Count, Value


class ClipRecord(Value):
    """One clip."""

    name: str = Field(description="Its content, or its file's name")
    width: Count = Field(description="Width, pixels")
    height: Count = Field(description="Height, pixels")
    frames: Count = Field(description="Frames that jobs may use")
    sha256: str | None = Field(default=None, description="Checksum of the file, null for a user's clip")


class KindRecord(Value):
    """One combination of clip, encoder, quality and rung, over all its jobs of the measure phase."""

    clip: str = Field(description="Its clip")
    encoder: str = Field(description="`x264`, `svtav1` or `libaom`")
    quality: str = Field(description="`fast`, `medium` or `slow`")
    rung: Count = Field(description="Height of the encoded frames, pixels")
    frames: Count = Field(description="Frames of one job; 0 when none was completed")
    pixels: Count = Field(description="Pixels that one job encodes")
    input_bytes: Count = Field(description="Raw source video that one job reads, bytes")
    jobs: Count = Field(description="Jobs that were completed in the measure phase")
    encodings: Count = Field(description="The same with jobs of the warm-up, whose checksums count too")
    time_ns: Count = Field(description="Wall-clock time of these jobs together, with what lies between jobs")
    cpu_user_s: float = Field(description="User CPU time of these jobs together, s")
    cpu_system_s: float = Field(description="System CPU time of these jobs together, s")
    rss_bytes_max: Count = Field(description="Largest resident memory of one job")
    stream_bytes: Count = Field(description="Size of the encoded stream")
    sha256: list[str] = Field(
        description="Checksums of the encoded streams; more than one when jobs did not repeat bit for bit"
    )
    reference_pixels: Count = Field(
        description="Pixels of the reference stream, which has as many frames in every kind"
    )
    reference_bytes: Count = Field(description="Size of the reference stream")
    psnr_y_db: float | None = Field(
        default=None,
        description="PSNR of luma, reference stream against scaled source, null with the reason in `missing`",
    )
    ssim: float | None = Field(
        default=None,
        description="SSIM, reference stream against scaled source, null with the reason in `missing`",
    )
    missing: str | None = Field(default=None, description="Why a quality is null, null where none is")


class TranscodeResult(Record):
    """What the encoders did in a run."""

    KIND: ClassVar[str] = "transcode_result"

    versions: str = Field(description="Versions of ffmpeg and the encoders")
    tuning: dict[str, list[str]] = Field(description="ffmpeg's options by encoder and quality")
    cpus: list[Count] = Field(description="CPUs, with one process each")
    begin_ns: Count = Field(description="Start of the measure phase")
    end_ns: Count = Field(description="End of the measure phase, when the running jobs were stopped")
    clips: list[ClipRecord] = Field(description="Clips")
    kinds: list[KindRecord] = Field(description="Every combination")
    stopped_jobs: Count = Field(description="Jobs that the end of the phase stopped; they count nowhere")
    cpu_user_s: float = Field(description="User CPU time of all jobs, with the stopped ones, s")
    cpu_system_s: float = Field(description="System CPU time of all jobs, with the stopped ones, s")
    pool_cpu_s: float = Field(
        description="CPU time of the program that starts jobs and checks their streams, s"
    )
    busy_ratio: float | None = Field(
        default=None,
        description="Share of the CPUs' time that was not idle, null where the kernel reports none",
    )
