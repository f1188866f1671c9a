"""Reading dumps of MediaWiki: which pages are texts of which class, what is skipped, and what is no dump."""

import bz2
import html
import io
import itertools
import json
import re
import struct
import tracemalloc
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard._base import UsageError, WorkloadFailedError
from steelyard.benchmarks.bayes import dump
from steelyard.benchmarks.bayes.benchmark import BayesBench, corpus_check
from steelyard.benchmarks.bayes.dump import Categories, Reader
from steelyard.benchmarks.bayes.feed import END, FAILED, feed
from steelyard.benchmarks.hadoop import section as report
from steelyard.records import Level
from tests.benchmarks.bayes import wiki_dump


def listed(folder, text=wiki_dump.LISTED):
    path = folder / "categories.txt"
    path.write_text(text)
    return path


def read(path, categories):
    reader = Reader(path, Categories.of_file(categories))
    return list(reader.articles()), reader


@pytest.fixture(scope="module")
def made():
    return wiki_dump.make()


@pytest.mark.parametrize("kind", ["plain", "one stream", "many streams"])
def test_articles_have_the_first_listed_of_their_categories(tmp_path, made, kind):
    text, wanted, skipped = made
    data = text.encode()
    if kind == "plain":
        path = tmp_path / "wiki.xml"
        path.write_bytes(data)
    else:
        path = tmp_path / "wiki.xml.bz2"
        cuts = [0, len(data)] if kind == "one stream" else [*range(0, len(data), 40_000), len(data)]
        path.write_bytes(b"".join(bz2.compress(data[a:b]) for a, b in itertools.pairwise(cuts)))
    dump.check(path)
    articles, reader = read(path, listed(tmp_path))
    names = dict(zip(wiki_dump.LABELS, ("Towns, north of it", "south", "Far West & beyond"), strict=True))
    assert [(article.label, article.title) for article in articles] == [
        (names[label], title) for label, title, _ in wanted
    ]
    # The words, without the links that name the class; of a page's history only the last revision.
    for article, (_, _, words) in zip(articles, wanted, strict=True):
        assert re.findall(r"\w+", article.text.lower()) == words
    assert len(articles) > 300
    assert {reason: count for reason, count in reader.skipped.items() if count} == skipped
    assert reader.pages == 600 == len(articles) + sum(skipped.values())


@given(st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=200).filter(lambda t: "[" not in t))
def test_any_text_comes_as_it_was(tmp_path_factory, text):
    folder = tmp_path_factory.mktemp("dump")
    path = folder / "wiki.xml"
    article = wiki_dump.page("T", f"x{text}[[Category:South]]")
    path.write_text(f"{wiki_dump.HEAD}{article}</mediawiki>", encoding="utf-8")
    articles, _ = read(path, listed(folder))
    assert [article.text for article in articles] == [html.unescape(f"x{text} ")]


def test_names_match_as_whole_words():
    categories = Categories(["Ireland", "Republic of Ireland", "Oman", "Niger"])
    assert categories.label(["Cities in the Republic_of_Ireland"]) == "Republic of Ireland"
    assert categories.label(["Nigerian people", "Roman roads"]) is None
    assert categories.label(["Things", "niger river", "Oman"]) == "Niger"
    with pytest.raises(UsageError, match="1 categories are too few"):
        Categories(["a", " a ", ""])


def peak_of(path, categories, articles):
    """Return the most memory that reading a dump of so many articles of 100 kB takes."""
    article = wiki_dump.page("T", "word " * 20_000 + "[[Category:South]]").encode()
    with bz2.open(path, "wb", compresslevel=1) as file:
        file.write(wiki_dump.HEAD.encode() + articles * article + b"</mediawiki>")
    reader = Reader(path, Categories.of_file(categories))
    tracemalloc.start()
    try:
        count = sum(1 for _ in reader.articles())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == articles
    return peak


def test_a_dump_is_never_whole_in_memory(tmp_path):
    path, categories = tmp_path / "wiki.xml.bz2", listed(tmp_path)
    assert peak_of(path, categories, 80) < 1.5 * peak_of(path, categories, 20)


def test_a_page_that_is_too_long_is_counted_and_not_held(tmp_path, monkeypatch):
    monkeypatch.setattr(dump, "MOST_CHARACTERS", 1000)
    path = tmp_path / "wiki.xml"
    pages = [wiki_dump.page("T", "word " * length + "[[Category:South]]") for length in (10, 300, 20)]
    path.write_text(f"{wiki_dump.HEAD}{''.join(pages)}</mediawiki>")
    articles, reader = read(path, listed(tmp_path))
    assert len(articles) == 2
    assert reader.skipped[dump.TOO_LONG] == 1


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("wiki.xml", b"<html></html>", "does not begin with <mediawiki>"),
        ("wiki.xml.bz2", b"<mediawiki>", "cannot be read: Invalid data stream"),
        ("wiki.xml.gz", b"<mediawiki>", "is neither a folder nor a dump"),
        ("wiki.7z", b"<mediawiki>", "is neither a folder nor a dump"),
    ],
)
def test_what_is_no_dump_is_refused_before_the_run(tmp_path, name, data, message):
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(UsageError, match=message):
        BayesBench.check_corpus({"corpus": str(path), "categories": ""})


def test_a_list_of_too_few_categories_is_refused(tmp_path, made):
    path = tmp_path / "wiki.xml"
    path.write_text(made[0])
    BayesBench.check_corpus({"corpus": str(path), "categories": ""})
    with pytest.raises(UsageError, match=r"categories=.*: 1 categories are too few"):
        BayesBench.check_corpus({"corpus": str(path), "categories": str(listed(tmp_path, "South\n"))})
    with pytest.raises(UsageError, match=r"categories=.*cannot be read"):
        BayesBench.check_corpus({"corpus": str(path), "categories": str(tmp_path / "none")})


@pytest.mark.parametrize("kind", ["cut off", "cut off packed", "damaged", "document type", "other root"])
def test_a_dump_that_cannot_be_read_to_its_end_is_named(tmp_path, made, kind):
    data = made[0].encode()
    path = tmp_path / ("wiki.xml.bz2" if "packed" in kind else "wiki.xml")
    written, message = {
        "cut off": (data[: len(data) // 2], r"cut off after \d\d\d pages: "),
        "cut off packed": (bz2.compress(data)[:-2000], r"cut off after \d+ pages: Compressed file ended"),
        "damaged": (data.replace(b"</title>", b"</tittle>", 300), r"after 0 pages: mismatched tag"),
        "document type": (b'<!DOCTYPE mediawiki [<!ENTITY a "b">]>' + data, "has a document type"),
        "other root": (b"<rss>" + data + b"</rss>", "it begins with <rss>"),
    }[kind]
    path.write_bytes(written)
    with pytest.raises(WorkloadFailedError, match=message):
        read(path, listed(tmp_path))
    # The driver gets the reason.
    pipe = io.BytesIO()
    feed(path, tmp_path / "categories.txt", pipe)
    number, length = struct.unpack(">ii", pipe.getvalue()[pipe.getvalue().rindex(b"\xff\xff\xff\xfe") :][:8])
    assert number == FAILED
    assert re.search(message, pipe.getvalue()[-length:].decode())


def test_the_feed_ends_with_what_the_dump_came_to(tmp_path, made):
    text, wanted, skipped = made
    path = tmp_path / "wiki.xml"
    path.write_text(text)
    pipe = io.BytesIO()
    feed(path, listed(tmp_path), pipe)
    pipe.seek(0)
    parts = []
    while (length := struct.unpack(">i", pipe.read(4))[0]) >= 0:
        parts.append(pipe.read(length).decode())
    assert length == END
    assert len(parts) == 3 * len(wanted)
    assert parts[1::3] == [title for _, title, _ in wanted]
    end = json.loads(pipe.read(struct.unpack(">i", pipe.read(4))[0]))
    assert end["pages"] == 600
    assert {reason: count for reason, count in end["skipped"].items() if count} == skipped
    assert pipe.read() == b""


# What a run says of it


FACTS = {
    "training_documents": 30,
    "held_out_documents": 50,
    "pages": 100,
    "skipped": {"redirects": 20, "pages without text": 0},
}


def test_what_is_skipped_is_reported():
    check = corpus_check(FACTS)
    assert check.level is Level.VALID
    assert check.claim == "80 of 100 documents of the corpus are classified; skipped: 20 redirects"


def test_a_page_shows_what_became_of_the_corpus(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "_running", lambda data, rounds: None)
    (tmp_path / "rounds.json").write_text(json.dumps({"rounds": [], "slots": 1, "data": FACTS}))
    *_, corpus = report.sections(SimpleNamespace(folder=tmp_path))
    rows = [[cell.text for cell in row] for row in corpus.tables[0].rows]
    assert rows[2][:2] == ["skipped: redirects", "20"]
    assert len(rows) == 4


def test_kept_texts_are_of_one_dump_and_one_list(tmp_path, made):
    path = tmp_path / "wiki.xml"
    path.write_text(made[0])
    settings = {"corpus": str(path), "categories": str(listed(tmp_path)), "data_seed": 1, "training": 0.2}
    first = BayesBench.data_name(settings)
    assert BayesBench.data_name(settings) == first
    listed(tmp_path, "a\nb\n")
    assert BayesBench.data_name(settings) != first
    assert BayesBench.data_bytes(settings) == path.stat().st_size
