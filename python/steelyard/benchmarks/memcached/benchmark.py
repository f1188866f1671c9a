"""Memcached as the Characterization paper runs it: small keys, values of 25 KB, several clients.

In: settings that follow from the machine and the profile. Out: what `CacheBench` gives: requests per second,
latency, hit ratio, CPU time and bytes moved.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from steelyard.bench.parameters import Parameter, Setting
from steelyard.benchmarks.memcached.stack.cache import KEY_BYTES, PARAMETERS, CacheBench

VALUE_BYTES = 25_600
"""Of the paper, which calls such values image previews."""


class MemcachedBench(CacheBench):
    """Memcached."""

    name = "memcached"
    parameters: ClassVar[tuple[Parameter, ...]] = (
        *PARAMETERS,
        Parameter("value_size", "bytes", "size of a value", default=VALUE_BYTES, minimum=1, maximum=1 << 20),
    )

    @classmethod
    def item_bytes(cls, chosen: Mapping[str, Setting]) -> float:
        """Return the mean size of key and value."""
        return KEY_BYTES + int(chosen.get("value_size", VALUE_BYTES))

    def content(self) -> list[str | Path]:
        """Return the flag of the load that says how large values are."""
        return ["--value-sizes", str(self.settings.count("value_size"))]
