"""The facts that a rule needs: its parameters are their names, as `Conditions` has them.

In: a function whose parameters are named as facts. Out: its `Need`s, and the facts themselves of one phase.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache, cached_property
from typing import Any, Union, get_args, get_origin, get_type_hints

from steelyard.analyze.conditions import Conditions


@dataclass(frozen=True)
class Need:
    """A fact by its name; ``is_optional`` says that the rule is asked without it, too."""

    name: str
    is_optional: bool


@cache
def known_facts() -> Mapping[str, Any]:
    """Return the facts that a rule may name, with their types."""
    hints = get_type_hints(Conditions)
    known = {each.name: hints[each.name] for each in fields(Conditions)}
    for name, member in vars(Conditions).items():
        if isinstance(member, cached_property):
            known[name] = get_type_hints(member.func)["return"]
    return known


def needs_of(answer: Callable[..., Any]) -> tuple[Need, ...]:
    """Return the facts that ``answer`` names.

    A fact is optional where the parameter's type is ``X | None``, and needed without a type. Raises
    ValueError for a name that is no fact's, and for a type that is not the fact's.
    """
    known, needs = known_facts(), []
    for name, parameter in inspect.signature(answer, eval_str=True).parameters.items():
        if name not in known:
            raise ValueError(f"there is no fact {name!r} (known: {', '.join(sorted(known))})")
        asked = parameter.annotation
        if asked is inspect.Parameter.empty:
            needs.append(Need(name, is_optional=False))
            continue
        if _alternatives(asked) - {types.NoneType} != _alternatives(known[name]) - {types.NoneType}:
            raise ValueError(f"the fact {name!r} is no {asked}: it is {known[name]}")
        needs.append(Need(name, types.NoneType in _alternatives(asked)))
    return tuple(needs)


def _alternatives(declared: Any) -> set[Any]:
    """Return the types of a union, or the one that it is.

    >>> _alternatives(int | None) == {int, types.NoneType}
    True
    """
    return set(get_args(declared)) if get_origin(declared) in (Union, types.UnionType) else {declared}


def facts_for(needs: Sequence[Need], conditions: Conditions) -> dict[str, Any] | None:
    """Return the facts by name, None where one is absent that is needed."""
    facts = {need.name: getattr(conditions, need.name) for need in needs}
    absent = any(facts[need.name] is None and not need.is_optional for need in needs)
    return None if absent else facts
