"""A dump of MediaWiki, such as Wikipedia's, as texts with classes.

In: a dump (``.xml``, or ``.xml.bz2`` of one or many streams, for parallel decompression or not), and names of
categories. Out: one text after the other, and how many pages were skipped for which reason.

The class of an article is the first of its categories that holds a name of the list as whole words, as in
Mahout's example; of several names in it the one that stands first. Links to categories are taken out of the
text, which would otherwise name its class.

Invariants: memory does not grow with the dump: what is held is a block of the file, and the revision that is
read. Every page is either a text or counted as skipped. Not here: how texts get to the jobs (``feed``).
"""

import bz2
import html
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, cast
from xml.parsers import expat

from steelyard._base import UsageError, WorkloadFailedError

SUFFIXES = (".xml", ".xml.bz2")
BLOCK_BYTES = 1 << 20
MOST_CHARACTERS = 16 << 20
"""Of a revision; MediaWiki itself takes 2 MiB at most."""
PEEK_BYTES = 4096
LEAST_CATEGORIES = 2
_CATEGORY_NAMESPACE = "14"
_REASONS = (NAMESPACE, REDIRECT, EMPTY, TOO_LONG, UNLISTED) = (
    "pages of other namespaces",
    "redirects",
    "pages without text",
    f"pages longer than {MOST_CHARACTERS >> 20} million characters",
    "articles of no listed category",
)
"""Why a page is no text, in the order in which that is asked."""


@dataclass(frozen=True, slots=True)
class Article:
    """An article with a class."""

    label: str
    title: str
    text: str


@dataclass(slots=True)
class _Page:
    """A page while it is read."""

    title: str = ""
    namespace: str | None = None
    is_redirect: bool = False
    text: list[str] = field(default_factory=list)
    """Of the last revision so far."""
    characters: int = 0


class Categories:
    """Names of categories, which are the classes."""

    def __init__(self, names: Iterable[str]) -> None:
        """Raise UsageError for fewer than two."""
        self.names = tuple(dict.fromkeys(name for line in names if (name := _words(line))))
        if len(self.names) < LEAST_CATEGORIES:
            raise UsageError(f"{len(self.names)} categories are too few: texts are classified among several")
        self._of = {name.casefold(): name for name in self.names}
        longest_first = sorted(self._of, key=len, reverse=True)
        self._pattern = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)")

    @classmethod
    def of_file(cls, path: Path) -> "Categories":
        """Return the names in a file, one a line; ``#`` begins a comment. Raises UsageError for a bad one."""
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, ValueError) as error:
            raise UsageError(f"categories={path}: cannot be read: {error}") from error
        try:
            return cls(line.partition("#")[0] for line in lines)
        except UsageError as error:
            raise UsageError(f"categories={path}: {error.message}") from error

    def label(self, categories: Iterable[str]) -> str | None:
        """Return the class of an article in ``categories``.

        >>> Categories(["France", "Ireland"]).label(["1990 births", "Towns_in  Ireland"])
        'Ireland'
        """
        for category in categories:
            found = self._pattern.search(_words(category).casefold())
            if found:
                return self._of[found[0]]
        return None


def _words(text: str) -> str:
    return " ".join(text.replace("_", " ").split())


class Reader:
    """Reads a dump once."""

    def __init__(self, path: Path, categories: Categories) -> None:
        self.path = path
        self.pages = 0
        self.skipped: Counter[str] = Counter(dict.fromkeys(_REASONS, 0))
        self._categories = categories
        self._category_names = ["category"]
        self._links = self._pattern()
        self._stack: list[str] = []
        self._page = _Page()
        self._namespace_key: str | None = None
        self._done: list[Article] = []
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartDoctypeDeclHandler = self._refuse
        self._parser.StartElementHandler = self._begin
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._characters

    def articles(self) -> Iterator[Article]:
        """Return the articles with a class. Raises WorkloadFailedError for a damaged dump."""
        try:
            with opened(self.path) as file:
                while block := file.read(BLOCK_BYTES):
                    self._parser.Parse(block, False)
                    yield from self._taken()
                self._parser.Parse(b"", True)
                yield from self._taken()
        except (OSError, EOFError, expat.ExpatError) as error:
            raise WorkloadFailedError(
                f"{self.path}: is damaged or cut off after {self.pages} pages: {error}"
            ) from error

    def _taken(self) -> list[Article]:
        taken, self._done = self._done, []
        return taken

    def _pattern(self) -> re.Pattern[str]:
        names = "|".join(re.escape(name).replace("\\ ", "[ _]+") for name in self._category_names)
        return re.compile(rf"\[\[\s*(?:{names})\s*:([^\[\]|\n]*)[^\[\]\n]*\]\]", re.IGNORECASE)

    def _refuse(self, *_: object) -> None:
        raise WorkloadFailedError(f"{self.path}: has a document type, which no dump of MediaWiki has")

    def _begin(self, name: str, attributes: dict[str, str]) -> None:
        if not self._stack and name != "mediawiki":
            raise WorkloadFailedError(f"{self.path}: is no dump of MediaWiki: it begins with <{name}>")
        self._stack.append(name)
        if name == "page":
            self._page = _Page()
        elif name == "redirect":
            self._page.is_redirect = True
        elif name == "text":
            # A later revision replaces the one before.
            self._page.text, self._page.characters = [], 0
        elif name == "namespace":
            self._namespace_key = attributes.get("key")

    def _end(self, name: str) -> None:
        self._stack.pop()
        if name == "page":
            self._close(self._page)
            self._page = _Page()
        elif name == "namespaces":
            self._links = self._pattern()

    def _characters(self, text: str) -> None:
        match self._stack[1:]:
            case ["page", "title"]:
                self._page.title += text
            case ["page", "ns"]:
                self._page.namespace = (self._page.namespace or "") + text.strip()
            case ["page", "revision", "text"]:
                self._page.characters += len(text)
                if self._page.characters > MOST_CHARACTERS:
                    self._page.text.clear()
                else:
                    self._page.text.append(text)
            case ["siteinfo", "namespaces", "namespace"] if self._namespace_key == _CATEGORY_NAMESPACE:
                self._category_names.append(text)

    def _close(self, page: _Page) -> None:
        """Take a page that is complete."""
        self.pages += 1
        text = "".join(page.text)
        reason = None
        if page.namespace not in (None, "0"):
            reason = NAMESPACE
        elif page.is_redirect or text[:9].upper() == "#REDIRECT":
            reason = REDIRECT
        elif page.characters > MOST_CHARACTERS:
            reason = TOO_LONG
        elif not text.strip():
            reason = EMPTY
        if reason is None:
            label = self._categories.label(match[1] for match in self._links.finditer(text))
            if label is not None:
                plain = html.unescape(self._links.sub(" ", text))
                self._done.append(Article(label, page.title, plain))
                return
            reason = UNLISTED
        self.skipped[reason] += 1


def opened(path: Path) -> BinaryIO:
    """Return the XML of a dump. Raises OSError where it cannot be opened."""
    return cast("BinaryIO", bz2.open(path, "rb")) if path.suffix == ".bz2" else path.open("rb")


def check(path: Path) -> None:
    """Raise UsageError for a file that is no dump of MediaWiki."""
    if not path.name.endswith(SUFFIXES):
        raise UsageError(
            f"corpus={path}: is neither a folder nor a dump of MediaWiki ({', '.join(SUFFIXES)})",
            hint="other compressions: unpack it, or pack it with bzip2",
        )
    try:
        with opened(path) as file:
            beginning = file.read(PEEK_BYTES)
    except (OSError, EOFError) as error:
        raise UsageError(f"corpus={path}: cannot be read: {error}") from error
    if b"<mediawiki" not in beginning:
        raise UsageError(f"corpus={path}: is no dump of MediaWiki: it does not begin with <mediawiki>")
