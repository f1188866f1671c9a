"""How a run waits for its loads: one with an invalid verdict has ended in order."""

from types import SimpleNamespace
from typing import Any

import pytest

from steelyard._base import WorkloadFailedError
from steelyard.bench.load.watch import LoadWatch


class Session:
    """What `Session.join` does with an exit code, without a process."""

    def __init__(self, exit_code: int) -> None:
        self.exit_code = exit_code

    def join(self, process: Any, timeout_s: float, *, what: str, codes: tuple[int, ...]) -> None:
        assert process is not None
        assert timeout_s > 0
        if self.exit_code not in codes:
            raise WorkloadFailedError(what)


@pytest.mark.parametrize(("exit_code", "ends"), [(0, True), (1, True), (2, False), (3, False), (4, False)])
def test_an_invalid_verdict_is_no_failure_of_the_load(exit_code: int, ends: bool) -> None:
    load = LoadWatch(SimpleNamespace())  # type: ignore[arg-type]
    if ends:
        load.finish(Session(exit_code), 1.0)  # type: ignore[arg-type]
        return
    with pytest.raises(WorkloadFailedError, match="finishing the load"):
        load.finish(Session(exit_code), 1.0)  # type: ignore[arg-type]
