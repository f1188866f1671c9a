"""Where shipped files and the data plane's executables are, in a checkout as in an installed wheel."""

import os
import shutil
import sys
from pathlib import Path

from steelyard._base.errors import EnvironmentLacksError

_PACKAGE = Path(__file__).resolve().parent.parent

# What to do about a part of Steelyard that is missing or does not start: only a checkout can be built.
REPAIR_HINT = (
    "build it: make build" if (_PACKAGE.parent.parent / "Makefile").is_file() else "install Steelyard again"
)


def _shipped(in_checkout: str, in_wheel: str) -> Path:
    wheel = _PACKAGE / in_wheel
    if wheel.is_dir():
        return wheel
    checkout = _PACKAGE.parent.parent / in_checkout
    if checkout.is_dir():
        return checkout
    raise EnvironmentLacksError(
        f"Steelyard's {in_checkout}/ folder is in neither {wheel} nor {checkout}",
        hint=REPAIR_HINT,
    )


def users_dir(variable: str, below_home: str) -> Path:
    """Return a folder of the user's: that of an XDG variable, else below the home.

    A user without a home, as containers run programs for a number alone, has one in /var/tmp.
    """
    chosen = os.environ.get(variable)
    if chosen:
        return Path(chosen)
    try:
        return Path.home() / below_home
    except RuntimeError:
        return Path("/var/tmp") / f"steelyard-{os.geteuid()}" / below_home  # noqa: S108 - owners are checked


def data_dir() -> Path:
    """Return the folder of distributions and baselines."""
    return _shipped("data", "_data")


def workloads_dir() -> Path:
    """Return the folder of payloads: what benchmarks install of other people's software."""
    return _shipped("workloads", "_workloads")


def schemas_dir() -> Path:
    """Return the folder of JSON Schemas and golden records."""
    return _shipped("schemas", "_schemas")


def executable(name: str) -> Path:
    """Return the path of one of the data plane's executables, such as ``steelyard-load``.

    Looked for in ``$STEELYARD_BIN_DIR``, then beside this interpreter, then in ``PATH``.
    Raises EnvironmentLacksError when there is none.
    """
    chosen = os.environ.get("STEELYARD_BIN_DIR")
    folders = [Path(chosen)] if chosen else [Path(sys.executable).parent]
    for folder in folders:
        path = folder / name
        if path.is_file() and os.access(path, os.X_OK):
            return path
    found = None if chosen else shutil.which(name)
    if found:
        return Path(found)
    raise EnvironmentLacksError(
        f"the executable {name} is not in {', '.join(map(str, folders))}", hint=REPAIR_HINT
    )
