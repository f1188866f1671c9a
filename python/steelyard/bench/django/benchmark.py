"""DjangoBench: an application like a photo network's, after DCPerf's benchmark.

In and out: as for `Application`; its load is DCPerf's five views.
"""

from typing import ClassVar

from steelyard.bench.django.declaration import VIEWS
from steelyard.bench.stack.django.application import Application
from steelyard.bench.stack.django.recipe import View


class DjangoBench(Application):
    """Web application."""

    name = "django"
    views: ClassVar[tuple[View, ...]] = VIEWS
