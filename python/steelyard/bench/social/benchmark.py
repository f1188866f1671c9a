"""Web serving after CloudSuite's benchmark: HTML pages of a social network, and forms that change them.

In and out: as for `Application`. `connections` is what CloudSuite calls the load scale.

Not here: the pages (``workloads/django/social/pages.py``).
"""

from typing import ClassVar

from steelyard.bench.social.declaration import PAGES
from steelyard.bench.stack.django.application import Application
from steelyard.bench.stack.django.recipe import View


class SocialPages(Application):
    """Social pages."""

    name = "social"
    views: ClassVar[tuple[View, ...]] = PAGES
