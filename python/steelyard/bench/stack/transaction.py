"""What apt says that it would do, as it prints it with ``--simulate``.

In: its text. Out: packages that would come, and those that would go.

Not here: running it (``packages``).
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

_COMES = re.compile(r"^Inst (\S+) (?:\[(\S+)\] )?\((\S+) ", re.MULTILINE)
_GOES = re.compile(r"^(?:Remv|Purg) (\S+) ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Plan:
    """A transaction that has not begun."""

    new: dict[str, str]
    """Versions of packages that would come and are not there in any version."""
    replaced: tuple[str, ...]
    """Packages that would get another version."""
    gone: tuple[str, ...]
    """Packages that would be removed."""


def parse_plan(text: str) -> Plan:
    """Return what a simulation says.

    >>> parse_plan("Inst a (1.0 Debian:12 [all])\\nInst b [1] (2 Debian:12 [amd64])\\nPurg c [3]\\n")
    Plan(new={'a': '1.0'}, replaced=('b',), gone=('c',))
    """
    comes = _COMES.findall(text)
    return Plan(
        {name: version for name, before, version in comes if not before},
        tuple(name for name, before, _ in comes if before),
        tuple(dict.fromkeys(_GOES.findall(text))),
    )


@dataclass(frozen=True, slots=True)
class Kept:
    """A package that is not removed, and why."""

    name: str
    why: str


def removable(
    names: Iterable[str], simulate: Callable[[list[str]], Plan]
) -> tuple[tuple[str, ...], tuple[Kept, ...]]:
    """Return those of ``names`` whose removal changes no package but these, and those that have to stay.

    ``simulate`` says what a removal of packages does. What needs a package that stays needs nothing of the
    others by that; what such a package needs stays with it, as its removal would take the package with it.
    """
    left = list(dict.fromkeys(names))
    kept: list[Kept] = []
    while left:
        whole = simulate(left)
        if not _foreign(whole, left):
            return tuple(left), tuple(kept)
        staying = []
        for name in left:
            if (why := _why_it_stays(simulate([name]), left)) is not None:
                staying.append(Kept(name, why))
        if not staying:
            # Only together do they change others: none is removed.
            why = _why_it_stays(whole, left) or ""
            return (), (*kept, *(Kept(name, why) for name in left))
        kept += staying
        left = [name for name in left if name not in {one.name for one in staying}]
    return (), tuple(kept)


def _foreign(plan: Plan, names: list[str]) -> list[str]:
    return [name for name in (*plan.gone, *plan.new, *plan.replaced) if name not in names]


def _why_it_stays(plan: Plan, names: list[str]) -> str | None:
    gone = [name for name in plan.gone if name not in names]
    if gone:
        return f"{_listed(gone)} {'need' if len(gone) > 1 else 'needs'} it"
    others = _foreign(plan, names)
    return f"its removal would install {_listed(others)}" if others else None


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"
