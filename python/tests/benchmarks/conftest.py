"""Real runs, as the tests of the framework make them."""

from tests.bench.conftest import runner

__all__ = ["runner"]
