"""The table of checks has every check that is made; each that can object says what to do."""

import json
import re
from pathlib import Path

import pytest

from steelyard._base import data_dir
from steelyard.analyze.checks import CHECKS, CONSTANTS, SCOPES, advice, declared, measured, stated
from steelyard.records import Check, Level
from tests.analyze.check_names import ROOT, Emitted, Sources, emitted_by_rust, is_name, names_in_rust

SEARCH = "crates/load/src/capacity/"
"""Its checks bear this prefix in the verdict of a run: ``search-``."""
RENAMED = "search-*"
NOT_IN_VERDICTS = {"top-down-*": "the sums of a tree of counters, whose claims stand beside the tree"}
PLACES = {
    "crates/load/src/verdict/": "load",
    "crates/load/src/hosts/": "load",
    "crates/load/src/sweep.rs": "sweep",
    SEARCH: "search",
    "crates/tax/": "tax",
    "python/steelyard/analyze/counters/": "top-down",
    "python/steelyard/analyze/": "run",
    "python/steelyard/bench/characterize/": "program",
    "python/steelyard/bench/": "benchmark",
    "python/steelyard/benchmarks/": "benchmark",
}
"""Whose results the checks are asked of that a place makes; the first that fits."""


@pytest.fixture(scope="module")
def emitted() -> list[Emitted]:
    return [*Sources().emitted(), *emitted_by_rust()]


def scopes_of(emitted: list[Emitted]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for one in emitted:
        scope = next(scope for place, scope in PLACES.items() if one.path.startswith(place))
        found.setdefault(one.name, set()).add(scope)
        if scope == "search":
            found.setdefault(f"search-{one.name}", set()).add("benchmark")
    found.pop(RENAMED)
    return found


def test_the_table_has_each_check_that_is_made_and_no_other(emitted: list[Emitted]) -> None:
    found = scopes_of(emitted)
    assert len(found) > 60
    assert found.keys() - CHECKS.keys() == set(), "these are made and are not in data/checks.json"
    assert CHECKS.keys() - found.keys() == set(), "these are in data/checks.json and nothing makes them"


def test_the_scope_of_a_check_is_where_it_is_made(emitted: list[Emitted]) -> None:
    found = scopes_of(emitted)
    assert {name: set(entry.scope) for name, entry in CHECKS.items()} == found
    assert set().union(*found.values()) == SCOPES.keys()


def test_every_check_that_can_object_has_advice(emitted: list[Emitted]) -> None:
    can = {one.name for one in emitted if one.objects}
    can |= {f"search-{one.name}" for one in emitted if one.path.startswith(SEARCH)}
    advised = {name for name, entry in CHECKS.items() if entry.advice is not None}
    assert can - {RENAMED, *NOT_IN_VERDICTS} == advised


def test_fields_of_the_table_are_of_its_words() -> None:
    document = json.loads((data_dir() / "checks.json").read_text())
    units = json.loads((data_dir() / "units.json").read_text())["units"]
    fields = {"scope", "like", "asks", "unit", "fails", "suspect", "invalid", "is_of_figure"}
    for name, row in document["checks"].items():
        assert row.keys() <= fields | {"advice", "advice_of_program"}, name
        entry = CHECKS[name]
        assert entry.unit is None or entry.unit in units, name
        assert entry.asks.endswith((".", "?")), name
        bounds = [bound for bound in (entry.bounds.suspect, entry.bounds.invalid) if bound is not None]
        assert not bounds or (entry.unit is not None and entry.fails is not None), name
        if len(bounds) == 2:
            assert (bounds[0] < bounds[1]) == (entry.fails == "above"), name


def test_samples_needed_follow_from_those_beyond_a_percentile() -> None:
    bounds = declared("samples").bounds
    each = CONSTANTS.samples_beyond_percentile
    assert (bounds.suspect, bounds.invalid) == (1_000 * each, 100 * each)
    assert declared("width").bounds.invalid == 2 * CONSTANTS.headline_invalid_ratio


def test_every_constant_and_bound_has_its_reason() -> None:
    """Constants by their names, bounds of single checks by the check."""
    explained = (data_dir() / "bounds" / "README.md").read_text()
    document = json.loads((data_dir() / "checks.json").read_text())
    assert [name for name in document["constants"] if f"`{name}`" not in explained] == []
    own = [
        name
        for name, row in document["checks"].items()
        for bound in ("suspect", "invalid")
        # Nothing may fail at all: that needs no reason.
        if isinstance(row.get(bound), int | float) and row[bound] not in (0, 1)
    ]
    assert [name for name in own if f"`{name}`" not in explained] == []


def test_no_bound_stands_where_a_check_is_made() -> None:
    folders = (ROOT / "crates/load/src/verdict", ROOT / "crates/tax/src")
    source = "".join(path.read_text() for folder in folders for path in folder.glob("*.rs"))
    assert "Check::measured(" in source
    assert re.findall(r"const \w+: (?:f64|\(f64)", (ROOT / "crates/tax/src/verdict.rs").read_text()) == []
    assert not (data_dir() / "bounds" / "verdict.json").exists()
    python = [path for path in (ROOT / "python/steelyard").rglob("*.py") if path.name != "checks.py"]
    assert [str(path) for path in python if re.search(r"\bADVICE\b", path.read_text())] == []


def test_a_check_has_unit_and_bounds_of_the_table_or_of_its_run() -> None:
    check = measured("steal", 0.1, "the hypervisor took 10 %")
    assert (check.level, check.suspect, check.invalid, check.unit) == (Level.SUSPECT, 0.05, 0.2, "ratio")
    missing = measured("steal", None, "not measured")
    assert (missing.level, missing.value) == (Level.SUSPECT, None)
    with pytest.raises(KeyError, match=r"data/checks\.json"):
        stated("of-another-version", Level.VALID, "")


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
        ("rates-samples", "sweep.rs"),
        ("generator-late", "mod.rs"),
    }
    assert {one.name for one in emitted if not one.objects} >= {"build", "open-files"}
    assert all(is_name(name.replace("*", "x")) for name, _ in found)


def test_a_new_check_is_found_and_one_without_a_name_is_refused(tmp_path: Path) -> None:
    folder = ROOT / "python/steelyard"
    assert not list(Sources(folder / "_base").emitted())
    with pytest.raises(LookupError, match="which id"):
        list(names_in_rust("Check { id: made_up(), level }"))
    with pytest.raises(LookupError, match="is no name"):
        list(names_in_rust("fn c(id: &str) { Check::stated(id, level, claim) } fn d() { c(&made_up) }"))
    (tmp_path / "new.py").write_text(
        "from steelyard.analyze import checks\n"
        "def _made(name, level): return checks.stated(f'{name}-new', level, '')\n"
        "def made(level): return _made('brand', level)\n"
    )
    assert [one.name for one in Sources(tmp_path).emitted()] == ["brand-new"]
    (tmp_path / "new.py").write_text(
        "from steelyard.analyze import checks\ndef made(row): return checks.measured(row.id, 1.0, '')\n"
    )
    with pytest.raises(LookupError, match=r"row\.id"):
        list(Sources(tmp_path).emitted())
    (tmp_path / "new.py").write_text(
        "from steelyard.records import Check\ndef made(level): return Check(id='brand-new', level=level)\n"
    )
    with pytest.raises(LookupError, match=r"analyze\.checks"):
        list(Sources(tmp_path).emitted())


def test_advice_is_one_short_sentence() -> None:
    for name, entry in CHECKS.items():
        for text in (entry.advice, entry.advice_of_program):
            if text is not None:
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
    assert all(entry.advice for entry in CHECKS.values() if entry.advice_of_program)


def test_nobody_is_sent_away_who_was_not_seen() -> None:
    few = Check(
        id="foreign-load", level=Level.SUSPECT, claim="not measured: fewer than two readings are in it"
    )
    assert advice(few, describes=True) == "give it more work, or --duration where it does not end by itself"
    other = Check(id="steal", level=Level.SUSPECT, claim="not measured: the recording lacks the used CPUs")
    assert "steelyard doctor" in (advice(other) or "")
