"""Flags as earlier versions spelled them: still understood, shown nowhere.

In: a command line. Out: the same in today's spelling. Not here: the flags themselves (``options``).
"""

from collections.abc import Callable, Mapping, Sequence

Rewrite = Callable[[str], list[str]]
"""From a flag's value to the words that say the same today."""


def _page(value: str) -> list[str]:
    return ["--report", f"{value.rstrip('/')}/report.html"]


def _as(flag: str) -> Rewrite:
    return lambda value: [flag, value]


_RUNS = {"--out": _as("--runs")}
_PROFILE = {"--output": _page, "--top": _as("--rows")}
_VALUES: Mapping[tuple[str, ...], Mapping[str, Rewrite]] = {
    ("list",): _RUNS,
    ("score",): _RUNS,
    ("compare",): _RUNS,
    ("report",): {**_RUNS, "--output": _page},
    ("machine", "diff"): _RUNS,
    ("machine", "check"): _RUNS,
    ("machine", "counters"): _RUNS,
    ("profile", "record"): {"--top": _as("--rows")},
    ("profile", "show"): _PROFILE,
    ("profile", "diff"): _PROFILE,
    ("numa", "score"): {"--limit": _as("--rows")},
    ("fleet", "simulate"): {"--out": _as("--store")},
}
_FLAGS: Mapping[tuple[str, ...], Mapping[str, Sequence[str]]] = {
    ("profile", "record"): {"--no-html": ["--no-report"], "--html": []},
    ("profile", "show"): {"--no-html": [], "--html": []},
    ("profile", "diff"): {"--no-html": [], "--html": []},
}


def respelled(arguments: Sequence[str]) -> list[str]:
    """Return a command line with today's flags.

    >>> respelled(["report", "latest", "--output=page", "--out", "runs"])
    ['report', 'latest', '--report', 'page/report.html', '--runs', 'runs']
    >>> respelled(["profile", "record", "--no-html", "--", "ls", "--top", "1"])
    ['profile', 'record', '--no-report', '--', 'ls', '--top', '1']
    """
    command = next((key for key in _VALUES if tuple(arguments[: len(key)]) == key), None)
    if command is None:
        return list(arguments)
    values, flags = _VALUES[command], _FLAGS.get(command, {})
    words = list(arguments[len(command) :])
    respelt = list(command)
    while words:
        word = words.pop(0)
        if word == "--":
            return [*respelt, word, *words]
        flag, has_value, value = word.partition("=")
        if word in flags:
            respelt += flags[word]
        elif flag in values and (has_value or words):
            respelt += values[flag](value if has_value else words.pop(0))
        else:
            respelt.append(word)
    return respelt
