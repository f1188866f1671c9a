#!/usr/bin/env python3
"""Removes from an environment what Steelyard never loads of its dependencies.

    .venv/bin/python scripts/trim.py

In: the environment of the Python that runs it. Out: the same packages without their own tests, headers,
sources for compilers, Arrow's Flight (a network protocol) and ORC, SciPy's file formats and
Pygments' languages; libraries that are there twice are linked, and pyarrow's stripped where `strip` is there.
`scripts/build` runs it after each installation; packages that were trimmed before stay as they are.

Files are replaced, never written to: uv's cache holds the same files by hard links.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

PACKAGES = (
    *(
        "cryptography",
        "duckdb",
        "ibis",
        "narwhals",
        "numpy",
        "pandas",
        "pyarrow",
        "pygments",
        "ruptures",
        "scipy",
    ),
    "sklearn",
)
TESTS = ("**/tests", "**/_test_*.so", "**/_ctest.*.so", "**/_cytest.*.so")
SOURCES = ("**/*.a", "**/*.c", "**/*.h", "**/*.pxd", "**/*.pxi", "**/*.pyx", "**/include")
UNUSED = {
    "pyarrow": (
        *("_flight*", "libarrow_flight*", "libarrow_python_flight*", "src", "_pyarrow_cpp_tests*"),
        *("_orc*", "_dataset_orc*", "_hdfs*", "_azurefs*"),
    ),
    "numpy": ("_core/_simd.*", "_core/_*_tests.*", "distutils"),
    # Rich loads the package and colours no source text here.
    "pygments": ("lexers/[!_]*.py",),
    "scipy": ("datasets", "fftpack", "io", "misc", "odr"),
    "sklearn": ("datasets/data", "datasets/descr", "datasets/images"),
}
# What others of the environment load nevertheless: pytest colours differences and Python, Sphinx all.
LOADED = {
    "pygments": ("lexers/*.py",)
    if importlib.util.find_spec("sphinx")
    else ("lexers/diff.py", "lexers/python.py")
}
# The same library under three names, since a wheel cannot hold links.
SAME = {"pyarrow": ("libarrow_python*.so", "libarrow_python*.so.*")}
# Libraries that two packages bring, each in its own folder; their names hold a hash of their content.
SHARED = ("numpy.libs", "scipy.libs")
# Not those of numpy and scipy: `strip` breaks what patchelf has written.
STRIPPED = {"pyarrow": ("libarrow*.so.*", "libparquet.so.*", "*.cpython-*.so")}


def folder_of(package: str) -> Path | None:
    """Return where ``package`` is installed, without importing it; None where it is not."""
    found = importlib.util.find_spec(package)
    places = list(found.submodule_search_locations or []) if found else []
    return Path(places[0]) if places else None


def matches(folder: Path, patterns: tuple[str, ...]) -> Iterator[Path]:
    """Yield what any of ``patterns`` matches below ``folder``."""
    for pattern in patterns:
        yield from sorted(folder.glob(pattern))


def remove(path: Path) -> None:
    """Remove a file or folder that may be gone already."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def link_copies(folder: Path, patterns: tuple[str, ...]) -> None:
    """Replace copies of a library by links to the one with the longest name."""
    kept: dict[str, Path] = {}
    for path in sorted(matches(folder, patterns), key=lambda path: len(path.name), reverse=True):
        if path.is_symlink():
            continue
        first = kept.setdefault(path.name.partition(".")[0], path)
        if first != path and first.read_bytes() == path.read_bytes():
            path.unlink()
            path.symlink_to(first.name)


def link_shared(folders: Sequence[Path]) -> None:
    """Replace a library that an earlier one of ``folders`` has too by a link to that."""
    kept: dict[str, Path] = {}
    for path in (path for folder in folders for path in sorted(folder.glob("*.so*"))):
        first = kept.setdefault(path.name, path)
        if first != path and not path.is_symlink() and first.read_bytes() == path.read_bytes():
            path.unlink()
            path.symlink_to(os.path.relpath(first, path.parent))


def strip(path: Path, tool: str) -> None:
    """Replace a library by itself without symbols for debuggers; leave it where ``tool`` cannot."""
    if path.is_symlink():
        return
    stripped = path.with_name(f".{path.name}.stripped")
    done = subprocess.run([tool, "--strip-unneeded", "-o", str(stripped), str(path)], capture_output=True)
    if done.returncode == 0:
        shutil.copymode(path, stripped)
        os.replace(stripped, path)
    else:
        stripped.unlink(missing_ok=True)


def main() -> int:
    """Trim each package that is installed; return the exit code."""
    tool = shutil.which("strip")
    for package in PACKAGES:
        folder = folder_of(package)
        if folder is None:
            continue
        loaded = set(matches(folder, LOADED.get(package, ())))
        for path in matches(folder, TESTS + SOURCES + UNUSED.get(package, ())):
            if path not in loaded:
                remove(path)
        link_copies(folder, SAME.get(package, ()))
        for path in matches(folder, STRIPPED.get(package, ())) if tool else ():
            strip(path, tool or "")
    if (numpy := folder_of("numpy")) is not None:
        link_shared([numpy.parent / name for name in SHARED])
    return 0


if __name__ == "__main__":
    sys.exit(main())
