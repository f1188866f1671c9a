"""Which packages a benchmark's installation brought: ``claims/<benchmark>.json`` in the folder of stacks.

In: what the package manager says that it will install, before it begins. Out: the same, until the packages
are gone: an installation that fails or is killed, and an uninstallation that leaves packages, keep the claim.

Not here: the record of an installation that works (``installation``), and removing (``packages``).
"""

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from steelyard._base import EnvironmentLacksError, WorkloadFailedError
from steelyard.bench.stack.recipe import stacks_dir
from steelyard.records import Record, read, write


class Claim(Record):
    """Packages that were not there before an installation of a benchmark."""

    KIND: ClassVar[str] = "package_claim"

    benchmark: str = Field(description="For which benchmark")
    manager: str = Field(description="Package manager")
    claimed_unix_s: float = Field(description="When the first was claimed, seconds since 1970", ge=0)
    packages: dict[str, str] = Field(description="Version of each package as it came")


def path_of(benchmark: str) -> Path:
    """Return the file of a benchmark's claim."""
    return stacks_dir() / "claims" / f"{benchmark}.json"


def load(benchmark: str) -> Claim | None:
    """Return the claim of a benchmark, None without one. Raises RecordError for one that cannot be read."""
    path = path_of(benchmark)
    return read(Claim, path) if path.exists() else None


def others(benchmark: str) -> set[str]:
    """Return the packages that other benchmarks claim. Raises RecordError for a claim that cannot be read."""
    paths = path_of("any").parent.glob("*.json")
    return {name for path in paths if path != path_of(benchmark) for name in read(Claim, path).packages}


def add(benchmark: str, manager: str, packages: Mapping[str, str]) -> None:
    """Claim packages. Raises EnvironmentLacksError where that cannot be written down."""
    if not packages:
        return
    known = load(benchmark)
    begun = time.time() if known is None else known.claimed_unix_s
    earlier = {} if known is None else known.packages
    _write(
        Claim(
            benchmark=benchmark,
            manager=manager,
            claimed_unix_s=begun,
            packages=dict(sorted({**earlier, **packages}.items())),
        )
    )


def keep_only(benchmark: str, names: Iterable[str]) -> None:
    """Give up the claim to all packages but ``names``."""
    known = load(benchmark)
    if known is None:
        return
    left = {name: known.packages[name] for name in known.packages.keys() & set(names)}
    if left:
        _write(known.model_copy(update={"packages": dict(sorted(left.items()))}))
    else:
        path_of(benchmark).unlink()


def _write(claim: Claim) -> None:
    path = path_of(claim.benchmark)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(claim, path)
    except (OSError, WorkloadFailedError) as error:
        why = error.message if isinstance(error, WorkloadFailedError) else f"{path}: {error.strerror}"
        raise EnvironmentLacksError(
            f"nothing was installed, since it could not be written down what comes: {why}",
            hint="point STEELYARD_STACKS at a folder that can be written",
        ) from error
