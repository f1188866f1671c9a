"""Settings that every benchmark with a warm-up and load threads has, and what is refused of them.

In: settings of a benchmark. Out: nothing, or a UsageError.
"""

from collections.abc import Mapping

from steelyard._base import UsageError
from steelyard.bench.load.hosts import LoadHosts
from steelyard.bench.parameters import Setting


def check_load(settings: Mapping[str, Setting]) -> None:
    """Raise UsageError for a warm-up that ends before it may, or threads without a connection."""
    if float(settings["warmup_max"]) < float(settings["warmup_min"]):
        raise UsageError(f"warmup_max={settings['warmup_max']} is below warmup_min={settings['warmup_min']}")
    hosts = LoadHosts.of(settings)
    hosts.check()
    several = max(1, len(hosts.hosts))
    if int(settings["connections"]) < several * int(settings["load_threads"]):
        each = f" on {several} hosts" if several > 1 else ""
        raise UsageError(
            f"connections={settings['connections']} is below load_threads={settings['load_threads']}{each}:"
            " every load thread needs one"
        )
