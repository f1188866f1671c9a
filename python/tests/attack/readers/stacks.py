"""Readers of stacks: folded, with and without times, and text of perf script."""

from pathlib import Path

from steelyard.analyze.profiles.folded import read_folded
from steelyard.analyze.profiles.times import cut, sample_times, write_between, write_by_child
from steelyard.cli.profile.reading import read_profile

from .counts import asked
from .reader import Reader, holding, out

SECOND = 10**9
STACKS = (
    "# unit: samples\n# event: cycles\n# hz: 99\n# cpus: 2\n# duration_s: 4.0\n# lost: 7\n"
    "my prog;main [prog];a [lib.so] 30\nmy prog;main [prog];b [kernel]_[k] 60\n"
    "java;Lcom/x/Y;::run_[j];malloc 3\npython3;<module> (app.py:3) 1\n"
)
TIMES = "# ns, stack\n" + "".join(f"{at * SECOND // 10} {at % 4}\n" for at in range(94))
BY_CHILD = (
    "# unit: samples\n# hz: 99\n# duration_s: 4.0\n12/sh;main;a 20\n13/sh;main;b 20\n?/x;c 1\n",
    "# ns since CLOCK_MONOTONIC 1000000000000, stack\n"
    + "".join(f"{at * SECOND // 10} {at % 3}\n" for at in range(41)),
)
SCRIPT = "".join(
    f"gzip  12 [001] 1234.{at:06}: {1000 + at} cycles:u:\n\t    55d0c0 deflate+0x1f (/usr/bin/gzip)\n"
    "\t    7f1234 __libc_start_main (/usr/lib/libc.so.6)\n\n"
    for at in range(0, 900_000, 9_000)
)


def _times(path: Path) -> None:
    made = out(path.parent)
    made.mkdir()
    if sample_times(path) is not None:
        cut(path, 2, made)
        write_between(path, 0.5, 2.5, made / "between.folded")


def _children(folder: Path) -> None:
    made = out(folder)
    made.mkdir()
    files = {12: made / "12.folded", 13: made / "13.folded"}
    write_by_child(folder / "x.folded", files, 1000 * SECOND, 1003 * SECOND)


def readers() -> list[Reader]:
    """Return them."""
    return [
        Reader(
            "folded stacks", holding({"x.folded": STACKS}), lambda folder: read_folded(folder / "x.folded")
        ),
        Reader(
            "times of stacks",
            holding({"x.folded": STACKS, "x.times": TIMES}),
            lambda folder: _times(folder / "x.folded"),
        ),
        Reader("times of children", holding({"x.folded": BY_CHILD[0], "x.times": BY_CHILD[1]}), _children),
        Reader("times of perf script", holding({"x.txt": SCRIPT}), lambda folder: _times(folder / "x.txt")),
        Reader("profile of any kind", holding({"x": STACKS}), lambda folder: read_profile(folder / "x")),
        Reader(
            "profile show",
            holding({"x": STACKS}),
            lambda folder: asked("profile", "show", str(folder / "x"), "--json"),
        ),
        Reader(
            "profile diff",
            holding({"x": STACKS, "y": STACKS.replace("60", "90")}),
            lambda folder: asked("profile", "diff", str(folder / "x"), str(folder / "y"), "--json"),
        ),
    ]
