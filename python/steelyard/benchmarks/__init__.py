"""Steelyard's own benchmarks, a room each: declaration, recipe, servers, load, metrics, section of a page.

A room of one benchmark is a folder with ``declaration.py``, which ``bench.declaration`` finds; software that
several share is in the room of the one that is named after it (``cassandra.stack``, ``hadoop``).

Invariants: nothing below imports this package by name; what a declaration names is imported on use, as that
of another package is. Not here: the framework (``bench``).
"""
