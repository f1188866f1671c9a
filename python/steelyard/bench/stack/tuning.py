"""Settings of a stack's servers: ``workloads/NAME/tuning.toml``, each with its reason.

In: a workload, values that follow from a run. Out: settings by program and name, with those values filled in.

A setting is `{ value, why }`; names between @ in a value are filled in for each run.
Not here: what the settings do, which the programs' documentation says.
"""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

from steelyard._base import EnvironmentLacksError, read_regular, workloads_dir

FILE = "tuning.toml"
_PLACE = re.compile(r"@([a-z_]+)@")


def read_tuning(workload: str, folder: Path | None = None) -> dict[str, dict[str, str]]:
    """Return the settings of every program, by program and name; placeholders are as they stand."""
    path = (folder or workloads_dir() / workload) / FILE
    document = tomllib.loads(read_regular(path).decode())
    return {
        program: {name: str(entry["value"]) for name, entry in settings.items()}
        for program, settings in document.items()
    }


def fill(text: str, values: Mapping[str, str], *, where: str) -> str:
    """Return ``text`` with ``@name@`` replaced.

    >>> fill("listen @port@;", {"port": "80"}, where="nginx.conf")
    'listen 80;'

    Raises EnvironmentLacksError for a name that nobody fills in.
    """

    def value(match: re.Match[str]) -> str:
        if match[1] not in values:
            raise EnvironmentLacksError(
                f"{where}: @{match[1]}@ stands for nothing", hint=f"names: {', '.join(sorted(values))}"
            )
        return values[match[1]]

    return _PLACE.sub(value, text)


def flags(settings: Mapping[str, str], values: Mapping[str, str]) -> list[str]:
    """Return settings that are flags of a command line, each with its value."""
    return [part for name, text in settings.items() for part in (name, fill(text, values, where=FILE))]
