"""Take the pictures of docs/images/ from a report of the synthetic sample; look at them before they are kept.

    python scripts/screenshots.py

It needs what scripts/report_load.py needs, and Pillow. Annotations of a real release must never be in a picture.
"""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image
from report_load import READY, browser, why_not

import trace_hf
from trace_hf.report import write_report

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
RECORD = "#record=ovo_bench_proactive%3A1568"
WIDTH, HEIGHT = 1200, 760


def keep(name: str, png: bytes) -> None:
    """Write a picture with 128 colours: charts and text look the same, and it is a third of the size."""
    path = IMAGES / f"report-{name}.png"
    picture = Image.open(io.BytesIO(png)).convert("RGB").quantize(128, dither=Image.Dither.NONE)
    picture.save(path, optimize=True)
    print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB, {picture.width} x {picture.height}")


def open_page(running: Any, address: str, scheme: str, width: int, height: int) -> Any:
    """Return a page whose charts are painted."""
    page = running.new_context(
        offline=True, color_scheme=scheme, viewport={"width": width, "height": height}
    ).new_page()
    page.goto(address)
    page.wait_for_selector(READY, state="attached", timeout=60_000)
    page.wait_for_timeout(800)
    return page


def main() -> int:
    """Take them all."""
    if missing := why_not():
        print(missing, file=sys.stderr)
        return 2
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, browser() as running:
        release = trace_hf.write_sample(Path(folder, "sample"), videos=True)
        report = Path(folder, "report.html")
        write_report(release, report, video_root=release / "video_root")
        address = report.as_uri()
        for scheme in ("light", "dark"):
            keep(f"front-{scheme}", open_page(running, address, scheme, WIDTH, HEIGHT).screenshot())
            page = open_page(running, address + RECORD, scheme, WIDTH, HEIGHT)
            page.evaluate("document.activeElement.blur()")
            keep(f"timeline-{scheme}", page.screenshot())
        page = open_page(running, address + RECORD, "light", 360, 740)
        page.evaluate("document.activeElement.blur()")
        keep("phone", page.screenshot())
    return 0


if __name__ == "__main__":
    sys.exit(main())
