"""Parameters that benchmarks with a load and a warm-up have alike, declared once.

Not here: what a tier or a machine makes of them, which each benchmark suggests.
"""

from steelyard.bench.parameters import Parameter

DAY_S = 86_400.0


def rate_parameter(what: str = "offered rate, Poisson arrivals") -> Parameter:
    """Return the parameter of an open loop."""
    return Parameter(
        "rate", "per_second", f"{what}; 0 for a closed loop", default=0.0, minimum=0.0, maximum=1e9
    )


def length_parameters(unsettled: str = "unsettled throughput") -> tuple[Parameter, ...]:
    """Return the lengths of warm-up and measure phase; a warm-up ends when ``unsettled`` is over."""
    return (
        Parameter(
            "warmup_min",
            "seconds",
            "minimum length of the warm-up",
            derived="per tier",
            minimum=0.0,
            maximum=DAY_S,
        ),
        Parameter(
            "warmup_max",
            "seconds",
            f"maximum length of the warm-up; the verdict reports {unsettled}",
            derived="per tier",
            minimum=0.1,
            maximum=DAY_S,
        ),
        Parameter(
            "measure",
            "seconds",
            "length of the measure phase",
            derived="per tier",
            minimum=1.0,
            maximum=DAY_S,
        ),
    )


def port_parameter(of: str) -> Parameter:
    """Return the parameter of the port that the load talks to."""
    return Parameter("port", "count", f"port of {of}; 0 for a free one", default=0, minimum=0, maximum=65_535)


def seed_parameter(of: str) -> Parameter:
    """Return the parameter of a load's seed."""
    return Parameter("seed", "count", f"seed of {of}", derived="random", minimum=0, maximum=2**53)
