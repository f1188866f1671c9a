"""Puts the data plane's executables, man pages and completions into the wheel, and tags it with its platform.

Hatchling calls this; `scripts/dist` names what to pack in the environment:

- ``STEELYARD_WHEEL_STAGE``: a folder with ``bin/`` and ``share/``, laid out as below a prefix such as /usr;
- ``STEELYARD_WHEEL_PLATFORM``: the platform that the executables run on, such as ``manylinux_2_28_x86_64``.

An editable installation needs neither: `scripts/build` links to what cargo built.
"""

import os
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


def has_build_id(executable: Path) -> bool:
    """Whether an ELF file has a GNU build id."""
    notes = subprocess.run(
        ["readelf", "--notes", executable], capture_output=True, text=True, check=True
    ).stdout
    return "NT_GNU_BUILD_ID" in notes


class ExecutablesHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds what is staged to the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Fill ``build_data``; raises SystemExit where nothing is staged."""
        if version == "editable":
            return
        named = os.environ.get("STEELYARD_WHEEL_STAGE")
        if not named:
            raise SystemExit("a wheel holds executables, which `make dist` builds; in a checkout: make build")
        stage = Path(named)
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{os.environ['STEELYARD_WHEEL_PLATFORM']}"
        executables = sorted((stage / "bin").iterdir())
        for path in executables:
            if not has_build_id(path):
                raise SystemExit(
                    f"{path} has no build id, which names its functions in profiles and debuggers"
                )
        build_data["shared_scripts"] = {str(path): path.name for path in executables}
        shared = (path for path in sorted((stage / "share").rglob("*")) if path.is_file())
        build_data["shared_data"] = {str(path): str(path.relative_to(stage)) for path in shared}
