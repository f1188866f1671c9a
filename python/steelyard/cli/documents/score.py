"""What ``steelyard score --json`` prints."""

from typing import ClassVar

from pydantic import Field

from steelyard.decide import Refusal, Score
from steelyard.records import Record, SuiteOverall


class RunScoreDocument(Record):
    """The score of a run: `steelyard score RUN --json`."""

    KIND: ClassVar[str] = "run_score"

    run_id: str = Field(description="The run")
    score: Score | Refusal = Field(description="The score, or the reason why there is none")


class SuiteScoreDocument(Record):
    """The scores of a suite: `steelyard score SUITE --json`."""

    KIND: ClassVar[str] = "suite_score"

    suite_id: str = Field(description="The suite")
    overall: SuiteOverall | None = Field(description="The overall score, null where there is none yet")
    scores: dict[str, Score | Refusal] = Field(description="Each member's score, or why it has none")
