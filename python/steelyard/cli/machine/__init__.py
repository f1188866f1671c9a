"""``steelyard machine``."""
