"""Every fuzz target for so many seconds, by ``scripts/fuzz``."""

import re
import subprocess
from pathlib import Path

from .figures import ROOT, Figures

# libFuzzer's names of what it found.
KINDS = {"crash": "crashed", "timeout": "hung", "slow-unit": "hung", "oom": "crashed", "leak": "crashed"}


def attack(folder: Path, seconds: float, seed: int) -> Figures:
    """Fuzz each target; an artifact is a crash or a hang."""
    figures = Figures()
    for source in sorted((ROOT / "fuzz" / "fuzz_targets").glob("*.rs")):
        target = source.stem
        artifacts = ROOT / "fuzz" / "artifacts" / target
        before = set(artifacts.glob("*"))
        command = [str(ROOT / "scripts" / "fuzz"), str(max(1, int(seconds))), target]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
        executed = re.search(r"stat::number_of_executed_units:\s*(\d+)", done.stdout + done.stderr)
        figures.tried += int(executed[1]) if executed else 0
        found = set(artifacts.glob("*")) - before
        for path in found:
            kind = KINDS.get(path.name.rsplit("-", 1)[0], "crashed")
            figures.note(kind, f"{target}: {path}")
        if (done.returncode or not executed) and not found:
            figures.note("crashed", f"{target} ended with {done.returncode}: {done.stderr.strip()[-300:]}")
    return figures
