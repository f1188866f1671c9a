"""Web serving after CloudSuite's benchmark: HTML pages of a social network, and forms that change them.

In and out: as for `Application`. `connections` is what CloudSuite calls the load scale.

Not here: the pages (``workloads/django/social/pages.py``).
"""

from typing import ClassVar

from steelyard.benchmarks.django.stack.application import Application
from steelyard.benchmarks.django.stack.recipe import View
from steelyard.benchmarks.social.declaration import PAGES


class SocialPages(Application):
    """Social pages."""

    name = "social"
    views: ClassVar[tuple[View, ...]] = PAGES
