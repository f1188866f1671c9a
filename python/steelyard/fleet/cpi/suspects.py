"""Who made a task anomalous: co-located tasks ranked by antagonist correlation, for all victims at once.

In: ``task_samples`` and outliers (``outliers``). Out: for each episode (a run of anomalous samples of one
task) the suspects at the moment of the decision, ranked.

Method (Zhang et al., EuroSys 2013, section 4.2, and ``rule``, which the tests hold this to): at every
anomalous sample the victim's samples of the 10 minutes up to it are paired with the simultaneous ones of
every other task of the machine. A sample of usage u, scaled to a sum of 1, adds u (1 - t/c) where the
victim's CPI c is above its threshold t, and u (c/t - 1) where it is below. As an agent would, an episode is
decided at
its first anomalous sample at which a suspect reaches the floor; where none ever does, at its first one.

Invariants: an idle suspect has no correlation (null), and never divides by zero; everything is joined by
machine and span of time, so that the work grows with the anomalous samples and not with the fleet.

Not here: what is done about it (``incidents``).
"""

from __future__ import annotations

from typing import Any

from steelyard.fleet.cpi.outliers import TASK, _guards
from steelyard.fleet.cpi.rule import BATCH, BEST_EFFORT, LATENCY_SENSITIVE, PAPER, Rule
from steelyard.fleet.cpi.samples import Guards, judged
from steelyard.telemetry.deferred import ibis

_PLACE = ("cluster", "machine")
_AGAIN = "_again"
_EPISODE = (*TASK, "episode_start_unix_s")


def episodes(outliers: Any, rule: Rule = PAPER) -> Any:
    """Return the anomalous samples with the start of their episode.

    A new episode begins where the one before lies further back than the correlation looks.
    """
    rows = outliers.filter(outliers.is_anomalous)
    order = ibis.window(group_by=TASK, order_by="window_start_unix_s")
    start = rows.window_start_unix_s
    rows = rows.mutate(begins=(start - start.lag(1).over(order) > rule.correlation_s).fill_null(True))
    begun = rows.begins.ifelse(rows.window_start_unix_s, None)
    so_far = ibis.window(group_by=TASK, order_by="window_start_unix_s", preceding=None, following=0)
    rows = rows.mutate(episode_start_unix_s=begun.max().over(so_far)).drop("begins")
    episode = ibis.window(group_by=_EPISODE)
    return rows.mutate(
        anomalous_samples=rows.count().over(episode),
        end_unix_s=rows.window_start_unix_s.max().over(episode),
        victim_cpi=rows.cpi.max().over(episode),
    )


def expression(samples: Any, outliers: Any, rule: Rule = PAPER, guards: Guards | None = None) -> Any:
    """Return the ranked suspects of every episode at its decision.

    One row for each suspect; an episode of a victim that was alone on its machine has one row without a
    suspect.
    """
    moments = episodes(outliers, rule)
    return _ranked(moments, _correlations(samples, moments, rule, guards), rule)


def tops(samples: Any, outliers: Any, rule: Rule = PAPER, guards: Guards | None = None) -> Any:
    """Return at every anomalous sample the suspect with the highest correlation, whatever the floor."""
    moments = episodes(outliers, rule)
    best = _correlations(samples, moments, rule, guards)
    best = best.filter(best.correlation.notnull())
    place = ibis.row_number().over(
        group_by=[*_PLACE, "victim_job", "victim_task", "decided_unix_s"],
        order_by=[best.correlation.desc(), best.job, best.task],
    )
    best = best.mutate(place=place)
    best = best.filter(best.place == 0)
    known = moments.select(
        *_PLACE,
        "episode_start_unix_s",
        victim_job="job",
        victim_task="task",
        decided_unix_s="window_start_unix_s",
    )
    both = known.join(best, [*_PLACE, "victim_job", "victim_task", "decided_unix_s"])
    return both.select(
        *_PLACE,
        "victim_job",
        "victim_task",
        "episode_start_unix_s",
        "decided_unix_s",
        "job",
        "task",
        "correlation",
    )


def _correlations(samples: Any, moments: Any, rule: Rule, guards: Guards | None) -> Any:
    """Return the correlation of each suspect at each anomalous sample."""
    start = samples.window_start_unix_s
    spans = judged(samples, _guards(rule, guards)).select(
        *_PLACE,
        "job",
        "task",
        "job_class",
        "cpi_source",
        "cpi",
        "usage",
        "state",
        span=start - start % rule.align_s,
    )
    start = moments.window_start_unix_s
    back = ibis.range(rule.correlation_s // rule.align_s).unnest()
    windows = moments.select(
        *_PLACE,
        "job",
        "task",
        "cpi_source",
        "threshold_cpi",
        decided_unix_s=start,
        last=start - start % rule.align_s,
        back=back,
    )
    # Spark takes an unnested column only as it is; what is made of it comes after.
    earlier = windows["back"].cast("int64") * rule.align_s
    windows = windows.mutate(span=windows["last"] - earlier).drop("last", "back")
    victims = spans.filter(spans.state == 0).select(*_PLACE, "job", "task", "cpi_source", "span", "cpi")
    victims = windows.join(victims, [*_PLACE, "job", "task", "cpi_source", "span"])
    cpi, threshold = victims.cpi, victims.threshold_cpi
    victims = victims.select(
        *_PLACE,
        "span",
        "decided_unix_s",
        victim_job=victims.job,
        victim_task=victims.task,
        strain=(cpi > threshold).ifelse(1 - threshold / cpi, cpi / threshold - 1),
    )
    others = spans.filter(spans.usage >= 0).select(*_PLACE, "span", "job", "task", "job_class", "usage")
    pairs = victims.join(others, [*_PLACE, "span"])
    pairs = pairs.filter((pairs.job != pairs.victim_job) | (pairs.task != pairs.victim_task))
    sums = pairs.group_by(
        *_PLACE, "victim_job", "victim_task", "decided_unix_s", "job", "task", "job_class"
    ).aggregate(
        pairs=pairs.count(),
        usage_sum=pairs.usage.sum(),
        weighted=(pairs.usage * pairs.strain).sum(),
        usage_mean=pairs.usage.mean(),
    )
    return sums.mutate(correlation=sums.weighted / sums.usage_sum.nullif(0.0)).drop("usage_sum", "weighted")


def _ranked(moments: Any, best: Any, rule: Rule) -> Any:
    best = best.rename(
        suspect_job="job",
        suspect_task="task",
        suspect_class="job_class",
        job="victim_job",
        task="victim_task",
    )
    known = moments.mutate(decided_unix_s=moments.window_start_unix_s)
    rows = known.join(best, [*_PLACE, "job", "task", "decided_unix_s"], how="left", rname=f"{{name}}{_AGAIN}")
    rows = rows.drop(*(f"{name}{_AGAIN}" for name in (*_PLACE, "job", "task", "decided_unix_s")))
    episode = ibis.window(group_by=_EPISODE)
    rows = rows.mutate(
        reached=rows.window_start_unix_s.min(where=rows.correlation >= rule.correlation_floor).over(episode),
    )
    # An episode is known by its first anomalous sample.
    rows = rows.filter(rows.window_start_unix_s == rows.reached.coalesce(rows.episode_start_unix_s))
    guilty = (rows.correlation >= rule.correlation_floor).fill_null(False)
    rows = rows.mutate(
        rank=ibis.row_number().over(
            group_by=_EPISODE,
            order_by=[
                rows.correlation.isnull(),
                rows.correlation.desc(),
                rows.suspect_job,
                rows.suspect_task,
            ],
        )
        + 1,
        is_guilty=guilty,
        may_be_capped=(
            (rows.job_class == LATENCY_SENSITIVE) & rows.suspect_class.isin([BATCH, BEST_EFFORT])
        ).fill_null(False),
    )
    return rows.select(
        *_EPISODE,
        "job_class",
        "cpi_source",
        "end_unix_s",
        decided_unix_s="window_start_unix_s",
        anomalous_samples="anomalous_samples",
        victim_cpi="victim_cpi",
        threshold_cpi="threshold_cpi",
        rank="rank",
        suspect_job="suspect_job",
        suspect_task="suspect_task",
        suspect_class="suspect_class",
        correlation="correlation",
        pairs="pairs",
        usage_mean="usage_mean",
        is_guilty="is_guilty",
        may_be_capped="may_be_capped",
    )
