"""Combinations of levels that Optuna proposes, from the results of earlier races.

In: the levels of each knob, the first being what was found, and how good the combinations were that it
proposed. Out: combinations that were not tried yet. Optuna's sampler is TPE (J. Bergstra et al., "Algorithms
for Hyper-Parameter Optimization", 2011), all knobs together.

Invariant: the same seed and the same answers lead to the same proposals, so that a tuning that was killed
goes on with those it had.

Not here: which combination is better (``race``). Needs ``pip install steelyard[optuna]``.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from steelyard._base import EnvironmentLacksError

if TYPE_CHECKING:
    import optuna

_ASKED_AT_MOST = 20
"""Times of a batch: a sampler that knows what is good proposes the same again and again."""
Levels = Mapping[str, str]


def require() -> None:
    """Raise EnvironmentLacksError where Optuna is not installed."""
    try:
        import optuna  # noqa: F401
    except ImportError as error:
        raise EnvironmentLacksError(
            "Optuna is not installed",
            hint="pip install 'steelyard[optuna]' (25 MB), or use --strategy hill-climb",
        ) from error


class Proposals:
    """A study under way. A combination names the knobs that differ from what was found."""

    def __init__(self, levels: Mapping[str, Sequence[str]], seed: int) -> None:
        """Raises EnvironmentLacksError where Optuna is not installed."""
        require()
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        with warnings.catch_warnings():
            # All knobs together, and several proposals at once, are new there.
            warnings.simplefilter("ignore")
            sampler = optuna.samplers.TPESampler(
                seed=seed % 2**32, multivariate=True, constant_liar=True, n_startup_trials=2 * len(levels)
            )
        self._study = optuna.create_study(direction="maximize", sampler=sampler)
        self._levels = levels
        self._space: dict[str, optuna.distributions.BaseDistribution] = {
            name: optuna.distributions.CategoricalDistribution(list(known)) for name, known in levels.items()
        }
        self._open: dict[tuple[tuple[str, str], ...], optuna.trial.Trial] = {}
        self._known: dict[tuple[tuple[str, str], ...], float] = {(): 0.0}

    def ask(self, count: int) -> list[dict[str, str]]:
        """Return up to ``count`` combinations that are new, fewer where there are no others."""
        found: list[dict[str, str]] = []
        for _ in range(count * _ASKED_AT_MOST):
            if len(found) == count:
                break
            trial = self._study.ask(self._space)
            one = {name: str(level) for name, level in trial.params.items() if level != self._levels[name][0]}
            key = tuple(one.items())
            if key in self._known:
                self._study.tell(trial, self._known[key])
            elif key in self._open:
                self._study.tell(trial, state=_failed())
            else:
                self._open[key] = trial
                found.append(one)
        return found

    def tell(self, combination: Levels, log_gain: float | None) -> None:
        """Say how much better a combination is than what was found; None where it gave no values."""
        key = tuple(combination.items())
        trial = self._open.pop(key, None)
        if trial is None:
            return
        if log_gain is None:
            self._study.tell(trial, state=_failed())
        else:
            self._known[key] = log_gain
            self._study.tell(trial, log_gain)


def _failed() -> optuna.trial.TrialState:
    import optuna

    return optuna.trial.TrialState.FAIL
