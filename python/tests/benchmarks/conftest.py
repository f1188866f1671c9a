"""Real runs, as the tests of the framework have them."""

from tests.bench.conftest import runner

__all__ = ["runner"]
