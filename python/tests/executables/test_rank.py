"""steelyard-rank called by an ordinary Thrift client: the same feed and checksum, however it is served."""

import json
from pathlib import Path
from typing import Any

import pytest

from steelyard.records import RankStats, read_lines

from . import rank
from .servers import ROOT

USERS = (0, 1, 2, 12345, 2**63 - 1, -1)
STAGES = ["queue", "features", "fan_out", "embedding", "network", "graph", "compose", "serialize", "compress"]


def checksum(response: Any) -> str:
    """A response's checksum as ``data/feed/checksums.json`` has it."""
    return str(response.checksum)


def checksums(root: rank.Process, compression: int = 0, users: tuple[int, ...] = USERS) -> dict[str, str]:
    with root.client() as client:
        ask = rank.idl().RankRequest
        return {
            str(user): checksum(client.rank(ask(user_id=user, compression=compression))) for user in users
        }


@pytest.fixture(scope="module")
def golden() -> dict[str, str]:
    results = json.loads((ROOT / "data" / "feed" / "checksums.json").read_text())["results"]
    small = next(found for found in results if found["root"] == list(rank.SMALL))
    assert small["leaf"] == list(rank.SMALL_LEAF), "the golden checksums are those of other work"
    checksums: dict[str, str] = small["checksums"]
    return checksums


def test_any_thrift_client_gets_a_feed(tmp_path: Path, golden: dict[str, str]) -> None:
    stats = tmp_path / "stats.jsonl"
    with rank.leaf(tmp_path) as leaf, rank.root(tmp_path, [leaf], f"--stats-out={stats}") as root:
        feeds = []
        with root.client() as client:
            for compression in rank.CODECS:
                request = rank.idl().RankRequest(user_id=12345, stories=7, compression=compression)
                response = client.rank(request)
                assert response.compression == compression
                assert response.story_count == 7
                blob = rank.unpack(response.stories, compression, response.uncompressed_bytes)
                assert (len(response.stories) < len(blob)) == (compression != 0)
                feeds.append((checksum(response), blob))
                assert [stage.name for stage in response.stages] == STAGES
                assert all(stage.wall_ns > 0 for stage in response.stages[1:])
            default = client.rank(rank.idl().RankRequest(user_id=12345))
        assert default.story_count == 30
        assert checksum(default) == golden["12345"]
        assert len(set(feeds)) == 1, "compression changes neither the feed nor its checksum"
        stories = rank.parse(rank.idl().Stories, feeds[0][1]).stories
        assert len(stories) == 7
        assert len({story.id for story in stories}) == 7
        scores = [story.score for story in stories]
        assert scores == sorted(scores, reverse=True)
        assert all(len(story.text.split()) == 60 for story in stories)
        assert root.stop() == 0
    last = list(read_lines(RankStats, stats))[-1]
    assert last.requests == 4
    assert [stage.name for stage in last.stages] == STAGES
    total = 3 * int(feeds[0][0]) + default.checksum
    assert last.checksum_sum == f"{total % 2**64:016x}"
    assert last.feature_code_bytes == root.ready["feature_code_bytes"]


@pytest.mark.parametrize(
    ("tls", "leaf_arguments", "root_arguments", "leaves"),
    [
        (True, (), (), 1),
        (False, ("--workers=1",), ("--workers=1", "--leaf-compression=none"), 1),
        (True, ("--workers=8",), ("--workers=8", "--leaf-compression=zstd", "--io-threads=2"), 2),
        (False, ("--delay=exponential:2ms",), ("--fan-out-threads=2", "--leaf-connections=3"), 2),
    ],
)
def test_checksums_are_those_of_every_other_machine(
    tmp_path: Path,
    golden: dict[str, str],
    tls: bool,
    leaf_arguments: tuple[str, ...],
    root_arguments: tuple[str, ...],
    leaves: int,
) -> None:
    folder = tmp_path if tls else None
    with (
        rank.leaf(folder, *leaf_arguments) as one,
        rank.leaf(folder, *leaf_arguments) as other,
        rank.root(folder, [one, other][:leaves], *root_arguments) as root,
    ):
        assert checksums(root) == golden
        assert checksums(root, compression=2) == golden
        assert root.stop() == 0


def test_other_work_has_other_checksums(tmp_path: Path, golden: dict[str, str]) -> None:
    """Every stage is in the checksum: a stage that did nothing, or something else, would be seen."""
    changes = (
        "--feature-functions=255",
        "--feature-calls=2001",
        "--leaf-candidates=201",
        "--leaf-results=21",
        "--fan-out=9",
        "--embedding-bytes=2MiB",
        "--embedding-lookups=7",
        "--network-width=63",
        "--graph-bytes=2MiB",
        "--chase-steps=501",
        "--story-words=61",
        "--seed=2",
    )
    seen = [{"12345": golden["12345"]}]
    with rank.leaf(None) as leaf:
        for change in changes:
            with rank.root(None, [leaf], change) as root:
                found = checksums(root, users=(12345,))
                assert found not in seen, change
                seen.append(found)
