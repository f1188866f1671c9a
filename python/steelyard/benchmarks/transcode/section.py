"""What a page shows of video transcoding: speed against quality and size, by encoder, rung and clip.

In: the run's ``transcode.json``. Out: sections with charts and tables.

Not here: how the figures were made (``bench.transcode``).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from steelyard._base import SteelyardError
from steelyard.benchmarks.transcode.metrics import bits_per_pixel, cell, cells, mean_time_s
from steelyard.benchmarks.transcode.record import KindRecord, TranscodeResult
from steelyard.records import read
from steelyard.report import format as fmt
from steelyard.report.answer import Cell, Chart, Section, Series, absent, grid, measured

if TYPE_CHECKING:
    from steelyard.report.model import ReportData

NAMES = {"x264": "x264", "svtav1": "SVT-AV1", "libaom": "libaom"}
_ROLES = {"x264": "blue", "svtav1": "red", "libaom": "green"}
_SYMBOLS = {"x264": "circle", "svtav1": "square", "libaom": "diamond"}
_NONE = Cell("–")


def sections(data: "ReportData") -> list[Section]:
    """Return the sections of a run, or the reason why its record cannot be read."""
    try:
        result = read(TranscodeResult, data.folder / "transcode.json")
    except SteelyardError as error:
        reason = error.message.replace(f"{data.folder}/", "")
        return [Section("encoders", "Encoders", (absent("encoders", "Encoders", reason),))]
    return [_encoders(result), _rungs(result), _clips(result)]


def _encoders(result: TranscodeResult) -> Section:
    points = [_Point(result, encoder, quality) for encoder, quality in cells(result)]
    speed = _chart(
        "speed-quality",
        "Quality over speed",
        points,
        "speed",
        "pixels/s of all CPUs (logarithmic)",
        "Up and to the right is better. A line joins the qualities of an encoder: fast, medium, slow.",
    )
    size = _chart(
        "size-quality",
        "Quality over size",
        points,
        "bits",
        "bits per encoded pixel",
        "Up and to the left is better. Encoders differ in PSNR at the same setting: compare speeds of points"
        " that lie together.",
    )
    whole = sum(point.time_s or 0.0 for point in points)
    rows = tuple(point.row(result, whole) for point in points)
    columns = (
        *("encoder", "quality", "options", "pixels", "share of time"),
        *("bits/pixel", "PSNR", "SSIM", "jobs"),
    )
    return Section(
        "encoders",
        "Encoders",
        (
            speed,
            size,
            grid(columns, rows, caption=result.versions),
        ),
        "Speed is that of all CPUs if they did nothing but this: the pixels of all its combinations over the"
        " sum of their mean times. Bits, PSNR of luma and SSIM are those of reference streams, made after the"
        " measure phase from the same clips and frames in every row, and compared with the scaled source.",
    )


class _Point:
    """One encoder and quality."""

    def __init__(self, result: TranscodeResult, encoder: str, quality: str) -> None:
        self.encoder, self.quality = encoder, quality
        self.kinds = cell(result, encoder, quality)
        self.jobs = sum(kind.jobs for kind in self.kinds)
        known = all(kind.jobs for kind in self.kinds)
        pixels = sum(kind.pixels for kind in self.kinds)
        self.time_s = mean_time_s(self.kinds) if known else None
        self.speed = len(result.cpus) * pixels / self.time_s if self.time_s else None
        self.bits = bits_per_pixel(self.kinds) if known else None
        self.psnr = _mean([kind.psnr_y_db for kind in self.kinds])
        self.ssim = _mean([kind.ssim for kind in self.kinds])
        self.missing = next((kind.missing for kind in self.kinds if kind.missing), None)

    def row(self, result: TranscodeResult, whole_s: float) -> tuple[Cell, ...]:
        """Return the row of a table; ``whole_s`` is the time of all encoders and qualities."""
        options = result.tuning.get(f"{self.encoder}_{self.quality}", [])
        share = self.time_s / whole_s if self.time_s and whole_s else None
        return (
            Cell(NAMES.get(self.encoder, self.encoder)),
            Cell(self.quality, is_text=True),
            Cell(" ".join(options[2:]), is_text=True),
            _cell(self.speed, "1/s", self.missing),
            _cell(share, "ratio", self.missing),
            _cell(self.bits, "1", self.missing),
            _cell(self.psnr, "dB", self.missing),
            _cell(self.ssim, "1", self.missing),
            measured(self.jobs, "1"),
        )


def _chart(anchor: str, title: str, points: Sequence[_Point], across: str, x_title: str, note: str) -> Chart:
    """Return PSNR over one attribute of the points, with a line per encoder."""
    lines = []
    for encoder in dict.fromkeys(point.encoder for point in points):
        places = [
            (x, point.psnr)
            for point in points
            if point.encoder == encoder and (x := getattr(point, across)) and point.psnr
        ]
        if places:
            xs, ys = zip(*places, strict=True)
            symbol = _SYMBOLS.get(encoder)
            lines.append(
                Series(NAMES.get(encoder, encoder), xs, ys, role=_ROLES.get(encoder, "purple"), symbol=symbol)
            )
    return Chart(
        anchor,
        title,
        tuple(lines),
        x_title=x_title,
        x_unit="1/s" if across == "speed" else "bit/pixel",
        x_log=across == "speed",
        y_unit="dB",
        note=note,
        missing=""
        if lines
        else next((p.missing for p in points if p.missing), None) or "nothing was recorded",
    )


def _rungs(result: TranscodeResult) -> Section:
    tables = []
    for encoder in dict.fromkeys(kind.encoder for kind in result.kinds):
        rows = tuple(_kind(kind, len(result.cpus)) for kind in result.kinds if kind.encoder == encoder)
        columns = (
            *("quality", "lines", "clip", "frames", "time of a job", "CPU time", "pixels"),
            *("bits/pixel", "PSNR", "SSIM", "memory", "jobs"),
        )
        tables.append(grid(columns, rows, NAMES.get(encoder, encoder)))
    return Section(
        "combinations",
        "Combinations",
        (*tables,),
        "Every combination of encoder, quality, rung and clip. Times are the mean of its jobs; jobs that the"
        " end of the phase stopped are not among them.",
    )


def _kind(kind: KindRecord, cpus: int) -> tuple[Cell, ...]:
    time_s = kind.time_ns / kind.jobs / 1e9 if kind.jobs else None
    cpu_s = (kind.cpu_user_s + kind.cpu_system_s) / kind.jobs if kind.jobs else None
    speed = cpus * kind.pixels / time_s if time_s else None
    jobs = Cell(fmt.count(kind.jobs), " ".join(kind.sha256))
    if len(kind.sha256) > 1:
        jobs = Cell(jobs.text, f"{len(kind.sha256)} different streams: {jobs.raw}", level="invalid")
    return (
        Cell(kind.quality),
        Cell(str(kind.rung)),
        Cell(kind.clip, is_text=True),
        measured(kind.frames, "1"),
        _cell(time_s, "s", kind.missing),
        _cell(cpu_s, "s", kind.missing),
        _cell(speed, "1/s", kind.missing),
        _cell(bits_per_pixel([kind]), "1", kind.missing),
        _cell(kind.psnr_y_db, "dB", kind.missing),
        _cell(kind.ssim, "1", kind.missing),
        _cell(kind.rss_bytes_max or None, "bytes", kind.missing),
        jobs,
    )


def _clips(result: TranscodeResult) -> Section:
    rows = tuple(
        (
            Cell(clip.name),
            Cell(f"{clip.width}x{clip.height}"),
            measured(clip.frames, "1"),
            _NONE if clip.sha256 is None else Cell(clip.sha256[:12], clip.sha256, is_text=True),
        )
        for clip in result.clips
    )
    return Section("clips", "Clips", (grid(("clip", "size", "frames", "SHA-256"), rows),))


def _cell(value: float | None, unit: str, missing: str | None) -> Cell:
    if value is None:
        return Cell("–", missing or "not measured")
    return measured(value, unit)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None
