"""Tunings and knobs, on a terminal (``table``)."""
