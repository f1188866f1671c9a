"""A load that other hosts make: which they are, and whether the link to them was the limit.

In: a run, and what its interfaces moved. Out: names of hosts, and a `Check`.

Not here: making the load (``bench.load.hosts``), other interfaces' trouble (``rules.load``).
"""

from __future__ import annotations

from collections.abc import Sequence

from steelyard.analyze import checks
from steelyard.analyze.facts.network import NetworkUse
from steelyard.records import Check, Level, Run

HERE = "localhost"


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
        return checks.measured("link", None, claim)
    ratio = card.line_ratio.value
    claim = f"{to} ({card.interface}) carried {ratio:.1%} of its line rate"
    if checks.level("link", ratio) is not Level.VALID:
        claim += ": the result is the network's, not the servers'"
    return checks.measured("link", ratio, claim)
