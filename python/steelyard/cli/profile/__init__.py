"""``steelyard profile``."""
