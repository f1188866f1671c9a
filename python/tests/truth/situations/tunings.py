"""Soft SKUs of a made-up service whose best levels are known: found, or rightly not declared."""

from __future__ import annotations

from functools import partial

from tests.tune.surface import Surface, optimum, throughput, tune, tuning

from ..situation import Claim, Outcome, Random, Situation, Statistic

_NEAR = 0.005
"""A soft SKU within 0.5 % of the best there is counts as found."""


def _near(random: Random, strategy: str) -> Outcome:
    record = tune(Surface(random), tuning(int(random.integers(2**31)), strategy, blocks=100))
    share = throughput(record.chosen) / optimum()
    return Outcome(share >= 1 - _NEAR, share - 1)


def _winner(random: Random, strategy: str) -> Outcome:
    surface = Surface(random, helps=False)
    record = tune(surface, tuning(int(random.integers(2**31)), strategy, blocks=100))
    return Outcome(record.outcome != "none" or bool(record.chosen))


def _gain(random: Random) -> Outcome:
    """Whether the interval of the confirmation holds the true gain of what was chosen."""
    record = tune(Surface(random), tuning(int(random.integers(2**31)), blocks=60))
    found = next((one for one in record.evidence if one.purpose == "confirm"), None)
    if found is None or found.low is None or found.high is None or found.gain_ratio is None:
        return Outcome(None)
    truth = throughput(record.chosen) / throughput({})
    if not record.chosen:
        return Outcome(None)
    return Outcome(found.low <= truth <= found.high, found.gain_ratio - truth, found.high - found.low)


STATISTICS = (
    Statistic(
        name="Soft SKUs",
        covers=(),
        about="Eight knobs of a made-up service, after the SoftSKU paper: 34,560 combinations, the best one"
        " 7.1 % better than what is found; values have a noise of 1 %. Trials are made by the code that"
        " tunes a machine.",
        situations=(
            Situation(
                "knobs that interact, one at a time: within 0.5 % of the optimum",
                Claim.FOUND,
                partial(_near, strategy="one-at-a-time"),
                trials=100,
                quick=3,
                bar=0.95,
            ),
            Situation(
                "knobs that interact, hill climb: within 0.5 % of the optimum",
                Claim.FOUND,
                partial(_near, strategy="hill-climb"),
                trials=40,
                bar=0.95,
            ),
            Situation(
                "no level better than what is found: a winner declared",
                Claim.FALSE,
                partial(_winner, strategy="one-at-a-time"),
                trials=100,
                quick=3,
            ),
            Situation("gain of a confirmed soft SKU", Claim.HOLDS, _gain, trials=60),
        ),
    ),
)
