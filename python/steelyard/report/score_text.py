"""Text shown beside a score: its interval, its parts, and the runs behind the baseline.

In: a `Score`, or a member or the whole of a suite. Out: plain text, one phrase a line.

Not here: computing scores (``decide``), and layout.
"""

from dataclasses import dataclass

from steelyard.decide.score import Score, ScorePart
from steelyard.records import SuiteBaseline, SuiteMember, SuiteOverall, SuitePart
from steelyard.report import format as fmt
from steelyard.report.metrics import metric_name


@dataclass(frozen=True, slots=True)
class ScoreText:
    """A score in words. ``parts`` and ``baseline`` are empty where there are none."""

    ratio: str
    interval: str
    parts: str
    baseline: str

    @property
    def notes(self) -> list[str]:
        """What stands beside the ratio."""
        return [text for text in (self.interval, self.parts, self.baseline) if text]


def ratio_text(ratio: float) -> str:
    """Return a ratio to the baseline.

    >>> ratio_text(0.99412)
    '0.994×'
    """
    return f"{fmt.significant(ratio)}×"


def score_text(score: Score) -> ScoreText:
    """Return the score of one run, or of repeats, in words."""
    return ScoreText(
        ratio_text(score.ratio),
        _interval(score.ratio_low, score.ratio_high, score.no_interval, score.spread_ratio, score.sessions),
        _parts(score.worst_part, score.best_part),
        _baseline(
            score.baseline_runs, score.baseline_suspect_runs, score.baseline_date, score.baseline_ratios
        ),
    )


def member_text(member: SuiteMember) -> ScoreText | None:
    """Return the score of a suite's member in words, ``None`` where it has none."""
    if member.score is None:
        return None
    return ScoreText(
        ratio_text(member.score),
        _interval(
            member.score_low, member.score_high, member.no_interval, member.spread_ratio, member.sessions
        ),
        _parts(_pair(member.worst_part), _pair(member.best_part)),
        "" if member.baseline is None else _baseline_of(member.baseline),
    )


def overall_text(overall: SuiteOverall) -> ScoreText | None:
    """Return a suite's overall score in words, ``None`` where it is withheld."""
    if overall.score is None:
        return None
    parts = ""
    if overall.worst is not None and overall.best is not None and overall.worst != overall.best:
        worst, best = overall.worst, overall.best
        parts = f"from {worst.name} {ratio_text(worst.score)} to {best.name} {ratio_text(best.score)}"
    interval = _interval(overall.score_low, overall.score_high, overall.no_interval, None, overall.sessions)
    return ScoreText(ratio_text(overall.score), interval, parts, "")


def short_interval(member: SuiteMember) -> str:
    """Return the interval of a member's score for a narrow column; a dash where there is no score."""
    if member.score_low is not None and member.score_high is not None:
        return _ends(member.score_low, member.score_high)
    return f"none from {member.no_interval.partition(',')[0]}" if member.no_interval else fmt.MISSING


def _ends(low: float, high: float) -> str:
    return f"{ratio_text(low)} to {ratio_text(high)}"


def _interval(
    low: float | None,
    high: float | None,
    missing: str | None,
    spread: float | None,
    sessions: int | None,
) -> str:
    scatter = "" if spread is None else f"; spread of the runs {fmt.quantity(spread, 'ratio')}"
    if low is not None and high is not None:
        of = "within one session" if sessions is None else f"with the spread of {sessions} earlier sessions"
        return f"95 % interval {_ends(low, high)} {of}{scatter}"
    return f"{missing or 'no interval'}{scatter}"


def _parts(worst: ScorePart | None, best: ScorePart | None) -> str:
    if worst is None or best is None or worst == best:
        return ""
    ends = [f"{metric_name(part.name)} {ratio_text(part.ratio)}" for part in (worst, best)]
    return f"worst part {ends[0]}, best {ends[1]}"


def _baseline_of(baseline: SuiteBaseline) -> str:
    ends = (baseline.lowest, baseline.highest)
    # What is between the ends is not in the suite's record: their distance is the spread.
    return _baseline(baseline.runs, baseline.suspect_runs, baseline.date, ends)


def _baseline(runs: int, suspect: int, date: str | None, ratios: tuple[float, ...]) -> str:
    if not runs:
        return ""
    when = f" of {date}" if date else ""
    trust = "" if not suspect else f", {'all' if suspect == runs else suspect} suspect"
    if runs == 1:
        return f"baseline: 1 run{when}{trust}, its spread is not known"
    low, high = ratio_text(min(ratios)), ratio_text(max(ratios))
    spread = fmt.quantity(max(ratios) - min(ratios), "ratio")
    return f"baseline: {runs} runs{when}{trust}, from {low} to {high} (spread {spread})"


def _pair(part: SuitePart | None) -> ScorePart | None:
    return None if part is None else ScorePart(part.name, part.score)
