"""Which CPUs and which memory the servers and the load get.

In: the usable CPUs of a machine by core, cache and NUMA node (``machine.layout``), what a benchmark needs,
what was asked. Out: a `Placement`, instance by instance.

Not here: pinning and binding, which ``steelyard-exec`` does.
"""

from steelyard.bench.placement.choose import Needs, place, within_quota, without_binding
from steelyard.bench.placement.cpu_lists import format_cpu_list, parse_cpu_list, split
from steelyard.bench.placement.model import InstancePlace, Placement

__all__ = [
    "InstancePlace",
    "Needs",
    "Placement",
    "format_cpu_list",
    "parse_cpu_list",
    "place",
    "split",
    "within_quota",
    "without_binding",
]
