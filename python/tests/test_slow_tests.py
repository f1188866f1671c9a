"""The table of slow tests names all of them, and the same change runs the same tests."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("slow_tests", ROOT / "scripts" / "slow_tests.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["slow_tests"] = module
    spec.loader.exec_module(module)
    return module


def test_the_table_names_every_slow_test(script: ModuleType) -> None:
    files = (ROOT / "python" / "tests").rglob("test_*.py")
    marked = {str(path.relative_to(ROOT)) for path in files if re.search(r"mark\.slow\b", path.read_text())}
    tests = ROOT / "crates" / "steelyard" / "tests" / "executables"
    ignored = {
        path.relative_to(tests).with_suffix("").parts[0]
        for path in (ROOT / "crates").rglob("*.rs")
        if '#[ignore = "slow:' in path.read_text()
    }
    marked |= {f"crate::{module}" for module in ignored}
    assert marked == {slow.tests for slow in script.TABLE}


def test_what_the_table_covers_is_there(script: ModuleType) -> None:
    absent = {path for slow in script.TABLE for path in slow.covers if not (ROOT / path).exists()}
    assert absent == set()


def test_only_what_a_change_touches_runs_and_as_much_as_fits(script: ModuleType) -> None:
    assert script.choose(["README.md"]) == ([], [])
    [own], _ = script.choose(["python/tests/executables/load/test_load_cql.py"])
    assert own.seconds <= script.BUDGET_S
    chosen, left_out = script.choose(None)
    assert {*chosen, *left_out} == set(script.TABLE)
    assert sum(slow.seconds for slow in chosen) <= script.BUDGET_S
    first, *others = script.TABLE
    assert script.choose(None, first.seconds) == ([first], others)


def test_a_change_is_the_last_commit_on_main_and_the_whole_of_a_branch(
    script: ModuleType, tmp_path: Path
) -> None:
    def git(*arguments: str) -> None:
        command = ["git", "-c", "user.name=x", "-c", "user.email=x", *arguments]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)

    def commit(name: str) -> None:
        (tmp_path / name).touch()
        git("add", name)
        git("commit", "-m", name)

    assert script.changed(tmp_path) is None
    git("init", "-b", "main")
    commit("first")
    assert script.changed(tmp_path) is None
    commit("second")
    assert script.changed(tmp_path) == ["second"]
    git("update-ref", "refs/remotes/origin/main", "HEAD")
    assert script.changed(tmp_path) == ["second"]
    commit("third")
    commit("fourth")
    assert script.changed(tmp_path) == ["fourth", "third"]


def test_commands_run_ignored_modules_and_marked_files(script: ModuleType) -> None:
    rust, python = script.commands(script.TABLE)
    assert rust[-2:] == ["--ignored", "accuracy::"]
    assert python[python.index("-m", 3) + 1] == "slow"
    assert set(python[-len(script.TABLE) + 1 :]) == {slow.tests for slow in script.TABLE if not slow.module}
