"""Conversations with steelyard-cache: as with Debian's memcached, and with clients of others."""

import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pymemcache.client.base import Client
from pymemcache.exceptions import MemcacheClientError, MemcacheServerError

from . import servers

KEY = b"k" * 250
LONG = b"k" * 251
CHUNK = b"CLIENT_ERROR bad data chunk\r\n"
# Longer values are refused by both. memcached counts the key and its bookkeeping too, so that just below
# this length it refuses what we take.
ITEM_BYTES = 1 << 20


@pytest.fixture(scope="module", params=["uring", "epoll"])
def ours(request: pytest.FixtureRequest) -> Iterator[servers.Server]:
    """Return a running steelyard-cache, once over each way to move bytes."""
    if request.param == "uring" and not servers.uring_is_permitted():
        pytest.skip("the kernel does not permit io_uring here")
    with servers.steelyard_cache("--io", request.param) as server:
        yield server


@pytest.fixture(scope="module")
def theirs() -> Iterator[servers.Server]:
    """Return a running memcached whose background threads hold no items.

    It counts in place, and pads a shorter number, unless such a thread happens to hold the item: then it
    stores a new one without padding.
    """
    with servers.memcached("-o", "no_lru_maintainer,no_lru_crawler") as server:
        yield server


def talk(server: servers.Server, steps: list[bytes]) -> bytes:
    """Start from an empty cache, send each step once the one before is answered, and return all answers.

    A ``version`` command marks the end of each step's answers; its line is taken out of the answer, since the
    versions differ.
    """
    answers = []
    with server.connect() as connection:
        for step in [b"flush_all\r\n", *steps]:
            connection.sendall(step + b"version\r\n")
            answer = b""
            while not re.search(rb"VERSION [^\r\n]*\r\n\Z", answer):
                part = connection.recv(1 << 20)
                if not part:
                    return b"".join([*answers, answer, b"<closed>"])
                answer += part
            answers.append(re.sub(rb"VERSION [^\r\n]*\r\n", b"<version>", answer))
    return b"".join(answers)


def stored(key: bytes, value: bytes, flags: int = 0, expiry: int = 0) -> bytes:
    return b"set %s %d %d %d\r\n%s\r\n" % (key, flags, expiry, len(value), value)


GOOD = {
    "hit and miss": [stored(b"a", b"1"), b"get a\r\n", b"get b\r\n", b"get a b a\r\n"],
    "empty value": [stored(b"a", b""), b"get a\r\n"],
    "values with line ends": [stored(b"a", b"x\r\nEND\r\nget b\r\n"), b"get a\r\n"],
    "longest key": [stored(KEY, b"1"), b"get %s\r\n" % KEY, b"delete %s\r\n" % KEY],
    "flags": [stored(b"a", b"1", 4294967295), b"get a\r\n", stored(b"a", b"1", 4294967296), b"get a\r\n"],
    "add": [b"add a 1 0 1\r\nx\r\n", b"add a 2 0 1\r\ny\r\n", b"get a\r\n"],
    "replace": [b"replace a 1 0 1\r\nx\r\n", stored(b"a", b"0"), b"replace a 2 0 1\r\ny\r\n", b"get a\r\n"],
    "append and prepend": [
        b"append a 1 0 1\r\nx\r\n",
        b"prepend a 1 0 1\r\nx\r\n",
        stored(b"a", b"mid", 3),
        b"append a 9 0 2\r\n->\r\n",
        b"prepend a 9 0 2\r\n<-\r\n",
        b"get a\r\n",
    ],
    "delete": [stored(b"a", b"1"), b"delete a\r\n", b"delete a\r\n", b"delete a 0\r\n", b"delete a 1\r\n"],
    "counting": [
        stored(b"n", b"9"),
        b"incr n 1\r\n",
        b"get n\r\n",
        b"decr n 1\r\n",
        b"get n\r\n",
        b"decr n 100\r\n",
        b"get n\r\n",
        b"incr n 18446744073709551615\r\n",
        b"incr n 1\r\n",
        b"incr n 2\r\n",
        b"get n\r\n",
        b"incr missing 1\r\n",
        b"decr missing 1\r\n",
    ],
    "counting keeps flags": [stored(b"n", b"99", 7), b"incr n 1\r\n", b"get n\r\n"],
    "touch": [stored(b"a", b"1"), b"touch a 100\r\n", b"touch b 100\r\n", b"touch a -1\r\n", b"get a\r\n"],
    "get and touch": [
        stored(b"a", b"1", 5),
        b"gat 100 a b\r\n",
        b"gat 0 a a\r\n",
        b"gat -1 a\r\n",
        b"get a\r\n",
    ],
    "expiry": [
        stored(b"a", b"1", 0, -1),
        b"get a\r\n",
        stored(b"a", b"1", 0, 2592000),
        b"get a\r\n",
        stored(b"a", b"1", 0, 2592001),
        b"get a\r\n",
        stored(b"a", b"1", 0, 2147483647),
        b"get a\r\n",
    ],
    "flush": [
        stored(b"a", b"1"),
        b"flush_all 1000\r\n",
        b"get a\r\n",
        b"flush_all 0\r\n",
        b"get a\r\n",
        stored(b"a", b"2"),
        b"get a\r\n",
        b"flush_all -1\r\n",
        b"get a\r\n",
    ],
    "quiet commands": [
        b"set a 0 0 1 noreply\r\n1\r\n",
        b"add a 0 0 1 noreply\r\n2\r\n",
        b"replace a 0 0 1 noreply\r\n3\r\n",
        b"append a 0 0 1 noreply\r\n4\r\n",
        b"prepend a 0 0 1 noreply\r\n5\r\n",
        b"get a\r\n",
        b"incr a 1 noreply\r\n",
        b"decr a 2 noreply\r\n",
        b"touch a 0 noreply\r\n",
        b"get a\r\n",
        b"delete a noreply\r\n",
        b"delete a 0 noreply\r\n",
        b"verbosity 0 noreply\r\n",
        b"flush_all noreply\r\n",
        b"flush_all 0 noreply\r\n",
        b"get a\r\n",
    ],
    "verbosity": [b"verbosity 0\r\n", b"verbosity\r\n", b"verbosity x\r\n", b"verbosity 1 2 3\r\n"],
    "many keys": [stored(b"a", b"1"), b"get %s\r\n" % b" ".join([b"a", b"b"] * 700)],
    "pipelined": [
        b"".join(stored(b"k%d" % i, b"v" * i) + b"get k%d k%d\r\n" % (i, i - 1) for i in range(60))
    ],
    "bare line ends": [b"get a\n", b"set a 0 0 1\nx\r\n", b"get a\n"],
    "spaces": [b"  get   a  \r\n", b"set  a  0  0  1 \r\nx\r\n", b"get  a   b \r\n"],
    "large value": [
        stored(b"a", b"x" * 15000),
        b"get a\r\n",
        b"append a 0 0 500\r\n" + b"y" * 500 + b"\r\n",
        b"get a\r\n",
    ],
}

BAD = {
    "no command": [b"\r\n", b"\n", b"x\r\n", b"xx\r\n", b"   \r\n"],
    "unknown commands": [b"GET a\r\n", b"gett a\r\n", b"hello world\r\n", b"se\r\n", b"misbehave\r\n"],
    "no key": [
        b"get\r\n",
        b"get \r\n",
        b"gets\r\n",
        b"gat\r\n",
        b"gat 0\r\n",
        b"delete\r\n",
        b"incr\r\n",
        b"touch\r\n",
    ],
    "too few words": [
        b"set a 0 0\r\n",
        b"add a\r\n",
        b"cas a 0 0 1\r\n",
        b"incr a\r\n",
        b"touch a\r\n",
        b"gat x\r\n",
    ],
    "too many words": [
        b"set a 0 0 1 noreply x\r\n",
        b"delete a b c d\r\n",
        b"incr a 1 noreply x\r\n",
        b"touch a 0 noreply x\r\n",
        b"flush_all a b c\r\n",
    ],
    "other words for noreply": [
        b"set a 0 0 1 foo\r\nx\r\n",
        b"incr a 1 foo\r\n",
        b"touch a 0 foo\r\n",
        b"delete a foo\r\n",
    ],
    "keys of 251": [
        b"get %s\r\n" % LONG,
        b"get a %s b\r\n" % LONG,
        b"gets %s\r\n" % LONG,
        b"gat 0 %s\r\n" % LONG,
        b"set %s 0 0 1\r\n" % LONG,
        b"delete %s\r\n" % LONG,
        b"incr %s 1\r\n" % LONG,
        b"touch %s 0\r\n" % LONG,
        b"cas %s 0 0 1 1\r\n" % LONG,
    ],
    "bad chunks": [
        b"set a 0 0 1\r\nxyz\r\n",
        b"set a 0 0 1\r\nxyzget a\r\n",
        b"set a 0 0 3\r\nx\r\n\r\n",
        b"set a 0 0 0\r\nx\r\n",
        b"set a 0 0 1 noreply\r\nxyz\r\n",
        b"set a 0 0 2\r\nab\n\n",
        b"add a 0 0 1\r\nxyz\r\n",
        b"get a\r\n",
    ],
    "lengths": [
        b"set a 0 0 -1\r\n",
        b"set a 0 0 x\r\n",
        b"set a 0 0 1x\r\n",
        b"set a 0 0 2147483646\r\n",
        b"set a 0 0 2147483647\r\n",
        b"set a 0 0 2147483648\r\n",
        b"set a 0 0 -2147483648\r\n",
        b"set a 0 0 4294967297\r\nx\r\n",
        b"set a 0 0 9223372036854775808\r\n",
        b"set a 0 0 99999999999999999999999\r\n",
        b"set a 0 0 +1\r\nx\r\n",
        b"set a 0 0 1\t\r\nx\r\n",
        b"get a\r\n",
    ],
    "flags and expiry": [
        b"set a x 0 1\r\n",
        b"set a -1 0 1\r\n",
        b"set a 18446744073709551615 0 1\r\nx\r\n",
        b"get a\r\n",
        b"set a 18446744073709551616 0 1\r\n",
        b"set a 0 x 1\r\n",
        b"set a 0 9223372036854775808 1\r\n",
        b"set a 1.5 0 1\r\n",
        b"set a 0 0 1 noreply x\r\n",
        b"set a 0 0 x noreply\r\n",
    ],
    "too large": [
        stored(b"a", b"1"),
        stored(b"a", b"x" * (ITEM_BYTES + 1)),
        b"get a\r\n",
        stored(b"a", b"1"),
        b"add b 0 0 %d\r\n%s\r\n" % (ITEM_BYTES + 1, b"x" * (ITEM_BYTES + 1)),
        b"replace a 0 0 %d\r\n%s\r\n" % (ITEM_BYTES + 1, b"x" * (ITEM_BYTES + 1)),
        b"get a b\r\n",
        b"set a 0 0 %d noreply\r\n%s\r\n" % (ITEM_BYTES + 1, b"x" * (ITEM_BYTES + 1)),
        b"get a\r\n",
    ],
    "counting what is no number": [
        stored(b"a", b"x"),
        b"incr a 1\r\n",
        b"decr a 1\r\n",
        stored(b"a", b""),
        b"incr a 1\r\n",
        stored(b"a", b"18446744073709551616"),
        b"incr a 1\r\n",
        stored(b"a", b"-1"),
        b"incr a 1\r\n",
        stored(b"a", b"12 "),
        b"incr a 1\r\n",
        stored(b"a", b" 7"),
        b"incr a 1\r\n",
        stored(b"a", b"7x"),
        b"incr a 1\r\n",
        stored(b"a", b"1" * 30),
        b"incr a 1\r\n",
    ],
    "deltas": [
        stored(b"n", b"5"),
        b"incr n -1\r\n",
        b"incr n x\r\n",
        b"incr n 18446744073709551616\r\n",
        b"incr n 1.5\r\n",
        b"decr n x noreply\r\n",
        b"get n\r\n",
    ],
    "touch and flush": [
        b"touch a x\r\n",
        b"gat x a\r\n",
        b"gat 1x a\r\n",
        b"flush_all x\r\n",
        b"flush_all x noreply\r\n",
    ],
    "cas": [
        b"cas a 0 0 1 x\r\n",
        b"cas a 0 0 1 -1\r\n",
        b"cas a 0 0 1 18446744073709551616\r\n",
        b"cas a 0 0 1 1\r\nx\r\n",
        b"cas a 0 0 1 1 noreply\r\nx\r\n",
    ],
    "control characters": [
        b"get a\tb\r\n",
        b"get\ta\r\n",
        b"set a\x01b 0 0 1\r\nx\r\n",
        b"get a\x01b\r\n",
        b"get a\x00 b\r\n",
        b"ge\x00t a\r\n",
        b"\x00\x00\x00\r\n",
        b"get \xff\xfe\r\n",
        b"version\r\r\n",
    ],
    "binary garbage": [
        bytes(range(1, 10)) + bytes(range(11, 128)) + b"\r\n",
        b"\x81\x00\x7f\xff" * 30 + b"\r\n",
    ],
    "lines that are too long": [b"get " + b"a " * 3000 + b"\r\n", b"x" * 1000 + b"\r\n"],
    "a web browser": [b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"],
    "quit": [b"quit\r\n"],
    "quit with words": [b"quit now\r\n"],
}


@pytest.fixture
def both(ours: servers.Server, theirs: servers.Server) -> tuple[servers.Server, servers.Server]:
    """Return both servers."""
    return ours, theirs


@pytest.mark.parametrize("name", [*GOOD, *BAD])
def test_answers_are_those_of_memcached(both: tuple[servers.Server, servers.Server], name: str) -> None:
    steps = {**GOOD, **BAD}[name]
    mine, other = both
    assert talk(mine, steps) == talk(other, steps)


@pytest.mark.parametrize("name", ["cas ids", "conflict"])
def test_cas_answers_are_those_of_memcached(both: tuple[servers.Server, servers.Server], name: str) -> None:
    def conversation(server: servers.Server) -> bytes:
        with server.connect() as connection:
            lines = connection.makefile("rwb")

            def ask(text: bytes, answers: int) -> list[bytes]:
                lines.write(text)
                lines.flush()
                return [lines.readline() for _ in range(answers)]

            ask(stored(b"c", b"1", 3), 1)
            first = ask(b"gets c\r\n", 3)
            unique = int(first[0].split()[-1])
            if name == "conflict":
                ask(stored(b"c", b"2", 3), 1)
            answer = ask(b"cas c 4 0 1 %d\r\nn\r\n" % unique, 1)
            after = ask(b"gets c\r\n", 3)
            # The ids themselves are each server's own; that they grow by one a change is the same.
            step = int(after[0].split()[-1]) - unique
            return b"".join([*answer, b"%d" % step, *after[0].split()[:-1], *after[1:]])

    mine, other = both
    assert conversation(mine) == conversation(other)


def test_a_delayed_flush_comes_when_memcacheds_does(both: tuple[servers.Server, servers.Server]) -> None:
    mine, other = both
    begin = time.monotonic()
    for server in (mine, other):
        assert b"VALUE d" in talk(server, [stored(b"d", b"1"), b"flush_all 2\r\n", b"get d\r\n"])

    def gone(server: servers.Server) -> bool:
        with server.connect() as connection:
            connection.sendall(b"get d\r\nquit\r\n")
            return bool(servers.read_all(connection) == b"END\r\n")

    while not (gone(mine) and gone(other)):
        assert time.monotonic() < begin + 30
        time.sleep(0.05)
    assert time.monotonic() > begin + 0.9


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_cuts_do_not_change_answers(both: tuple[servers.Server, servers.Server], size: int) -> None:
    steps = [
        *GOOD["pipelined"],
        *GOOD["counting"],
        *GOOD["quiet commands"],
        *BAD["bad chunks"],
        *BAD["control characters"],
    ]
    data = b"".join(steps)
    mine, _ = both
    whole = talk(mine, [data])
    with mine.connect() as connection:
        connection.sendall(b"flush_all\r\n")
        for at in range(0, len(data), size):
            connection.sendall(data[at : at + size])
        connection.sendall(b"version\r\nquit\r\n")
        cut = servers.read_all(connection)
    assert re.sub(rb"VERSION [^\r\n]*\r\n", b"<version>", cut) == whole.replace(b"<version>", b"", 1)


WORDS = st.sampled_from(
    b"get set add append cas incr decr delete touch gat verbosity a b 0 1 2 -1 x noreply "
    b"4294967296 18446744073709551615 \t1 1\t".split(b" ")
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.lists(st.lists(WORDS, min_size=1, max_size=7).map(b" ".join), min_size=1, max_size=6))
def test_random_lines_get_memcacheds_answers(
    both: tuple[servers.Server, servers.Server], lines: list[bytes]
) -> None:
    # After a line that stores, the next lines are the value: both servers must cut the stream alike.
    steps = [*(line + b"\r\n" for line in lines), b"x\r\n", b"\r\n\r\n"]
    mine, other = both
    # In one piece: a mark after each step could itself be cut as a value, and then nobody answers it.
    whole = [b"".join(steps)]
    assert talk(mine, whole) == talk(other, whole)


def test_pymemcache_finds_what_it_expects(ours: servers.Server) -> None:
    client = Client(("127.0.0.1", ours.port), timeout=20)
    client.flush_all()
    assert client.set("a", "1", noreply=False)
    assert client.get("a") == b"1"
    assert client.get("b", default="none") == "none"
    assert client.set_many({f"k{i}": str(i) * i for i in range(100)}, noreply=False) == []
    assert client.get_many([f"k{i}" for i in range(110)]) == {
        f"k{i}": (str(i) * i).encode() for i in range(100)
    }
    _, cas = client.gets("a")
    assert client.cas("a", "2", cas, noreply=False) is True
    assert client.cas("a", "3", cas, noreply=False) is False
    assert client.incr("a", 40) == 42
    assert client.decr("a", 2) == 40
    assert client.add("a", "x", noreply=False) is False
    assert client.append("a", "!", noreply=False)
    assert client.prepend("a", "?", noreply=False)
    assert client.replace("a", "z", noreply=False)
    assert client.touch("a", 100, noreply=False)
    assert client.get("a") == b"z"
    assert client.delete("a", noreply=False)
    assert client.get("a") is None
    big = b"v" * (1 << 20)
    assert client.set("big", big, noreply=False)
    assert client.get("big") == big
    with pytest.raises((MemcacheClientError, MemcacheServerError)):
        client.set("big", big + b"v", noreply=False)
    assert int(client.stats()[b"curr_items"]) >= 100
    assert client.version()
    client.close()


def test_libmemcached_tools_are_served(ours: servers.Server, tmp_path: Path) -> None:
    address = f"--servers=127.0.0.1:{ours.port}"

    def run(name: str, *arguments: str, expect: int = 0) -> str:
        done = subprocess.run(
            [servers.tool(name), address, *arguments], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == expect, (name, arguments, done.stdout, done.stderr)
        return done.stdout

    file = tmp_path / "note"
    file.write_text("weights and measures\n")
    run("memcflush")
    run("memcping")
    run("memccp", str(file))
    assert "weights and measures" in run("memccat", "note")
    run("memcexist", "note")
    run("memctouch", "--expire=100", "note")
    assert "curr_items" in run("memcstat")
    run("memcrm", "note")
    run("memcexist", "note", expect=1)
    run("memcslap", "--concurrency=2", "--execute-number=200", "--initial-load=200", "--test=get")


def test_memcaslap_verifies_every_value(ours: servers.Server) -> None:
    done = subprocess.run(
        [
            servers.tool("memcaslap"),
            "-s",
            f"127.0.0.1:{ours.port}",
            "-T",
            "1",
            "-c",
            "8",
            "-x",
            "20000",
            "-v",
            "0.2",
        ],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    counts = dict(re.findall(r"^(\w+): (\d+)", done.stdout, re.MULTILINE))
    assert counts["get_misses"] == "0", done.stdout
    assert counts["verify_failed"] == "0", done.stdout


def test_memccapable_passes_what_memcached_passes(ours: servers.Server, theirs: servers.Server) -> None:
    def passed(server: servers.Server) -> set[str]:
        done = subprocess.run(
            [servers.tool("memccapable"), "-h", "127.0.0.1", "-p", str(server.port), "-a"],
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        return set(re.findall(r"^(ascii .*?)\s+\[pass\]", done.stdout, re.MULTILINE))

    expected = passed(theirs)
    assert expected
    assert expected <= passed(ours)
