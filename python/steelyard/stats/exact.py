"""Whether one of two arms fails more often, by an exact test of few trials.

In: failures and trials of either arm. Out: a p value.

Not here: the same for thousands of functions at once (``analyze.profiles.diff``).
"""

from math import comb


def fails_more_p_value(failed: int, made: int, base_failed: int, base_made: int) -> float:
    """Return the chance of at least ``failed`` failures of ``made`` trials, if the base fails as often.

    Fisher's exact test, one-sided (R. Fisher, "The Design of Experiments", 1935): given how many trials
    failed in all, every choice of them is equally likely. It is right for any number of trials, and says
    "more" less often than its level where they are few.

    >>> round(fails_more_p_value(2, 12, 0, 12), 3), round(fails_more_p_value(5, 12, 0, 12), 3)
    (0.239, 0.019)

    Raises ValueError for more failures than trials.
    """
    if not (0 <= failed <= made and 0 <= base_failed <= base_made):
        raise ValueError("needs from 0 to as many failures as trials")
    all_failed = failed + base_failed
    ways = comb(made + base_made, all_failed)
    at_least = sum(
        comb(made, count) * comb(base_made, all_failed - count)
        for count in range(failed, min(made, all_failed) + 1)
    )
    return at_least / ways
