"""A report in a real browser: opening it, and hostile releases to make one of."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from conftest import rewrite_manifest

HOSTILE_QUESTION = (
    "</script><script>document.title='owned'</script>\"'`<img src=x onerror=alert(1)>&amp; {{7*7}} \u202egnp.exe\u202c"
)
HOSTILE_ANSWER = "<b>only after the switch</b> \u202etxet"
LONG = "x" * 9_990 + "<i>end</i>"
MARK = "UNSHOWN-ANSWER"


def script(name: str) -> ModuleType:
    """Return a module of scripts/."""
    path = Path(__file__).resolve().parents[1] / "scripts" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def hostile(release: Path) -> Path:
    """Put hostile text into the first QA and the first Proactive record of a release, and make its manifest agree."""
    _edit(release / "qa.jsonl", _edit_qa)
    _edit(release / "proactive.jsonl", _edit_proactive)
    first = json.loads((release / "proactive.jsonl").read_text(encoding="utf-8").splitlines()[0])["record_id"]
    for name in ("proactive_standard.jsonl", "proactive_high_frequency.jsonl"):
        lines = (release / name).read_text(encoding="utf-8").splitlines()
        if lines and json.loads(lines[0])["record_id"] == first:
            _edit(release / name, _edit_proactive)
    rewrite_manifest(release)
    return release


def _edit_qa(record: dict[str, Any]) -> None:
    record["question"] = HOSTILE_QUESTION
    record["options"] = ["A. <script>alert(1)</script>", "B. \u202e\u2066abc", f"C. {LONG}", 'D. " onload="x']


def _edit_proactive(record: dict[str, Any]) -> None:
    record["instruction"] = LONG
    record["task_type"] = "<u>type</u>"
    for window, trigger in zip(record["windows"], record["metadata"]["trigger_annotations"], strict=True):
        window["expected_answer"] = trigger["answer"] = f"{MARK} {HOSTILE_ANSWER}"


def _edit(path: Path, edit: Any) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    record = json.loads(lines[0])
    edit(record)
    lines[0] = json.dumps(record, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


@contextmanager
def opened(browser: Any, report: Path, anchor: str = "", **options: Any) -> Iterator[Any]:
    """Give a page of a report with the network off; fail for any error in its console and any request."""
    settings: dict[str, Any] = {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light", **options}
    context = browser.new_context(offline=True, **settings)
    page = context.new_page()
    faults: list[str] = []
    page.on("console", lambda message: faults.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("request", lambda request: faults.append(request.url) if _leaves(request.url) else None)
    page.on("dialog", lambda dialog: (faults.append(dialog.message), dialog.dismiss()))
    page.goto(report.resolve().as_uri() + anchor)
    page.wait_for_selector("html[data-ready]", state="attached", timeout=60_000)
    settle(page)
    yield page
    context.close()
    assert faults == []


def _leaves(url: str) -> bool:
    return not url.startswith(("file:", "data:", "blob:"))


def settle(page: Any) -> None:
    """Wait until what was asked for is painted: Bokeh paints with the next animation frames."""
    page.evaluate(
        "() => new Promise((done) => { let left = 6;"
        " const wait = () => (left-- ? requestAnimationFrame(wait) : done()); setTimeout(wait, 150); })"
    )
