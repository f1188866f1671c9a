"""What ``steelyard scale --json`` prints, as plain values: see ``documents.scaling``."""

import math
from pathlib import Path
from typing import Any

from steelyard.analyze.profiles.hot_functions import Diagnosis
from steelyard.analyze.scaling.curve import Step
from steelyard.analyze.scaling.loss import Loss
from steelyard.analyze.scaling.scaling import Scaling
from steelyard.analyze.values import Quantity
from steelyard.records import RunStatus
from steelyard.records.experiment import Experiment
from steelyard.stats.scaling.choice import Figure
from steelyard.stats.scaling.curve import CurveFit
from steelyard.stats.scaling.law import LawFit, Parameter
from steelyard.stats.scaling.prediction import Prediction

_FUNCTIONS = 50


def document(
    source: str, scaling: Scaling, experiment: Experiment | None, page: Path | None
) -> dict[str, Any]:
    """Return the document."""
    return {
        "source": source,
        "benchmark": None if experiment is None else experiment.benchmark,
        "metric": "ops_per_s" if experiment is None else experiment.metric.name,
        "status": RunStatus.COMPLETE if experiment is None else experiment.status,
        "status_reason": None if experiment is None else experiment.status_reason,
        "steps": [_step(step, scaling) for step in scaling.steps],
        "speedup": scaling.speedup,
        "law": None if scaling.fit is None else _law(scaling.fit),
        "model": None if scaling.curve is None else _model(scaling.curve),
        "predictions": [_prediction(one) for one in scaling.predictions],
        "loss": None if scaling.loss is None else _loss(scaling.loss),
        "limits": [
            {"id": limit.id, "from_cpus": limit.from_cpus, "claim": limit.claim} for limit in scaling.limits
        ],
        "functions": [] if scaling.functions is None else _functions(scaling.functions),
        "functions_missing": scaling.functions_missing,
        "notes": list(scaling.notes),
        "report": None if page is None else str(page),
    }


def _step(step: Step, scaling: Scaling) -> dict[str, Any]:
    return {
        "cpus": step.cpus,
        "listed": step.listed,
        "shares_cores": step.shares_cores,
        "nodes": step.nodes,
        "ops_per_s": step.ops_per_s,
        "by_block": {str(block): value for block, value in sorted(step.by_block.items())},
        "lost": list(step.lost),
        "efficiency_ratio": scaling.efficiency_of(step),
        "law_ops_per_s": None if scaling.curve is None else scaling.curve.throughput(step.cpus),
        "busy_ratio": step.busy_ratio,
        "others_ratio": step.others_ratio,
        "readings": dict(step.readings),
        "path_length": _figure(step.law.path_length),
        "cpi": _figure(step.law.cpi),
        "frequency_hz": _figure(step.law.frequency_hz),
    }


def _figure(quantity: Quantity) -> dict[str, Any]:
    return {"value": quantity.value, "missing": quantity.missing}


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _law(fit: LawFit) -> dict[str, Any]:
    def parameter(one: Parameter) -> dict[str, Any]:
        ends = {"value": _finite(one.value), "low": _finite(one.low), "high": _finite(one.high)}
        return {**ends, "is_identified": one.is_identified, "reason": one.reason}

    figures = {
        name: parameter(getattr(fit, name))
        for name in ("rate", "contention", "coherency", "peak", "peak_throughput")
    }
    return {
        **figures,
        "steps": fit.steps,
        "blocks": fit.blocks,
        "misfit_ratio": fit.misfit_ratio,
        "misfit_p_value": fit.misfit_p_value,
        "confidence": fit.confidence,
    }


def _model(curve: CurveFit) -> dict[str, Any]:
    chosen = curve.chosen

    def figure(one: Figure | None) -> dict[str, Any] | None:
        return None if one is None else {"value": one.value, "low": one.low, "high": one.high}

    return {
        "kind": curve.kind.value,
        "at_cpus": None if chosen is None else figure(chosen.at),
        "worth_ratio": None if chosen is None else figure(chosen.worth),
        "node_worth_ratio": None if chosen is None else figure(chosen.node_worth),
        "is_level": chosen is not None and chosen.is_level,
        "alternatives": [] if chosen is None else [kind.value for kind in chosen.alternatives],
        "nearest": None if chosen is None else chosen.best.kind.value,
        "misfit_ratio": curve.misfit_ratio,
        "cores": None if chosen is None else chosen.topology.cores,
        "node_ends": [] if chosen is None else list(chosen.topology.node_ends),
    }


def _prediction(one: Prediction) -> dict[str, Any]:
    return {
        "cpus": one.cpus,
        "ops_per_s": one.value,
        "low": one.low,
        "high": one.high,
        "basis": one.basis or None,
        "reason": one.reason,
    }


def _loss(loss: Loss) -> dict[str, Any]:
    return {
        "low_cpus": loss.low_cpus,
        "high_cpus": loss.high_cpus,
        "factor": loss.factor.value,
        "terms": [
            {
                "name": term.name,
                "low": term.low.value,
                "high": term.high.value,
                "factor": term.factor.value,
                "share": term.share.value,
            }
            for term in loss.terms
        ],
        "cause": loss.cause,
        "caveat": loss.caveat,
        "is_clear": loss.is_clear,
        "noise_factor": loss.noise_factor,
    }


def _functions(found: Diagnosis) -> list[dict[str, Any]]:
    return [
        {
            "function": one.function,
            "low_ratio": one.before,
            "high_ratio": one.after,
            "added_cycles_per_op": one.added_cycles_per_op.value,
            "share_of_change": one.share_of_change.value,
            "noise_ratio": one.noise_ratio.value,
        }
        for one in found.functions[:_FUNCTIONS]
    ]
