"""Tags of runs: in the record, in the list, along a trend; and which are refused."""

from pathlib import Path

import pytest

from steelyard._base import UsageError
from steelyard.bench.request import MOST_TAG_LETTERS, RunRequest
from steelyard.records import Run, read
from tests.calling import call


@pytest.mark.parametrize("tag", ["", " ", "a,b", "a\nb", "\x1b[31m", "x" * (MOST_TAG_LETTERS + 1)])
def test_a_tag_that_no_list_can_show_is_refused(tag: str) -> None:
    with pytest.raises(UsageError, match="--tag"):
        RunRequest(tags=(tag,)).check_tags()


def test_tags_are_kept_in_the_record_and_in_its_command(tmp_path: Path) -> None:
    done = call(
        "run", "tax", "--tier", "smoke", "--out", str(tmp_path), "--tag", "nightly", "--tag", "commit=4f1c09"
    )
    assert done.returncode in (0, 1), done.stderr
    run = read(Run, next(tmp_path.glob("*/run.json")))
    assert run.tags == ["nightly", "commit=4f1c09"]
    assert run.command.count("--tag") == 2
