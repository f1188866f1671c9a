"""The JSON Schemas of what commands print and install: ``python -m steelyard.cli.schemas``."""

from steelyard._base import schemas_dir
from steelyard.bench.stack.installation import Installation
from steelyard.cli.documents import DOCUMENTS
from steelyard.records import Record
from steelyard.records.schemas import schema_text


def main() -> None:
    """Write ``schemas/<kind>.schema.json`` of each document."""
    models: tuple[type[Record], ...] = (*DOCUMENTS, Installation)
    for model in models:
        (schemas_dir() / f"{model.KIND}.schema.json").write_text(schema_text(model), encoding="utf-8")


if __name__ == "__main__":
    main()
