"""One server on a record of each kind, for the tests of a module."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.web.serving import Served, served, write_all


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a record of each kind."""
    folder = tmp_path_factory.mktemp("records") / "runs"
    folder.mkdir()
    write_all(folder)
    return folder


@pytest.fixture(scope="module")
def server(records: Path) -> Iterator[Served]:
    """A server on these records."""
    with served(records) as started:
        yield started
