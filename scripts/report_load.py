"""Open a report in a headless Chromium, and measure how long that takes.

    python scripts/report_load.py report.html

It needs Playwright (`pip install playwright`; no `playwright install`) and a Chromium, such as Debian's package.
"""

from __future__ import annotations

import importlib.util
import shutil
import statistics
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# No request may leave the machine, not even the browser's own.
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
READY = "html[data-ready]"


def why_not() -> str:
    """Return what is not installed, or an empty text."""
    if importlib.util.find_spec("playwright") is None:
        return "Playwright is not installed"
    if find_chromium() is None:
        return "no Chromium is installed (on Debian: apt-get install chromium)"
    return ""


def find_chromium() -> str | None:
    """Return the path of an installed Chromium."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next((path for name in names if (path := shutil.which(name))), None)


@contextmanager
def browser() -> Iterator[Any]:
    """Give a running browser, with a fresh profile."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=find_chromium(), args=list(FLAGS))
        try:
            yield running
        finally:
            running.close()


def load_seconds(report: Path, repeat: int = 3) -> list[float]:
    """Return how long a report takes from opening it to its last chart, several times; seconds."""
    taken = []
    with browser() as running:
        for _ in range(repeat):
            context = running.new_context(offline=True)
            page = context.new_page()
            page.goto(report.resolve().as_uri())
            page.wait_for_selector(READY, state="attached", timeout=120_000)
            taken.append(float(page.evaluate("performance.now()")) / 1000)
            context.close()
    return taken


def main(arguments: list[str]) -> int:
    """Print the load time of a report."""
    if len(arguments) != 1:
        print((__doc__ or "").strip(), file=sys.stderr)
        return 2
    if missing := why_not():
        print(missing, file=sys.stderr)
        return 2
    report = Path(arguments[0])
    taken = load_seconds(report)
    print(f"{report.name}: {report.stat().st_size / 1e6:.1f} MB, loaded in {statistics.median(taken):.2f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
