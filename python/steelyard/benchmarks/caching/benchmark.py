"""Data caching after CloudSuite's benchmark: memcached with a social network's objects.

In: settings that follow from the machine and the profile. Out: what `CacheBench` gives.

Objects are small (``data/tao/twitter-value-sizes.json``) and their popularity is skewed: the server's time
goes into requests and not into copying, unlike that of `memcached` with its values of 25 KB.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from steelyard._base import UsageError, data_dir
from steelyard.bench.parameters import Parameter, Setting
from steelyard.benchmarks.memcached.stack.cache import KEY_BYTES, PARAMETERS, CacheBench

ITEM_OVERHEAD_BYTES = 56
"""What memcached keeps beside key and value: its header of 48 bytes, and the unique number of 8."""
_SIZES, _POPULARITY = "value_sizes", "key_distribution"


def sizes_path(settings: Mapping[str, Setting]) -> Path:
    """Return the file of value sizes."""
    chosen = str(settings.get(_SIZES, ""))
    return Path(chosen) if chosen else data_dir() / "tao" / "twitter-value-sizes.json"


class DataCaching(CacheBench):
    """Data caching."""

    name = "caching"
    parameters: ClassVar[tuple[Parameter, ...]] = (
        *PARAMETERS,
        Parameter(
            _SIZES,
            "text",
            "file of value sizes; empty for data/tao/twitter-value-sizes.json",
            default="",
        ),
        Parameter(
            _POPULARITY,
            "text",
            "popularity of keys: uniform or zipf:EXPONENT",
            default="zipf:0.99",
        ),
    )

    @classmethod
    def item_bytes(cls, chosen: Mapping[str, Setting]) -> float:
        """Return the mean size of an item. Raises UsageError for a file that holds no sizes."""
        from steelyard._base import SteelyardError
        from steelyard.stats import distribution

        try:
            mean_bytes = distribution.load(sizes_path(chosen)).mean()
        except SteelyardError as error:
            raise UsageError(f"{_SIZES}={chosen.get(_SIZES, '')}: {error.message}") from error
        return KEY_BYTES + ITEM_OVERHEAD_BYTES + mean_bytes

    def content(self) -> list[str | Path]:
        """Return the flags of the load that say how large values are and which keys are asked for."""
        return [
            "--value-sizes",
            sizes_path(self.settings),
            *("--key-distribution", self.settings.text(_POPULARITY)),
        ]
