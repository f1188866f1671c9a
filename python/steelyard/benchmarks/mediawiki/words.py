"""Invented words, and sentences of them: text that nobody wrote, so that it may be passed on.

In: a seed. Out: words, and text of a given length; the same seed gives the same text.

Words are made of syllables. How often each is used follows Zipf's law with Mandelbrot's shift, as words of
natural languages do: what compresses, parses and indexes text meets the same skew.

Not here: pages (``content``).
"""

import random
from itertools import accumulate

VOCABULARY = 8_000
"""Different words, about those of a reader's everyday vocabulary."""
ZIPF_EXPONENT = 1.0
MANDELBROT_SHIFT = 2.7
"""Zipf-Mandelbrot law of word frequencies, with the constants usually fitted to English."""
COMMON = 200
"""The most frequent words, which names and headings do without."""
SENTENCE_WORDS = (6, 24)
YEAR_RATIO = 0.25
"""Share of sentences that name a year; a search asks for one."""
YEARS = (1600, 1999)

_ONSETS = (
    "b",
    "br",
    "d",
    "dr",
    "f",
    "g",
    "gl",
    "h",
    "k",
    "l",
    "m",
    "n",
    "p",
    "pr",
    "r",
    "s",
    "st",
    "t",
    "v",
    "",
)
_VOWELS = ("a", "e", "i", "o", "u", "a", "e", "i", "o", "ai", "ea")
_CODAS = ("", "", "", "", "", "n", "r", "s", "l", "t", "nd", "m")


def _vocabulary(rng: random.Random) -> list[str]:
    """Return the words, the most frequent first: frequent ones are short, as in natural languages."""
    words: dict[str, None] = {}
    while len(words) < VOCABULARY:
        syllables = 1 if len(words) < 150 else rng.choice((2, 2, 2, 3))
        word = "".join(
            rng.choice(_ONSETS) + rng.choice(_VOWELS) + rng.choice(_CODAS) for _ in range(syllables)
        )
        words[word] = None
    return list(words)


class Words:
    """The vocabulary of a seed. Text is drawn with the random numbers of whoever asks."""

    def __init__(self, seed: int) -> None:
        self.vocabulary = _vocabulary(random.Random(f"words {seed}"))  # noqa: S311
        weights = (1 / (rank + MANDELBROT_SHIFT) ** ZIPF_EXPONENT for rank in range(1, VOCABULARY + 1))
        self._rare = self.vocabulary[COMMON:]
        self._cumulative = list(accumulate(weights))

    def some(self, rng: random.Random, count: int) -> list[str]:
        """Return ``count`` words in running text's frequencies."""
        return rng.choices(self.vocabulary, cum_weights=self._cumulative, k=count)

    def phrase(self, rng: random.Random, low: int, high: int) -> str:
        """Return a few rare words, the first with a capital: a heading or a name."""
        return " ".join(rng.choices(self._rare, k=rng.randint(low, high))).capitalize()

    def sentence(self, rng: random.Random) -> list[str]:
        """Return the words of a sentence, with a capital, a comma in long ones, and a full stop."""
        words = self.some(rng, rng.randint(*SENTENCE_WORDS))
        words[0] = words[0].capitalize()
        if len(words) > 12:
            words[len(words) // 2] += ","
        if rng.random() < YEAR_RATIO:
            words += ["in", str(rng.randint(*YEARS))]
        words[-1] += "."
        return words

    def sentences(self, rng: random.Random, count: int) -> str:
        """Return plain text of ``count`` sentences."""
        return " ".join(word for _ in range(count) for word in self.sentence(rng))
