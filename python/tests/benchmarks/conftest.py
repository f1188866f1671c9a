"""Real runs and a real browser, as the tests of the framework and of pages have them."""

from tests.bench.conftest import runner
from tests.report.conftest import browser

__all__ = ["browser", "runner"]
