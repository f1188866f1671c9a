"""The script that finds unsteady tests counts each outcome, alone and beside busy loops."""

import importlib.util
import json
import signal
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/repeat_tests.py"

LIBTEST = """
running 4 tests
test codec::reads ... ok
test doc/example.rs - (line 3) ... ok
test later ... ignored, needs hardware
test counts ... FAILED

failures:

---- counts stdout ----

thread 'counts' panicked at crates/x/src/lib.rs:3:5:
assertion failed: 3999 == 4000

failures:
    counts

test result: FAILED. 2 passed; 1 failed; 1 ignored
"""


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("repeat_tests", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["repeat_tests"] = module
    spec.loader.exec_module(module)
    return module


def test_outcomes_of_a_crate_are_read(script: ModuleType) -> None:
    outcomes = list(script.rust_outcomes("crate:x", LIBTEST))
    assert [(each.test, each.passed) for each in outcomes] == [
        ("crate:x codec::reads", True),
        ("crate:x doc/example.rs - (line 3)", True),
        ("crate:x counts", False),
    ]
    assert "3999 == 4000" in outcomes[-1].message


def test_a_test_that_fails_now_and_then_is_listed_with_its_rates(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Fails in every second process that runs it.
    (tmp_path / "test_unsteady.py").write_text(
        "from pathlib import Path\n"
        "def test_always(): pass\n"
        "def test_sometimes():\n"
        "    path = Path(__file__).with_name('count')\n"
        "    count = len(path.read_text()) if path.exists() else 0\n"
        "    path.write_text('x' * (count + 1))\n"
        "    assert count % 2 == 0, f'run {count}'\n"
    )
    report = tmp_path / "counts.json"
    unit = str(tmp_path / "test_unsteady.py")
    assert script.main([unit, "--times", "2", "--json", str(report)]) == 1
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 2
    assert "test_sometimes: failed 1 of 2 alone, 1 of 2 busy: " in printed[0]
    assert printed[1] == "2 tests, 8 runs, 1 tests failed at least once"
    counts = {test.rpartition("::")[2]: tally for test, tally in json.loads(report.read_text()).items()}
    assert counts["test_always"]["failures"] == {"alone": 0, "busy": 0}
    assert counts["test_sometimes"]["runs"] == {"alone": 2, "busy": 2}


def test_signals_are_as_tests_expect_them_and_slow_tests_are_repeated_when_asked(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "test_signals.py").write_text(
        "import signal\n"
        "import pytest\n"
        "def test_default():\n"
        "    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):\n"
        "        assert signal.getsignal(number) is not signal.SIG_IGN\n"
        "@pytest.mark.slow\n"
        "def test_slow(): pass\n"
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -m 'not slow'\nmarkers =\n    slow: slow\n")
    unit = str(tmp_path / "test_signals.py")
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGHUP, signal.SIGQUIT)}
    try:
        assert script.main([unit, "--times", "1", "--alone"]) == 0
        assert capsys.readouterr().out == "1 tests, 1 runs, 0 tests failed at least once\n"
        assert (
            script.main([unit, "--times", "1", "--alone", "--slow", "--json", str(tmp_path / "counts")]) == 0
        )
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert [test.rpartition("::")[2] for test in json.loads((tmp_path / "counts").read_text())] == [
        "test_slow"
    ]


def test_a_unit_that_cannot_run_is_no_success(script: ModuleType, tmp_path: Path) -> None:
    assert script.main([str(tmp_path / "absent.py"), "--times", "1", "--alone"]) == 4
