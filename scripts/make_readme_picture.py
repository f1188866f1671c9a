#!/usr/bin/env python3
"""Turns a real run's report into the pictures of the README.

    .venv/bin/python scripts/make_readme_picture.py runs/RUN [--out docs/images]

In: a run directory. Out: ``report.png`` and ``report-dark.png``, about 1350 pixels wide: the headline,
the main metrics and the main charts, as Chromium shows them. Nothing is drawn for the picture: parts of the
page are left out, the rest is as a reader sees it.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from steelyard._base import SteelyardError
from steelyard.bench import runs
from steelyard.decide import find_baseline
from steelyard.decide.score import score
from steelyard.report import html

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "python")]

from tests.browsing import launched  # noqa: E402

WIDTH, SCALE = 1120, 1.2
BYTES_AT_MOST = 400_000
SHOWN = ("throughput", "latency", "cpu-server", "cpu-all")

# Leaves the headline, the tiles, what explains the number, and the charts named in SHOWN.
TRIM = """shown => {
    for (const part of document.querySelectorAll(
        "footer, .skip, nav, #why, #percentiles, #counted, #profile, #machine, #checks, #details,"
        + " .command, .values, .absent, .intro"
    )) part.remove();
    for (const figure of document.querySelectorAll("figure.chart"))
        if (!shown.includes(figure.id.replace("figure-", ""))) figure.remove();
    document.querySelector("#time .blocks").append(...document.querySelectorAll("#cpu figure.chart"));
    document.querySelector("#cpu").remove();
    for (const section of document.querySelectorAll("main > section")) section.style.marginTop = "1.9rem";
    document.querySelector(".hero").style.paddingTop = "2rem";
    document.querySelector("main").style.paddingBottom = "2rem";
    document.querySelector("#theme").remove();
}"""


def main() -> int:
    """Write both pictures; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path, help="a run directory")
    parser.add_argument("--out", type=Path, default=Path("docs/images"), help="folder of the pictures")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        try:
            found = score([runs.load(options.run)], find_baseline(None))
            data = html.gather(options.run, score=found)
            page = html.write_data(data, Path(folder))
            data.close()
        except SteelyardError as error:
            print(f"make_readme_picture: {error.message}", file=sys.stderr)
            return int(error.exit_code)
        written = shoot(page, options.out)
    too_large = [path for path in written if path.stat().st_size > BYTES_AT_MOST]
    for path in written:
        print(f"{path}  {path.stat().st_size / 1000:.0f} kB")
    if too_large:
        print(f"make_readme_picture: above {BYTES_AT_MOST / 1000:.0f} kB", file=sys.stderr)
    return 1 if too_large else 0


def shoot(report: Path, out: Path) -> list[Path]:
    """Return the pictures of ``report`` in light and in dark."""
    written = []
    with sync_playwright() as playwright:
        browser = launched(playwright)
        for scheme in ("light", "dark"):
            context = browser.new_context(
                viewport={"width": WIDTH, "height": 900}, device_scale_factor=SCALE, color_scheme=scheme
            )
            page: Page = context.new_page()
            page.goto(report.as_uri())
            page.wait_for_selector("html[data-drawn]")
            page.evaluate(TRIM, list(SHOWN))
            # Charts whose neighbours went may be wider now.
            page.evaluate("window.dispatchEvent(new Event('resize'))")
            page.wait_for_timeout(600)
            path = out / ("report.png" if scheme == "light" else "report-dark.png")
            page.screenshot(path=path, full_page=True)
            written.append(path)
            context.close()
        browser.close()
    return written


if __name__ == "__main__":
    sys.exit(main())
