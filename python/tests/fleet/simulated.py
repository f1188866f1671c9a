"""Small simulated stores for tests: each made once a process, in a folder that goes when the process ends."""

import atexit
import functools
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from steelyard.fleet.simulate import Settings, simulate


@functools.cache
def _root() -> Path:
    root = Path(tempfile.mkdtemp(prefix="steelyard-simulated-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    return root


@functools.cache
def simulated_store(**settings: Any) -> Path:
    """Return the folder of a store with these `Settings`; tests read it and change nothing in it.

    Without any: 24 machines of 4 platforms in 2 clusters, 12 jobs, 2 days, about 530,000 task samples.
    """
    folder = _root() / f"store-{len(list(_root().iterdir()))}"
    simulate(Settings(**{"machines": 24, "days": 2, "compression": "snappy"} | settings), str(folder))
    return folder


def truth_of(store: Path) -> dict[str, Any]:
    """Return what is true of a simulated store."""
    truth: dict[str, Any] = json.loads((store / "truth.json").read_text())
    return truth
