"""The guide on hooks: its example works as an installed package, and its tables list what there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from steelyard._base import UsageError
from steelyard.bench import hook
from steelyard.bench.hook import HookContext
from steelyard.bench.parameters import Setting

GUIDE = (Path(__file__).resolve().parents[3] / "docs" / "guides" / "hooks.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    match = re.search(rf"^```{language}\n(.*?)^```$", GUIDE, flags=re.MULTILINE | re.DOTALL)
    assert match is not None
    return match[1]


class Context:
    """As much of a run as the example asks for."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.recorded: dict[str, Setting | None] = {}
        self.artifacts: dict[str, Path] = {}

    def record(self, key: str, value: Setting | None) -> None:
        self.recorded[key] = value

    def add_artifact(self, role: str, path: Path) -> None:
        self.artifacts[role] = path


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the example as a package would be: a module and its metadata."""
    name = "steelyard_hook_example"
    (tmp_path / f"{name}.py").write_text(block("python"), encoding="utf-8")
    metadata = tmp_path / f"{name}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8"
    )
    section = block("toml").replace('[project.entry-points."steelyard.hooks"]', "[steelyard.hooks]")
    points = section.replace('"', "").replace("my_package", name)
    (metadata / "entry_points.txt").write_text(points, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.usefixtures("installed")
def test_the_example_is_found_and_does_what_it_says(tmp_path: Path) -> None:
    assert "load-average" in hook.names()
    created = dict(hook.create(["load-average:minutes=5"]))
    assert list(created) == ["probe", "load-average"]
    context = Context(tmp_path)
    for moment in hook.MOMENTS:
        typed: HookContext = context  # type: ignore[assignment]
        getattr(created["load-average"], moment)(typed)
    assert set(context.recorded) == {"load_before", "load_after"}
    assert context.artifacts["load-average"].read_text(encoding="utf-8").startswith("(")


@pytest.mark.usefixtures("installed")
def test_its_options_are_checked() -> None:
    with pytest.raises(UsageError, match="minutes"):
        hook.create(["load-average:minutes=7"])
    with pytest.raises(UsageError, match="hours"):
        hook.create(["load-average:hours=7"])


def rows(head: str) -> dict[str, set[str]]:
    section = GUIDE.partition(head)[2].partition("\n\n")[0]
    lines = [line for line in section.splitlines() if line.startswith("| `")]
    cells = [[re.findall(r"`([a-z_-]+)`", cell) for cell in line.strip("|").split("|")] for line in lines]
    return {first[0]: set(last) for first, *_, last in cells}


def test_the_tables_list_hooks_options_and_moments() -> None:
    listed = rows("| hook | what it does | options |")
    assert set(listed) == set(hook._BUILT_IN)
    for name, options in listed.items():
        assert options == {parameter.name for parameter in hook.find(name).parameters}, name
    assert tuple(rows("| moment | when |")) == hook.MOMENTS


def test_the_context_is_listed_whole() -> None:
    public = {name for name in vars(HookContext) if not name.startswith("_")}
    section = GUIDE.partition("The context knows the run")[2]
    assert public <= set(re.findall(r"`([a-z_]+)`", section))


def test_the_requests_shown_are_understood() -> None:
    shown = re.findall(r"--hook (?:'([^']+)'|(\S+))", GUIDE)
    requests = [
        quoted or plain for quoted, plain in shown if not (quoted or plain).startswith(("NAME", "load-"))
    ]
    assert len(requests) >= 4
    for request in requests:
        hook.create([request])
