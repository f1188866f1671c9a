"""Tunings and knobs, on a terminal (``table``), and the page of a tuning (``page``)."""
