"""How much more results of different sessions differ than those of one.

In: the results of sessions that measured the same thing on the same machine. Out: `SessionSpread`, by which
an interval between two sessions is widened.

A session is what was measured in one go. Its runs share what the day brought: where memory lies, what runs
beside it, how warm the room is. Many runs of one session know their own mean well, and nothing of that. The
means of sessions are the replicates here: their variance has the noise of runs and that of sessions in it
(the balanced one-way layout; Scheffe, The Analysis of Variance, section 7.2).

Not here: which sessions are comparable (``analyze.sessions``).
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

FEWEST_SESSIONS = 3
"""From so many earlier sessions their spread is taken to be known."""


@dataclass(frozen=True, slots=True)
class SessionSpread:
    """Spread of the means of sessions, of logarithms."""

    sessions: int
    variance: float
    """Of a session's mean."""
    runs: int
    """Most runs of any of the sessions: the mean of as many or more varies no more than theirs."""

    def of_one(self) -> "SessionSpread":
        """Return the spread for an interval about one session, and not between two."""
        return replace(self, variance=self.variance / 2)

    def half_width(self, confidence: float) -> float:
        """Return half of the width of the interval for the difference of two such means."""
        # Loading it takes longer than a whole report.
        from scipy.special import stdtrit

        quantile = float(stdtrit(self.sessions - 1, 0.5 + confidence / 2))
        return quantile * math.sqrt(2 * self.variance)


def session_spread(sessions: Sequence[Sequence[float]]) -> SessionSpread | None:
    """Return the spread of the sessions' geometric means; None with fewer than `FEWEST_SESSIONS`.

    >>> found = session_spread([[100.0, 102.0], [110.0], [98.0, 97.0]])
    >>> found.sessions, round(math.sqrt(found.variance), 3)
    (3, 0.062)
    >>> session_spread([[100.0, 102.0], [110.0]]) is None
    True

    Raises:
        ValueError: if a value is not a positive finite number.
    """
    if any(not math.isfinite(value) or value <= 0 for values in sessions for value in values):
        raise ValueError("the spread of sessions takes positive finite numbers only")
    means = [statistics.fmean(math.log(value) for value in values) for values in sessions if values]
    if len(means) < FEWEST_SESSIONS:
        return None
    return SessionSpread(len(means), statistics.variance(means), max(len(values) for values in sessions))
