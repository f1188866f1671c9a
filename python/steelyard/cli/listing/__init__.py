"""``steelyard list``: what can be run, and what was run."""
