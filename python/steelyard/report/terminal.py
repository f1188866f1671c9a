"""Text from anywhere for a terminal. Not here: what is drawn, and printing.

On its own, so that a table which needs nothing else does not load what runs and telemetry are read with.
"""

from rich.text import Text


def safe(text: str) -> Text:
    """Return ``text`` without characters that a terminal would obey."""
    return Text("".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text))
