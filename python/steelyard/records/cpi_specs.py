"""The normal CPI of jobs on one platform, as a fleet's agents fetch it.

The same shape as ``crates/record/src/cpi_specs.rs``.
"""

from typing import ClassVar

from pydantic import Field

from steelyard.records.io import Record
from steelyard.records.values import Count, Value


class CpiSpec(Value):
    """The normal CPI of a job."""

    job: str = Field(description="The job")
    cpi_source: str = Field(description="What CPI is here: `cycles/instructions`, or a substitute")
    built_unix_s: int = Field(description="When it was built, Unix time")
    samples: Count = Field(description="Samples that it was built from")
    tasks: Count = Field(description="Tasks that they come from")
    cpu_usage_mean: float = Field(description="Mean CPU use of a task, CPU-seconds per second")
    cpi_mean: float = Field(description="Mean CPI")
    cpi_sd: float = Field(description="Standard deviation of CPI")
    threshold_sigmas: float = Field(
        description="Standard deviations above the mean at which the threshold lies"
    )
    threshold_cpi: float = Field(description="CPI above which a sample is an outlier")


class CpiSpecs(Record):
    """The normal CPI of jobs on one platform."""

    KIND: ClassVar[str] = "cpi_specs"

    platform: str = Field(description="The platform")
    specs: list[CpiSpec] = Field(description="One for each job and source of CPI")
