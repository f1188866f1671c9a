"""What the encoders showed: metrics and checks from their record.

In: a ``TranscodeResult``. Out: an `Outcome`; what was not measured is None with the reason.

Speeds do not count what happened to be encoded in the phase, but follow from the mean time of each kind of
job: the pixels of all kinds over the sum of their times, times the number of CPUs. So the figure is that of
the same mix of work on every machine and in every run, whichever jobs the end of the phase stopped.
"""

from collections.abc import Mapping, Sequence

from steelyard.analyze import checks
from steelyard.bench.benchmark import Outcome
from steelyard.benchmarks.transcode.record import KindRecord, TranscodeResult
from steelyard.benchmarks.transcode.tuning import ENCODERS, QUALITIES
from steelyard.records import Check, Level, Metric


def outcome(result: TranscodeResult, artifacts: Mapping[str, str]) -> Outcome:
    """Return what ``result`` shows."""
    cpus, seconds = len(result.cpus), (result.end_ns - result.begin_ns) / 1e9
    own_cpu_s = result.cpu_user_s + result.cpu_system_s
    used_ratio = own_cpu_s / (seconds * cpus)
    no_busy = None if result.busy_ratio is not None else "the kernel reports no idle time"
    metrics = {
        "pixels_per_s": _rate(result.kinds, cpus, [kind.pixels for kind in result.kinds], "1/s"),
        "frames_per_s": _rate(result.kinds, cpus, [kind.frames for kind in result.kinds], "1/s"),
        "input_bytes_per_s": _rate(
            result.kinds, cpus, [kind.input_bytes for kind in result.kinds], "bytes/s"
        ),
        "busy_cpu_ratio": Metric(value=result.busy_ratio, unit="ratio", better="higher", missing=no_busy),
        "server_cpu_ratio": Metric(value=used_ratio, unit="ratio", better="higher"),
    }
    for encoder, quality in cells(result):
        kinds = cell(result, encoder, quality)
        name = f"{encoder}_{quality}"
        metrics[f"{name}_pixels_per_s"] = _rate(kinds, cpus, [kind.pixels for kind in kinds], "1/s")
        metrics[f"{name}_bits_per_pixel"] = _bits_per_pixel(kinds)
        metrics[f"{name}_psnr_y_db"] = _mean(kinds, [kind.psnr_y_db for kind in kinds], "dB")
        metrics[f"{name}_ssim"] = _mean(kinds, [kind.ssim for kind in kinds], "1")
    metrics["jobs"] = Metric(value=sum(kind.jobs for kind in result.kinds), unit="count")
    peak = max((kind.rss_bytes_max for kind in result.kinds), default=0)
    metrics["encoder_rss_max_bytes"] = Metric(
        value=peak or None, unit="bytes", better="lower", missing=None if peak else "no job was completed"
    )
    return Outcome(
        metrics=metrics,
        loads=None,
        own_cpu_s=own_cpu_s + result.pool_cpu_s,
        checks=(_completed(result), _checksums(result)),
        artifacts=dict(artifacts),
        own_commands=("ffmpeg",),
        memory_needed_bytes=peak * cpus or None,
    )


def cells(result: TranscodeResult) -> list[tuple[str, str]]:
    """Return the combinations of encoder and quality of ``result``, in their order."""
    there = {(kind.encoder, kind.quality) for kind in result.kinds}
    return [pair for encoder in ENCODERS for quality in QUALITIES if (pair := (encoder, quality)) in there]


def cell(result: TranscodeResult, encoder: str, quality: str) -> list[KindRecord]:
    """Return the kinds of one encoder and quality."""
    return [kind for kind in result.kinds if (kind.encoder, kind.quality) == (encoder, quality)]


def mean_time_s(kinds: Sequence[KindRecord]) -> float:
    """Return the sum over ``kinds`` of the mean time of a job, s: each must have been completed."""
    return sum(kind.time_ns / kind.jobs for kind in kinds) / 1e9


def bits_per_pixel(kinds: Sequence[KindRecord]) -> float | None:
    """Return the size of the reference streams of ``kinds``, None before they were made."""
    pixels = sum(kind.reference_pixels for kind in kinds)
    return 8 * sum(kind.reference_bytes for kind in kinds) / pixels if pixels else None


def _never(kinds: Sequence[KindRecord]) -> str | None:
    """Return why a figure over ``kinds`` is missing, None when every one was completed."""
    never = sum(kind.jobs == 0 for kind in kinds)
    return f"{never} of {len(kinds)} combinations were never completed" if never else None


def _rate(kinds: Sequence[KindRecord], cpus: int, amounts: Sequence[int], unit: str) -> Metric:
    if (missing := _never(kinds)) is not None:
        return Metric(unit=unit, better="higher", missing=missing)
    return Metric(value=cpus * sum(amounts) / mean_time_s(kinds), unit=unit, better="higher")


def _bits_per_pixel(kinds: Sequence[KindRecord]) -> Metric:
    if (missing := _never(kinds)) is not None:
        return Metric(unit="bit/pixel", better="lower", missing=missing)
    return Metric(value=bits_per_pixel(kinds), unit="bit/pixel", better="lower")


def _mean(kinds: Sequence[KindRecord], values: Sequence[float | None], unit: str) -> Metric:
    known = [value for value in values if value is not None]
    if len(known) < len(kinds):
        why = next(kind.missing for kind, value in zip(kinds, values, strict=True) if value is None)
        return Metric(unit=unit, better="higher", missing=why or "not measured")
    return Metric(value=sum(known) / len(known), unit=unit, better="higher")


def _completed(result: TranscodeResult) -> Check:
    never = sum(kind.jobs == 0 for kind in result.kinds)
    total = len(result.kinds)
    seconds = (result.end_ns - result.begin_ns) / 1e9
    return checks.measured(
        "completed",
        total - never,
        f"{total - never} of {total} combinations of clip, encoder, quality and rung were encoded"
        f" at least once in {seconds:.1f} s",
        bounds=checks.Bounds(invalid=total),
    )


def _checksums(result: TranscodeResult) -> Check:
    """Streams of one thread repeat bit for bit: where they do not, jobs did different work."""
    differ = [kind for kind in result.kinds if len(kind.sha256) > 1]
    repeated = sum(kind.encodings > 1 for kind in result.kinds)
    if differ:
        first = differ[0]
        claim = (
            f"{len(differ)} of {repeated} repeated combinations gave different streams, first"
            f" clip {first.clip}, {first.encoder} {first.quality}, {first.rung} lines"
        )
    elif repeated:
        claim = f"{repeated} combinations were encoded more than once, each into the same stream"
    else:
        claim = "no combination was encoded twice: whether streams repeat is not known"
    level = Level.INVALID if differ else Level.VALID if repeated else Level.SUSPECT
    return checks.stated("checksums", level, claim, len(differ))
