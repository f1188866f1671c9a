"""Steelyard's control plane: what decides before and after the clock runs.

The packages are the pipeline, and each may import only what stands left of it:
``_base`` <- ``records`` <- ``machine``, ``telemetry``, ``stats`` <- ``analyze`` <- ``bench``, ``decide``
<- ``report`` <- ``cli``. ``make lint`` enforces it.
"""

__version__ = "0.1.0"
