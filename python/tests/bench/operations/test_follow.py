"""A log that grows, is rotated and truncated: every line once, in order."""

import os
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.bench.operations import follow
from steelyard.bench.operations.follow import LINE_BYTES, Follower

SECOND = 1_000_000_000


def following(path: Path) -> Follower:
    found = Follower(path)
    found.open()
    return found


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_only_what_is_new_is_read_but_for_a_line_that_ends_now(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    append(path, "old\nhalf ")
    log = following(path)
    assert list(log.lines(0)) == []
    append(path, "done\nnext")
    assert list(log.lines(0)) == ["half done"]
    append(path, "\r\n\nlast\n")
    assert list(log.lines(0)) == ["next", "", "last"]
    log.close()


def test_a_log_that_is_not_there_yet_is_read_from_its_beginning(tmp_path: Path) -> None:
    log = following(tmp_path / "a.log")
    assert list(log.lines(0)) == []
    append(tmp_path / "a.log", "first\n")
    assert list(log.lines(0)) == ["first"]
    assert log.take_events() == []
    log.close()


def test_a_rotated_log_is_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    append(path, "")
    log = following(path)
    with path.open("a") as writer:
        writer.write("one\n")
        writer.flush()
        path.rename(tmp_path / "a.log.1")
        append(path, "three\n")
        # A writer keeps the old file open until it is signalled.
        writer.write("two\n")
        writer.flush()
        assert list(log.lines(0)) == ["one", "two", "three"]
        writer.write("late\n")
    assert list(log.lines(SECOND)) == ["late"]
    assert log.take_events() == ["the log was rotated"]
    list(log.lines(2 * SECOND))
    list(log.lines(9 * SECOND))
    assert len(log._files) == 1
    append(path, "four\n")
    assert list(log.lines(10 * SECOND)) == ["four"]
    log.close()


def test_a_truncated_log_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    append(path, "a long line that was there\n")
    log = following(path)
    append(path, "one\n")
    assert list(log.lines(0)) == ["one"]
    os.truncate(path, 0)
    append(path, "two\n")
    assert list(log.lines(0)) == ["two"]
    (event,) = log.take_events()
    assert "truncated" in event
    log.close()


def test_a_log_that_was_truncated_and_has_grown_past_the_place_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    append(path, "one\ntwo\n")
    log = following(path)
    os.truncate(path, 0)
    append(path, "three\nfour\nfive\nsix\n")
    assert list(log.lines(0)) == ["three", "four", "five", "six"]
    assert len(log.take_events()) == 1
    log.close()


def test_a_line_without_end_is_dropped_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    append(path, "")
    log = following(path)
    append(path, "x" * (LINE_BYTES + 1))
    assert list(log.lines(0)) == []
    append(path, "y" * 10 + "\nshort\n")
    assert list(log.lines(0)) == ["short"]
    append(path, "z" * (2 * LINE_BYTES) + "\nafter\n")
    assert list(log.lines(0)) == ["after"]
    assert log.too_long == 2
    log.close()


def test_bytes_that_are_no_text_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"")
    log = following(path)
    path.write_bytes(b"\xff\xfe GET \x00\n")
    (line,) = log.lines(0)
    assert "GET" in line
    log.close()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.text(alphabet="ab\n", max_size=30), max_size=12),
    st.integers(min_value=1, max_value=40),
    st.sets(st.integers(min_value=0, max_value=11), max_size=3),
)
def test_however_it_is_written_each_line_comes_once(
    pieces: list[str], piece_bytes: int, rotations: set[int]
) -> None:
    import tempfile

    before, follow._PIECE_BYTES = follow._PIECE_BYTES, piece_bytes
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "a.log"
            path.touch()
            log = following(path)
            found: list[str] = []
            written: list[str] = []
            rest = ""
            for place, piece in enumerate(pieces):
                append(path, piece)
                rest += piece
                if place in rotations:
                    # What is left of a line when its file ends is none.
                    written += rest.split("\n")[:-1]
                    rest = ""
                    path.rename(f"{path}.{place}")
                    path.touch()
                found += log.lines(place * 10 * SECOND)
            written += rest.split("\n")[:-1]
            found += log.lines(10**12)
            log.close()
            assert found == written
    finally:
        follow._PIECE_BYTES = before
