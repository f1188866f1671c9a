"""ffmpeg of this machine: which versions of the encoders it has.

In: encoders. Out: versions; what is missing is an EnvironmentLacksError with its name.

The versions of all libraries are found by encoding one frame, which shows at once that the encoder works with
the options of ``workloads/transcode/encoders.toml``.
"""

import re
import subprocess
from collections.abc import Sequence
from functools import cache

from steelyard._base import EnvironmentLacksError
from steelyard.bench.stack import recipe
from steelyard.benchmarks.transcode.tuning import QUALITIES, Encoder, load

HINT = "steelyard install transcode"
_TIMEOUT_S = 60.0
_VERSIONS = {
    "x264": re.compile(r"x264 - core (\d+ r\w+)"),
    "svtav1": re.compile(r"SVT-AV1 Encoder Lib v?(\S+)"),
    "libaom": re.compile(r"\[libaom-av1 @ \w+\] v?(\d\S*)"),
}
_DECODERS = {"h264": ("h264",), "ivf": ("libdav1d", "libaom-av1")}
"""Container -> decoders of ffmpeg of which one is needed to compare its streams with the source."""
_FILTERS = ("psnr", "ssim", "scale", "trim", "split")


def versions(encoders: Sequence[Encoder]) -> str:
    """Return the versions of ffmpeg and ``encoders`` as one text.

    Raises EnvironmentLacksError when ffmpeg, an encoder, or something to compare its streams with is missing.
    """
    path = recipe.program("ffmpeg", "transcode")
    output = _run(path, ("-version",)).stdout.decode("utf-8", "replace")
    words = output.split()
    if words[:2] != ["ffmpeg", "version"]:
        raise EnvironmentLacksError(f"{path} -version does not name a version of ffmpeg", hint=HINT)
    parts = [f"ffmpeg {words[2]}"]
    parts += [f"{encoder.name} {_encoder_version(path, encoder)}" for encoder in encoders]
    _check_listed(path, "-decoders", {_DECODERS[encoder.format] for encoder in encoders})
    _check_listed(path, "-filters", {(name,) for name in _FILTERS})
    return ", ".join(parts)


def _encoder_version(path: str, encoder: Encoder) -> str:
    """Return the version of an encoder's library, found by encoding a frame."""
    command = (
        *("-hide_banner", "-nostdin", "-v", "verbose", "-f", "lavfi", "-i", "color=s=128x128:r=30"),
        *("-frames:v", "1", "-pix_fmt", "yuv420p", "-threads", str(load().threads)),
        *(*encoder.arguments(QUALITIES[0]), "-f", "rawvideo", "-"),
    )
    done = _run(path, command)
    # x264 writes its version into the stream, the others print it.
    output = (done.stderr + done.stdout).decode("utf-8", "replace")
    if done.returncode != 0:
        if f"Unknown encoder '{encoder.codec}'" in output:
            why = f"{path} has no encoder {encoder.codec}"
        else:
            lines = [line for line in done.stderr.decode("utf-8", "replace").splitlines() if line.strip()]
            why = f"{path} cannot encode with {encoder.codec}: {lines[-1] if lines else done.returncode}"
        raise EnvironmentLacksError(why, hint="--set encoders=... runs without it; or install another ffmpeg")
    found = _VERSIONS[encoder.name].search(output)
    return found[1] if found else "of unknown version"


def _check_listed(path: str, option: str, wanted: set[tuple[str, ...]]) -> None:
    """Raise EnvironmentLacksError unless ffmpeg lists one name of each group of ``wanted``."""
    listed = set(_run(path, ("-hide_banner", option)).stdout.decode("utf-8", "replace").split())
    for names in sorted(wanted):
        if not listed & set(names):
            raise EnvironmentLacksError(f"{path} has no {' or '.join(names)} ({option})", hint=HINT)


@cache
def _run(path: str, arguments: tuple[str, ...]) -> "subprocess.CompletedProcess[bytes]":
    try:
        return subprocess.run(
            [path, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentLacksError(f"{path} cannot be run: {error}", hint=HINT) from error
