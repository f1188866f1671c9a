"""Real runs, as the tests of the framework have them."""
