"""Every fuzz target for so many seconds, by ``scripts/fuzz``, one on each CPU at a time."""

import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .figures import ROOT, Figures

# libFuzzer's names of what it found.
KINDS = {"crash": "crashed", "timeout": "hung", "slow-unit": "hung", "oom": "crashed", "leak": "crashed"}


def attack(folder: Path, seconds: float, seed: int) -> Figures:
    """Fuzz each target; an artifact is a crash or a hang."""
    targets = sorted(path.stem for path in (ROOT / "fuzz" / "fuzz_targets").glob("*.rs"))
    figures = Figures()
    with ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0))) as threads:
        for found in threads.map(lambda target: _fuzz(target, folder, seconds), targets):
            figures.add(found)
    return figures


def _fuzz(target: str, folder: Path, seconds: float) -> Figures:
    figures = Figures()
    artifacts = ROOT / "fuzz" / "artifacts" / target
    before = set(artifacts.glob("*"))
    command = [str(ROOT / "scripts" / "fuzz"), str(max(1, int(seconds))), target]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    executed = re.search(r"stat::number_of_executed_units:\s*(\d+)", done.stdout + done.stderr)
    figures.tried = int(executed[1]) if executed else 0
    found = set(artifacts.glob("*")) - before
    for path in sorted(found):
        kind = KINDS.get(path.name.rsplit("-", 1)[0], "crashed")
        figures.note(kind, f"{target}: {path}")
    if (done.returncode or not executed) and not found:
        figures.note("crashed", f"{target} ended with {done.returncode}: {done.stderr.strip()[-300:]}")
    return figures
