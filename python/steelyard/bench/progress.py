"""What a run tells while it lasts. Implementations for terminals are in ``cli``."""

from typing import Protocol


class Progress(Protocol):
    """A listener."""

    def phase(self, name: str) -> None:
        """A phase has begun."""

    def status(self, figures: dict[str, str]) -> None:
        """Figures of the moment by label; called about once a second."""

    def note(self, text: str) -> None:
        """Something worth a line."""


class Silence:
    """Tells nothing."""

    def phase(self, name: str) -> None:
        """Ignore it."""

    def status(self, figures: dict[str, str]) -> None:
        """Ignore them."""

    def note(self, text: str) -> None:
        """Ignore it."""
