"""Untrusted text made safe for a terminal. Not here: tables and printing.

A module of its own, so that a plain table does not import the readers of runs and telemetry.
"""

from rich.text import Text


def safe(text: str) -> Text:
    """Return ``text`` without characters that a terminal would obey."""
    return Text("".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text))
