"""A load that other hosts make: which they are, and whether the link to them was the limit.

In: a run, and what its interfaces moved. Out: names of hosts, and a `Check`.

Not here: making the load (``bench.load.hosts``), other interfaces' trouble (``rules.load``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from steelyard.records import Check, Level, Run

if TYPE_CHECKING:
    from steelyard.analyze.conditions import NetworkUse

LINK = "link"
HERE = "localhost"
LINK_RATIOS = (0.7, 0.9)
"""Share of the line rate from which bursts saturate a link, and from which it is the limit."""


def load_hosts(run: Run) -> tuple[str, ...]:
    """Return the hosts other than this machine that made a run's load; empty where it was made here."""
    hosts = run.parameters.get("hosts")
    named = str(hosts.value).split() if hosts is not None and hosts.value else []
    return tuple(host for host in named if host != HERE)


def link_check(cards: Sequence[NetworkUse], hosts: Sequence[str]) -> Check:
    """Return whether the link to ``hosts`` limited the result: the busiest interface over its line rate."""

    def moved(card: NetworkUse) -> float:
        return max(card.received_bytes_per_s.value or 0.0, card.sent_bytes_per_s.value or 0.0)

    others = [card for card in cards if card.interface != "lo"]
    card = max(others, key=moved, default=None)
    to = f"the link to {', '.join(hosts[:3])}{' and others' if len(hosts) > 3 else ''}"
    if card is None or card.line_ratio.value is None:
        why = "no interface was recorded" if card is None else f"{card.interface}: {card.line_ratio.missing}"
        claim = f"{to} was not held against its line rate ({why}): it may be the limit"
        return Check(id=LINK, level=Level.SUSPECT, claim=claim, unit="ratio")
    ratio = card.line_ratio.value
    suspect, invalid = LINK_RATIOS
    level = Level.VALID if ratio < suspect else Level.SUSPECT if ratio < invalid else Level.INVALID
    claim = f"{to} ({card.interface}) carried {ratio:.1%} of its line rate"
    if level is not Level.VALID:
        claim += ": the result is the network's, not the servers'"
    return Check(id=LINK, level=level, claim=claim, value=ratio, bound=suspect, unit="ratio")
