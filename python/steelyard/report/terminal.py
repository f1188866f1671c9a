"""Untrusted text made safe for a terminal. Not here: tables and printing.

A module of its own, so that a plain table does not import the readers of runs and telemetry.
"""

from rich.text import Text

from steelyard.report.format import plain


def safe(text: str) -> Text:
    """Return ``text`` with ordinary spaces, and without characters that a terminal would obey."""
    letters = (letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in plain(text))
    return Text("".join(letters))
