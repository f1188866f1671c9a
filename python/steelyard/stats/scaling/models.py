"""Models of throughput by number of CPUs: the law, and the law on a machine that is not all alike.

In: means of the logarithms of throughput. Out: the parameters of least squares of one `Form`.

A form is the law (``law``) of the CPUs up to a bend, times what the machine gives beyond it:

    X(N) = law(min(N, at)) * (1 + worth * max(0, N - at) / at)     a bend
    X(N) = law(N) * (worth if N > at else 1)                        a level

Before a bend a node may have ended, whose successor's CPUs are worth a share in the same way. A bend is where
the cores end and their siblings are worth a share, where a ceiling is reached (worth 0), or
where a second node begins whose CPUs are worth less; a level is a second node that slows all of them. The
law's own terms are none (linear), contention, or both.

The rate has a closed form given the others, and these are searched on a grid that is refined around its best
point and then descended from, for many sets of means at once. Terms of the law span orders of magnitude: the
search is in their roots.

Not here: which form holds (``choice``), intervals of the law's terms (``law``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_POWERS = {"contention": 3, "coherency": 6}
_COARSE = {
    # Up to where the first CPUs that are added cost more than all do.
    "contention": np.append(np.linspace(0.0, 1.1, 9), [1.6, 2.4, 4.0]),
    "coherency": np.append(np.linspace(0.0, 0.7, 8), [1.0, 1.5]),
    "worth": np.linspace(0.0, 1.0, 6),
}
_ROUNDS = 5
_POLISH = 12
_NUDGE = 1e-5
_GAINED = 1e-7
"""A step that gains less of the squares is the last."""
_AT_ONCE = 2_000_000
"""Numbers that one round of the search may hold."""


@dataclass(frozen=True)
class Form:
    """A model whose parameters are to be found."""

    terms: tuple[str, ...] = ()
    """Terms of the law: none, contention, or contention and coherency."""
    at: float | None = None
    """Where the bend or the level is, None without one or where it is searched."""
    span: tuple[float, float] | None = None
    """Between which numbers of CPUs the bend is searched."""
    worth: float | None = None
    """What a CPU beyond is worth, None where it is searched."""
    is_level: bool = False
    inner: float | None = None
    """Where a node ends before the bend, with CPUs beyond it that are worth less; None without one."""
    is_searched: bool = False
    """Whether ``at`` was one of several that were tried."""

    @property
    def has_bend(self) -> bool:
        """Whether there is a bend or a level."""
        return self.at is not None or self.span is not None

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The parameters that are searched, beside the rate."""
        more: tuple[str, ...] = ("at",) if self.span is not None else ()
        more += ("worth",) if self.has_bend and self.worth is None else ()
        more += ("inner_worth",) if self.inner is not None else ()
        return (*self.terms, *more)

    @property
    def count(self) -> int:
        """Parameters that the data determine, with the rate."""
        return 1 + len(self.names) + (1 if self.is_searched else 0)


@dataclass(frozen=True)
class Fitted:
    """A form with its parameters; every array has one entry a set of means."""

    form: Form
    rate: Floats
    """Logarithm of the throughput of one CPU."""
    found: dict[str, Floats]
    squares: Floats
    """Sum of the squared distances from the means, in logarithms."""

    def logs(self, cpus: Sequence[float] | Floats) -> Floats:
        """Return logarithms of throughput, (set, number of CPUs)."""
        count = np.asarray(cpus, dtype=np.float64)
        columns = [self.found[name][:, np.newaxis] for name in self.form.names]
        return np.asarray(self.rate[:, np.newaxis] + _shape(self.form, columns, count), dtype=np.float64)

    def part(self, name: str) -> float | None:
        """Return a parameter of the first set, None where the form has none."""
        if name in self.found:
            return float(self.found[name][0])
        fixed = {"at": self.form.at, "worth": self.form.worth, "contention": 0.0, "coherency": 0.0}
        return fixed.get(name)


def fit(form: Form, cpus: Floats, means: Floats, near: Fitted | None = None) -> Fitted:
    """Return the least squares of a form for each row of ``means`` (set, step).

    ``near`` is a fit of the same form to start from, instead of everywhere.
    """
    if not form.names:
        return _at(form, cpus, means, np.zeros((len(means), 0)))
    axes = [_axis(form, name) for name in form.names]
    steps = np.array([axis[1] - axis[0] for axis in axes])
    lows, highs = np.array([axis[0] for axis in axes]), np.array([axis[-1] for axis in axes])
    if near is None:
        grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
        best = grid[_least(form, cpus, means, grid[np.newaxis])]
    else:
        start = [_coordinate(name, near.found[name][0]) for name in form.names]
        best = np.tile(start, (len(means), 1))
    around = np.stack(np.meshgrid(*[(-1.0, -0.5, 0.0, 0.5, 1.0)] * len(axes), indexing="ij"), axis=-1)
    around = around.reshape(-1, len(axes))
    for _ in range(_ROUNDS):
        tried = np.clip(best[:, np.newaxis, :] + around * steps, lows, highs)
        chosen = _least(form, cpus, means, tried)
        best = np.take_along_axis(tried, chosen[:, np.newaxis, np.newaxis], axis=1)[:, 0, :]
        steps = steps * 0.55
    values = np.stack([_value(name, best[:, at]) for at, name in enumerate(form.names)], axis=1)
    return _at(form, cpus, means, _polished(form, cpus, means, values))


def _polished(form: Form, cpus: Floats, means: Floats, values: Floats) -> Floats:
    """Return values from which damped steps (Marquardt, 1963) lead no lower: terms of the law go together."""
    ends = [_ends(form, name, cpus) for name in form.names]
    lows, highs, units = (np.array(column) for column in zip(*ends, strict=True))
    best, damping = values, np.full(len(values), 1e-3)
    left = _left(form, cpus, means, best)
    for _ in range(_POLISH):
        moved = [_left(form, cpus, means, best + _NUDGE * axis) for axis in np.diag(units)]
        slope = np.stack([(one - left) / _NUDGE for one in moved], axis=-1)
        # At a bound that is pushed against, a parameter stays.
        push = np.einsum("psi,ps->pi", slope, left)
        stays = ((best <= lows) & (push > 0)) | ((best >= highs) & (push < 0))
        slope = np.where(stays[:, np.newaxis, :], 0.0, slope)
        normal = np.einsum("psi,psj->pij", slope, slope)
        scale = np.einsum("pii->pi", normal) * (1 + damping[:, np.newaxis]) + 1e-12
        normal = normal * (1 - np.eye(len(units))) + scale[:, :, np.newaxis] * np.eye(len(units))
        step = np.linalg.solve(normal, np.where(stays, 0.0, push)[..., np.newaxis])[..., 0]
        then = np.clip(best - step * units, lows, highs)
        after = _left(form, cpus, means, then)
        gain = (left**2).sum(axis=1) - (after**2).sum(axis=1)
        better = (gain > 0)[:, np.newaxis]
        is_last = bool((gain <= _GAINED * (left**2).sum(axis=1)).all() and (gain >= 0).all())
        best, left = np.where(better, then, best), np.where(better, after, left)
        damping = np.where(gain > 0, damping / 5, damping * 5)
        if is_last:
            break
    return best


def _ends(form: Form, name: str, cpus: Floats) -> tuple[float, float, float]:
    """Return the least and the greatest value of a parameter, and the unit that it moves in."""
    last = float(cpus[-1])
    if name == "at":
        low, high = form.span or (1.0, last)
        return low, high, low
    if name in ("worth", "inner_worth"):
        return 0.2 if form.is_level else 0.0, 1.0, 1.0
    greatest = float(_value(name, _COARSE[name][-1:])[0])
    return 0.0, greatest, 1 / last if name == "contention" else 1 / last**2


def _left(form: Form, cpus: Floats, means: Floats, values: Floats) -> Floats:
    """Return what is left of each step's mean, (set, step)."""
    left = means - _shape(form, [values[:, [at]] for at in range(values.shape[1])], cpus)
    return np.asarray(left - left.mean(axis=1, keepdims=True))


def _axis(form: Form, name: str) -> Floats:
    if name == "at":
        low, high = form.span or (1.0, 1.0)
        return np.asarray(np.linspace(np.log(low), np.log(high), 13))
    if name == "worth" and form.is_level:
        return np.asarray(np.linspace(0.2, 1.0, 5))
    return _COARSE["worth" if name == "inner_worth" else name]


def _value(name: str, coordinate: Floats) -> Floats:
    if name == "at":
        return np.asarray(np.exp(coordinate))
    return np.asarray(coordinate ** _POWERS.get(name, 1))


def _coordinate(name: str, value: float) -> float:
    return float(np.log(value) if name == "at" else value ** (1 / _POWERS.get(name, 1)))


def _shape(form: Form, columns: Sequence[Floats], cpus: Floats) -> Floats:
    """Return logarithms of throughput over that of one CPU; ``columns`` broadcast against ``cpus``."""
    values = dict(zip(form.names, columns, strict=True))
    count, gain = cpus, np.zeros(1)
    if form.has_bend:
        at = values["at"] if "at" in values else np.array([form.at or 1.0])
        worth = values["worth"] if "worth" in values else np.array([form.worth or 0.0])
        if form.is_level:
            gain = np.where(cpus > at, np.log(worth), 0.0)
        else:
            count = np.minimum(cpus, at)
            gain = np.log1p(worth * (cpus - count) / at)
    if form.inner is not None:
        few = np.minimum(count, form.inner)
        gain = gain + np.log1p(values["inner_worth"] * (count - few) / form.inner)
        count = few
    loss: Floats = np.zeros(1)
    if "contention" in values:
        loss = values["contention"] * (count - 1)
    if "coherency" in values:
        loss = loss + values["coherency"] * count * (count - 1)
    return np.asarray(np.log(count) + gain - np.log1p(np.maximum(loss, -0.5)), dtype=np.float64)


def _squares(form: Form, cpus: Floats, means: Floats, points: Floats) -> Floats:
    """Return the squares of (set, point); ``points`` is (set or 1, point, parameter)."""
    columns = [_value(name, points[:, :, at])[..., np.newaxis] for at, name in enumerate(form.names)]
    left = means[:, np.newaxis, :] - _shape(form, columns, cpus)
    return np.asarray(left.var(axis=2) * means.shape[1], dtype=np.float64)


def _least(form: Form, cpus: Floats, means: Floats, points: Floats) -> NDArray[np.intp]:
    """Return for each set which point is best, in portions that fit into memory."""
    portion = max(1, _AT_ONCE // (points.shape[1] * len(cpus)))
    found = []
    for start in range(0, len(means), portion):
        part = slice(start, start + portion)
        here = points if len(points) == 1 else points[part]
        found.append(_squares(form, cpus, means[part], here).argmin(axis=1))
    return np.concatenate(found)


def _at(form: Form, cpus: Floats, means: Floats, values: Floats) -> Fitted:
    found = {name: values[:, at] for at, name in enumerate(form.names)}
    left = means - _shape(form, [found[name][:, np.newaxis] for name in form.names], cpus)
    rate = left.mean(axis=1)
    squares = ((left - rate[:, np.newaxis]) ** 2).sum(axis=1)
    return Fitted(form, np.asarray(rate), found, np.asarray(squares))
