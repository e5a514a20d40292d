"""The report as a file: its size, its numbers, and what hostile text becomes in it."""

from __future__ import annotations

import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import rewrite_manifest
from report_page import HOSTILE_QUESTION, LONG, MARK, hostile

import trace_hf

pytest.importorskip("bokeh", reason="the report needs the extra `report`")

from trace_hf.cli.report import report as report_verb
from trace_hf.report import write_report
from trace_hf.report.charts import time_charts
from trace_hf.report.gather import gather
from trace_hf.report.page import as_json
from trace_hf.report.payload import proactive_payload, qa_payload
from trace_hf.report.videos import video_facts


class _Elements(HTMLParser):
    """Counts the elements that a browser would see."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self.found and self.found[-1][0] == "script":
            self.scripts[-1] += data


def elements(path: Path) -> _Elements:
    parser = _Elements()
    parser.feed(path.read_text(encoding="utf-8"))
    return parser


def embedded(path: Path, name: str) -> Any:
    parser = elements(path)
    tags = [attrs for tag, attrs in parser.found if tag == "script"]
    return json.loads(parser.scripts[[attrs.get("id") for attrs in tags].index(name)])


@pytest.fixture(scope="module")
def written(sample_release: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("report") / "report.html"
    made = write_report(sample_release, out)
    assert (made.ok, made.records, made.frames, made.size) == (True, 1248, 0, out.stat().st_size)
    return out


def test_report_of_a_whole_release_is_small_and_needs_nothing_else(written: Path) -> None:
    assert written.stat().st_size < 8_000_000
    found = elements(written).found
    places = [attrs.get(name) for _, attrs in found for name in ("src", "href") if attrs.get(name)]
    assert places
    assert all(place and place.startswith(("#", "data:")) for place in places)
    assert [path.name for path in written.parent.iterdir()] == ["report.html"]


def test_page_lets_no_script_run_but_its_own(written: Path) -> None:
    metas = [attrs for tag, attrs in elements(written).found if tag == "meta"]
    policy = next(attrs["content"] for attrs in metas if attrs.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert "default-src 'none'" in policy
    assert re.search(r"script-src ('sha256-[\w+/=]+' ?){2};", policy)


def test_timeline_data_are_those_of_the_release(written: Path, sample_release: Path) -> None:
    records = {record["id"]: record for record in embedded(written, "records")}
    release = trace_hf.Release.open(sample_release)
    for record in release.records("proactive"):
        shown = records[record.record_id]
        assert shown["stored"] == [[w.start_s, w.end_s] for w in record.windows]
        for tolerance in (5, 10):
            windows = [[w.start_s, w.end_s] for w in trace_hf.effective_windows(record, tolerance)]
            assert shown["effective"][str(tolerance)]["windows"] == windows
    for record in release.records("qa"):
        assert records[record.record_id]["span"] == list(trace_hf.evidence_span(record))
    members = [record_id for record_id, record in records.items() if "proactive_tiny" in record["configs"]]
    assert sorted(members) == sorted(release.ids("proactive_tiny") or [])


def test_populations_and_times_are_recomputed(sample_release: Path) -> None:
    release = trace_hf.Release.open(sample_release)
    found = gather(release, release.proven())
    counts = {name: (p.records, p.windows, p.short_windows) for name, p in found.populations.items()}
    assert counts["qa"] == (833, 0, 0)
    assert counts["proactive"] == (415, 1338, 25)
    assert counts["proactive_standard"] == (407, 1270, 0)
    assert counts["proactive_high_frequency"] == (8, 68, 25)
    assert (counts["qa_tiny"][0], counts["proactive_tiny"][0]) == (9, 9)
    assert found.audit == {"changes": 380, "exclusions": 52}
    assert len(found.left_out) == 8
    assert len(found.videos) == 522
    assert len(found.times.lengths["stored"]) == 1338
    assert len(found.times.gaps) == 1338 - 415
    titles = [chart.title for chart in time_charts(found, 1.0)]
    assert len(titles) == len(set(titles)) == 9


def test_windows_that_no_frame_lies_in_are_counted(real: Path) -> None:
    """By hand: 1570's windows, for one, and the shortest of 0.03 s."""
    release = trace_hf.Release.open(real / "sample_release")
    found = gather(release, release.proven())
    stress = found.times.unseen["proactive_high_frequency", "stored"]
    assert stress.windows == 68
    by_hand = 0
    for record in release.records("proactive_high_frequency"):
        frames = trace_hf.evidence_span(record).sampling_times()
        by_hand += sum(not [t for t in frames if w.start_s <= t < w.end_s] for w in record.windows)
    assert stress.unseen == by_hand > 0


def test_hostile_text_stays_text(small_sample: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    made = write_report(hostile(small_sample), out)
    assert made.verified
    text = out.read_text(encoding="utf-8")
    assert "document.title='owned'</script>" not in text
    parser = elements(out)
    assert sum(tag == "script" for tag, _ in parser.found) == 4
    assert not [tag for tag, _ in parser.found if tag in ("img", "b", "i", "u")]
    records = embedded(out, "records")
    assert HOSTILE_QUESTION in [record["text"] for record in records]
    assert LONG in [record["text"] for record in records]


def test_json_cannot_end_its_element() -> None:
    text = as_json({"a": "</script><!--<script>\u2028&"})
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == {"a": "</script><!--<script>\u2028&"}


def test_answers_stand_apart_from_what_is_shown(small_sample: Path) -> None:
    release = trace_hf.Release.open(hostile(small_sample))
    record = next(release.records("proactive"))
    payload = proactive_payload(record, ["proactive"], (5.0, 10.0))
    for name in ("answers",):
        payload.pop(name)
    for trigger in payload["triggers"]:
        for name in ("answer", "facts", "about"):
            trigger.pop(name, None)
    assert MARK not in json.dumps(payload)
    qa = qa_payload(next(release.records("qa")), ["qa"])
    assert qa.pop("answer") in "ABCDEF"


def test_release_that_does_not_verify_shows_why_and_no_record(small_sample: Path, tmp_path: Path) -> None:
    hostile(small_sample)
    manifest = json.loads((small_sample / "manifest.json").read_text(encoding="utf-8"))
    manifest["files"]["qa.jsonl"] = "0" * 64
    (small_sample / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    out = tmp_path / "report.html"
    made = write_report(small_sample, out)
    assert (made.ok, made.verified, made.records) == (False, False, 0)
    text = out.read_text(encoding="utf-8")
    assert "not verified" in text
    assert MARK not in text
    assert embedded(out, "records") == []


def test_release_that_is_not_valid_names_the_check(small_sample: Path, tmp_path: Path) -> None:
    hostile(small_sample)  # the copies of a record no longer agree in its task type
    made = write_report(small_sample, tmp_path / "report.html")
    assert (made.verified, made.valid, made.ok) == (True, False, False)
    assert "not valid" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_release_without_records(tmp_path: Path) -> None:
    release = trace_hf.write_sample(tmp_path / "empty", scale=0)
    made = write_report(release, tmp_path / "report.html")
    assert made.records == 0
    assert "Timelines" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_videos_are_covered_by_folder() -> None:
    videos = {"videos/a.mp4": ["1", "2"], "videos/b.mp4": ["3"], "src_videos/COIN/c.mp4": ["4"]}
    check = {
        "ok": False,
        "root": "/videos",
        "present": ["videos/a.mp4"],
        "missing": [{"path": "videos/b.mp4", "records": ["3"], "candidates": ["videos/B.mp4"]}],
        "empty": [{"path": "src_videos/COIN/c.mp4", "records": ["4"]}],
        "pointers": [],
    }
    probe = {
        "ok": False,
        "videos": [{"path": "videos/a.mp4", "records": ["1"], "problems": [{"kind": "too_short", "detail": "5 s"}]}],
    }
    facts = video_facts(videos, check, probe)
    assert [(f.name, f.videos, f.records, f.present, f.faulty) for f in facts.folders] == [
        ("src_videos/COIN", 1, 1, 0, 1),
        ("videos", 2, 3, 1, 1),
    ]
    assert facts.check_faults[0] == ("videos/b.mp4", 1, "missing; near: videos/B.mp4")
    assert facts.probe_faults == [("videos/a.mp4", 1, "too_short: 5 s")]
    assert not facts.ok


def test_local_videos_give_frames(tmp_path: Path) -> None:
    pytest.importorskip("av")
    release = trace_hf.write_sample(tmp_path / "r", scale=0.01, videos=True)
    made = write_report(release, tmp_path / "a.html", video_root=release / "video_root")
    assert made.frames >= 2
    framed = [record for record in embedded(tmp_path / "a.html", "records") if "frames" in record]
    for record in framed:
        start, end = record["span"] if record["task"] == "qa" else record["effective"]["5"]["span"]
        times = [time for time, _ in record["frames"]]
        assert (times[0], times[-1]) == (start, pytest.approx(end, abs=1.0))
        assert len(times) <= 12
    none = write_report(release, tmp_path / "b.html", video_root=release / "video_root", frames_mb=0)
    assert none.frames == 0


def test_verb_writes_and_says_so(small_sample: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "r.html"
    result = CliRunner().invoke(report_verb, [str(small_sample), "-o", str(out)])
    assert result.exit_code == 0, result.output
    assert "verified, valid" in result.output
    assert out.is_file()
    (small_sample / "changes.jsonl").unlink()
    rewrite_manifest(small_sample)
    result = CliRunner().invoke(report_verb, [str(small_sample), "-o", str(out), "--json"])
    assert result.exit_code == 1
    assert json.loads(result.stdout)["valid"] is False
    assert [path.name for path in out.parent.iterdir()] == ["r.html"]


def test_absent_bokeh_is_named_with_what_to_install(
    small_sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "bokeh", None)
    with pytest.raises(trace_hf.errors.TraceError, match=r"trace-hf\[report\]"):
        write_report(small_sample, tmp_path / "report.html")


def test_verb_refuses_a_file_that_no_video_verb_wrote(small_sample: Path, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("[]")
    result = CliRunner().invoke(report_verb, [str(small_sample), "--check", str(tmp_path / "x.json")])
    assert "is not what a `trace-hf videos` verb prints" in str(result.exception)
