"""What belongs to the benchmark of video transcoding."""

from steelyard.bench.declaration import Declaration
from steelyard.bench.stack.recipe import Packages, Recipe
from steelyard.benchmarks.transcode.tuning import ENCODERS, QUALITIES


def _names() -> dict[str, str]:
    """Return names of metrics that words made of them would not do for."""
    names = {
        "input_bytes_per_s": "raw video read",
        "server_cpu_ratio": "CPU of the encoders",
        "busy_cpu_ratio": "CPU of all processes",
        "encoder_rss_max_bytes": "memory of an encoder, at most",
    }
    words = {"x264": "x264", "svtav1": "SVT-AV1", "libaom": "libaom"}
    for encoder in ENCODERS:
        for quality in QUALITIES:
            name, shown = f"{encoder}_{quality}", f"{words[encoder]} {quality}"
            names[f"{name}_pixels_per_s"] = f"{shown}: pixels"
            names[f"{name}_bits_per_pixel"] = f"{shown}: size"
            names[f"{name}_psnr_y_db"] = f"{shown}: PSNR"
            names[f"{name}_ssim"] = f"{shown}: SSIM"
    return names


DECLARATION = Declaration(
    name="transcode",
    title="Video transcoding",
    doc="ffmpeg: x264, SVT-AV1 and libaom, one encoder per CPU",
    benchmark="steelyard.benchmarks.transcode.benchmark:TranscodeBench",
    headline=("pixels_per_s", "frames_per_s", "input_bytes_per_s", "server_cpu_ratio"),
    parts=tuple(f"{encoder}_{quality}_pixels_per_s" for encoder in ENCODERS for quality in QUALITIES),
    suites=("dcperf",),
    order=30,
    sections="steelyard.benchmarks.transcode.section:sections",
    metric_names=_names(),
    recipe=Recipe(
        packages=Packages(apt=("ffmpeg",), dnf=("ffmpeg-free",)),
        programs=("ffmpeg", "ffprobe"),
        disk_bytes=200 << 20,
    ),
)
