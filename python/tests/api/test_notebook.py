"""The notebook on the Python API: its cells are those of its script, and they run."""

import importlib.util
import json
import os
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[3]


def script() -> ModuleType:
    """Return the module that makes the notebook."""
    spec = importlib.util.spec_from_file_location("make_notebook", ROOT / "scripts" / "make_notebook.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_notebook_is_what_its_script_makes() -> None:
    document = json.loads((ROOT / "docs" / "guides" / "python.ipynb").read_text())
    assert document["nbformat"] == 4
    kept = [(cell["cell_type"], cell["source"]) for cell in document["cells"]]
    assert kept == [(cell["cell_type"], cell["source"]) for cell in script().cells(run=False)]
    outputs = [cell["outputs"] for cell in document["cells"] if cell["cell_type"] == "code"]
    assert all(outputs), "every cell shows something"


@pytest.mark.slow
def test_its_cells_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = script().cells(run=True)
    shown = [cell["outputs"][-1]["data"]["text/plain"] for cell in made if cell["cell_type"] == "code"]
    assert "operations/s" in shown[0][0]
    assert len(os.listdir("runs")) == 2
