"""Records in files: read with their version checked, written under a temporary name and renamed."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from pydantic import Field, ValidationError, model_validator

from steelyard._base import SCHEMA_VERSION, RecordError, WorkloadFailedError, read_regular, replacing
from steelyard.records.text import load_object, shown_place
from steelyard.records.values import Value

_MAJOR = int(SCHEMA_VERSION.split(".")[0])


class Record(Value):
    """A record that stands in a file (or a line) of its own and names its kind and version."""

    KIND: ClassVar[str]

    schema_version: str = Field(default=SCHEMA_VERSION, pattern=r"^\d+\.\d+$")
    kind: str = Field(default="")

    @model_validator(mode="before")
    @classmethod
    def _name_kind(cls, data: Any) -> Any:
        if isinstance(data, dict) and "kind" not in data:
            return {**data, "kind": cls.KIND}
        return data


R = TypeVar("R", bound=Record)


def parse(model: type[R], text: str | bytes, *, where: str) -> R:
    """Return the record in ``text``; ``where`` names its origin in errors.

    Raises RecordError, in one line, for text that is not JSON, another kind, an unknown major version, or a
    field that does not fit.
    """
    data = load_object(text, where=where)
    kind, version = data.get("kind"), data.get("schema_version")
    if kind != model.KIND:
        named = f"a {kind[:40]!r} record" if isinstance(kind, str) else "not a record"
        raise RecordError(f"{where}: this is {named}, expected {model.KIND!r}")
    match = re.fullmatch(r"(\d{1,9})\.(\d{1,9})", version) if isinstance(version, str) else None
    if match is None or int(match[1]) != _MAJOR:
        raise RecordError(
            f"{where}: schema version {str(version)[:20]} of {model.KIND} is not supported"
            f" (this program reads {_MAJOR}.x)",
            hint="use the Steelyard that wrote it, or a newer one",
        )
    try:
        return model.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        place = shown_place(".".join(map(str, first["loc"])))
        # What a validator of several fields says has no place, and pydantic's word before it.
        message = first["msg"].removeprefix("Value error, ")
        wrong = f"{place}: {message}" if place else message
        raise RecordError(f"{where}: no record of kind {model.KIND!r}: {wrong}") from error
    except RecursionError as error:
        raise RecordError(f"{where}: no record of kind {model.KIND!r}: it nests too deeply") from error


def read(model: type[R], path: Path) -> R:
    """Return the record in the file ``path``.

    Raises RecordError as `parse` does, and when the file is unreadable, no regular file, or too large.
    """
    return parse(model, read_regular(path), where=str(path))


def read_lines(model: type[R], path: Path) -> Iterator[R]:
    """Yield the records of a JSON-lines file; a last line that was cut off by a kill is left out."""
    lines = read_regular(path).split(b"\n")
    # What stands after the last newline is a line whose writer was stopped in the middle of it.
    for number, line in enumerate(lines[:-1], start=1):
        if line.strip():
            yield parse(model, line, where=f"{path}:{number}")


def write(record: Record, path: Path) -> None:
    """Write ``record`` to ``path`` so that the name never shows a part of it.

    What is no file of a disk (/dev/null, /dev/stdout, a pipe) is written into: renaming would put a file in
    the device's place. Raises WorkloadFailedError when it cannot be written.
    """
    text = record.model_dump_json(indent=2) + "\n"
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            path.write_text(text, encoding="utf-8")
            return
    except OSError as error:
        raise WorkloadFailedError(f"{path}: cannot be written: {error.strerror}") from error
    with replacing(path) as partial, partial.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
