"""``steelyard export`` of profiles: what a reader of each format finds in it."""

import gzip
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard._base import executable
from steelyard.analyze.profiles.folded import read_folded
from steelyard.analyze.profiles.profile import Profile
from steelyard.report.profiles.pprof import pprof
from tests.calling import call
from tests.folded import folded
from tests.report.exports.test_exports_of_runs import STACKS, export, run_of
from tests.report.runs import write_run


def test_a_profile_in_each_format_has_every_sample(tmp_path: Path) -> None:
    out = tmp_path / "runs"
    write_run(out / "profiled", without=("telemetry", "cache_stats"))
    folded(out / "profiled", STACKS, "# hz: 99\n# event: cpu-clock\n", name="profile.folded")
    file = tmp_path / "profile.pb.gz"
    export(out, "profiled", "pprof", str(file))
    done = subprocess.run(
        [executable("steelyard-profile"), "fold", file], capture_output=True, text=True, check=True
    )
    stacks = dict(line.rsplit(" ", 1) for line in done.stdout.splitlines() if not line.startswith("#"))
    assert {stack: int(count) for stack, count in stacks.items()} == STACKS
    speedscope = json.loads(export(out, "profiled", "speedscope"))
    assert sum(sum(one["weights"]) for one in speedscope["profiles"]) == 110
    events = json.loads(export(out, "profiled", "perfetto"))["traceEvents"]
    assert sum(one["args"]["count"] for one in events if one["ph"] == "X" and one["name"] == "write") == 7


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the fields of a message of protobuf that has numbers and messages only."""
    at = 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            at += 1
            value |= (data[at - 1] & 0x7F) << shift
            shift += 7
            if data[at - 1] < 0x80:
                return value

    while at < len(data):
        key = number()
        size = number()
        if key & 7 == 0:
            yield key >> 3, size
        else:
            yield key >> 3, data[at : at + size]
            at += size


@pytest.mark.parametrize("stack", ["[kernel];main [steelyard-cache]", "main [libc];main [steelyard-cache]"])
def test_pprof_has_the_program_first_and_the_time_of_the_run(stack: str, tmp_path: Path) -> None:
    write_run(tmp_path / "r", without=("telemetry", "cache_stats"))
    folded(tmp_path / "r", {f"web;{stack}": 1, "steelyard-cache;x [other]": 9}, name="profile.folded")
    export(tmp_path, "r", "pprof", str(tmp_path / "p"))
    whole = list(fields(gzip.decompress((tmp_path / "p").read_bytes())))
    texts = [value for field, value in whole if field == 6]
    mappings = [dict(fields(value)) for field, value in whole if field == 3 and isinstance(value, bytes)]
    assert [one[1] for one in mappings] == list(range(1, len(mappings) + 1))
    assert texts[int(mappings[0][5])] == b"steelyard-cache"
    run = run_of(tmp_path, "r")
    measure = next(phase for phase in run.phases if phase.name == "measure")
    assert measure.end_ns is not None
    begin_ns = run.clock.realtime_ns + measure.begin_ns - run.clock.monotonic_ns
    times = {field: value for field, value in whole if field in (9, 10)}
    assert times == {9: begin_ns, 10: measure.end_ns - measure.begin_ns}


def test_without_its_command_the_program_is_what_most_samples_are_of(tmp_path: Path) -> None:
    stacks = {"a;main [libc]": 1, "a-long-name-of-a;main [a-long-name-of-a-program]": 3}
    whole = fields(gzip.decompress(pprof(read_folded(folded(tmp_path, stacks)))))
    found = list(whole)
    first = dict(fields(next(bytes(value) for field, value in found if field == 3)))  # type: ignore[arg-type]
    texts = [value for field, value in found if field == 6]
    assert texts[int(first[5])] == b"a-long-name-of-a-program"
    assert not {9, 10} & {field for field, _ in found}


def test_a_profile_that_the_sampler_wrote_is_passed_on(tmp_path: Path) -> None:
    artifacts = {"profile": "profile.pb.gz"}
    write_run(tmp_path / "r", without=("telemetry", "cache_stats"), changes={"artifacts": artifacts})
    folded(tmp_path / "r", {"a;b": 1}, name="profile.folded")
    kept = gzip.compress(b"with addresses")
    (tmp_path / "r" / "profile.pb.gz").write_bytes(kept)
    export(tmp_path, "r", "pprof", str(tmp_path / "p"))
    assert (tmp_path / "p").read_bytes() == kept
    (tmp_path / "r" / "profile.pb.gz").unlink()
    (tmp_path / "r" / "profile.pb.gz").symlink_to("/dev/zero")
    done = call("export", str(tmp_path / "r"), str(tmp_path / "q"), "--to", "pprof")
    assert done.returncode == 2
    assert "not a regular file" in done.stderr


NAME = st.text(st.characters(codec="utf-8", exclude_characters=";\n\r\x00 []"), min_size=1, max_size=8)


@settings(max_examples=30)
@given(st.dictionaries(st.lists(NAME, min_size=2, max_size=5).map(tuple), st.integers(1, 2**40), max_size=8))
def test_any_profile_survives_the_way_through_pprof(stacks: dict[tuple[str, ...], int]) -> None:
    from tempfile import TemporaryDirectory

    if not stacks:
        return
    with TemporaryDirectory() as name:
        folder = Path(name)
        profile = read_folded(folded(folder, {";".join(stack): count for stack, count in stacks.items()}))
        (folder / "p.pb.gz").write_bytes(pprof(profile))
        subprocess.run(
            [executable("steelyard-profile"), "fold", folder / "p.pb.gz", "-o", folder / "again"], check=True
        )
        again = read_folded(folder / "again")
    assert again.total == profile.total
    assert len(again.counts) == len(profile.counts)
    assert sorted(_counts(again)) == sorted(_counts(profile))


def _counts(profile: Profile) -> list[int]:
    return [count for _, _, count in profile.stacks()]
