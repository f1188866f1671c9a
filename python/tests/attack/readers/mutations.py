"""Ways to change bytes that somebody can read: by bits, by words, by lines, by structure."""

import json
import random
import re
from collections.abc import Callable
from typing import Any

NUMBERS = (
    *("0", "-1", "-0", "1e308", "1e400", "-1e400", "5e-324", "nan", "NaN", "inf", "-Infinity", "Infinity"),
    *("9223372036854775807", "9223372036854775808", "18446744073709551616", "1" + "0" * 30, "9" * 5000),
    *("2147483648", "0x10", "1_000", "1,5", "1.", ".5", "٣", "²", "1e5", "253402300800", "1e18", "0.5"),
)
WORDS = (
    *(
        "",
        '"',
        "'",
        "\\",
        "\0",
        "\n",
        "\r",
        "\r\n",
        "\t",
        ",",
        ";",
        "|",
        "#",
        "=",
        "{",
        "}",
        "[",
        "]",
        ":",
        "%",
        "-",
    ),
    *(
        "null",
        "true",
        "[]",
        "{}",
        '""',
        "\ufeff",
        "\u2028",
        "\x85",
        "\x1b[2J",
        "<b>",
        "../..",
        "/dev/zero",
        "\u0301",
    ),
    *("x" * 70_000, '"' * 999, "[" * 3000, '{"a":' * 3000, "a." * 3000, "a=[" * 900, ";" * 5000, "(" * 3000),
)
_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_WORD = re.compile(rb"[^\s,;:|=\"'\[\]{}()]+")
ODD = (
    *(
        None,
        True,
        -1,
        0,
        2**63,
        2**70,
        10**400,
        1e308,
        -1e308,
        5e-324,
        float("nan"),
        float("inf"),
        "",
        "x",
        "\0",
    ),
    *(
        "\ud800",
        "../../x",
        "\x1b[2J",
        "1",
        "0-99999999999",
        "x" * 70_000,
        [],
        {},
        [[[[[]]]]],
        [None],
        {"": {}},
        {"a": 1},
    ),
)
"""Values that no writer of JSON means."""


def _span(data: bytes, chosen: random.Random) -> tuple[int, int]:
    begin = chosen.randrange(len(data) + 1)
    return begin, min(len(data), begin + chosen.choice((1, 2, 8, 40, 400, len(data))))


def flip(data: bytes, chosen: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chosen.choice((1, 1, 2, 8))):
        if changed:
            changed[chosen.randrange(len(changed))] ^= 1 << chosen.randrange(8)
    return bytes(changed)


def noise(data: bytes, chosen: random.Random) -> bytes:
    begin, end = _span(data, chosen)
    return data[:begin] + chosen.randbytes(chosen.choice((1, 4, 100))) + data[end:]


def truncate(data: bytes, chosen: random.Random) -> bytes:
    return data[: chosen.randrange(len(data) + 1)]


def drop(data: bytes, chosen: random.Random) -> bytes:
    begin, end = _span(data, chosen)
    return data[:begin] + data[end:]


def double(data: bytes, chosen: random.Random) -> bytes:
    begin, end = _span(data, chosen)
    return (
        data[:end] + data[begin:end] * chosen.choice((1, 1, 2, 50 if end - begin < 2000 else 3)) + data[end:]
    )


def put(data: bytes, chosen: random.Random) -> bytes:
    at = chosen.randrange(len(data) + 1)
    word = chosen.choice((*WORDS, *NUMBERS)).encode("utf-8", "surrogatepass")
    return data[:at] + word + data[at:]


def _replaced(
    pattern: re.Pattern[bytes], words: tuple[str, ...], data: bytes, chosen: random.Random
) -> bytes:
    found = list(pattern.finditer(data))
    if not found:
        return put(data, chosen)
    match = chosen.choice(found)
    return data[: match.start()] + chosen.choice(words).encode() + data[match.end() :]


def odd_number(data: bytes, chosen: random.Random) -> bytes:
    return _replaced(_NUMBER, NUMBERS, data, chosen)


def odd_word(data: bytes, chosen: random.Random) -> bytes:
    return _replaced(_WORD, (*WORDS, *NUMBERS), data, chosen)


def other_word(data: bytes, chosen: random.Random) -> bytes:
    """Put a word of the text in the place of another."""
    found = _WORD.findall(data[:100_000])
    return _replaced(_WORD, (chosen.choice(found).decode("latin-1"),), data, chosen) if found else data


def lines(data: bytes, chosen: random.Random) -> bytes:
    """Drop, repeat or swap lines."""
    parts = data.splitlines(keepends=True)
    if len(parts) < 2:
        return double(data, chosen)
    one, other = chosen.randrange(len(parts)), chosen.randrange(len(parts))
    how = chosen.randrange(4)
    if how == 0:
        del parts[one]
    elif how == 1:
        parts.insert(other, parts[one])
    elif how == 2:
        parts[one], parts[other] = parts[other], parts[one]
    else:
        parts = parts[: one + 1]
    return b"".join(parts)


def encoded(data: bytes, chosen: random.Random) -> bytes:
    """Write the text in another encoding, or with other ends of lines."""
    text = data.decode("utf-8", "replace")
    how = chosen.choice(("utf-16", "utf-16-le", "utf-32", "utf-8-sig", "cr", "crlf"))
    if how == "cr":
        return text.replace("\n", "\r").encode()
    return text.replace("\n", "\r\n").encode() if how == "crlf" else text.encode(how)


def structure(data: bytes, chosen: random.Random) -> bytes:
    """Change a value of a JSON document, or of one of its lines; other text gets an odd word."""
    rows = data.splitlines(keepends=True)
    at = chosen.randrange(len(rows)) if rows else 0
    for begin, end in ((0, len(rows)), (at, at + 1)):
        text = b"".join(rows[begin:end])
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(document, dict | list) and document:
            _change(document, chosen)
            made = json.dumps(document).encode() + b"\n"
            return b"".join([*rows[:begin], made, *rows[end:]])
    return odd_word(data, chosen)


def _change(document: Any, chosen: random.Random) -> None:
    at = document
    while True:
        keys = list(at) if isinstance(at, dict) else range(len(at))
        key = chosen.choice(keys)
        if isinstance(at[key], dict | list) and at[key] and chosen.random() < 0.8:
            at = at[key]
            continue
        how = chosen.randrange(5)
        if how == 0:
            del at[key]
        elif how == 1 and isinstance(at, dict):
            at[chosen.choice(("", "\n", "\0", "x" * 300, "__class__"))] = at.pop(key)
        elif how == 2 and isinstance(at, list):
            at += [at[key]] * chosen.choice((1, 2, 100))
        elif how == 3:
            deep: Any = at[key]
            for _ in range(chosen.choice((1, 3, 300))):
                deep = [deep]
            at[key] = deep
        else:
            at[key] = chosen.choice(ODD)
        return


MUTATIONS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    *(flip, noise, truncate, drop, double, put, put, encoded),
    *(odd_number, odd_number, odd_word, odd_word, other_word, lines, lines, structure, structure, structure),
)
"""The more often one stands here, the more often it is drawn."""
MOST_BYTES = 1 << 20


def mutated(data: bytes, chosen: random.Random) -> bytes:
    """Return ``data`` with one to four changes; at most a megabyte of it."""
    for _ in range(chosen.choice((1, 1, 1, 2, 4))):
        data = chosen.choice(MUTATIONS)(data, chosen)[:MOST_BYTES]
    return data
