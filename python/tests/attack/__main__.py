"""Run the parts that are asked for, and print their figures."""

import argparse
import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from . import agents, conversations, far_ends, folders, fuzz, kills, packages, phases, readers, settings, web
from .figures import Figures

PARTS: dict[str, Callable[[Path, float, int], Figures]] = {
    "fuzz": fuzz.attack,
    "readers": readers.attack,
    "conversations": conversations.attack,
    "agents": agents.attack,
    "web": web.attack,
    "kills": kills.attack,
    "phases": phases.attack,
    "folders": folders.attack,
    "packages": packages.attack,
    "journals": settings.journals,
    "knobs": settings.knobs,
    "s3": far_ends.s3,
    "hosts": far_ends.hosts,
}


def main() -> int:
    """Return 1 when anything crashed, hung, was orphaned, lost, doubled or leaked."""
    parser = argparse.ArgumentParser(
        prog="scripts/attack", description="Attack Steelyard and count what breaks."
    )
    parser.add_argument("--parts", default=",".join(PARTS), help="parts with commas between: %(default)s")
    parser.add_argument(
        "--seconds", type=float, default=600, help="for each fuzz target, each reader and each other part"
    )
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32), help="of what is random")
    chosen = parser.parse_args()
    names = chosen.parts.split(",")
    if unknown := [name for name in names if name not in PARTS]:
        parser.error(f"no part {unknown[0]}: {', '.join(PARTS)}")
    has_failed = False
    print(f"seed {chosen.seed}")
    print(f"{'part':<14}" + "".join(f"{name:>10}" for name in Figures().counts()), flush=True)
    for name in names:
        with tempfile.TemporaryDirectory(prefix="steelyard-attack-") as folder:
            figures = PARTS[name](Path(folder), chosen.seconds, chosen.seed)
        print(f"{name:<14}" + "".join(f"{count:>10}" for count in figures.counts().values()), flush=True)
        for note in figures.notes:
            print(f"  {note}", flush=True)
        has_failed |= figures.has_failed()
    return int(has_failed)


if __name__ == "__main__":
    sys.exit(main())
