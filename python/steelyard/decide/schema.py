"""The JSON Schema of baselines, generated from the model: ``python -m steelyard.decide.schema``."""

from steelyard._base import schemas_dir
from steelyard.decide.baseline import Baseline
from steelyard.records.schemas import schema_text


def main() -> None:
    """Write ``schemas/baseline.schema.json``."""
    (schemas_dir() / "baseline.schema.json").write_text(schema_text(Baseline), encoding="utf-8")


if __name__ == "__main__":
    main()
