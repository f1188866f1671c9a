"""Flame graphs: the tree is honest, the page draws it, and names from outside stay names."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Page

from steelyard.analyze.profiles.diff import diff
from steelyard.analyze.profiles.folded import read_folded
from steelyard.analyze.profiles.profile import Profile
from steelyard.analyze.profiles.tax_map import classify
from steelyard.cli.main import invoke
from steelyard.report.answer.page import write_page
from steelyard.report.profiles.answer import diff_answer, profile_answer
from steelyard.report.profiles.flame import diff_flame_html, flame_html, notes_of
from steelyard.report.profiles.flame_tree import MERGED, grow
from steelyard.report.profiles.tax_chart import command_chart, tax_chart
from steelyard.report.template import page_path
from tests.folded import profile

HOSTILE = "<script>window.hacked=1</script><img src=x onerror=window.hacked=1>\"'`${7*7}</style><!--"
STACKS = {
    "nginx;main [nginx];handle [nginx];deflate [libz.so.1]": 50,
    "nginx;main [nginx];handle [nginx];__send [libc.so.6];tcp_sendmsg [kernel]": 30,
    f"nginx;main [nginx];{HOSTILE} [{HOSTILE}]": 12,
    f"{HOSTILE};main [other]": 8,
}


def _path(tree, box: int) -> str:  # type: ignore[no-untyped-def]
    words = []
    while box > 0:
        words.append("…" if tree.name[box] == MERGED else tree.names[tree.name[box]].text)
        box = int(tree.parent[box])
    return ";".join(reversed(words))


def test_the_tree_is_that_of_the_stacks(tmp_path: Path) -> None:
    tree = grow([profile(tmp_path, {"a;f;g": 3, "a;f": 2, "a;h;g": 5, "b;f;g": 1})])
    found = {_path(tree, box): int(tree.samples[box, 0]) for box in range(len(tree.parent))}
    assert found == {
        "": 11,
        "a": 10,
        "b": 1,
        "a;f": 5,
        "a;h": 5,
        "a;f;g": 3,
        "a;h;g": 5,
        "b;f": 1,
        "b;f;g": 1,
    }
    assert tree.merged_boxes == 0
    assert (tree.parent[1:] < np.arange(1, len(tree.parent))).all()


def test_what_is_too_narrow_is_merged_and_counted(tmp_path: Path) -> None:
    stacks = {f"a;wide;narrow_{i};deep": 1 for i in range(2000)} | {"a;wide;thick": 2000}
    one = profile(tmp_path, stacks)
    tree = grow([one], boxes=200)
    assert len(tree.parent) <= 200
    assert int(tree.samples[0, 0]) == 4000
    inner = np.zeros(len(tree.parent), dtype=np.int64)
    np.add.at(inner, tree.parent[1:], tree.samples[1:, 0])
    assert (inner <= tree.samples[:, 0]).all()
    (merged,) = np.flatnonzero(tree.name == MERGED)
    assert (tree.samples[merged, 0], tree.merged[merged], tree.merged_ratio) == (2000, 2000, 0.5)
    assert "2,000 boxes" in notes_of(tree, [one])[0]
    assert "50.0%" in notes_of(tree, [one])[0]


def test_a_hundred_thousand_stacks_become_a_small_page(tmp_path: Path) -> None:
    draw = np.random.default_rng(3)
    steps = draw.integers(0, 400, size=(100_000, 25))
    path = tmp_path / "p.folded"
    path.write_text(
        "".join(f"app;{';'.join(f'f{s}' for s in row)} {1 + i % 3}\n" for i, row in enumerate(steps))
    )
    one = read_folded(path)
    assert len(one.counts) == 100_000
    text = flame_html(one, "many")
    assert len(text) < 1_500_000
    assert "are merged" in text


def test_two_profiles_share_a_tree_and_noise_has_no_colour(tmp_path: Path) -> None:
    a = profile(tmp_path, {"a;f": 500, "a;g": 500})
    b = profile(tmp_path, {"a;f": 980, "a;g": 1000, "a;new": 20})
    tree = grow([a, b])
    assert tree.changed is not None
    changed = {_path(tree, box) for box in np.flatnonzero(tree.changed)}
    assert changed == {"a;new"}
    assert [int(n) for n in tree.samples[0]] == [1000, 2000]


@pytest.mark.parametrize(
    ("functions", "is_judged", "expected"),
    [
        (None, True, {"a;new"}),
        (["new"], True, {"a;new"}),
        (["f"], True, set()),
        ([], True, set()),
        (["new"], False, None),
    ],
)
def test_only_what_the_comparison_calls_a_change_has_a_colour(
    tmp_path: Path, functions: list[str] | None, is_judged: bool, expected: set[str] | None
) -> None:
    a = profile(tmp_path, {"a;f": 500, "a;g": 500})
    b = profile(tmp_path, {"a;f": 980, "a;g": 1000, "a;new": 20})
    text = diff_flame_html(a, b, "x", functions=functions, is_judged=is_judged)
    data = json.loads(text.partition('-data">')[2].partition("</script>")[0])
    tree = grow([a, b])
    changed = data["changed"]
    assert (None if changed is None else {_path(tree, box) for box in changed}) == expected


def test_a_page_without_a_difference_has_no_coloured_box(tmp_path: Path) -> None:
    """Samples of phases differ by more than independent ones, and blocks of time know it."""

    a = [profile(tmp_path, {"a;f": 90 - 60 * (at % 2), "a;g": 10 + 60 * (at % 2)}) for at in range(10)]
    b = [profile(tmp_path, {"a;f": 80 - 50 * (at % 2), "a;g": 20 + 50 * (at % 2)}) for at in range(10)]
    whole = [profile(tmp_path, {"a;f": 600, "a;g": 400}), profile(tmp_path, {"a;f": 550, "a;g": 450})]
    result = diff(a, b, are_blocks=True)
    assert not result.stands_out
    assert grow([whole[0], profile(tmp_path, {"a;f": 450, "a;g": 550})]).changed is not None
    path = write_page(
        tmp_path / "page.html",
        diff_answer(
            (whole[0], profile(tmp_path, {"a;f": 450, "a;g": 550})),
            ("a", "b"),
            (classify(whole[0]), classify(whole[1])),
            result,
            command="steelyard",
        ),
    )
    assert '"changed":[]' in path.read_text().replace(" ", "")


def test_bars_have_a_part_for_each_category(tmp_path: Path) -> None:
    tax = classify(profile(tmp_path, STACKS))
    chart = tax_chart([("a run", tax)])
    spec = chart.spec()
    assert (spec["kind"], spec["namedParts"]) == ("xy", True)
    assert sum(series["y"][0] for series in spec["series"]) == pytest.approx(1.0, abs=0.005)
    assert {series["role"] for series in spec["series"]} == {
        "tax-application",
        "tax-compression",
        "tax-kernel_network",
    }
    assert "Compression: 50" in chart.summary
    assert len(command_chart(tax).series[0].x) == 2


def test_no_busy_sample_is_no_chart(tmp_path: Path) -> None:
    idle = profile(tmp_path, {"swapper;intel_idle [kernel]": 5})
    assert not tax_chart([("x", classify(idle))]).is_drawable
    page = write_page(
        page_path(tmp_path), profile_answer(idle, classify(idle), title="idle", command="steelyard")
    )
    assert "No busy sample" in page.read_text()


@contextmanager
def opened(browser: Browser, path: Path, **options: object) -> Iterator[tuple[Page, list[str], list[str]]]:
    context = browser.new_context(viewport={"width": 1200, "height": 900}, **options)  # type: ignore[arg-type]
    page = context.new_page()
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-drawn]", timeout=30_000)
    page.wait_for_selector("figure.flame[data-drawn]", timeout=30_000)
    yield page, said, asked
    context.close()


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Profile:
    return profile(tmp_path_factory.mktemp("p"), STACKS, f"# reason: {HOSTILE}\n")


def test_the_page_draws_searches_and_zooms(browser: Browser, one: Profile, tmp_path: Path) -> None:
    path = write_page(page_path(tmp_path), profile_answer(one, classify(one), title=HOSTILE, command=HOSTILE))
    with opened(browser, path) as (page, said, asked):
        assert said == []
        assert asked == [path.as_uri()]
        assert page.evaluate("window.hacked") is None
        assert page.locator(".flame svg g").count() == 10
        assert page.locator("#chart-tax-map .bars path").count() == 3
        page.fill(".flame input", "deflate")
        assert page.inner_text(".flame-found").startswith("50.0")
        assert page.locator(".flame g.found").count() == 1
        page.fill(".flame input", "main")
        assert page.inner_text(".flame-found").replace("\u202f", " ") == "100.0 % in 2 boxes"
        page.fill(".flame input", "no such")
        assert "no function" in page.inner_text(".flame-found")
        page.fill(".flame input", "")
        page.locator(".flame-view").focus()
        for key in ("ArrowUp", "ArrowUp", "ArrowUp"):
            page.keyboard.press(key)
        assert page.inner_text(".flame-detail").startswith("handle")
        page.keyboard.press("Enter")
        assert page.locator(".flame-reset").is_visible()
        assert page.locator(".flame svg g").count() == 7
        page.keyboard.press("/")
        assert page.evaluate("document.activeElement.type") == "search"
        page.keyboard.press("Escape")
        page.keyboard.press("Escape")
        assert page.locator(".flame svg g").count() == 10
        page.click(".flame-turn")
        tops = page.eval_on_selector_all(
            ".flame svg g", "boxes => boxes.map(b => [b.dataset.box, b.firstChild.getAttribute('y')])"
        )
        assert ["0", "0"] in tops
        assert HOSTILE[:20] in page.inner_text("#functions")
        assert said == []


def test_the_page_of_two_profiles(browser: Browser, one: Profile, tmp_path: Path) -> None:
    other = profile(tmp_path, {**STACKS, "nginx;main [nginx];new [nginx]": 400})
    result = diff(one, other)
    path = write_page(
        page_path(tmp_path),
        diff_answer(
            (one, other),
            ("before", HOSTILE),
            (classify(one), classify(other)),
            result,
            command="steelyard",
        ),
    )
    with opened(browser, path, color_scheme="dark") as (page, said, _):
        assert said == []
        assert page.evaluate("window.hacked") is None
        assert page.inner_text("h1").startswith("new: 0.0% → 80.0%")
        colours = page.eval_on_selector_all(".flame rect", "boxes => boxes.map(b => b.style.fill)")
        assert any("--diff-up" in colour for colour in colours)
        widths = page.eval_on_selector_all(".flame rect", "boxes => boxes.length")
        page.click(".flame-side")
        assert "Widths of before" in page.inner_text(".flame-side")
        # What is new has no width in the profile before.
        assert page.eval_on_selector_all(".flame rect", "boxes => boxes.length") == widths - 1
        assert said == []


def test_fragments_stand_alone(browser: Browser, one: Profile, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    parts = flame_html(one, HOSTILE, identifier="first") + diff_flame_html(
        one, one, HOSTILE, identifier="second"
    )
    path.write_text(f"<!doctype html><html data-drawn><meta charset=utf-8>{parts}</html>")
    with opened(browser, path) as (page, said, asked):
        assert said == []
        assert len(asked) == 1
        assert page.evaluate("window.hacked") is None
        assert page.locator("figure.flame[data-drawn]").count() == 2
        assert page.locator("#second rect").count() > 5


def _rows(page: Page) -> list[list[str]]:
    """Return the words of each row of boxes, from the top, by what a click on them would tell."""
    rows: dict[float, list[str]] = {}
    for group in page.locator(".flame svg g").all():
        group.dispatch_event("mousemove")
        y = float(group.locator("rect").get_attribute("y") or 0)
        rows.setdefault(y, []).append(page.inner_text(".flame-detail").replace("\u202f", " "))
    return [rows[y] for y in sorted(rows)]


def test_callers_and_callees_of_a_function_are_counted_once(browser: Browser, tmp_path: Path) -> None:
    stacks = {"app;main;a;f;x": 30, "app;main;b;f;y;f;x": 20, "app;main;b": 50}
    path = write_page(
        page_path(tmp_path),
        profile_answer(one := profile(tmp_path, stacks), classify(one), title="x", command="steelyard"),
    )
    with opened(browser, path) as (page, said, _):
        page.locator(".flame-view").focus()
        for key in ("ArrowUp", "ArrowUp", "ArrowUp", "ArrowUp"):
            page.keyboard.press(key)
        page.keyboard.press("ArrowLeft")
        assert page.inner_text(".flame-detail").startswith("f")
        page.keyboard.press("s")
        rows = _rows(page)
        asked = next(at for at, row in enumerate(rows) if row[0].startswith("f:") or row[0].startswith("f "))
        # 50 of 100 samples are under f, though 20 of them pass it twice.
        assert "50.0 % (50 samples" in rows[asked][0]
        callers = sorted(word.split(" (")[0].split(" ·")[0] for word in rows[asked - 1])
        assert [word[0] for word in callers] == ["a", "b"]
        assert any("30 samples of f" in word for word in rows[asked - 1])
        assert any("20 samples of f" in word for word in rows[asked - 1])
        callees = rows[asked + 1]
        assert sum("30 samples" in word for word in callees) == 1
        assert sum("20 samples" in word for word in callees) == 1
        # From there to a caller, and back to the whole.
        page.keyboard.press("ArrowUp")
        page.keyboard.press("Enter")
        assert page.inner_text(".flame-detail").startswith("a")
        page.keyboard.press("Escape")
        assert page.inner_text(".flame-detail").startswith("all")
        assert said == []


def test_deep_stacks_are_folded_and_nothing_is_lost(browser: Browser, tmp_path: Path) -> None:
    deep = ";".join(f"c{at}" for at in range(60))
    stacks = {
        f"app;main;{'walk;' * 80}leaf": 40,
        f"app;main;{'walk;' * 20}other": 10,
        f"app;main;{deep};end": 50,
    }
    path = write_page(
        page_path(tmp_path),
        profile_answer(one := profile(tmp_path, stacks), classify(one), title="x", command="steelyard"),
    )
    with opened(browser, path) as (page, said, _):
        rows = _rows(page)
        assert len(rows) < 40
        labels = [word for row in rows for word in row]
        assert any(word.startswith("walk ×80 deep") and "50 samples" in word for word in labels)
        assert any(word.startswith("leaf") and "40 samples" in word for word in labels)
        assert any(word.startswith("other") and "10 samples" in word for word in labels)
        assert any("frames)" in word and "50 samples" in word for word in labels)
        page.fill(".flame input", "c59")
        assert page.inner_text(".flame-found").startswith("50.0")
        page.fill(".flame input", "")
        page.click(".flame-fold")
        assert page.locator(".flame svg g").count() > 140
        assert said == []


def test_samples_with_times_are_drawn_and_cut_by_second(
    browser: Browser, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def sample(time_s: float, function: str) -> str:
        stack = f"\t 55d0 {function}+0x1 (/bin/app)\n\t 55d1 main+0x1 (/bin/app)\n\n"
        return f"    app 12 [000] {time_s:.6f}: 1 cycles:u: \n{stack}"

    # Two seconds of work at every millisecond; in the third a burst of ten.
    every = [sample(100 + at / 1000, "steady") for at in range(2000)]
    burst = [sample(102.5 + at / 10_000, "burst") for at in range(10)]
    path = tmp_path / "perf.txt"
    path.write_text("".join(every + burst))
    line = ["profile", "show", str(path), "--json"]
    page_path = tmp_path / "page.html"
    assert invoke([*line, "--between", "2,3", "--report", str(page_path)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["samples"] == 10
    assert document["functions"][0]["function"] == "burst"
    assert invoke([*line, "--between", "5,6"]) != 0
    assert "no sample from second 5 to 6" in capsys.readouterr().err
    assert invoke([*line, "--between", "6"]) == 2
    with opened(browser, page_path) as (page, said, _):
        cells = page.evaluate("document.getElementById('chart-times').data[0].z")
        assert [len(cells), len(cells[0])] == [20, 3]
        assert sum(map(sum, cells)) == 2010
        assert all(row[:2] == [50, 50] for row in cells)
        assert [row[2] for row in cells] == [0] * 10 + [10] + [0] * 9
        assert page.locator("#chart-times .hm image").count() == 1
        assert said == []


def test_paper_is_white_and_whole(browser: Browser, one: Profile, tmp_path: Path) -> None:
    path = write_page(page_path(tmp_path), profile_answer(one, classify(one), title="x", command="steelyard"))
    with opened(browser, path, color_scheme="dark") as (page, said, _):
        assert len(page.pdf()) > 10_000
        assert said == []
