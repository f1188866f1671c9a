"""The record of an installed benchmark: ``installed/<benchmark>.json`` in the folder of stacks.

In: what an installation brought. Out: the same, read again. It is written only after a smoke run has shown
that the benchmark works.
"""

from pathlib import Path
from typing import ClassVar

from pydantic import Field

from steelyard._base import RecordError
from steelyard.bench.stack.recipe import stacks_dir
from steelyard.records import Record, read, write
from steelyard.records.values import Count, Value


class SmokeRun(Value):
    """The run that showed that the benchmark works."""

    run_id: str = Field(description="Its id")
    metric: str = Field(description="The benchmark's first metric")
    value: float = Field(description="What it was, in base units")
    unit: str = Field(description="Its unit")
    verdict: str = Field(description="Its verdict: other work on the machine makes a smoke run invalid, too")


class Installation(Record):
    """An installed benchmark."""

    KIND: ClassVar[str] = "installation"

    benchmark: str = Field(description="Which benchmark")
    installed_unix_s: float = Field(description="When, seconds since 1970", ge=0)
    steelyard_version: str = Field(description="By which Steelyard")
    manager: str | None = Field(description="Package manager, null where no package was needed")
    packages: dict[str, str] = Field(description="Its packages with their versions")
    packages_added: list[str] = Field(
        description="Packages that were new, with dependencies: `uninstall --packages` removes them"
    )
    payload: str | None = Field(description="Its payload, null for none")
    payload_dir: str | None = Field(description="Where the payload is, null for none")
    payload_bytes: Count | None = Field(description="Disk space of the payload, null for none")
    install_s: float = Field(description="Time that packages and payload took", ge=0)
    smoke_s: float | None = Field(
        description="Time that the smoke run took, null where it was left out", ge=0
    )
    smoke: SmokeRun | None = Field(description="The smoke run, null where it was left out")


def path_of(benchmark: str) -> Path:
    """Return the file of a benchmark's record."""
    return stacks_dir() / "installed" / f"{benchmark}.json"


def load(benchmark: str) -> Installation | None:
    """Return the record of a benchmark, None without one. Raises RecordError for one that cannot be read."""
    path = path_of(benchmark)
    return read(Installation, path) if path.exists() else None


def load_all() -> list[Installation]:
    """Return the records that can be read."""
    installations = []
    for path in sorted(path_of("any").parent.glob("*.json")):
        try:
            installations.append(read(Installation, path))
        except RecordError:
            continue
    return installations


def save(installation: Installation) -> None:
    """Write a record."""
    path = path_of(installation.benchmark)
    path.parent.mkdir(parents=True, exist_ok=True)
    write(installation, path)
