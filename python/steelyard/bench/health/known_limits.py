"""What this machine was measured to do at most: its last good health check, kept beside a run.

In: the folder of runs. Out: a copy of ``health.json`` in the run's directory, so that a report can be drawn
again from the run alone.

Invariants: only checks of this machine count, and only good ones (no alert, on a quiet machine) or accepted
ones; without any the run has no copy.

Not here: making a check (``bench.health.check``), and holding figures against it
(``analyze.pressure.limits``).
"""

from __future__ import annotations

import shutil
from pathlib import Path

from steelyard.analyze.run_files import HEALTH
from steelyard.bench.health import check as health
from steelyard.bench.manifest import Manifest


def last_good(out: Path, identity: str) -> health.Check | None:
    """Return the newest good check of a machine, whether quick or full."""
    checks = [check for mode in ("quick", "full") for check in health.history(out, identity, mode=mode)]
    return max(checks, key=lambda check: check.result.clock.realtime_ns, default=None)


def keep_last(manifest: Manifest, out: Path) -> None:
    """Copy the last good check into the run. What cannot be copied is left out."""
    check = last_good(out, health.machine_identity())
    if check is None:
        return
    try:
        shutil.copyfile(check.folder / health.RESULT, manifest.directory / HEALTH)
    except OSError:
        return
    manifest.put_artifacts({"health": HEALTH})
