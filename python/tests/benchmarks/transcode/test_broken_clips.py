"""A user's folder in which one clip of several is cut off, with ffmpeg itself: the run names the clip."""

import subprocess

import pytest

from tests.benchmarks.transcode.test_transcode import incomplete

pytestmark = pytest.mark.slow
FRAMES = 60
SHORT = ("time=0.5", "encoders=x264")


@pytest.fixture
def folder(tmp_path):
    """Two whole clips, and what a third would be, with its index in front."""
    made = tmp_path / "videos"
    made.mkdir()
    for name in ("first.mp4", "second.mp4", "whole"):
        path = made / name if name != "whole" else tmp_path / name
        source = ("-f", "lavfi", "-i", "testsrc2=size=320x180:rate=25", "-frames:v", str(FRAMES))
        form = ("-f", "mp4", *(("-movflags", "+faststart") if name == "whole" else ()))
        subprocess.run(["ffmpeg", "-v", "error", *source, *form, str(path)], check=True)
    return made


def cut(folder, kept_bytes, *, index_first=True):
    """Put a clip of the first ``kept_bytes`` into the folder; a file whose index comes last loses it."""
    source = folder.parent / "whole" if index_first else folder / "first.mp4"
    (folder / "cut.mp4").write_bytes(source.read_bytes()[:kept_bytes])


@pytest.mark.parametrize(
    ("kept_bytes", "index_first", "words"),
    [
        # Half of the file, without the index: it cannot be opened.
        (30_000, False, ("cut.mp4 is no video", "Invalid data found")),
        # The index promises frames that are not there.
        (6_000, True, ("clip cut.mp4, x264", "ffmpeg exited with code")),
        # Some frames are there, fewer than the index promises.
        (9_000, True, ("clip cut.mp4, x264", "than it announces")),
    ],
    ids=["no-index", "no-frame", "fewer-frames"],
)
def test_a_clip_that_is_cut_off_is_named(runner, folder, kept_bytes, index_first, words):
    cut(folder, kept_bytes, index_first=index_first)
    live = runner.start(benchmark="transcode", settings=(*SHORT, f"clips={folder}"))
    live.finish(100)
    incomplete(live, *words)
    assert [path for path in live.directory.rglob("*") if path.suffix in (".y4m", ".ivf", ".h264")] == []
