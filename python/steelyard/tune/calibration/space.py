"""What is searched: parameters of a benchmark with their ranges, as Optuna proposes values of them.

In: the benchmark's declared ranges and what ``--vary`` says. Out: `Space`, and settings as ``--set`` takes
them.

Not here: how good a setting is (``search``).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from steelyard._base import UsageError
from steelyard.bench.parameters import Parameter, check_names, format_value
from steelyard.bench.parameters.ranges import SearchRange

if TYPE_CHECKING:
    import optuna

_WHOLE = ("count", "bytes")
_DIGITS = 4


@dataclass(frozen=True)
class Searched:
    """One parameter that is searched."""

    parameter: Parameter
    range: SearchRange

    @property
    def name(self) -> str:
        """Return the parameter's name."""
        return self.parameter.name

    @property
    def is_whole(self) -> bool:
        """Return whether its values are whole numbers."""
        return self.parameter.kind in _WHOLE

    def text(self, value: Any) -> str:
        """Return a value as ``--set`` takes it."""
        if isinstance(value, str):
            return value
        number = int(value) if self.is_whole else float(f"{float(value):.{_DIGITS}g}")
        return format_value(self.parameter, number)

    @property
    def range_text(self) -> str:
        """Return the range for people."""
        if self.range.choices:
            return ", ".join(self.range.choices)
        ends = f"{self.text(self.range.least)} to {self.text(self.range.most)}"
        return f"{ends}, by ratio" if self.range.is_log else ends

    def distribution(self) -> optuna.distributions.BaseDistribution:
        """Return what Optuna draws from."""
        from optuna import distributions

        known = self.range
        if known.choices:
            return distributions.CategoricalDistribution(list(known.choices))
        low, high = known.ends
        if self.is_whole:
            return distributions.IntDistribution(int(low), int(high), log=known.is_log)
        return distributions.FloatDistribution(low, high, log=known.is_log)

    def within(self, value: Any) -> Any:
        """Return a setting's value as Optuna takes it, None where it is out of the range."""
        known = self.range
        if known.choices:
            text = format_value(self.parameter, value) if not isinstance(value, str) else value
            return text if text in known.choices else None
        if isinstance(value, str | bool) or value is None:
            return None
        low, high = known.ends
        return value if low <= value <= high else None


def space_of(
    parameters: Sequence[Parameter],
    declared: Sequence[SearchRange],
    vary: Sequence[str],
    known: Sequence[str],
    *,
    owner: str,
) -> list[Searched]:
    """Return what is searched: ``vary``, or of what is declared whatever moves a ``known`` metric.

    Raises UsageError for an unknown parameter, a malformed range, or nothing to search.
    """
    by_name = {parameter.name: parameter for parameter in parameters}
    if vary:
        named = [_parsed(text, by_name, declared, owner) for text in vary]
    else:
        named = [each for each in declared if set(each.moves) & set(known)]
    if not named:
        raise UsageError(
            f"{owner} declares no parameters to search that move a metric of the target",
            hint="--vary NAME=LOW..HIGH",
        )
    twice = [each.parameter for each in named]
    repeated = next((name for name in twice if twice.count(name) > 1), None)
    if repeated is not None:
        raise UsageError(f"--vary names {repeated} twice")
    return [Searched(by_name[each.parameter], each) for each in named]


def _parsed(
    text: str, by_name: Mapping[str, Parameter], declared: Sequence[SearchRange], owner: str
) -> SearchRange:
    name, equals, said = text.partition("=")
    name = name.strip()
    check_names([name], by_name, owner=owner)
    known = next((each for each in declared if each.parameter == name), SearchRange(name))
    if not equals:
        if known.least is None and not known.choices:
            raise UsageError(
                f"--vary {name}: {owner} declares no range of it", hint=f"--vary {name}=LOW..HIGH"
            )
        return known
    parameter = by_name[name]
    ends, colon, scale = said.partition(":")
    low, dots, high = ends.partition("..")
    if not dots:
        choices = tuple(part.strip() for part in said.split(",") if part.strip())
        for each in choices:
            parameter.parse(each)
        if len(choices) < 2:
            raise UsageError(f"--vary {text}: a range (LOW..HIGH) or several values (A,B) are needed")
        return replace(known, least=None, most=None, choices=choices)
    if colon and scale != "log":
        raise UsageError(f"--vary {text}: after the range only :log may stand")
    values = [parameter.parse(end) for end in (low, high)]
    if any(isinstance(value, str | bool) for value in values):
        raise UsageError(f"--vary {text}: {name} is no number", hint=f"--vary {name}=A,B,C")
    first, last = (float(value) for value in values)
    if not first < last:
        raise UsageError(f"--vary {text}: the range is empty")
    if scale == "log" and first <= 0:
        raise UsageError(f"--vary {text}: a range by ratio begins above 0")
    return replace(known, least=first, most=last, choices=(), is_log=scale == "log")


class Proposals:
    """Settings that Optuna proposes, all parameters together, from how good the earlier ones were.

    The sampler is TPE (J. Bergstra et al., "Algorithms for Hyper-Parameter Optimization", 2011).
    """

    def __init__(self, searched: Sequence[Searched], seed: int, trials: int) -> None:
        from steelyard.tune.proposals import require

        require()
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sampler = optuna.samplers.TPESampler(
                seed=seed % 2**32,
                multivariate=True,
                n_startup_trials=max(2 * len(searched), trials // 4),
            )
        self._study = optuna.create_study(direction="minimize", sampler=sampler)
        self._searched = searched
        self._space = {each.name: each.distribution() for each in searched}
        self._open: optuna.trial.Trial | None = None

    def begin_with(self, values: Mapping[str, Any]) -> None:
        """Let the first proposal be these values, where all are within their ranges."""
        inside = {each.name: each.within(values.get(each.name)) for each in self._searched}
        if all(value is not None for value in inside.values()):
            self._study.enqueue_trial(inside)

    def take(self, values: Mapping[str, Any]) -> None:
        """Let the next proposal be these values."""
        self._study.enqueue_trial(dict(values), skip_if_exists=False)

    def ask(self) -> dict[str, str]:
        """Return settings to try."""
        self._open = self._study.ask(self._space)
        return {each.name: each.text(self._open.params[each.name]) for each in self._searched}

    def tell(self, distance: float | None) -> None:
        """Say how far the last proposal was from the target; None where it gave no values."""
        import optuna

        assert self._open is not None
        if distance is None:
            self._study.tell(self._open, state=optuna.trial.TrialState.FAIL)
        else:
            self._study.tell(self._open, distance)
