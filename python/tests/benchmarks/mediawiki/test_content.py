"""The generated wiki: the same from the same seed, of the stated sizes, without a link that leads nowhere."""

import math
import re
import statistics
from xml.etree import ElementTree

import pytest

from steelyard.benchmarks.mediawiki import content
from steelyard.benchmarks.mediawiki.content import ARTICLES_PER_LONG, Wiki, article_title, key_digits
from steelyard.benchmarks.mediawiki.dump import write_dump
from steelyard.benchmarks.mediawiki.words import VOCABULARY, Words

ARTICLES = 60


@pytest.fixture(scope="module")
def pages():
    return list(Wiki(7, ARTICLES).pages())


def text_of(pages):
    return {page.title: page.revisions[-1].text for page in pages}


def test_the_same_seed_gives_the_same_file_everywhere(tmp_path):
    # Prepared data is found by seed and size: a change of what is generated needs a new content.VERSION.
    assert content.VERSION == 1
    digest = write_dump(Wiki(1, 30).pages(), tmp_path / "a.xml")
    assert digest == "649e6591a9249a9d66adbe063c24f63b5d1334b85c300541d6b2fab5a6ab25bb"
    assert write_dump(Wiki(2, 30).pages(), tmp_path / "b.xml") != digest


def test_sizes_of_articles_are_log_normal():
    wiki = Wiki(3, 30)
    sizes = [wiki._size(wiki._rng("size", at)) for at in range(4000)]
    inside = [math.log(size / content.MEDIAN_BYTES) / content.SIGMA for size in sizes]
    # Quartiles of a normal distribution; each is known to about 0.02 here.
    assert statistics.quantiles(inside, n=4) == pytest.approx([-0.674, 0.0, 0.674], abs=0.08)
    assert min(sizes) == content.LEAST_BYTES
    assert max(sizes) <= content.MOST_BYTES


def test_articles_have_the_size_asked_for_to_within_a_paragraph(pages):
    wiki = Wiki(7, ARTICLES)
    texts = text_of(pages)
    missed = []
    for number in range(ARTICLES):
        wanted = wiki._size(wiki._rng("size", number))
        missed.append(len(texts[article_title(number, ARTICLES)]) - wanted)
    assert abs(statistics.mean(missed)) < content.PARAGRAPH_BYTES / 2
    assert max(map(abs, missed)) < 3 * content.PARAGRAPH_BYTES


def test_there_are_talk_pages_templates_history_and_long_articles(pages):
    titles = {page.title for page in pages}
    articles = [page for page in pages if page.namespace == 0 and page.title.startswith("Article ")]
    assert len(articles) == ARTICLES
    assert {f"Talk:{page.title}" for page in articles} <= titles
    assert "Long article 1" in titles
    low, high = content.LONG_BYTES
    assert low * 0.95 < len(text_of(pages)["Long article 1"]) < high * 1.05
    counts = [len(page.revisions) for page in articles]
    assert 1 in counts
    assert max(counts) <= content.REVISIONS_MOST
    assert 2 < statistics.mean(counts) < 7
    assert len(list(Wiki(7, 3 * ARTICLES_PER_LONG).pages())) > 6 * ARTICLES_PER_LONG


def test_history_grows_in_time_and_text(pages):
    for page in pages:
        times = [revision.time_s for revision in page.revisions]
        assert times == sorted(times)
        assert content.EPOCH_S <= times[0] <= times[-1] < content.EPOCH_S + content.SPAN_S
        if page.namespace < 2:
            sizes = [len(revision.text) for revision in page.revisions]
            assert sizes == sorted(sizes), page.title


def test_links_templates_and_categories_lead_to_pages(pages):
    titles = {page.title for page in pages}
    for title, text in text_of(pages).items():
        for link in re.findall(r"\[\[([^]|]+)", text):
            assert link in titles or link.startswith(("User:", "User talk:")), (title, link)
        for template in re.findall(r"\{\{([A-Z][^|}\n]*)", text):
            assert f"Template:{template.strip()}" in titles, (title, template)


def test_links_are_as_frequent_as_stated_and_some_articles_are_popular(pages):
    texts = [text for title, text in text_of(pages).items() if title.startswith("Article ")]
    running = [re.sub(r"<ref>.*?</ref>|\{\{.*?\}\}|\{\|.*?\|\}", "", text, flags=re.DOTALL) for text in texts]
    links = [link for text in running for link in re.findall(r"\[\[(Article [^]|]+)", text)]
    words = sum(len(text.split()) for text in running)
    assert words / len(links) == pytest.approx(content.WORDS_PER_LINK, rel=0.25)
    most = max(links.count(title) for title in set(links))
    assert most > 4 * len(links) / ARTICLES


def test_words_follow_zipfs_law_with_a_shift():
    words = Words(1)
    assert len(set(words.vocabulary)) == VOCABULARY
    assert all(word.isascii() and word.islower() for word in words.vocabulary)
    text = words.some(Wiki(1, 30)._rng("test"), 100_000)
    counts = [text.count(words.vocabulary[rank - 1]) for rank in (1, 10, 100)]
    shift = 2.7
    for rank, count in zip((10, 100), counts[1:], strict=True):
        assert count / counts[0] == pytest.approx((1 + shift) / (rank + shift), rel=0.3)


@pytest.mark.parametrize("articles", [1, 32, 33, 1024, 1025])
def test_titles_have_as_many_digits_as_tell_articles_apart(articles):
    titles = [article_title(number, articles) for number in range(articles)]
    assert len(set(titles)) == articles
    assert {len(title) for title in titles} == {len("Article ") + key_digits(articles)}
    assert titles == sorted(titles)


def test_the_file_holds_every_page_and_revision(pages, tmp_path):
    write_dump(pages, tmp_path / "dump.xml")
    space = "{http://www.mediawiki.org/xml/export-0.11/}"
    root = ElementTree.parse(tmp_path / "dump.xml").getroot()
    found = root.findall(f"{space}page")
    assert [page.findtext(f"{space}title") for page in found] == [page.title for page in pages]
    for element, page in zip(found, pages, strict=True):
        texts = [revision.findtext(f"{space}text") for revision in element.findall(f"{space}revision")]
        assert texts == [revision.text for revision in page.revisions]
        assert element.findtext(f"{space}ns") == str(page.namespace)
