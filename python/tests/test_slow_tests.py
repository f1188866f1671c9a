"""The table of slow tests names all of them, and the same change runs the same tests."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
SLOW = re.compile(r"^\s*[^\s\"'].*mark\.slow\b", re.MULTILINE)
"""The mark, not a string that holds it, such as a test of a test has."""


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
    marked = {str(path.relative_to(ROOT)) for path in files if SLOW.search(path.read_text())}
    tests = ROOT / "crates" / "steelyard" / "tests" / "executables"
    ignored = {
        path.relative_to(tests).with_suffix("").parts[0]
        for path in (ROOT / "crates").rglob("*.rs")
        if '#[ignore = "slow:' in path.read_text()
    }
    marked |= {f"crate::{module}" for module in ignored}
    assert marked == {slow.tests for slow in script.TABLE}


def test_what_the_table_covers_is_there(script: ModuleType) -> None:
    named = {path.removesuffix("*") for slow in script.TABLE for path in (*slow.covers, *slow.shares)}
    assert {path for path in named if not (ROOT / path).exists()} == set()


def test_a_change_of_a_stack_runs_its_own_tests_first(script: ModuleType) -> None:
    """Whatever else of the framework changes with it."""
    framework = ["python/steelyard/bench/footprint.py", "python/steelyard/bench/stack/recipe.py"]
    for slow in script.TABLE:
        for path in slow.covers:
            if path.startswith(("python/steelyard/bench/", "python/steelyard/benchmarks/", "workloads/")):
                chosen, _ = script.choose([*framework, f"{path}x.py"])
                own = [each for each in script.TABLE if each.owns([f"{path}x.py"])]
                assert slow in own
                assert chosen[: len(own)] == own
    hadoop, *others = script.choose([*framework, "python/steelyard/benchmarks/nutch/benchmark.py"])[0]
    assert hadoop.tests.endswith("test_hadoop_runs.py")
    assert len(others) > 5


def test_a_change_of_the_framework_runs_the_short_tests_first(script: ModuleType) -> None:
    chosen, left_out = script.choose(["python/steelyard/bench/footprint.py"])
    times = [slow.seconds for slow in (*chosen, *left_out)]
    assert times == sorted(times)
    assert len(chosen) > 8
    assert script.choose(["python/steelyard/bench/suites/preflight.py"]) == ([], [])


def test_ci_gives_slow_tests_what_it_has_left(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STEELYARD_CI_END", raising=False)
    assert script.budget_s() == script.BUDGET_S
    monkeypatch.setattr(script.time, "time", lambda: 1000.0)
    for end, left_s in (("1100", 100), ("9999", script.BUDGET_S), ("900", 0)):
        monkeypatch.setenv("STEELYARD_CI_END", end)
        assert script.budget_s() == left_s
    framework = ["python/steelyard/bench/footprint.py"]
    fewer, left_out = script.choose(framework, 100)
    assert 0 < sum(slow.seconds for slow in fewer) <= 100
    assert left_out
    assert script.choose(framework, 0)[0] == []


def test_every_benchmark_with_slow_tests_is_covered_by_them(script: ModuleType) -> None:
    for folder in (ROOT / "python/steelyard/benchmarks").iterdir():
        for tests in (ROOT / "python/tests/benchmarks" / folder.name).glob("test_*.py"):
            if SLOW.search(tests.read_text()) and (folder / "declaration.py").is_file():
                path = f"python/steelyard/benchmarks/{folder.name}/benchmark.py"
                own = [slow.tests for slow in script.TABLE if slow.owns([path])]
                assert str(tests.relative_to(ROOT)) in own


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
