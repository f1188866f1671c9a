"""One real browser for all tests of the report page."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.sync_api import Browser, sync_playwright

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@dataclass(frozen=True)
class FakeScore:
    """A score as ``decide`` gives it."""

    ratio: float = 1.284
    metric: str = "requests_per_s"
    baseline: str = "Desk machine"
    provenance: str = "Measured on two CPUs."
    reservations: tuple[str, ...] = ("one run only",)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A headless Chromium: the system's, else the one that Playwright installed."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    options: dict[str, Any] = {"executable_path": found} if found else {}
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(args=FLAGS, **options)
        yield started
        started.close()
