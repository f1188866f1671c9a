"""The generated wiki: articles with their history, talk pages, templates, categories, a main page.

In: a seed and a number of articles. Out: pages in the order in which they are imported. The same seed and
number give the same pages; nothing is copied from anywhere.

Sizes: wikitext of an article has a log-normal size, median 3,000 bytes, sigma 1.1 (mean about 5,400), at
least 600 and at most 60,000 bytes, met to within a paragraph; one article in a hundred is long, 80 to 140 kB.
Revisions: 1 plus a log-normal number, median 2, sigma 1, at most 40; each is a longer beginning of the last
one. A link every 22 words to an article drawn by Zipf's law; a source in one sentence of six; six articles of
ten have an information box. Every article has a talk page.

Not here: words (``words``), the file that MediaWiki imports (``dump``).
"""

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

from steelyard.benchmarks.mediawiki.words import Words

VERSION = 1
"""Raise it with every change of what is generated: data prepared before is then made again."""
MEDIAN_BYTES, SIGMA = 3_000, 1.1
LEAST_BYTES, MOST_BYTES = 600, 60_000
ARTICLES_PER_LONG = 100
LONG_BYTES = (80_000, 140_000)
REVISIONS_MEDIAN, REVISIONS_SIGMA, REVISIONS_MOST = 2.0, 1.0, 40
WORDS_PER_LINK = 22
LINK_EXPONENT = 0.8
SOURCE_RATIO = 1 / 6
INFOBOX_RATIO = 0.6
NAVBOXES = 12
NAVBOX_LINKS = 24
CATEGORIES = 20
SECTION_SENTENCES = (8, 20)
PARAGRAPH_SENTENCES = 5
PARAGRAPH_BYTES = 640
"""About what one has, with its links and sources."""
EPOCH_S = 1_577_836_800
"""2020-01-01: when the wiki began. Pages are edited in the five years after it."""
SPAN_S = 5 * 365 * 86_400
DIGITS = "0123456789abcdefghijklmnopqrstuv"
MAIN_PAGE = "Front page"
MAIN_PAGE_TEXT = "Steelyard's generated wiki"
"""On the main page, and nowhere else: a check of the server looks for it."""


@dataclass(frozen=True, slots=True)
class Revision:
    """One edit of a page."""

    time_s: int
    user: str
    comment: str
    text: str


@dataclass(frozen=True, slots=True)
class Page:
    """A page with its history, oldest revision first."""

    title: str
    namespace: int
    revisions: tuple[Revision, ...]


def key_digits(articles: int) -> int:
    """Return how many digits of base 32 the numbers below ``articles`` take, as `steelyard-load` counts."""
    width = 1
    while (articles - 1) >> (5 * width) > 0:
        width += 1
    return width


def article_title(number: int, articles: int) -> str:
    """Return the title of an article: ``Article`` and its number as the load's ``{key}`` writes it.

    >>> article_title(33, 40)
    'Article 11'
    """
    digits = ""
    for _ in range(key_digits(articles)):
        digits = DIGITS[number % 32] + digits
        number //= 32
    return f"Article {digits}"


def long_articles(articles: int) -> int:
    """Return how many long articles there are beside ``articles`` ordinary ones."""
    return max(1, articles // ARTICLES_PER_LONG)


class Wiki:
    """The wiki of a seed with so many articles."""

    def __init__(self, seed: int, articles: int) -> None:
        self.seed = seed
        self.articles = articles
        self.words = Words(seed)
        self.users = [self.words.phrase(self._rng("user", at), 1, 1) for at in range(max(10, articles // 10))]
        self._titles = [article_title(number, articles) for number in range(articles)]
        self._popular = self._shuffled()
        self._weights = list(accumulate(1 / rank**LINK_EXPONENT for rank in range(1, articles + 1)))

    def _rng(self, *purpose: object) -> random.Random:
        """Return random numbers of their own for each page: one page's text does not depend on another's."""
        # Text, not secrets.
        return random.Random(f"{self.seed} {self.articles} {purpose}")  # noqa: S311

    def _shuffled(self) -> list[str]:
        titles = list(self._titles)
        self._rng("popular").shuffle(titles)
        return titles

    def pages(self) -> Iterator[Page]:
        """Yield every page, templates first."""
        yield from self._templates()
        yield from self._main_page()
        for number, title in enumerate(self._titles):
            yield self._article(title, self._size(self._rng("size", number)))
            yield self._talk(title)
        for number in range(1, long_articles(self.articles) + 1):
            yield self._article(f"Long article {number}", self._rng("long", number).randint(*LONG_BYTES))
            yield self._talk(f"Long article {number}")
        for number in range(CATEGORIES):
            rng = self._rng("category", number)
            yield self._page(f"Category:Topic {number}", 14, [self.words.sentences(rng, 3)], rng)

    @staticmethod
    def _size(rng: random.Random) -> int:
        size = round(MEDIAN_BYTES * math.exp(rng.gauss(0, SIGMA)))
        return min(MOST_BYTES, max(LEAST_BYTES, size))

    # Pages

    def _page(self, title: str, namespace: int, texts: list[str], rng: random.Random) -> Page:
        """Return a page whose revisions have ``texts``."""
        times = sorted(EPOCH_S + rng.randrange(SPAN_S) for _ in texts)
        revisions = tuple(
            Revision(time_s, rng.choice(self.users), self.words.phrase(rng, 1, 4), text)
            for time_s, text in zip(times, texts, strict=True)
        )
        return Page(title, namespace, revisions)

    def _article(self, title: str, size: int) -> Page:
        rng = self._rng("article", title)
        head = [self._infobox(rng, title)] if rng.random() < INFOBOX_RATIO else []
        tail = self._tail(rng)
        blocks = [*head, self._paragraph(rng, 2)]
        length = sum(map(len, [*blocks, tail]))
        # Half a paragraph too much here and too little there: the mean is the size asked for.
        while length < size - PARAGRAPH_BYTES / 2:
            block = self._section(rng, size - length)
            blocks.append(block)
            length += len(block)
        count = self._revision_count(rng)
        # Each revision has more of the blocks than the one before, and the last has all.
        shares = [*sorted(rng.uniform(0.3, 1.0) for _ in range(count - 1)), 1.0]
        texts = ["\n\n".join([*blocks[: max(1, round(share * len(blocks)))], tail]) for share in shares]
        return self._page(title, 0, texts, rng)

    @staticmethod
    def _revision_count(rng: random.Random) -> int:
        more = int(REVISIONS_MEDIAN * math.exp(rng.gauss(0, REVISIONS_SIGMA)))
        return min(REVISIONS_MOST, 1 + more)

    def _talk(self, title: str) -> Page:
        rng = self._rng("talk", title)
        threads: list[str] = []
        while not threads or rng.random() < 0.6:
            lines = [f"== {self.words.phrase(rng, 2, 5)} =="]
            for depth in range(rng.randint(1, 6)):
                user = rng.choice(self.users)
                signature = f"[[User:{user}|{user}]] ([[User talk:{user}|talk]])"
                lines.append(f"{':' * depth}{self.words.sentences(rng, rng.randint(1, 4))} {signature}")
            threads.append("\n".join(lines))
        texts = ["\n\n".join(threads[: at + 1]) for at in range(len(threads))]
        return self._page(f"Talk:{title}", 1, texts, rng)

    def _main_page(self) -> Iterator[Page]:
        rng = self._rng("main")
        shown = rng.sample(self._titles, min(30, self.articles))
        lists = "\n".join(f"* [[{title}]]: {self.words.sentences(rng, 1)}" for title in shown)
        parts = [
            f"'''{MAIN_PAGE_TEXT}''' has {self.articles} articles.",
            *(f"== {self.words.phrase(rng, 1, 3)} ==\n{self._paragraph(rng)}" for _ in range(4)),
            f"== {self.words.phrase(rng, 1, 3)} ==\n{lists}",
            "{{Navbox 0}}",
        ]
        yield self._page(MAIN_PAGE, 0, ["\n\n".join(parts)], rng)
        # The page "Main Page" is written by the installer, later than any of ours.
        yield self._page("MediaWiki:Mainpage", 8, [MAIN_PAGE], rng)

    def _templates(self) -> Iterator[Page]:
        rng = self._rng("templates")
        rows = "".join(
            f"{{{{#if:{{{{{{field{at}|}}}}}}|<tr><th>{self.words.phrase(rng, 1, 2)}</th>"
            f"<td>{{{{{{field{at}}}}}}}</td></tr>}}}}"
            for at in range(8)
        )
        infobox = f'<table class="infobox"><caption>{{{{{{name|}}}}}}</caption>{rows}</table>'
        cite = (
            "{{#if:{{{author|}}}|{{{author}}}. }}''{{{title}}}''{{#if:{{{publisher|}}}|, {{{publisher}}}}}"
            "{{#if:{{{year|}}}| ({{{year}}})}}{{#if:{{{page|}}}|, p. {{{page}}}}}."
        )
        yield self._page("Template:Infobox", 10, [infobox], rng)
        yield self._page("Template:Cite", 10, [cite], rng)
        for number in range(NAVBOXES):
            links = " &middot; ".join(f"[[{title}]]" for title in self._links(rng, NAVBOX_LINKS))
            text = f'{{| class="navbox"\n! {self.words.phrase(rng, 1, 2)}\n|-\n| {links}\n|}}'
            yield self._page(f"Template:Navbox {number}", 10, [text], rng)

    # Parts of an article

    def _links(self, rng: random.Random, count: int) -> list[str]:
        return rng.choices(self._popular, cum_weights=self._weights, k=count)

    def _infobox(self, rng: random.Random, title: str) -> str:
        fields = "\n".join(f"| field{at} = {self.words.phrase(rng, 1, 4)}" for at in range(rng.randint(3, 8)))
        return f"{{{{Infobox\n| name = {title}\n{fields}\n}}}}"

    def _tail(self, rng: random.Random) -> str:
        topics = rng.sample(range(CATEGORIES), rng.randint(1, 4))
        categories = "\n".join(f"[[Category:Topic {topic}]]" for topic in topics)
        return f"== Sources ==\n<references />\n{{{{Navbox {rng.randrange(NAVBOXES)}}}}}\n{categories}"

    def _section(self, rng: random.Random, most_bytes: int) -> str:
        level = "=" * (2 if rng.random() < 0.7 else 3)
        title = f"{level} {self.words.phrase(rng, 1, 4)} {level}"
        sentences = rng.randint(*SECTION_SENTENCES)
        parts = [title]
        while sentences > 0 and (len(parts) == 1 or sum(map(len, parts)) < most_bytes - PARAGRAPH_BYTES / 2):
            parts.append(self._paragraph(rng))
            sentences -= PARAGRAPH_SENTENCES
        # Where there is room for it.
        kind = rng.random() if most_bytes > 2 * PARAGRAPH_BYTES else 1.0
        if kind < 0.15:
            parts.append("\n".join(f"* {' '.join(self._linked(rng))}" for _ in range(rng.randint(3, 8))))
        elif kind < 0.25:
            parts.append(self._table(rng))
        return "\n\n".join(parts)

    def _table(self, rng: random.Random) -> str:
        columns = rng.randint(3, 5)
        head = " !! ".join(self.words.phrase(rng, 1, 1) for _ in range(columns))
        rows = "".join(
            f"\n|-\n| {self.words.phrase(rng, 1, 2)} || "
            + " || ".join(str(rng.randint(1, 99_999)) for _ in range(columns - 1))
            for _ in range(rng.randint(4, 12))
        )
        return f'{{| class="wikitable"\n! {head}{rows}\n|}}'

    def _paragraph(self, rng: random.Random, count: int = PARAGRAPH_SENTENCES) -> str:
        sentences = []
        for _ in range(count):
            sentence = " ".join(self._linked(rng))
            sentences.append(sentence + (self._source(rng) if rng.random() < SOURCE_RATIO else ""))
        return " ".join(sentences)

    def _linked(self, rng: random.Random) -> list[str]:
        """Return a sentence in which some words are links."""
        words = self.words.sentence(rng)
        for at, word in enumerate(words[:-1]):
            if rng.random() < 1 / WORDS_PER_LINK:
                words[at] = f"[[{self._links(rng, 1)[0]}|{word.strip(',')}]]"
        return words

    def _source(self, rng: random.Random) -> str:
        author, publisher = self.words.phrase(rng, 2, 2), self.words.phrase(rng, 1, 2)
        title, year, page = self.words.phrase(rng, 3, 7), rng.randint(1900, 2019), rng.randint(1, 900)
        fields = f"author={author}|title={title}|publisher={publisher}|year={year}|page={page}"
        return f"<ref>{{{{Cite|{fields}}}}}</ref>"
