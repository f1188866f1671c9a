"""The reference, man pages and completions hold every command and flag, as the parser has them."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from steelyard.cli.manual import bash, documents, fish, man_page, pages, zsh
from steelyard.cli.manual.markdown import table
from steelyard.cli.manual.pages import Page

ROOT = Path(__file__).resolve().parents[3]
PAGES = list(pages())
DOCUMENTS = documents()


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_reference_is_what_is_declared(name: str) -> None:
    kept = (ROOT / "docs/reference" / name).read_text()
    assert kept == DOCUMENTS[name], "declarations have changed: run `make docs`"


def test_the_reference_of_documents_has_each_schema_and_type() -> None:
    headings = re.findall(r"^##+ (.*)", DOCUMENTS["schemas.md"], re.MULTILINE)
    assert len(headings) == len(set(headings))
    files = list((ROOT / "schemas").rglob("*.schema.json"))
    assert len(files) > 50
    for path in files:
        name = path.relative_to(ROOT / "schemas").as_posix().removesuffix(".schema.json")
        assert name in headings
        types = json.loads(path.read_text()).get("$defs", {})
        assert all(one in headings or f"{name}: {one}" in headings for one in types), name


def test_cells_of_tables_hold_no_markup_of_others() -> None:
    assert table(("a",), [("<b>|`<c>`",)]) == "| a |\n|---|\n| &lt;b>\\|`<c>` |\n"


def test_the_readme_names_commands_that_exist() -> None:
    flags = {page.name: page.flags for page in PAGES if not page.commands}
    lines = re.findall(
        r"^    (steelyard [a-z].*?)(?: {2,}#.*)?$", (ROOT / "README.md").read_text(), re.MULTILINE
    )
    assert 5 <= len(lines) <= 10, "the README shows the commands that matter; the reference has all"
    for line in lines:
        named = [name for name in flags if f"{line} ".startswith(f"{name} ")]
        assert named, line
        own = line.removeprefix(named[0]).partition(" -- ")[0]
        assert set(re.findall(r"--[a-z-]+", own)) <= set(flags[named[0]]), line


def test_every_command_has_a_page_with_its_flags() -> None:
    names = {page.name for page in PAGES}
    assert {"steelyard", "steelyard run", "steelyard fleet", "steelyard fleet cpi specs"} <= names
    run = next(page for page in PAGES if page.name == "steelyard run")
    assert {"--tier", "--set", "--json"} <= set(run.flags)
    assert all(page.about for page in PAGES)


def test_man_pages_name_every_option_and_command() -> None:
    for page in PAGES:
        text = man_page(page, "1.2").replace("\\-", "-")
        assert f"steelyard 1.2 {page.name}".split()[2] in text
        for row in (*page.arguments, *page.options, *page.commands):
            assert row.name in text, f"{page.name}: {row.name}"
        assert page.commands or len(page.examples) >= 2
        assert all(example.replace("\\", "\\e") in text for example in page.examples)


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_man_pages_are_free_of_warnings(tmp_path: Path) -> None:
    for number, page in enumerate(PAGES):
        (tmp_path / f"{number}.1").write_text(man_page(page, "1.2"))
    command = ["groff", "-man", "-ww", "-Tutf8", "-K", "utf8", "-z", *sorted(tmp_path.iterdir())]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert not ran.stderr


def completed(script: Path, page: Page) -> set[str]:
    """Return what bash offers after a command."""
    words = ["steelyard", *page.path, ""]
    text = (
        f"source {script}; COMP_WORDS=({' '.join(words[:-1])} ''); COMP_CWORD={len(words) - 1};"
        ' _steelyard; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    ran = subprocess.run(
        [shutil.which("bash") or "bash", "--norc", "-c", text],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": "/nowhere"},
    )
    return set(ran.stdout.split())


def test_bash_completes_commands_and_flags(tmp_path: Path) -> None:
    script = tmp_path / "steelyard"
    script.write_text(bash(PAGES))
    for page in PAGES:
        assert completed(script, page) == {*(row.name for row in page.commands), *page.flags}, page.name


def test_other_shells_have_the_same_words() -> None:
    for text in (zsh(PAGES), fish(PAGES)):
        for page in PAGES:
            words = " ".join([*(row.name for row in page.commands), *page.flags])
            assert not words or words in text, page.name
