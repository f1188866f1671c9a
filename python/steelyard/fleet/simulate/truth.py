"""``truth.json``: what a simulated fleet was made to be, and its exact figures.

In: the plan and the tally of everything generated. Out: one document. Figures named ``true_*`` or by their
effect are the generator's inputs; those beside counts are sums over the rows that were written (before
faults).

Not here: anything that reads the store. Queries are held against this, never fed from it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy import stats

from steelyard.fleet.simulate.catalog import PAIRS
from steelyard.fleet.simulate.cpi import gev_parameters
from steelyard.fleet.simulate.episodes import Episode
from steelyard.fleet.simulate.functions import JobFunctions
from steelyard.fleet.simulate.load import CAPPED_FREQUENCY_RATIO, HOT_HOURS
from steelyard.fleet.simulate.locality import local_ratio
from steelyard.fleet.simulate.plan import Plan
from steelyard.fleet.simulate.profiles import HZ, STEADINESS
from steelyard.fleet.simulate.rollouts import GROUP_LABEL, LABEL, VALUES, Rollout, rollout_of
from steelyard.fleet.simulate.tally import CELL_SUMS, LEAST_CPU, Tally

SCHEMA_VERSION = "1.0"
NAME = "truth.json"


def cpi_truth(plan: Plan, tally: Tally) -> list[dict[str, Any]]:
    """Return each job's and platform's CPI: the GEV it is drawn from, and the moments of what was written."""
    rows = []
    for (job, platform), item in sorted(tally.jobs.items()):
        location, scale, shape = gev_parameters(plan, platform)[job].astype(float).tolist()
        law = stats.genextreme(shape, location, scale)
        rows.append(
            {
                "job": plan.jobs[job].name,
                "platform": plan.platforms[platform].name,
                "gev": {"location": location, "scale": scale, "shape": shape},
                "intrinsic_mean": float(law.mean()),
                "intrinsic_sd": float(law.std()),
                "samples": item.cpi.count,
                "mean": item.cpi.mean,
                "sd": item.cpi.sd,
                "usable": {
                    "least_cpu": LEAST_CPU,
                    "samples": item.usable.count,
                    "mean": item.usable.mean if item.usable.count else None,
                    "sd": item.usable.sd,
                },
                "cpu_s": item.cpu_s,
                "cycles": item.cycles,
                "throughput_cpi_correlation": item.throughput.value,
                "operations_instructions_correlation": item.rates.value,
            }
        )
    return rows


def _episode(plan: Plan, day: int, episode: Episode) -> dict[str, Any]:
    start, step = plan.settings.day_start_s(day), plan.settings.step_s
    guilty = episode.antagonist
    job = None if guilty is None else plan.jobs[plan.task_job[guilty]]
    return {
        "machine": plan.machine_name(episode.machine),
        "platform": plan.platforms[plan.machine_platform[episode.machine]].name,
        "cluster": plan.clusters[plan.machine_cluster[episode.machine]],
        "job": job.name if job else None,
        "task": None if guilty is None else plan.task_name(guilty),
        "job_class": job.job_class if job else None,
        "start_unix_s": start + episode.first * step,
        "end_unix_s": start + episode.end * step,
        "peak_cpu": episode.peak_cpu if job else None,
        "bystander": None if episode.bystander is None else plan.task_name(episode.bystander),
        "victims": [
            {
                "job": plan.jobs[plan.task_job[victim]].name,
                "task": plan.task_name(victim),
                "slowdown_ratio": 1.0 + slowdown,
            }
            for victim, slowdown in episode.victims
        ],
    }


def _rollout(plan: Plan, tally: Tally, job: int, rollout: Rollout) -> dict[str, Any]:
    sums = {
        number: tally.cells.get((job, number), np.zeros(len(CELL_SUMS)))
        for number in range(len(rollout.cells))
    }
    cells = [
        {"value": VALUES[cell.value], "group": cell.group, "work_ratio": cell.work_ratio}
        | dict(zip(CELL_SUMS, sums[number].tolist(), strict=True))
        for number, cell in enumerate(rollout.cells)
    ]
    stock = {cell.group: cell for cell in rollout.cells if cell.value == 0}
    candidate = {cell.group: cell for cell in rollout.cells if cell.value == 1}
    groups = [
        {
            "group": group,
            "cpu_speedup": stock[group].path_factor / candidate[group].path_factor,
            "memory_speedup": stock[group].memory_factor / candidate[group].memory_factor,
        }
        for group in sorted(stock)
    ]

    def total(members: dict[str, Any]) -> float:
        work = sum(cell.work_ratio for cell in members.values())
        return float(sum(cell.work_ratio * cell.path_factor for cell in members.values()) / work)

    mix = sum(cell.work_ratio * candidate[group].path_factor for group, cell in stock.items())
    weight = sum(cell.work_ratio for cell in stock.values())
    return {
        "job": plan.jobs[job].name,
        "kind": rollout.kind,
        "label": LABEL,
        "stock": VALUES[0],
        "candidate": VALUES[1],
        "group_label": GROUP_LABEL,
        "intended_candidate_work_ratio": rollout.intended_ratio,
        "lost_ratio_at_the_busiest": rollout.lost_ratio,
        "groups": groups,
        "total_cpu_speedup": total(stock) / total(candidate),
        "reweighted_cpu_speedup": total(stock) / (mix / weight),
        "cells": cells,
    }


def _profiles(plan: Plan, tally: Tally, functions: list[JobFunctions]) -> dict[str, Any]:
    cycles = np.zeros(len(plan.jobs))
    for (job, _), sums in tally.jobs.items():
        cycles[job] += sums.cycles
    total = float(cycles.sum())
    shares: dict[tuple[str, str], float] = {}
    for job, item in enumerate(functions):
        for name, module, share in zip(item.names, item.modules, item.share.tolist(), strict=True):
            shares[(name, module)] = shares.get((name, module), 0.0) + share * float(cycles[job]) / total
    ranked = sorted(shares.items(), key=lambda pair: (-pair[1], pair[0]))
    return {
        "hz": HZ,
        "sampled_ratio": plan.settings.profiled_ratio,
        "variance_within_task_minutes": 1.0 / STEADINESS,
        "cycles": total,
        "functions": [
            {"function": name, "module": module, "share_ratio": share} for (name, module), share in ranked
        ],
        "jobs": [
            {
                "job": plan.jobs[job].name,
                "share_ratio": float(cycles[job]) / total,
                "tax_ratio": float(item.share[np.array(item.tax)].sum()),
                "stripped": item.stripped,
                "functions": [
                    {"function": name, "module": module, "share_ratio": share}
                    for name, module, share in zip(item.names, item.modules, item.share.tolist(), strict=True)
                ],
            }
            for job, item in enumerate(functions)
        ],
    }


def _jobs(plan: Plan) -> list[dict[str, Any]]:
    return [
        {
            "job": job.name,
            "job_class": job.job_class,
            "tasks": int((plan.task_job == number).sum()),
            "follows_throughput": job.follows_throughput if job.exports_operations else None,
            "numa_effect": job.numa_effect,
            "load_effect": job.load_effect,
            "machine_effect": job.machine_effect,
            "misses_per_1000_instructions": job.mpki,
            "memory_bytes": job.memory_bytes,
            "storage_bytes_per_cpu_s": job.storage_bytes_per_cpu_s,
            "network_bytes_per_cpu_s": job.network_bytes_per_cpu_s,
        }
        for number, job in enumerate(plan.jobs)
    ]


def make_truth(
    plan: Plan,
    tally: Tally,
    functions: list[JobFunctions],
    episodes: Iterable[tuple[int, Episode]],
    faults: list[dict[str, Any]],
) -> dict[str, Any]:
    """Return the truth of a simulation as one document."""
    entries = [_episode(plan, day, episode) for day, episode in episodes]
    names = {job.name for job in plan.jobs}
    days = range(plan.settings.days)
    return {
        "kind": "steelyard-fleet-truth",
        "schema_version": SCHEMA_VERSION,
        "settings": plan.settings.document(),
        "rows": tally.rows,
        "bytes": tally.bytes,
        "files": tally.files,
        "platforms": [
            {
                "platform": item.name,
                "machines": int((plan.machine_platform == number).sum()),
                "threads": item.threads,
                "smt_uplift_ratio": item.smt_uplift_ratio if item.threads_per_core > 1 else None,
                "node_distances": [d for row in item.distances for d in row],
            }
            for number, item in enumerate(plan.platforms)
        ],
        "jobs": _jobs(plan),
        "cpi": cpi_truth(plan, tally),
        "antagonists": [item for item in entries if item["task"] is not None],
        "self_inflicted": [item for item in entries if item["task"] is None],
        "numa": {
            "law": "CPI = base * (1 + numa_effect * (1 - score))",
            "effects": [
                {"job": job.name, "numa_effect": job.numa_effect} for job in plan.jobs if job.numa_effect
            ],
            "local_ratio": [
                {
                    "cluster": name,
                    "date": plan.settings.date(day).isoformat(),
                    "ratio": local_ratio(plan, number, day),
                }
                for number, name in enumerate(plan.clusters)
                for day in days
            ],
        },
        "rollouts": [
            _rollout(plan, tally, number, rollout)
            for number, job in enumerate(plan.jobs)
            if (rollout := rollout_of(job)) is not None
        ],
        "profiles": _profiles(plan, tally, functions),
        "power_caps": {
            "machines": [plan.machine_name(m) for m in np.flatnonzero(plan.machine_capped).tolist()],
            "hot_hours_of_the_cluster": list(HOT_HOURS),
            "frequency_ratio": CAPPED_FREQUENCY_RATIO,
        },
        "pairs": [
            {"job": job, "beside": beside, "cpi_factor": factor}
            for (job, beside), factor in PAIRS.items()
            if {job, beside} <= names
        ],
        "faults": faults,
    }
