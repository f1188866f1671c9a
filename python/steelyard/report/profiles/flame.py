"""Flame graphs and icicles, of one profile or of the difference of two, as a piece of a page.

In: profiles. Out: HTML that needs nothing else: its style, its data and its script are in it. Names from
outside are in it as JSON whose ``<`` cannot end a script, and reach the page as text only.

Invariants: a box's width is its count; boxes that are too narrow are merged into marked boxes, and the
caption says what share of the samples that is.

Not here: the tree (``flame_tree``), tables of functions, the page around it (``page``).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from steelyard.analyze.profiles.profile import SAMPLES, Profile
from steelyard.analyze.profiles.tax_rules import Rules, shipped_rules
from steelyard.report.assets import Assets, InPage
from steelyard.report.embedding import embed
from steelyard.report.profiles.flame_tree import Tree, grow

_NAME_LENGTH = 500


def flame_html(
    profile: Profile,
    title: str,
    *,
    assets: Assets | None = None,
    identifier: str = "flame",
    rules: Rules | None = None,
) -> str:
    """Return the flame graph of ``profile``, without idle processors.

    ``assets`` are the page's; without them it stands alone. ``identifier`` sets several on one page apart.
    """
    rules = rules or shipped_rules()
    return _fragment(grow([profile], rules), [profile], title, assets, identifier, rules, None)


def diff_flame_html(
    a: Profile,
    b: Profile,
    title: str,
    *,
    names: tuple[str, str] = ("A", "B"),
    assets: Assets | None = None,
    identifier: str = "flame-diff",
    rules: Rules | None = None,
    functions: Collection[str] | None = None,
    is_judged: bool = True,
) -> str:
    """Return the differential flame graph: widths of B (or A), colours by the change of the share from A to
    B.

    A box whose change may be noise has no colour: Fisher's exact test, corrected over all boxes by Holm. That
    test takes samples for independent, so that of a comparison that knows better only the boxes of
    ``functions`` with a change have one; none when there is no such function, or nothing is judged.
    """
    rules = rules or shipped_rules()
    tree = grow([a, b], rules)
    if not is_judged or any(profile.unit != SAMPLES for profile in (a, b)):
        tree = replace(tree, changed=None)
    elif functions is not None and tree.changed is not None:
        tree = replace(tree, changed=tree.changed & _of_functions(tree, functions))
    return _fragment(tree, [a, b], title, assets, identifier, rules, names)


def _of_functions(tree: Tree, functions: Collection[str]) -> NDArray[np.bool_]:
    """Return which boxes are of these functions; of commands all, when there is any function."""
    wanted = np.array(
        [
            bool(functions)
            and (
                name.category == "command"
                or name.text in functions
                or f"{name.text} [{name.module}]" in functions
            )
            for name in tree.names
        ],
        dtype=bool,
    )
    is_wanted: NDArray[np.bool_] = (tree.name >= 0) & wanted[tree.name]
    return is_wanted


def data_of(
    tree: Tree,
    rules: Rules,
    unit: str,
    names: tuple[str, str] | None = None,
    scales: Sequence[int] = (1, 1),
) -> dict[str, Any]:
    """Return what the script draws; counts of each side are in parts of 1/scale."""
    used = np.unique(tree.name[tree.name >= 0])
    place = {int(number): at for at, number in enumerate(used)}
    titles = {category.id: category.title for category in rules.categories}
    document: dict[str, Any] = {
        "unit": unit,
        "scales": list(scales),
        "totals": list(tree.totals),
        "names": [
            [tree.names[n].text[:_NAME_LENGTH], tree.names[n].module[:_NAME_LENGTH], tree.names[n].category]
            for n in used.tolist()
        ],
        "titles": titles,
        "parent": tree.parent.tolist(),
        "name": [place.get(number, -1) for number in tree.name.tolist()],
        "merged": {str(at): int(tree.merged[at]) for at in np.flatnonzero(tree.merged).tolist()},
        "samples": [column.tolist() for column in tree.samples.T],
    }
    if names is not None:
        document["sides"] = list(names)
        document["changed"] = None if tree.changed is None else np.flatnonzero(tree.changed).tolist()
    return document


def notes_of(tree: Tree, profiles: list[Profile]) -> list[str]:
    """Return notes on the boxes and samples that the graph leaves out."""
    notes = []
    if tree.merged_boxes:
        notes.append(
            f"{tree.merged_boxes:,} boxes narrower than {tree.narrowest_ratio:.3%} are merged into boxes"
            f" marked"
            f" … without their callees; {tree.merged_ratio:.1%} of the samples end there."
        )
    idle = [int(profile.counts[profile.idle].sum()) for profile in profiles]
    if any(idle):
        share = " and ".join(
            f"{i / max(1, profile.total):.1%}" for i, profile in zip(idle, profiles, strict=True)
        )
        notes.append(f"Idle processors ({share} of all samples) are left out.")
    return notes


def _fragment(
    tree: Tree,
    profiles: list[Profile],
    title: str,
    assets: Assets | None,
    identifier: str,
    rules: Rules,
    names: tuple[str, str] | None,
) -> str:
    assets = assets or InPage()
    data = data_of(tree, rules, profiles[0].unit, names, scales=[profile.scale for profile in profiles])
    safe = Markup.escape
    notes = Markup("").join(Markup("<p>{}</p>").format(note) for note in notes_of(tree, profiles))
    sides = (
        Markup('<button type="button" class="flame-side" aria-pressed="true">Widths of {}</button>').format(
            names[1]
        )
        if names
        else Markup("")
    )
    return str(
        Markup(  # noqa: S704 - our own files; what comes from outside is escaped
            f"{assets.style('tax.css', 'flame.css')}"
            f'<figure class="flame" id="{safe(identifier)}" data-sides="{len(profiles)}">'
            f"<figcaption><h3>{safe(title)}</h3>{notes}</figcaption>"
            '<div class="flame-tools">'
            f'<label class="hidden" for="{safe(identifier)}-search">Search functions</label>'
            f'<input type="search" id="{safe(identifier)}-search" placeholder="Search functions (/)"'
            f' autocomplete="off" spellcheck="false">'
            '<output class="flame-found" aria-live="polite"></output>'
            f"{sides}"
            '<button type="button" class="flame-around" hidden>Callers and callees</button>'
            '<button type="button" class="flame-fold" aria-pressed="false" hidden>Fold deep stacks</button>'
            '<button type="button" class="flame-turn" aria-pressed="false">Icicle</button>'
            '<button type="button" class="flame-reset" hidden>Whole profile</button></div>'
            f'<div class="flame-view" tabindex="0" role="application" aria-label="{safe(title)}: flame'
            f" graph. Arrow keys move"
            " between boxes, Enter zooms, s shows callers and callees, Escape the whole, slash searches."
            '"></div>'
            '<p class="flame-detail" aria-live="polite"></p>'
            '<p class="flame-legend"></p>'
            '<noscript><p class="reason">The flame graph needs a script, which your browser does not run'
            " here.</p></noscript>"
            "</figure>"
            f'<script type="application/json" id="{safe(identifier)}-data">{embed(data)}</script>'
            f"{assets.script('flame.js', flame=identifier)}"
        )
    )
