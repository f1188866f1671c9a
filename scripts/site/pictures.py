#!/usr/bin/env python3
"""Takes the pictures of the gallery from the example pages: .venv/bin/python scripts/site/pictures.py.

In: the pages of a built site. Out: `docs/images/gallery-*.png`, their tops as Chromium shows them, smaller.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from examples import EXAMPLES
from playwright.sync_api import sync_playwright
from staging import DOCS, ROOT

VIEW = {"width": 1100, "height": 760}
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")


def main() -> int:
    """Take a picture of each page; return the exit code."""
    pages = ROOT / "site" / "examples"
    if not pages.is_dir():
        print("pictures: there is no site: run `make site`", file=sys.stderr)
        return 2
    found = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=list(FLAGS))
        page = browser.new_page(viewport=VIEW, device_scale_factor=0.6, color_scheme="light")
        for one in EXAMPLES:
            page.goto((pages / f"{one.name}.html").as_uri())
            page.wait_for_timeout(1500)
            page.screenshot(path=str(Path(DOCS / "images" / f"gallery-{one.name}.png")))
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
