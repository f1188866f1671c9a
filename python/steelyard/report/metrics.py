"""Names and values of metrics for people.

In: a metric's name and record. Out: text. The name's ending distinguishes counts from ratios: both have
unit ``1``.
"""

from steelyard.bench import declaration
from steelyard.records import Metric
from steelyard.report import format as fmt

_ABBREVIATIONS = {
    "cpu": "CPU",
    "cpus": "CPUs",
    "slo": "SLO",
    "rss": "resident",
    "p999": "p99.9",
    "p9999": "p99.99",
    "psi": "PSI",
}
_UNIT_ENDINGS = ("_per_s", "_bytes", "_ns", "_hz", "_s", "_w")


def metric_name(name: str, benchmark: str = "") -> str:
    """Return a metric's name as words, without the unit that its value carries.

    A name that the declaration of ``benchmark`` gives it comes first.

    >>> metric_name("response_p999_ns"), metric_name("hit_ratio"), metric_name("server_cpu_user_ratio")
    ('response p99.9', 'hit ratio', 'server CPU user')
    >>> metric_name("requests_per_s"), metric_name("requests_per_server_cpu_s")
    ('requests', 'requests per server CPU-second')
    >>> metric_name("network_sent_bytes_per_s"), metric_name("requests_per_s_at_slo")
    ('network sent', 'requests at SLO')
    """
    if benchmark and (own := declaration.of_run(benchmark).metric_names.get(name)):
        return own
    rate, at, where = name.partition("_per_s_at_")
    if at:
        # The unit is the value's; what follows it is part of the name.
        return f"{metric_name(rate)} at {metric_name(where)}"
    if name.endswith("_cpu_s"):
        return f"{metric_name(name.removesuffix('_cpu_s'))} CPU-second"
    stem = name
    while ending := next((end for end in _UNIT_ENDINGS if stem.endswith(end)), None):
        stem = stem.removesuffix(ending)
    if "_cpu_" in stem:
        stem = stem.removesuffix("_ratio")
    return " ".join(_ABBREVIATIONS.get(word, word) for word in (stem or name).split("_"))


def metric_unit(name: str, metric: Metric) -> str:
    """Return the unit to format with."""
    if name.endswith("_cpu_s") and metric.unit == "1/s":
        # The name says already what it is per.
        return "1"
    return metric.unit


def metric_text(name: str, metric: Metric) -> str:
    """Return a metric's value.

    >>> fmt.plain(metric_text("hit_ratio", Metric(value=0.5, unit="ratio")))
    '50.0 %'
    """
    return fmt.quantity(metric.value, metric_unit(name, metric))


def headline_text(name: str, metric: Metric, benchmark: str = "") -> str:
    """Return a metric's value with its noun, for a line or a heading of its own.

    >>> fmt.plain(headline_text("requests_per_s", Metric(value=120345, unit="1/s")))
    '120 k requests/s'
    >>> fmt.plain(headline_text("response_p99_ns", Metric(value=464000, unit="ns")))
    'response p99 464 µs'
    """
    figure, noun = figure_and_noun(name, metric, benchmark)
    return f"{noun} {figure}" if noun == metric_name(name, benchmark) else f"{figure} {noun}"


def figure_and_noun(name: str, metric: Metric, benchmark: str = "") -> tuple[str, str]:
    """Return a metric's value and its noun apart, the unit of a rate with the noun that it belongs to.

    >>> [fmt.plain(part) for part in figure_and_noun("requests_per_s", Metric(value=120345, unit="1/s"))]
    ['120 k', 'requests/s']
    >>> figure_and_noun("requests_per_s_at_slo", Metric(value=15.5, unit="1/s"))
    ('15.5', 'requests/s at SLO')
    >>> figure_and_noun("queries_per_hour", Metric(value=160, unit="1/h"))
    ('160', 'queries/h')
    """
    text, noun = metric_text(name, metric), metric_name(name, benchmark)
    if metric.unit == "1/h" and text.endswith("/h"):
        return text.removesuffix("/h"), f"{noun.removesuffix(' per hour')}/h"
    # What is called a rate says so already.
    if metric.unit == "1/s" and text.endswith("/s") and not noun.startswith("rate"):
        counted, at, where = noun.partition(" at ")
        return text.removesuffix("/s"), f"{counted}/s{at}{where}"
    return text, noun
