"""Profiles for tests."""

from collections.abc import Mapping, Sequence

from steelyard.decide.fidelity.workload import Replicate, WorkloadProfile, measurement, mix


def profile(
    name: str = "a",
    metrics: Mapping[str, float | Sequence[float]] | None = None,
    functions: Mapping[str, float] | None = None,
    missing: Mapping[str, str] | None = None,
    source: str = "file",
    replicate: Replicate = Replicate.REPEAT,
) -> WorkloadProfile:
    """Return a profile of single values and lists."""
    made = {}
    for key, value in (metrics or {}).items():
        values = [value] if isinstance(value, int | float) else list(value)
        several = values if len(values) > 1 else []
        made[key] = measurement(key, sum(values) / len(values), values=several, replicate=replicate)
    for key, why in (missing or {}).items():
        made[key] = measurement(key, None, missing=why)
    mixes = {} if functions is None else {"functions": mix("functions", functions, samples=1000)}
    return WorkloadProfile(name, source, made, mixes)
