"""DjangoBench: an application like a photo network's, after DCPerf's benchmark.

In and out: as for `Application`; its load is DCPerf's five views.
"""

from typing import ClassVar

from steelyard.benchmarks.django.declaration import VIEWS
from steelyard.benchmarks.django.stack.application import Application
from steelyard.benchmarks.django.stack.recipe import View


class DjangoBench(Application):
    """Web application."""

    name = "django"
    views: ClassVar[tuple[View, ...]] = VIEWS
