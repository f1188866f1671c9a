"""A soft SKU as files: ``softsku.toml`` with its evidence (``softsku``), a script, a systemd unit, a drop-in
for that of the service, and a TuneD profile (``exports``).

In: a tuning that found one. Out: the files in its folder. Not here: applying them on this machine
(``tune.changes``).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from steelyard._base import replacing
from steelyard.records import Machine
from steelyard.records.tuning import Tuning
from steelyard.tune.cells import GroupMemoryCell
from steelyard.tune.deploy import exports
from steelyard.tune.deploy.softsku import softsku_text
from steelyard.tune.knobs import Knob
from steelyard.tune.trials import writes_of

SOFTSKU = "softsku.toml"


def write_all(folder: Path, tuning: Tuning, knobs: Mapping[str, Knob], machine: Machine) -> list[Path]:
    """Write every form of a soft SKU that was found on ``machine``; return the paths.

    Raises WorkloadFailedError where one cannot be written.
    """
    levels = {name: level for name, level in tuning.chosen.items() if knobs[name].writes(level)}
    writes = writes_of(knobs, levels)
    # A group of its own is what the service's unit makes.
    outliving = [
        (cell, text) for cell, text in writes if cell.outlives and not isinstance(cell, GroupMemoryCell)
    ]
    texts = {
        SOFTSKU: softsku_text(tuning, machine),
        "softsku.sh": exports.script(outliving, tuning),
        "softsku.service": exports.unit(tuning),
        "softsku-service.conf": exports.drop_in(writes, tuning),
        "softsku-tuned.conf": exports.tuned_profile(outliving, tuning),
    }
    paths = []
    for name, text in texts.items():
        path = folder / name
        with replacing(path) as partial:
            partial.write_text(text)
            if path.suffix == ".sh":
                partial.chmod(0o755)
        paths.append(path)
    return paths
