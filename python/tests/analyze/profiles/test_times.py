"""Times of a recording's own samples: beside its folded stacks."""

from pathlib import Path

import pytest

from steelyard._base import RecordError
from steelyard.analyze.profiles.folded import read_folded
from steelyard.analyze.profiles.times import cut, recorded_times, sample_times, write_between, write_by_child

SECOND = 1_000_000_000
HEAD = "# unit: samples\n# hz: 99\n"
FOLDED = f"{HEAD}# duration_s: 4.0\n# lost: 7\nmy prog;main [prog];a 30\nmy prog;main [prog];b 60\n"


def recording(folder: Path, times: str | None = None) -> Path:
    """Write 30 samples of one function, and then 60 of another, a tenth of a second apart."""
    path = folder / "profile.folded"
    path.write_text(FOLDED)
    rows = [f"{number * SECOND // 10} {int(number >= 30)}\n" for number in range(90)]
    path.with_suffix(".times").write_text(times or "# ns, stack\n" + "".join(rows))
    return path


def counts(path: Path) -> dict[str, int]:
    profile = read_folded(path)
    ends = profile.starts[1:] - 1
    return {
        profile.frames[profile.entries[end]].function: int(count)
        for end, count in zip(ends, profile.counts, strict=True)
    }


def test_samples_of_a_span_are_the_stacks_that_were_then(tmp_path: Path) -> None:
    path = recording(tmp_path)
    times = sample_times(path)
    assert times is not None
    assert (len(times), int(times.max())) == (90, 89 * SECOND // 10)
    part = tmp_path / "part.folded"
    assert write_between(path, 2.5, 4, part) == 15
    assert counts(part) == {"a": 5, "b": 10}
    # What holds of the whole only is not said of a part.
    assert part.read_text().startswith(f"{HEAD}my prog")
    with pytest.raises(RecordError, match="no sample from second 20 to 30"):
        write_between(path, 20, 30, part)


def test_blocks_hold_as_many_samples_each(tmp_path: Path) -> None:
    path = recording(tmp_path)
    (tmp_path / "blocks").mkdir()
    files = cut(path, 3, tmp_path / "blocks")
    assert [counts(file) for file in files] == [{"a": 30}, {"b": 30}, {"b": 30}]
    # Too few for as many blocks.
    assert cut(path, 5, tmp_path / "blocks") == []


@pytest.mark.parametrize(
    "times", ["# head\n1\n", "# head\n1 x\n", "# head\n1 -2\n", "# head\n1 2\n", "\n9 9\n"]
)
def test_malformed_files_of_times_are_reported_in_one_line(times: str, tmp_path: Path) -> None:
    path = recording(tmp_path, times)
    with pytest.raises(RecordError, match="times"):
        write_between(path, 0, 30, tmp_path / "part.folded")


def by_child(folder: Path, first_ns: int = 1_000 * SECOND) -> Path:
    """Write ten samples a second of two children for four seconds, and of one that nobody asks for."""
    path = folder / "profile-all.folded"
    path.write_text(
        f"{HEAD}# lost: 7\n# reason: no cycles\n71/a/b;main [a] 40\n72/load;work [b] 40\n73/x;y 40\n"
    )
    rows = [f"{tenth * SECOND // 10} {stack}\n" for tenth in range(40) for stack in range(3)]
    head = f"# ns since the first sample (CLOCK_MONOTONIC {first_ns}), number of its stack\n"
    path.with_suffix(".times").write_text(head + "".join(rows))
    return path


def test_samples_of_a_phase_are_parted_by_child(tmp_path: Path) -> None:
    path = by_child(tmp_path)
    server, load = tmp_path / "server.folded", tmp_path / "load.folded"
    begin_ns = 1_001 * SECOND
    found = write_by_child(path, {71: server, 72: load, 99: load}, begin_ns, begin_ns + 2 * SECOND)
    assert found == {server: 20, load: 20}
    assert counts(server) == {"main": 20}
    profile = read_folded(server)
    # The child's number is gone, and what belongs to the command stays.
    assert profile.commands[-1] == "a/b"
    assert profile.facts["reason"] == "no cycles"
    assert (profile.facts["lost"], profile.facts["duration_s"]) == ("7", "2.000")
    # Each side keeps when its samples were taken.
    taken = recorded_times(server)
    assert taken is not None
    assert taken.first_ns == begin_ns
    assert taken.elapsed_ns.tolist() == [tenth * SECOND // 10 for tenth in range(20)]
    assert write_between(load, 0.5, 1.0, tmp_path / "part.folded") == 5


def test_a_side_without_samples_in_the_phase_has_no_file(tmp_path: Path) -> None:
    path = by_child(tmp_path)
    server, load = tmp_path / "server.folded", tmp_path / "load.folded"
    assert write_by_child(path, {71: server, 99: load}, 0, 1_002 * SECOND) == {server: 20, load: 0}
    assert not load.exists()
    assert write_by_child(path, {71: server}, 0, SECOND) == {server: 0}


@pytest.mark.parametrize(
    ("head", "message"),
    [("# ns, stack\n", "does not say when"), ("# ns (CLOCK_MONOTONIC 5), stack\n0 9\n", "not the times of")],
)
def test_stacks_without_the_time_of_the_first_cannot_be_parted(
    tmp_path: Path, head: str, message: str
) -> None:
    path = by_child(tmp_path)
    path.with_suffix(".times").write_text(head)
    with pytest.raises(RecordError, match=message):
        write_by_child(path, {71: tmp_path / "server.folded"}, 0, 10**15)


def test_times_are_of_the_event_that_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "script.txt"
    samples = [
        f"srv 10 [000] {at // 10}.{at % 10:06d}:          1 {'page-faults' if at % 2 else 'cycles'}: \n"
        f"\t    10 f{at % 2} (/bin/srv)\n\n"
        for at in range(10, 60)
    ]
    path.write_text("".join(samples))
    both, cycles = sample_times(path), sample_times(path, "cycles")
    assert both is not None
    assert cycles is not None
    assert (len(both), len(cycles)) == (50, 25)
    hybrid = sample_times(path, "cycles + page-faults")
    assert hybrid is not None
    assert len(hybrid) == 50
    assert sample_times(path, "branches") is None
    target = tmp_path / "cut.txt"
    assert write_between(path, 0, 2, target, "page-faults") == 10
    assert "cycles" not in target.read_text()
