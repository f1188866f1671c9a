"""A made-up dump of MediaWiki of a seed: articles of three categories, and what else real ones have."""

import random
from collections import Counter
from xml.sax.saxutils import escape

from steelyard.benchmarks.bayes import dump

HEAD = (
    '<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11" xml:lang="de">\n'
    "<siteinfo><sitename>Wiki &amp; Co</sitename><namespaces>\n"
    '<namespace key="0" case="first-letter" /><namespace key="1" case="first-letter">Diskussion</namespace>\n'
    '<namespace key="14" case="first-letter">Kategorie</namespace></namespaces></siteinfo>\n'
)
LABELS = ("north", "south", "west")
CATEGORIES = {"north": "Towns, north of it", "south": "South", "west": "Far West & beyond"}
"""Of an article of each class; the last two are named otherwise in the list."""
LISTED = "# made up\nTowns, north of it\nsouth  # a comment\nFar West & beyond\n"
VOCABULARY = [f"{first}{second}{third}" for first in "bdgk" for second in "aeiou" for third in "lmnrst"]


def revision(text):
    return (
        "<revision><timestamp>2024-01-01T00:00:00Z</timestamp><comment>a text &lt;ref&gt;</comment>"
        f'<model>wikitext</model><text bytes="{len(text)}" xml:space="preserve">{escape(text)}</text>'
        "</revision>"
    )


def page(title, text, *, namespace=0, redirect="", history=()):
    element = f'<redirect title="{escape(redirect)}" />' if redirect else ""
    revisions = "".join(map(revision, (*history, text)))
    return f"<page><title>{escape(title)}</title><ns>{namespace}</ns><id>1</id>{element}{revisions}</page>\n"


def make(pages=600, seed=5):
    """Return the dump as text, (class, title, words) of each article with a class, counts of the others."""
    rng = random.Random(seed)
    parts, articles, skipped = [HEAD], [], Counter()
    for number in range(pages):
        title = f"Page “{number}” & <more>"
        words = [rng.choice(VOCABULARY) for _ in range(rng.randint(5, 40))]
        at = rng.randrange(len(LABELS))
        own = VOCABULARY[at * 25 : at * 25 + 60]
        words = [rng.choice(own) if rng.random() < 0.35 else word for word in words]
        prose = " ".join(words).capitalize() + "."
        link = f"[[{rng.choice(['Category', 'Kategorie', 'category'])}:{CATEGORIES[LABELS[at]]}|{number}]]"
        kind = rng.random()
        if kind < 0.1:
            parts.append(page(title, "#REDIRECT [[Elsewhere]]", redirect="Elsewhere"))
            skipped[dump.REDIRECT] += 1
        elif kind < 0.2:
            parts.append(page(f"Diskussion:{title}", f"{prose} {link}", namespace=1))
            skipped[dump.NAMESPACE] += 1
        elif kind < 0.3:
            parts.append(page(title, f"{prose} [[Kategorie:Southern things]]"))
            skipped[dump.UNLISTED] += 1
        elif kind < 0.33:
            parts.append(page(title, ""))
            skipped[dump.EMPTY] += 1
        else:
            before = (f"{prose} [[Category:{CATEGORIES['south']}]] older",) if kind < 0.4 else ()
            text = f"{prose}\n\n[[Category:Towns of no list]]\n{link.replace(' ', '_', 1)}"
            parts.append(page(title, text, history=before))
            articles.append((LABELS[at], title, words))
    return "".join(parts) + "</mediawiki>\n", articles, skipped
