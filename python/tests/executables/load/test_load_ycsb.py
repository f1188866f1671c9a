"""The YCSB mixes beside YCSB itself: the same operations on the same records by the same laws.

YCSB's core, with its own workloads and generators, prints what it asks of a store (``ycsb/Operations.java``);
the load engine asks it of Debian's redis-server, which says by MONITOR what it was asked. Both are samples,
of YCSB with a seed that cannot be chosen: what has to be alike is tested at ``SURE``, and a comparison fails
by chance once in a million times.
"""

import re
import socket
import subprocess
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chi2_contingency

from tests.executables import backends, servers

pytestmark = pytest.mark.slow

RECORDS = 10_000
DRAWS = 50_000
"""Operations of each of YCSB's workloads."""
SURE = 1e-6
"""Probability of a difference by chance alone that no test takes for one."""
SURE_KS = 2.7
"""The same for the distance of two distributions, as a factor of sqrt(1/n + 1/m): Smirnov's
sqrt(-ln(p/2)/2)."""
APPROXIMATION = 0.015
"""Distance of YCSB's Zipfian generator from Zipf's law: it approximates (J. Gray et al., "Quickly generating
billion-record synthetic databases", 1994), and only its two smallest ranks are exact. By its formula,
0.0142 over 10,000 items."""
GROWTH = 1.1
"""Records that there are at most, as a multiple of those loaded, where ages are compared. While records are
inserted, YCSB's generator keeps a constant of the formula that depends on their number, and its law departs
from Zipf's: by 0.0076 at 1.1 times the records, by 0.041 at 1.5 times, where it never asks for the third
latest record (computed likewise, over 10,000 and over 1,000 items)."""
HOTTEST_RATIO = 1 / 26.469
"""Share of the requests that YCSB's most popular record gets however many there are: it draws from 10^10
items and hashes them onto the records."""
WORKLOADS = "abcdef"
JARS = servers.ROOT / ".tools" / "ycsb"
SOURCE = Path(__file__).parent / "ycsb" / "Operations.java"
_ARGUMENT = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\x[0-9a-f]{2}|\\.")


@dataclass
class Asked:
    """What a store was asked for in one workload, the load phase apart."""

    counts: Counter[str]
    """Operations by name; a read that an update of the same record follows is one ``modify`` (F only)."""
    accessed: list[int]
    """Records that existed and were asked for, by the order of their insertion."""
    ages: list[int]
    """The same as the number of records that were not inserted before them, up to ``GROWTH``."""
    lengths: list[int]
    """Lengths of scans."""
    fields: Counter[str]
    """Fields of updates."""
    shapes: set[tuple[str, int, int]]
    """What is written: operation, number of fields, bytes of all."""


Line = tuple[str, str, Sequence[str]]
"""Operation, key and the rest."""


def asked_of(lines: Sequence[Line], *, modifies: bool) -> Asked:
    """Return what ``lines`` ask for; the first ``RECORDS`` are the load phase."""
    found = Asked(Counter(), [], [], [], Counter(), set())
    index: dict[str, int] = {}
    previous: Line = ("", "", ())
    for number, (operation, key, rest) in enumerate(lines):
        if operation in ("insert", "update"):
            fields = rest[0].split(",")
            found.shapes.add((operation, len(fields), int(rest[1])))
            if operation == "update":
                found.fields.update(fields)
        if operation == "insert":
            assert key not in index
            index[key] = len(index)
        if number < RECORDS:
            assert operation == "insert"
            continue
        if operation == "update" and modifies:
            assert previous[:2] == ("read", key)
            found.counts["read"] -= 1
            found.counts["modify"] += 1
        else:
            found.counts[operation] += 1
            if operation != "insert":
                found.accessed.append(index[key])
                if len(index) <= GROWTH * RECORDS:
                    found.ages.append(len(index) - index[key])
        if operation == "scan":
            found.lengths.append(int(rest[0]))
        previous = (operation, key, rest)
    return found


# YCSB


@cache
def theirs() -> dict[str, Asked]:
    """Return what YCSB asks for, by workload; ``z`` is its Zipfian generator alone."""
    if not JARS.is_dir():
        pytest.fail("YCSB is not there: scripts/install-test-packages --slow")
    command = [servers.tool("java"), "-cp", f"{JARS}/*", str(SOURCE), str(RECORDS), str(DRAWS)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    lines: dict[str, list[Line]] = {letter: [] for letter in (*WORKLOADS, "z")}
    for text in done.stdout.splitlines():
        letter, operation, key, *rest = text.split(" ")
        lines[letter].append((operation, key, rest))
    found = {name: asked_of(lines[name], modifies=name == "f") for name in WORKLOADS}
    ranks = [int(key) for _, key, _ in lines["z"]]
    assert len(ranks) == DRAWS
    return {**found, "z": Asked(Counter(), ranks, [], [], Counter(), set())}


# The load engine


def sized(text: str) -> int:
    """Return how many bytes an argument has that MONITOR prints."""
    return len(_ESCAPED.sub("?", text))


def line_of(printed: str) -> Line | None:
    """Return what a line of MONITOR asks for; None for what the mixes do not ask."""
    arguments = _ARGUMENT.findall(printed)
    match [arguments[0].lower(), *arguments[1:]]:
        case ["hgetall", key]:
            return "read", key, ()
        case ["hset", key, *pairs]:
            size = str(sum(sized(value) for value in pairs[1::2]))
            return ("update" if len(pairs) == 2 else "insert"), key, (",".join(pairs[::2]), size)
        case ["zrangebylex", "ycsb", start, "+", "LIMIT", "0", count]:
            return "scan", start.removeprefix("["), (count,)
        case ["zadd", "ycsb", "0", member]:
            # One text: the key and then the ten fields.
            key, _, fields = member.partition(" ")
            return "insert", key, (",".join("0123456789"), str(sized(fields)))
    return None


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    """What the load engine asks for, by workload; one connection, so that the order is its own."""
    found = {}
    for name in WORKLOADS:
        with backends.redis(tmp_path_factory.mktemp("redis")) as server, server.connect() as monitor:
            monitor.sendall(b"MONITOR\r\n")
            assert monitor.recv(5) == b"+OK\r\n"
            texts: list[bytes] = []
            reader = threading.Thread(target=lambda m=monitor, t=texts: t.append(servers.read_all(m)))
            reader.start()
            arguments = ("--protocol", "redis", "--mix", f"ycsb-{name}", "--keys", str(RECORDS), "--prefill")
            result = backends.load(
                server.port, *arguments, "--connections", "1", "--warmup", "0s", "--duration", "2s"
            )
            monitor.sendall(b"QUIT\r\n")
            monitor.shutdown(socket.SHUT_WR)
            reader.join(60)
        assert result["requests"]["errors"] == 0
        printed = texts[0].decode("latin-1").splitlines()
        lines = [line for text in printed if '"' in text and (line := line_of(text)) is not None]
        found[name] = asked_of(lines, modifies=name == "f")
        assert sum(found[name].counts.values()) == backends.answered(result)
    return found


# Comparisons


def alike(one: Counter, other: Counter) -> None:
    """Check that two samples of a few values can be of one distribution."""
    names = sorted(set(one) | set(other))
    if len(names) > 1:
        p = chi2_contingency([[one[name] for name in names], [other[name] for name in names]]).pvalue
        assert p > SURE, (p, one, other)
    assert len(names) > 0


def distance(one: Sequence[int], other: Sequence[int]) -> float:
    """Return the largest difference of two samples' cumulative distributions."""
    most = max(*one, *other) + 1
    shares = [np.cumsum(np.bincount(sample, minlength=most)) / len(sample) for sample in (one, other)]
    return float(np.abs(shares[0] - shares[1]).max())


def by_popularity(sample: Sequence[int]) -> list[int]:
    """Return a sample in which the record asked for most is 0, the next 1, and so on."""
    places = {record: place for place, (record, _) in enumerate(Counter(sample).most_common())}
    return [places[record] for record in sample]


def sampling(one: Sequence[int], other: Sequence[int]) -> float:
    """Return the distance that two samples of one distribution keep."""
    return float(SURE_KS * np.sqrt(1 / len(one) + 1 / len(other)))


@pytest.mark.parametrize("name", WORKLOADS)
def test_operations_have_the_same_shares(ours, name):
    assert sum(ours[name].counts.values()) > 2000
    assert set(ours[name].counts) == set(theirs()[name].counts)
    alike(ours[name].counts, theirs()[name].counts)


@pytest.mark.parametrize("name", WORKLOADS)
def test_records_have_the_same_shape(ours, name):
    assert ours[name].shapes == theirs()[name].shapes
    assert ("insert", 10, 1000) in ours[name].shapes
    if ours[name].fields:
        alike(ours[name].fields, theirs()[name].fields)


def test_scans_have_the_same_lengths(ours):
    mine, other = ours["e"].lengths, theirs()["e"].lengths
    assert (min(mine), max(mine)) == (min(other), max(other)) == (1, 100)
    alike(Counter(length // 10 for length in mine), Counter(length // 10 for length in other))
    assert distance(mine, other) < sampling(mine, other)


def test_ages_of_the_latest_records_follow_the_same_law(ours):
    mine, other = ours["d"].ages, theirs()["d"].ages
    assert min(mine) == min(other) == 1
    assert distance(mine, other) < APPROXIMATION + sampling(mine, other)


@pytest.mark.parametrize("name", "abc")
def test_popularity_follows_the_same_law(ours, name):
    mine, other = ours[name].accessed, theirs()["z"].accessed
    # What chance does to the order of rare records is alike in samples of one size.
    size = min(len(mine), len(other))
    mine, other = by_popularity(mine[:size]), by_popularity(other[:size])
    assert distance(mine, other) < APPROXIMATION + sampling(mine, other)


@pytest.mark.parametrize("name", "abcf")
def test_hashing_makes_popular_records_of_ycsb_less_popular_as_documented(ours, name):
    mine, other = Counter(ours[name].accessed), Counter(theirs()[name].accessed)
    exact = 1 / float(np.sum(np.arange(1, RECORDS + 1) ** -0.99))
    for counts, share in ((mine, exact), (other, HOTTEST_RATIO)):
        total, most = counts.total(), counts.most_common(1)[0][1]
        # Five standard deviations; others that are hashed onto the record get a thousandth at most.
        assert abs(most / total - share) < 5 * (share * (1 - share) / total) ** 0.5 + 0.001
