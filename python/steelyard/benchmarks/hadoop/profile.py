"""Profiles of Hadoop: ``workloads/hadoop/settings.toml``, each setting with its reason.

In: the name of a profile, values that follow from the machine. Out: settings of a cluster and of jobs.

Not here: what the settings do, which Hadoop's documentation says.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from steelyard._base import workloads_dir
from steelyard.bench.parameters import Parameter

PAYLOAD = "hadoop"
PROFILES = ("stock", "tuned")
_PLACES = ("cluster", "job")
_SIZE = Parameter("heap", "bytes", "of a task")


@dataclass(frozen=True, slots=True)
class HadoopSetting:
    """One setting: ``where`` it goes is ``cluster`` or ``job``."""

    where: str
    name: str
    value: str
    reason: str


@cache
def _document() -> dict[str, Any]:
    path = workloads_dir() / PAYLOAD / "settings.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


def heap_bytes(benchmark: str) -> int:
    """Return the heap of a task that the tuned profile gives ``benchmark``."""
    return int(_SIZE.parse(_document()["heap"][benchmark]))


def load_settings(profile: str, values: Mapping[str, int]) -> list[HadoopSetting]:
    """Return the settings of ``profile`` with ``values`` filled in.

    Raises ValueError for a file that says something unknown.
    """
    settings = []
    for raw in _document()["setting"]:
        of = raw["profile"]
        setting = HadoopSetting(raw["where"], raw["name"], raw["value"], raw["reason"])
        if setting.where not in _PLACES or of not in (*PROFILES, "both"):
            raise ValueError(f"settings.toml: {setting.name}: {setting.where} of {of} is unknown")
        if of in (profile, "both"):
            settings.append(replace(setting, value=setting.value.format(**values)))
    return settings
