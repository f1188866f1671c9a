"""Small simulated stores for tests, each made once in a test run."""

import json
from pathlib import Path
from typing import Any

from steelyard.fleet.simulate import Settings, simulate
from tests.shared_folder import made_once


def simulated_store(**settings: Any) -> Path:
    """Return the folder of a store with these `Settings`; tests read it and change nothing in it.

    Without any: 24 machines of 4 platforms in 2 clusters, 12 jobs, 2 days, about 530,000 task samples.
    """
    chosen = {"machines": 24, "days": 2, "compression": "snappy"} | settings
    name = "-".join(["store", *(f"{key}={chosen[key]}" for key in sorted(chosen))])
    return made_once(name, lambda folder: simulate(Settings(**chosen), str(folder)))


def truth_of(store: Path) -> dict[str, Any]:
    """Return what is true of a simulated store."""
    truth: dict[str, Any] = json.loads((store / "truth.json").read_text())
    return truth
