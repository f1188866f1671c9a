"""Every check that can object says what to do."""

import re
from pathlib import Path

import pytest

from steelyard.analyze.advice import ADVICE, DESCRIBED, advice
from steelyard.records import Check, Level
from tests.analyze.check_names import ROOT, Emitted, Sources, emitted_by_rust, is_name, names_in_rust

SEARCH = "crates/load/src/capacity/"
"""Its checks bear this prefix in the verdict of a run: ``search-``."""
RENAMED = "search-*"
NOT_IN_VERDICTS = {"top-down-*": "the sums of a tree of counters, whose claims stand beside the tree"}


@pytest.fixture(scope="module")
def emitted() -> list[Emitted]:
    return [*Sources().emitted(), *emitted_by_rust()]


def test_every_check_that_the_sources_emit_has_advice(emitted: list[Emitted]) -> None:
    missing = {
        one for one in emitted if one.name not in {RENAMED, *NOT_IN_VERDICTS} and one.name not in ADVICE
    }
    assert missing == set()
    searched = {one.name for one in emitted if one.path.startswith(SEARCH)}
    assert {f"search-{name}" for name in searched} <= ADVICE.keys()


def test_there_is_no_advice_for_what_nothing_emits(emitted: list[Emitted]) -> None:
    names = {one.name for one in emitted}
    searched = {f"search-{one.name}" for one in emitted if one.path.startswith(SEARCH)}
    assert ADVICE.keys() == ADVICE.keys() & (names | searched)
    assert NOT_IN_VERDICTS.keys() <= names


def test_the_search_for_names_reaches_every_package(emitted: list[Emitted]) -> None:
    """A name of each way of emitting one: written there, passed on, composed, of a closure, of a constant."""
    found = {(one.name, Path(one.path).name) for one in emitted}
    assert found >= {
        ("learnt", "benchmark.py"),
        ("failed-tasks", "metrics.py"),
        ("foreign-load", "verdict.py"),
        ("queries-alike", "alike.py"),
        ("cpu-reached", "utilisation.py"),
        (RENAMED, "metrics.py"),
        ("hosts-together", "merge.rs"),
        ("whole", "sweep.rs"),
        ("generator-late", "mod.rs"),
    }
    # What can only pass needs no advice.
    assert not {"build", "open-files"} & {name for name, _ in found}
    assert all(is_name(name.replace("*", "x")) for name, _ in found)


def test_a_new_check_is_found_and_one_without_a_name_is_refused(tmp_path: Path) -> None:
    folder = ROOT / "python/steelyard"
    assert not list(Sources(folder / "_base").emitted())
    with pytest.raises(LookupError, match="which id"):
        list(names_in_rust("Check { id: made_up(), level }"))
    with pytest.raises(LookupError, match="is no name"):
        list(names_in_rust("fn c(id: &str) { Check::new(id, level, claim) } fn d() { c(&made_up) }"))
    (tmp_path / "new.py").write_text(
        "from steelyard.records import Check\n"
        "def _made(name, level): return Check(id=f'{name}-new', level=level, claim='')\n"
        "def made(level): return _made('brand', level)\n"
    )
    assert [one.name for one in Sources(tmp_path).emitted()] == ["brand-new"]
    (tmp_path / "new.py").write_text(
        "from steelyard.records import Check\ndef made(row, level): return Check(id=row.id, level=level)\n"
    )
    with pytest.raises(LookupError, match=r"row\.id"):
        list(Sources(tmp_path).emitted())


def test_advice_is_one_short_sentence() -> None:
    for name, text in ADVICE.items():
        assert len(text) < 110, name
        assert "\n" not in text
        assert text.endswith("...") or not text.endswith("."), name


def test_advice_about_a_users_program_has_flags_that_characterize_takes() -> None:
    """What `characterize` may object to, of any run; the others are of benchmarks."""
    reference = (ROOT / "docs/reference/commands.md").read_text(encoding="utf-8")
    section = reference.partition("## steelyard characterize")[2].partition("\n## ")[0]
    taken = set(re.findall(r"`(--[a-z-]+)", section))
    assert "--duration" in taken
    for name in (
        "clock",
        "foreign-load",
        "hook",
        "length",
        "program",
        "samples",
        "steady",
        "steal",
        "telemetry",
    ):
        said = advice(Check(id=name, level=Level.SUSPECT, claim="x"), describes=True)
        assert said is not None
        assert set(re.findall(r"--[a-z-]+", said)) <= taken, said
    assert DESCRIBED.keys() <= ADVICE.keys()


def test_nobody_is_sent_away_who_was_not_seen() -> None:
    few = Check(
        id="foreign-load", level=Level.SUSPECT, claim="not measured: fewer than two readings are in it"
    )
    assert advice(few, describes=True) == "give it more work, or --duration where it does not end by itself"
    other = Check(id="steal", level=Level.SUSPECT, claim="not measured: the recording lacks the used CPUs")
    assert "steelyard doctor" in (advice(other) or "")
