"""The data of the social network, from a seed: who follows whom, posts, messages, stories.

Popularity is skewed: the user of rank r is followed with a probability proportional to r^-0.8, and the
number of those whom one follows is log-normal with a median of 30. Texts are words of a fixed vocabulary with
Zipfian frequencies.
"""

import bisect
import itertools
import random

FOLLOW_EXPONENT = 0.8
FOLLOWEES_MEDIAN, FOLLOWEES_SIGMA, FOLLOWEES_MOST = 30, 1.0, 400
POSTS_PER_USER = 12
FEED_LENGTH = 30
MESSAGES_PER_USER = 20
CAPTION_WORDS = (6, 40)
_SYLLABLES = ("ka", "lo", "mi", "ren", "sta", "du", "vel", "tor", "ni", "sha", "pe", "quo", "bri", "an", "el")


class Graph:
    """The network of `users` users; the same seed gives the same network."""

    def __init__(self, users, seed):
        self.users = users
        self._rng = random.Random(seed)  # noqa: S311
        self._popularity = list(itertools.accumulate((rank + 1) ** -FOLLOW_EXPONENT for rank in range(users)))
        order = list(range(users))
        self._rng.shuffle(order)
        self._user_of_rank = order
        words = ["".join(self._rng.choices(_SYLLABLES, k=self._rng.randrange(1, 5))) for _ in range(2000)]
        self._words = words
        self._word_weights = list(itertools.accumulate(1 / (rank + 1) for rank in range(len(words))))

    def popular(self):
        """Return a user, popular ones more often."""
        at = bisect.bisect(self._popularity, self._rng.random() * self._popularity[-1])
        return self._user_of_rank[min(at, self.users - 1)]

    def text(self, low, high):
        """Return some words."""
        count = self._rng.randrange(low, high)
        return " ".join(self._rng.choices(self._words, cum_weights=self._word_weights, k=count))

    def followees(self, user):
        """Return whom a user follows: each once, not the user."""
        count = int(self._rng.lognormvariate(0, FOLLOWEES_SIGMA) * FOLLOWEES_MEDIAN) + 1
        wanted = min(FOLLOWEES_MOST, self.users - 1, count)
        chosen = {self.popular() for _ in range(wanted)}
        chosen.discard(user)
        return sorted(chosen)

    def likes(self):
        """Return the likes of a post: many of few, few of most."""
        return int(self._rng.paretovariate(1.1)) * 3

    def number(self, most):
        """Return a number below `most`, uniform."""
        return self._rng.randrange(most)
