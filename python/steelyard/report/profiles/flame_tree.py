"""The tree that a flame graph draws: what called what, with the samples under each call.

In: one profile, or two to be held against each other. Out: `Tree`, a bounded number of boxes.

Invariants: boxes that are too narrow are merged, with their siblings of the same parent, into one that says
how many; the widths of a box's children never exceed its own; the work per level is done in arrays, so that
100,000 stacks take a second.

Not here: drawing (``flame``), shares of functions (``analyze.profiles.profile``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steelyard.analyze.profiles.diff import ALPHA, fisher, judge, smallest_p
from steelyard.analyze.profiles.profile import Frame, Ids, Profile
from steelyard.analyze.profiles.tax_map import Classifier
from steelyard.analyze.profiles.tax_rules import Rules, shipped_rules

Floats = NDArray[np.float64]
BOXES = 12_000
"""Boxes drawn at most: what a browser lays out without a pause."""
_NARROWEST = 1 / 20_000
MERGED = -1
"""The name of a box that stands for several too narrow ones."""


@dataclass(frozen=True)
class Name:
    """A function, a command, or the root."""

    text: str
    module: str
    category: str
    """Category of the tax map by which it is coloured; empty where only its caller has one."""


@dataclass(frozen=True)
class Tree:
    """Boxes, parents before children; box 0 is the root.

    ``samples[i, k]`` are those of profile k under box i; ``merged[i]`` how many boxes a merged one stands
    for.
    """

    names: tuple[Name, ...]
    parent: Ids
    name: Ids
    samples: Ids
    merged: Ids
    totals: tuple[int, ...]
    changed: NDArray[np.bool_] | None
    """Which boxes changed between two profiles by more than noise; None where that was not judged."""
    merged_boxes: int
    """Boxes that were too narrow, not counting what was above them."""
    merged_ratio: float
    """Share of all samples that end in merged boxes, of the profile where it is larger."""
    narrowest_ratio: float
    """Share below which boxes were merged."""


@dataclass(frozen=True)
class _Stacks:
    """The stacks of all profiles one after another, with names that mean the same in each."""

    names: tuple[Name, ...]
    entries: Ids
    starts: Ids
    side: Ids
    counts: Ids


def _stacks(profiles: Sequence[Profile], rules: Rules) -> _Stacks:
    numbers: dict[tuple[bool, str], int] = {}
    names: list[Name] = []
    entries: list[Ids] = []
    starts, side, counts = [np.zeros(1, dtype=np.int64)], [], []
    offset = 0
    for index, profile in enumerate(profiles):
        classifier = Classifier(profile, rules)

        def number(key: tuple[bool, str], name: Name) -> int:
            position = numbers.setdefault(key, len(names))
            if position == len(names):
                names.append(name)
            return position

        commands = np.array(
            [number((True, text), Name(text, "", "command")) for text in profile.commands], dtype=np.int64
        )
        frames = np.array(
            [
                number((False, frame.key), _name(frame, classifier.category_of_frame(at)))
                for at, frame in enumerate(profile.frames)
            ],
            dtype=np.int64,
        )
        lengths = np.diff(profile.starts)
        # A command stands before the frames of each of its stacks.
        places = profile.starts + np.arange(len(profile.starts))
        flat = np.empty(int(places[-1]), dtype=np.int64)
        is_command = np.zeros(len(flat), dtype=bool)
        is_command[places[:-1]] = True
        flat[is_command] = commands[profile.command_of]
        flat[~is_command] = frames[profile.entries] if len(profile.entries) else []
        entries.append(flat)
        starts.append(offset + np.cumsum(lengths + 1))
        offset += len(flat)
        side.append(np.full(len(profile.counts), index, dtype=np.int64))
        counts.append(profile.counts)
    return _Stacks(
        tuple(names),
        np.concatenate(entries),
        np.concatenate(starts),
        np.concatenate(side),
        np.concatenate(counts),
    )


def _name(frame: Frame, category: str) -> Name:
    key = frame.key
    suffix = f" [{frame.module}]"
    return Name(key.removesuffix(suffix) if frame.module else key, frame.module or "", category)


def grow(profiles: Sequence[Profile], rules: Rules | None = None, *, boxes: int = BOXES) -> Tree:
    """Return the tree of one profile or of two, with at most about ``boxes`` boxes; idle processors are left
    out.
    """
    profiles = [profile.busy() for profile in profiles]
    stacks = _stacks(profiles, rules or shipped_rules())
    totals = tuple(profile.total for profile in profiles)
    narrowest = _NARROWEST
    while True:
        tree = _grow(stacks, totals, narrowest)
        if len(tree.parent) <= boxes or narrowest >= 0.5:
            return tree
        # The widest boxes stay: a box is never wider than its parent, so that they form a tree of their own.
        shares = np.sort((tree.samples / np.maximum(1, totals)).max(axis=1))[::-1]
        narrowest = max(narrowest * 1.5, float(shares[boxes // 2]))


def _grow(stacks: _Stacks, totals: tuple[int, ...], narrowest: float) -> Tree:
    sides, sizes = len(totals), np.maximum(1, np.array(totals, dtype=np.float64))
    parents, names, merged = [np.full(1, -1)], [np.zeros(1, dtype=np.int64)], [np.zeros(1, dtype=np.int64)]
    samples = [np.array([totals], dtype=np.int64)]
    active = np.arange(len(stacks.counts))
    node = np.zeros(len(active), dtype=np.int64)
    boxes, depth, merged_boxes = 1, 0, 0
    ended = np.zeros(sides)
    lengths = np.diff(stacks.starts)
    while len(active):
        going = lengths[active] > depth
        active, node = active[going], node[going]
        if not len(active):
            break
        label = stacks.entries[stacks.starts[active] + depth]
        groups, of = np.unique(node * len(stacks.names) + label, return_inverse=True)
        weight = np.zeros((len(groups), sides), dtype=np.int64)
        np.add.at(weight, (of, stacks.side[active]), stacks.counts[active])
        wide = (weight / sizes).max(axis=1) >= narrowest
        above = groups // len(stacks.names)
        kept = np.flatnonzero(wide)
        number = np.full(len(groups), -1, dtype=np.int64)
        number[kept] = boxes + np.arange(len(kept))
        parents.append(above[kept])
        names.append(groups[kept] % len(stacks.names))
        merged.append(np.zeros(len(kept), dtype=np.int64))
        samples.append(weight[kept])
        boxes += len(kept)
        if not wide.all():
            lost = above[~wide]
            where, which = np.unique(lost, return_inverse=True)
            together = np.zeros((len(where), sides), dtype=np.int64)
            np.add.at(together, which, weight[~wide])
            ended += together.sum(axis=0)
            merged_boxes += len(lost)
            parents.append(where)
            names.append(np.full(len(where), MERGED))
            merged.append(np.bincount(which))
            samples.append(together)
            boxes += len(where)
        on = wide[of]
        active, node = active[on], number[of[on]]
        depth += 1
    all_samples = np.concatenate(samples)
    return Tree(
        stacks.names,
        np.concatenate(parents),
        np.concatenate(names),
        all_samples,
        np.concatenate(merged),
        totals,
        _changed(all_samples, totals),
        merged_boxes,
        float((ended / sizes).max()),
        narrowest,
    )


def _changed(samples: Ids, totals: tuple[int, ...]) -> NDArray[np.bool_] | None:
    if len(totals) != 2 or not all(totals):
        return None
    a, b = samples[:, 0], samples[:, 1]
    return judge(fisher(a, totals[0], b, totals[1]), smallest_p(a + b, *totals), ALPHA)
