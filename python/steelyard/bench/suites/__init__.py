"""Suites: what their members need, their runs one after the other, going on after an interrupt."""
