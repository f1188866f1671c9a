"""What belongs to the benchmark of a social network's pages."""

from steelyard.bench.declaration import Declaration
from steelyard.benchmarks.django.stack.recipe import METRIC_NAMES, RECIPE, View, headline

PAGES = (
    View("home", 26),
    View("wall", 20),
    View("messages", 12),
    View("members", 8),
    View("login", 4, is_form=True),
    View("post", 6, is_form=True),
    View("comment", 8, is_form=True),
    View("like", 8, is_form=True),
    View("send", 5, is_form=True),
    View("befriend", 3, is_form=True),
)
"""What visitors of CloudSuite's web serving do. How often they do it is not published; here two of three
requests only read."""

DECLARATION = Declaration(
    name="social",
    title="Social pages",
    doc="a social network's pages and forms: Django on uWSGI, Cassandra",
    benchmark="steelyard.benchmarks.social.benchmark:SocialPages",
    headline=headline(PAGES),
    suites=("cloudsuite",),
    order=41,
    sections="steelyard.benchmarks.django.section:sections",
    metric_names=METRIC_NAMES,
    recipe=RECIPE,
)
