"""Pages as the XML file that MediaWiki imports.

In: pages. Out: a file in MediaWiki's export format, version 0.11.

Not here: what the pages hold (``content``).
"""

import hashlib
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from xml.sax.saxutils import escape

from steelyard.benchmarks.mediawiki.content import Page, Revision

_HEAD = '<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11" xml:lang="en">\n'
_TAIL = "</mediawiki>\n"


def _revision(revision: Revision) -> str:
    time = datetime.fromtimestamp(revision.time_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return (
        f"<revision><timestamp>{time}</timestamp>"
        f"<contributor><username>{escape(revision.user)}</username></contributor>"
        f"<comment>{escape(revision.comment)}</comment><model>wikitext</model><format>text/x-wiki</format>"
        f'<text xml:space="preserve">{escape(revision.text)}</text></revision>\n'
    )


def page_xml(page: Page) -> str:
    """Return one page with its history."""
    revisions = "".join(map(_revision, page.revisions))
    return f"<page><title>{escape(page.title)}</title><ns>{page.namespace}</ns>\n{revisions}</page>\n"


def write_dump(pages: Iterable[Page], path: Path) -> str:
    """Write the file; return the SHA-256 of what it holds."""
    digest = hashlib.sha256()
    with path.open("wb") as file:
        for text in (_HEAD, *map(page_xml, pages), _TAIL):
            data = text.encode()
            digest.update(data)
            file.write(data)
    return digest.hexdigest()
