"""What belongs to the benchmark of Django."""

from steelyard.bench.declaration import Declaration
from steelyard.benchmarks.django.stack.recipe import METRIC_NAMES, RECIPE, View, headline

VIEWS = (
    View("feed_timeline", 30),
    View("timeline", 30),
    View("seen", 5, is_form=True),
    View("inbox", 20),
    View("bundle_tray", 15),
)
"""As in DCPerf's DjangoBench."""

DECLARATION = Declaration(
    name="django",
    title="DjangoBench",
    doc="a photo network's application: Django on uWSGI, Cassandra",
    benchmark="steelyard.benchmarks.django.benchmark:DjangoBench",
    headline=headline(VIEWS),
    suites=("dcperf",),
    order=11,
    sections="steelyard.benchmarks.django.section:sections",
    metric_names=METRIC_NAMES,
    recipe=RECIPE,
)
