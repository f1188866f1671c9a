"""Scaling curves, on a terminal (``table``) and as a page (``page``)."""
