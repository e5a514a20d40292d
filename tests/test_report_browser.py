"""The report in a real browser, opened from its file with the network off."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from report_page import HOSTILE_QUESTION, LONG, MARK, hostile, opened, script, settle

import trace_hf

pytestmark = pytest.mark.slow

report_load = script("report_load")
if report_load.why_not():
    pytest.skip(report_load.why_not(), allow_module_level=True)
pytest.importorskip("bokeh")
Image = pytest.importorskip("PIL.Image")

# Where a time, or a row, is drawn: pixels of the page, from Bokeh's own layout and the axis' range.
PLACES = """
() => {
  const view = [...Bokeh.index.roots].find((one) => one.model.name === 'timeline');
  const { frame } = view;
  const box = document.getElementById('timeline').firstElementChild.getBoundingClientRect();
  const range = view.model.x_range;
  return {
    left: box.left + frame.bbox.left, top: box.top + frame.bbox.top, width: frame.bbox.width, height: frame.bbox.height,
    start: range.start, end: range.end, rows: [...view.model.y_range.factors],
  };
}
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with report_load.browser() as running:
        yield running


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> trace_hf.Release:
    return trace_hf.Release.open(trace_hf.write_sample(tmp_path_factory.mktemp("seen") / "release", videos=True))


@pytest.fixture(scope="module")
def report(release: trace_hf.Release) -> Path:
    from trace_hf.report import write_report

    out = Path(release.root).parent / "report.html"
    made = write_report(release, out, video_root=release.root / "video_root")
    assert made.size < 8_000_000
    assert made.frames == 18
    return out


def proactive(release: trace_hf.Release, record_id: str) -> Any:
    return next(record for record in release.records("proactive") if record.record_id == record_id)


def pick(page: Any, record_id: str) -> None:
    page.fill("#search", record_id)
    page.select_option("#list", record_id)
    settle(page)


def drawn_edges(page: Any, row: str) -> tuple[list[int], dict[str, Any]]:
    """The columns at which the colour changes along the middle of a row, found in a picture of the page."""
    page.evaluate("document.getElementById('timeline').scrollIntoView({block: 'center'})")
    settle(page)
    places = page.evaluate(PLACES)
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    rows = places["rows"][::-1]
    y = round(places["top"] + (rows.index(row) + 0.5) * places["height"] / len(rows))
    # The first column lies left of the first edge, and grid lines are fainter than the least step between bars.
    line = [picture.getpixel((x, y)) for x in range(round(places["left"]) + 1, round(places["left"] + places["width"]))]
    # Two columns apart, since an edge within a pixel is spread over two.
    first = round(places["left"]) + 1
    steps = enumerate(zip(line, line[2:], strict=False), first + 1)
    return [x for x, colours in steps if sum(abs(a - b) for a, b in zip(*colours, strict=True)) > 60], places


def expected_edges(windows: list[Any], places: dict[str, Any]) -> list[float]:
    scale = places["width"] / (places["end"] - places["start"])
    return [places["left"] + (t - places["start"]) * scale for t in sorted({t for w in windows for t in w[:2]})]


def assert_same_edges(edges: list[int], expected: list[float]) -> None:
    assert len(expected) > 2
    for place in expected:
        assert min(abs(edge - place) for edge in edges) <= 1.5, (place, edges)
    for edge in edges:
        assert min(abs(edge - place) for place in expected) <= 2.5, (edge, expected)


@pytest.mark.parametrize("record_id", ["ovo_bench_proactive:1568", "streambench_proactive:125"])
def test_windows_are_drawn_at_the_right_pixels(
    browser: Any, report: Path, release: trace_hf.Release, record_id: str
) -> None:
    record = proactive(release, record_id)
    rows = {
        "stored": [(w.start_s, w.end_s) for w in record.windows],
        "W = 5": trace_hf.effective_windows(record, 5),
        "W = 10": trace_hf.effective_windows(record, 10),
    }
    with opened(browser, report) as page:
        pick(page, record_id)
        for move in ("", "Zoom in"):
            if move:
                page.get_by_role("button", name=move).click()
                settle(page)
            for row, windows in rows.items():
                edges, places = drawn_edges(page, row)
                left, right = places["left"] + 3, places["left"] + places["width"] - 3
                (deadline,) = expected_edges([(record.deadline_s,)], places)
                assert_same_edges(
                    [x for x in edges if left < x < right and abs(x - deadline) > 3],
                    [x for x in expected_edges(windows, places) if left < x < right and abs(x - deadline) > 3],
                )


def test_ticks_are_the_sampling_times_of_python(browser: Any, report: Path, release: trace_hf.Release) -> None:
    ticks = "() => [...Bokeh.documents].map((d) => d.get_model_by_name('ticks')).find((m) => m).data.x"
    with opened(browser, report) as page:
        for record in [*release.records("proactive_tiny"), *release.records("qa_tiny")]:
            pick(page, record.record_id)
            assert page.evaluate(ticks) == trace_hf.evidence_span(record).sampling_times()
            if record.task == "proactive":
                page.select_option("#tolerance", "10")
                due = trace_hf.evidence_span(record, tolerance_s=10).sampling_times()
                assert page.evaluate(ticks) == due
                page.select_option("#tolerance", "5")


def test_search_and_filters(browser: Any, report: Path) -> None:
    with opened(browser, report) as page:
        matches = page.locator("#matches")
        assert matches.inner_text().startswith("1248 of 1248 match")
        page.select_option("#filter-configs", "=proactive_high_frequency")
        assert matches.inner_text() == "8 of 1248 match"
        page.select_option("#filter-source", "=ovo_bench")
        assert matches.inner_text() == "5 of 1248 match"
        page.select_option("#filter-type", "=SSR")
        assert matches.inner_text() == "1 of 1248 match"
        assert page.locator("#record-id").inner_text() == "ovo_bench_proactive:1536"
        page.select_option("#filter-tier", "=machine_screened")
        assert matches.inner_text() == "0 of 1248 match"
        for name in ("configs", "source", "type", "tier"):
            page.select_option(f"#filter-{name}", "")
        page.fill("#search", "ovo_bench_qa:1")
        first = page.locator("#list option").first
        assert first.get_attribute("value") == "ovo_bench_qa:1" or "ovo_bench_qa:1" in (first.inner_text())
        page.fill("#search", "no such thing")
        assert matches.inner_text() == "0 of 1248 match"


def test_record_in_the_address(browser: Any, report: Path) -> None:
    with opened(browser, report, "#record=streambench_proactive%3A125") as page:
        assert page.locator("#record-id").inner_text() == "streambench_proactive:125"
        assert page.evaluate("document.activeElement.id") == "record-id"
        page.locator('#populations a[href*="1570"]').click()
        settle(page)
        assert page.locator("#record-id").inner_text() == "ovo_bench_proactive:1570"
        assert page.locator("#list").input_value() == "ovo_bench_proactive:1570"


def test_answers_are_not_on_the_page_until_asked_for(browser: Any, small_sample: Path, tmp_path: Path) -> None:
    from trace_hf.report import write_report

    release = trace_hf.Release.open(hostile(small_sample))
    write_report(release, tmp_path / "report.html")
    record_id = next(release.records("proactive")).record_id
    everything = (
        "() => document.querySelector('main').innerHTML + JSON.stringify([...Bokeh.documents].map((doc) => "
        "['bars', 'points', 'lines'].map((name) => { const m = doc.get_model_by_name(name); return m && m.data; })))"
    )
    with opened(browser, tmp_path / "report.html") as page:
        pick(page, record_id)
        assert page.locator("#record-id").inner_text() == record_id
        assert MARK not in page.evaluate(everything)
        page.fill("#search", MARK)
        assert page.locator("#matches").inner_text().startswith("0 of ")
        page.fill("#search", record_id)
        page.get_by_role("switch", name="Show answers").check()
        settle(page)
        assert MARK in page.locator("#events").inner_text()
        assert MARK in page.evaluate(everything)
        page.get_by_role("switch", name="Show answers").uncheck()
        settle(page)
        assert MARK not in page.evaluate(everything)


def test_hostile_text_shows_as_text(browser: Any, small_sample: Path, tmp_path: Path) -> None:
    from trace_hf.report import write_report

    release = trace_hf.Release.open(hostile(small_sample))
    write_report(release, tmp_path / "report.html")
    qa, asked = (next(release.records(name)).record_id for name in ("qa", "proactive"))
    with opened(browser, tmp_path / "report.html", viewport={"width": 360, "height": 740}) as page:
        pick(page, qa)
        page.get_by_role("switch", name="Show answers").check()
        assert page.locator("#record-text").inner_text() == HOSTILE_QUESTION
        # A right-to-left override reorders its own text, and nothing beside it.
        assert page.evaluate(
            "[...document.querySelectorAll('main *')].filter((one) => [...one.childNodes].some("
            "(part) => part.nodeType === 3 && part.data.includes('\\u202e')))"
            ".every((one) => getComputedStyle(one).unicodeBidi === 'isolate')"
        )
        assert page.locator("#record-options li").nth(2).inner_text().startswith(f"C. {LONG}")
        pick(page, asked)
        assert page.locator("#record-text").inner_text() == LONG
        assert "<b>only after the switch</b>" in page.locator("#events").inner_text()
        assert "<u>type</u>" in page.locator("#record-about").inner_text()
        page.hover("#timeline", position={"x": 150, "y": 100})
        assert page.title().startswith("TRACE sample")
        assert page.evaluate("document.querySelectorAll('main b, main u, main i, main img').length") == 0
        assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_tooltip_gives_the_text(browser: Any, report: Path) -> None:
    with opened(browser, report) as page:
        pick(page, "ovo_bench_proactive:1568")
        _, places = drawn_edges(page, "stored")
        rows = places["rows"][::-1]
        scale = places["width"] / (places["end"] - places["start"])
        y = places["top"] + (rows.index("stored") + 0.5) * places["height"] / len(rows)
        page.mouse.move(places["left"] + (3.0 - places["start"]) * scale, y)
        page.wait_for_timeout(300)
        shown = page.evaluate(
            "() => { const deep = (node) => [...node.childNodes].map((one) => one.nodeType === 3 ? one.data :"
            " (one.localName === 'style' ? '' : deep(one.shadowRoot || one))).join('');"
            " return [...document.querySelectorAll('.bk-Tooltip')].map((one) => deep(one.shadowRoot)).join('|'); }"
        )
        assert "Stored window 1: [2, 4.42) s" in shown
        assert "(answer hidden)" in shown


def test_keyboard_is_enough(browser: Any, report: Path) -> None:
    with opened(browser, report) as page:
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        page.keyboard.press("Enter")
        page.locator("#search").focus()
        page.keyboard.type("streambench_proactive:4")
        reached = []
        for _ in range(24):
            page.keyboard.press("Tab")
            reached.append(page.evaluate("document.activeElement.id || document.activeElement.dataset.move"))
            if reached[-1] == "list":
                first = page.locator("#record-id").inner_text()
                page.keyboard.press("ArrowDown")
                assert page.locator("#record-id").inner_text() != first
            if reached[-1] == "answers":
                page.keyboard.press("Space")
        for name in ("filter-configs", "list", "previous", "next", "answers", "in", "later", "tolerance"):
            assert name in reached
        assert "(answer hidden)" not in page.locator("#events").inner_text()
        before = page.evaluate(PLACES)
        page.locator('[data-move="in"]').focus()
        page.keyboard.press("Enter")
        settle(page)
        after = page.evaluate(PLACES)
        assert after["end"] - after["start"] == pytest.approx((before["end"] - before["start"]) / 2)


def test_phone(browser: Any, report: Path) -> None:
    with opened(browser, report, viewport={"width": 360, "height": 740}) as page:
        pick(page, "ovo_bench_proactive:1568")
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        plots = page.evaluate(
            "[...document.querySelectorAll('.plot')].map((plot) => plot.getBoundingClientRect().right)"
        )
        assert len(plots) >= 13
        assert max(plots) <= 360
        edges, places = drawn_edges(page, "stored")
        first, last, deadline = expected_edges([(2.0, 20.4), (28.4,)], places)
        edges = [x for x in edges if abs(x - deadline) > 3]
        assert (min(edges), max(edges)) == (pytest.approx(first, abs=2), pytest.approx(last, abs=2))


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 360)])
def test_axe_finds_no_serious_fault(browser: Any, report: Path, scheme: str, width: int) -> None:
    axe = pytest.importorskip("axe_playwright_python")
    source = (Path(axe.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
    with opened(browser, report, color_scheme=scheme, viewport={"width": width, "height": 900}) as page:
        for part in page.locator("details").all():
            part.evaluate("(node) => { node.open = true; }")
        page.get_by_role("switch", name="Show answers").check()
        settle(page)
        page.evaluate(source)  # the debugger's way in is not bound by the page's policy
        results = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
        found = {fault["id"]: [node["target"] for node in fault["nodes"]][:3] for fault in results["violations"]}
        serious = [fault["id"] for fault in results["violations"] if fault["impact"] in ("serious", "critical")]
        assert serious == [], found
        assert results["violations"] == [], found


def test_theme_follows_the_system_and_the_choice(browser: Any, report: Path) -> None:
    colour = "getComputedStyle(document.body).backgroundColor"
    with opened(browser, report, color_scheme="dark") as page:
        dark = page.evaluate(colour)
        page.select_option("#theme", "light")
        assert page.evaluate(colour) == "rgb(255, 255, 255)" != dark
        page.select_option("#theme", "auto")
        assert page.evaluate(colour) == dark
        page.emulate_media(color_scheme="light")
        page.wait_for_selector("html[data-theme=light]", state="attached")
        assert page.evaluate(colour) == "rgb(255, 255, 255)"


def test_print_shows_the_checks_and_light_charts(browser: Any, report: Path) -> None:
    with opened(browser, report, color_scheme="dark") as page:
        page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        page.emulate_media(media="print")
        assert page.evaluate("document.documentElement.dataset.theme") == "light"
        assert page.locator(".printed").count() == page.locator(".plot").count()
        assert page.locator(".checks").is_visible()
        assert not page.locator(".filters").is_visible()
        assert page.evaluate(
            "[...document.querySelectorAll('.printed')].every((c) => c.getContext('2d')"
            ".getImageData(0, 0, c.width, c.height).data.some((value) => value))"
        )
        page.evaluate("window.dispatchEvent(new Event('afterprint'))")
        assert page.locator(".printed").count() == 0
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_frames_stand_at_their_times(browser: Any, report: Path) -> None:
    data = "() => [...Bokeh.documents].map((d) => d.get_model_by_name('images')).find((m) => m).data"
    with opened(browser, report) as page:
        pick(page, "ovo_bench_proactive:1568")
        images = page.evaluate(data)
        assert len(images["x"]) > 3
        assert all(url.startswith("data:image/jpeg;base64,") for url in images["url"])
        places = page.evaluate(PLACES)
        scale = places["width"] / (places["end"] - places["start"])
        assert min(b - a for a, b in zip(images["x"], images["x"][1:], strict=False)) * scale >= 80
        page.fill("#search", "streambench_proactive:125")
        settle(page)
        assert page.evaluate(data)["x"] == []


def test_ten_times_the_release_still_works(browser: Any, tmp_path: Path) -> None:
    from trace_hf.report import write_report

    release = trace_hf.Release.open(trace_hf.write_sample(tmp_path / "large", scale=10))
    made = write_report(release, tmp_path / "report.html")
    assert made.records == 12480
    with opened(browser, tmp_path / "report.html") as page:
        seconds = page.evaluate("performance.now()") / 1000
        print(f"scale 10: {made.size / 1e6:.1f} MB, {seconds:.1f} s")
        wanted = list(release.records("proactive"))[-1]
        page.fill("#search", wanted.record_id)
        settle(page)
        assert page.locator("#record-id").inner_text() == wanted.record_id
        assert re.match(r"\d+ of 12480 match", page.locator("#matches").inner_text())
        edges, places = drawn_edges(page, "stored")
        expected = expected_edges([(w.start_s, w.end_s) for w in wanted.windows], places)
        (deadline,) = expected_edges([(wanted.deadline_s,)], places)
        edges = [x for x in edges if abs(x - deadline) > 3 or abs(x - expected[-1]) < 2]
        assert (min(edges), max(edges)) == (pytest.approx(expected[0], abs=2), pytest.approx(expected[-1], abs=2))
