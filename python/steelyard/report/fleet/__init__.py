"""Sections of fleet queries, and the page and the terminal that draw them."""
