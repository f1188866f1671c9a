"""Complement naive Bayes computed directly, as Rennie et al. (ICML 2003) describe WCNB with their transforms.

In: documents as lists of words, by class. Out: how many documents of each class are taken for which.

Written from the paper, without a look at the jobs, but for what they round: weights to millionths.
"""

import math
from collections import Counter

MASK = (1 << 64) - 1
STEP = 0x9E3779B97F4A7C15


def mix(value):
    """Return the finalizer of SplitMix64."""
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)


def unit(seed, kind, number):
    """Return the first random number of a thing, from 0 to 1."""
    state = mix((mix((mix((seed + STEP) & MASK) + kind * STEP) & MASK) + number) & MASK)
    return (mix((state + STEP) & MASK) >> 11) * 2.0**-53


def java_hash(text):
    """Return what Java's String.hashCode does of plain letters, with its sign."""
    code = 0
    for letter in text:
        code = (code * 31 + ord(letter)) & 0xFFFFFFFF
    return code - (1 << 32) if code >= 1 << 31 else code


def is_training(name, seed, ratio):
    """Return whether the file ``name`` of a user's corpus is trained with."""
    return unit(seed, java_hash(name), len(name)) < ratio


def confusion(training, held_out):
    """Return (class, found) to count; both arguments are lists of (class, words)."""
    labels = sorted({label for label, _ in training})
    frequency = Counter(word for _, words in training for word in set(words))
    known = {word: count for word, count in frequency.items() if count >= 2}
    weights = {label: Counter() for label in labels}
    for label, words in training:
        raw = {
            word: math.log(count + 1) * math.log(len(training) / known[word])
            for word, count in Counter(words).items()
            if word in known
        }
        length = math.sqrt(sum(weight * weight for weight in raw.values()))
        for word, weight in raw.items():
            weights[label][word] += math.floor(weight / length * 1e6 + 0.5)
    terms = sorted({word for each in weights.values() for word, weight in each.items() if weight})
    model = {}
    for label in labels:
        others = [weights[other] for other in labels if other != label]
        sums = {word: sum(other[word] for other in others) / 1e6 + 1.0 for word in terms}
        total = sum(sums.values())
        logs = {word: math.log(weight / total) for word, weight in sums.items()}
        norm = sum(abs(weight) for weight in logs.values())
        model[label] = {word: weight / norm for word, weight in logs.items()}
    counts = Counter()
    for label, words in held_out:
        scores = {
            each: sum(count * model[each].get(word, 0.0) for word, count in Counter(words).items())
            for each in labels
        }
        counts[label, min(labels, key=lambda each: scores[each])] += 1
    return counts
