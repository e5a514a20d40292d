"""The synthetic release: right counts, consistent meaning, real variety, same bytes."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections import Counter
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from trace_hf import sample, schema
from trace_hf.errors import TraceError
from trace_hf.sample import cached_sample, write_sample

RECORD_FILES = {
    "qa.jsonl": schema.QARecord,
    "proactive.jsonl": schema.ProactiveRecord,
    "proactive_standard.jsonl": schema.ProactiveRecord,
    "proactive_high_frequency.jsonl": schema.ProactiveRecord,
    "changes.jsonl": schema.ChangeRecord,
    "exclusions.jsonl": schema.ExclusionRecord,
}
ID_FILES = (
    "standard_proactive_ids.json",
    "high_frequency_proactive_ids.json",
    "tiny_qa_ids.json",
    "tiny_proactive_ids.json",
)
SIDECARS = ("manifest.json", "proactive_subsets.json", "review_summary.json", "validation_report.json")


class Snapshot:
    """A release read with nothing but json, numbers kept as exact decimals."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def rows(self, name: str) -> list[dict]:
        return [json.loads(line, parse_float=Decimal) for line in self.text(name).splitlines()]

    def text(self, name: str) -> str:
        return (self.folder / name).read_bytes().decode("utf-8")

    def json(self, name: str):
        return json.loads(self.text(name))

    @property
    def qa(self) -> list[dict]:
        return self.rows("qa.jsonl")

    @property
    def proactive(self) -> list[dict]:
        return self.rows("proactive.jsonl")


def written(folder: Path, **options) -> Snapshot:
    return Snapshot(write_sample(folder, **options))


@pytest.fixture(scope="module")
def release(tmp_path_factory) -> Snapshot:
    return written(tmp_path_factory.mktemp("sample") / "release")


@pytest.fixture(scope="module", params=[(1, 0), (1, 7), (0.1, 0), (0.05, 1), (0.013, 2), (2.5, 3), (0, 0)], ids=str)
def any_release(request, tmp_path_factory) -> Snapshot:
    scale, seed = request.param
    return written(tmp_path_factory.mktemp("sample") / "release", scale=scale, seed=seed)


def digest(folder: Path) -> dict[str, str]:
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.iterdir() if p.is_file()}


def place(record: dict, path: str):
    for key, index in re.findall(r"(\w+)|\[(\d+)\]", path):
        record = record[key] if key else record[int(index)]
    return record


# --- counts -----------------------------------------------------------------------------------------------------


def test_scale_one_has_the_counts_of_the_release(release):
    assert Counter(r["metadata"]["dataset"] for r in release.qa) == {"ovo_bench": 304, "streambench": 529}
    assert Counter(r["metadata"]["dataset"] for r in release.proactive) == {"ovo_bench": 171, "streambench": 244}
    assert Counter(r["task_type"] for r in release.qa + release.proactive) == {
        "EPM": 144,
        "HLD": 60,
        "ASI": 100,
        "Anomaly Context Understanding": 186,
        "Clips Summarize": 244,
        "Causal Reasoning": 99,
        "CRR": 48,
        "SSR": 41,
        "REC": 82,
        "stream bench proactive": 244,
    }
    tiers = Counter(r["metadata"]["validation_tier"] for r in release.qa + release.proactive)
    assert tiers == {"human_reviewed": 525, "machine_screened": 723}


def test_scale_one_splits_windows_as_the_release_does(release):
    standard = release.rows("proactive_standard.jsonl")
    stress = release.rows("proactive_high_frequency.jsonl")
    assert (len(standard), len(stress)) == (407, 8)
    assert (sum(len(r["windows"]) for r in standard), sum(len(r["windows"]) for r in stress)) == (1270, 68)
    lengths = [w["end_s"] - w["start_s"] for r in stress for w in r["windows"]]
    assert sum(length <= 1 for length in lengths) == 25
    assert Decimal(1) in lengths
    assert lengths.count(Decimal("0.03")) == 2
    assert min(w["end_s"] - w["start_s"] for r in standard for w in r["windows"]) > 1


def test_scale_one_audit_counts(release):
    changes, exclusions = release.rows("changes.jsonl"), release.rows("exclusions.jsonl")
    assert Counter(c["disposition"] for c in changes) == {"edit": 328, "remove": 52}
    assert len(exclusions) == 52
    assert sum("DUPLICATE_RECORD" in e["reason_codes"] for e in exclusions) == 25
    summary = release.json("review_summary.json")
    assert summary["review_dispositions"] == {"edit": 328, "remove": 52, "valid": 197}
    assert (summary["saved_review_count"], summary["source_record_count"]) == (577, 1300)
    assert summary["duplicate_upper_id_removals"] == 25
    assert [len(release.json(f"tiny_{mode}_ids.json")) for mode in ("qa", "proactive")] == [9, 9]


def test_scale_one_video_counts(release):
    qa = {r["video_path"] for r in release.qa}
    standard = {r["video_path"] for r in release.rows("proactive_standard.jsonl")}
    everything = qa | {r["video_path"] for r in release.proactive}
    assert (len(qa), len(standard), len(qa | standard), len(everything)) == (340, 178, 517, 522)


def test_a_tenth_is_in_proportion(tmp_path):
    tenth = written(tmp_path / "x", scale=0.1)
    assert (len(tenth.qa), len(tenth.proactive)) == (83, 42)
    assert len(tenth.rows("proactive_high_frequency.jsonl")) == 1
    assert (len(tenth.rows("changes.jsonl")), len(tenth.rows("exclusions.jsonl"))) == (38, 5)
    assert tenth.json("manifest.json")["release_id"] == "sample-0-x0.1"


@pytest.mark.parametrize("scale", [0.05, 0.01, 1e-6])
def test_no_config_is_empty_above_scale_zero(tmp_path, scale):
    small = written(tmp_path / "x", scale=scale)
    assert all(small.rows(name) for name in RECORD_FILES)
    assert small.json("tiny_qa_ids.json")
    assert small.json("tiny_proactive_ids.json")


def test_scale_zero_is_an_empty_release(tmp_path):
    empty = written(tmp_path / "x", scale=0)
    assert all((empty.folder / name).read_bytes() == b"" for name in RECORD_FILES)
    assert all((empty.folder / name).read_bytes() == b"[]\n" for name in ID_FILES)
    assert empty.json("manifest.json")["counts"] == {"proactive": 0, "qa": 0}
    assert empty.json("manifest.json")["release_id"] == "sample-0-x0"


# --- bytes ------------------------------------------------------------------------------------------------------


def test_manifest_lists_every_file_with_its_hash(any_release):
    manifest = any_release.json("manifest.json")
    found = digest(any_release.folder)
    del found["manifest.json"]
    assert manifest["files"] == found
    assert set(found) == {*RECORD_FILES, *ID_FILES, *SIDECARS} - {"manifest.json"}
    assert manifest["counts"] == {"qa": len(any_release.qa), "proactive": len(any_release.proactive)}
    assert manifest["status"] == "synthetic"
    assert manifest["schema_version"] == "osb-canonical-v0"
    assert "synthetic" in manifest["limitations"][0]
    assert "No number that was made on it is a TRACE result." in manifest["limitations"]


def test_line_files_are_canonical_and_fit_the_schema(any_release):
    for name, kind in RECORD_FILES.items():
        text = any_release.text(name)
        lines = text.split("\n")
        assert lines.pop() == ""
        for line in lines:
            row = json.loads(line)
            assert line == json.dumps(row, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
            msgspec.json.decode(line, type=kind, strict=True)


def test_sidecars_are_indented_and_sorted(any_release):
    for name in (*ID_FILES, *SIDECARS):
        assert any_release.text(name) == json.dumps(any_release.json(name), indent=2, sort_keys=True) + "\n"
    msgspec.json.decode(any_release.text("manifest.json"), type=schema.Manifest)
    for name, kind in schema.SIDECARS.items():
        msgspec.json.decode(any_release.text(name), type=kind)


def test_numbers_have_a_decimal_point_and_at_most_three_decimals(any_release):
    def floats(value):
        if isinstance(value, dict):
            for key, item in value.items():
                assert not (key.endswith("_s") and isinstance(item, int)), key
                yield from floats(item)
        elif isinstance(value, list):
            for item in value:
                yield from floats(item)
        elif isinstance(value, Decimal):
            yield value

    for name in RECORD_FILES:
        for row in any_release.rows(name):
            assert all(number.as_tuple().exponent >= -3 for number in floats(row))
            assert "-0.0" not in json.dumps(row, default=str)


def test_same_seed_gives_the_same_bytes_in_another_process(tmp_path):
    write_sample(tmp_path / "here", scale=0.2, seed=5)
    code = "import sys; from trace_hf.sample import write_sample; write_sample(sys.argv[1], scale=0.2, seed=5)"
    env = {**os.environ, "PYTHONHASHSEED": "123"}
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "there")], check=True, env=env, cwd=Path.cwd())
    assert digest(tmp_path / "here") == digest(tmp_path / "there")


def test_bytes_are_those_of_this_format(release):
    # Whoever changes these bytes has to raise SAMPLE_FORMAT, or a cached sample of the old form would be used.
    assert sample.SAMPLE_FORMAT == 1
    assert hashlib.sha256((release.folder / "manifest.json").read_bytes()).hexdigest() == MANIFEST_SHA256


def test_other_seeds_give_other_contents(tmp_path):
    one, two = (written(tmp_path / str(seed), scale=0.1, seed=seed) for seed in (1, 2))
    assert two.json("manifest.json")["release_id"] == "sample-2-x0.1"
    assert [r["record_id"] for r in one.qa] == [r["record_id"] for r in two.qa]
    assert all(a != b for a, b in zip(one.qa, two.qa, strict=True))


def test_memory_does_not_grow_with_the_release(tmp_path):
    code = (
        "import resource, sys; from trace_hf.sample import write_sample;"
        "write_sample(sys.argv[1], scale=float(sys.argv[2]));"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )

    def peak(scale: str) -> int:
        run = [sys.executable, "-c", code, str(tmp_path / scale), scale]
        return int(subprocess.run(run, check=True, capture_output=True, text=True).stdout)

    assert peak("20") <= 1.5 * peak("1")


# --- meaning ----------------------------------------------------------------------------------------------------


def test_ids_are_unique_sorted_as_text_and_fit_together(any_release):
    for task in ("qa", "proactive"):
        records = any_release.rows(f"{task}.jsonl")
        names = [r["record_id"] for r in records]
        assert names == sorted(set(names))
        for record in records:
            meta = record["metadata"]
            number = meta["source_question_id"]
            assert record["record_id"] == record["source_id"] == f"{meta['dataset']}_{task}:{number}"
            assert meta["stable_id"] == f"{meta['dataset']}:{task}:{number}"
            assert meta["source_file"] == f"{meta['dataset']}_{task}.json"
            assert record["task"] == task
    for name in ("changes.jsonl", "exclusions.jsonl"):
        rows = any_release.rows(name)
        assert [r["record_id"] for r in rows] == sorted({r["record_id"] for r in rows})
        for row in rows:
            number = row["record_id"].split(":")[1]
            assert row["stable_id"] == f"{row['dataset']}:{row['mode']}:{number}"
            assert row["record_id"] == f"{row['dataset']}_{row['mode']}:{number}"


def test_content_is_unique_without_ids(any_release):
    for name in ("qa.jsonl", "proactive.jsonl"):
        shown = [(r["video_path"], r.get("question", r.get("instruction"))) for r in any_release.rows(name)]
        assert len(set(shown)) == len(shown)


def test_tiny_ids_name_records_in_order(any_release):
    for task in ("qa", "proactive"):
        ids = any_release.json(f"tiny_{task}_ids.json")
        assert ids == sorted(set(ids))
        assert set(ids) <= {r["record_id"] for r in any_release.rows(f"{task}.jsonl")}


def test_split_is_whole_records_by_their_shortest_window(any_release):
    lines = any_release.text("proactive.jsonl").splitlines()
    stress = [
        line
        for line in lines
        if any(w["end_s"] - w["start_s"] <= 1 for w in json.loads(line, parse_float=Decimal)["windows"])
    ]
    for side, expected in (("high_frequency", stress), ("standard", [x for x in lines if x not in stress])):
        assert any_release.text(f"proactive_{side}.jsonl").splitlines() == expected
        assert any_release.json(f"{side}_proactive_ids.json") == [json.loads(x)["record_id"] for x in expected]


def test_subsets_file_is_true(any_release):
    subsets, hashes = any_release.json("proactive_subsets.json"), digest(any_release.folder)
    assert subsets["hashes"]["source_file"] == hashes["proactive.jsonl"]
    assert subsets["source"]["record_count"] == len(any_release.proactive)
    assert subsets["source"]["window_count"] == sum(len(r["windows"]) for r in any_release.proactive)
    for side, subset in subsets["subsets"].items():
        rows = any_release.rows(subset["record_file"])
        windows = [w for r in rows for w in r["windows"]]
        assert subset["record_count"] == len(rows)
        assert subset["window_count"] == len(windows)
        assert subset["qualifying_window_count"] == sum(w["end_s"] - w["start_s"] <= 1 for w in windows)
        assert subsets["hashes"][f"{side}_record_file"] == hashes[subset["record_file"]]
        assert subsets["hashes"][f"{side}_ids_file"] == hashes[subset["ids_file"]]


def test_summary_and_report_are_true(any_release):
    records = any_release.qa + any_release.proactive
    changes, excluded = any_release.rows("changes.jsonl"), any_release.rows("exclusions.jsonl")
    summary, report = any_release.json("review_summary.json"), any_release.json("validation_report.json")
    tiers = Counter(r["metadata"]["validation_tier"] for r in records)
    edits = sum(c["disposition"] == "edit" for c in changes)
    assert summary["included_record_count"] == len(records)
    assert summary["excluded_record_count"] == len(excluded)
    assert summary["source_record_count"] == len(records) + len(excluded)
    assert summary["included_by_dataset_mode"] == Counter(f"{r['metadata']['dataset']}:{r['task']}" for r in records)
    assert summary["included_by_task_type"] == Counter(r["task_type"] for r in records)
    assert summary["validation_tiers"] == tiers
    assert summary["pending_machine_screened_count"] == tiers["machine_screened"]
    valid = tiers["human_reviewed"] - edits
    assert summary["review_dispositions"] == {"edit": edits, "remove": len(excluded), "valid": valid}
    assert summary["saved_review_count"] == edits + len(excluded) + valid
    assert summary["duplicate_upper_id_removals"] == sum("DUPLICATE_RECORD" in e["reason_codes"] for e in excluded)
    assert report["counts"] == {
        "changes": len(changes),
        "excluded": len(excluded),
        "included": len(records),
        "proactive": len(any_release.proactive),
        "qa": len(any_release.qa),
    }
    assert report["status"] == "passed"
    assert summary["release_id"] == report["release_id"] == any_release.json("manifest.json")["release_id"]


def test_removals_equal_exclusions_and_edits_are_reviewed_records(any_release):
    records = {r["record_id"]: r for r in any_release.qa + any_release.proactive}
    excluded = {e["record_id"]: e for e in any_release.rows("exclusions.jsonl")}
    assert not records.keys() & excluded.keys()
    changes = any_release.rows("changes.jsonl")
    removed = {c["record_id"]: c for c in changes if c["disposition"] == "remove"}
    assert removed.keys() == excluded.keys()
    for name, change in removed.items():
        assert change["issue_codes"] == excluded[name]["reason_codes"] == sorted(excluded[name]["reason_codes"])
        assert change["task_type"] == excluded[name]["task_type"]
        assert change["changes"] == [{"field": "$record", "old_value": "present", "new_value": "remove"}]
    for change in changes:
        if change["disposition"] == "edit":
            record = records[change["record_id"]]
            assert record["metadata"]["validation_tier"] == "human_reviewed"
            assert (change["task_type"], change["mode"]) == (record["task_type"], record["task"])
            assert change["changes"]
            assert change["issue_codes"]


def test_qa_records_are_consistent(any_release):
    for record in any_release.qa:
        meta, asked = record["metadata"], record["question_time_s"]
        labels = [option[0] for option in record["options"]]
        assert labels == list("ABCDEF")[: len(labels)]
        assert all(option[1] == "." for option in record["options"])
        assert len(set(record["options"])) == len(labels)
        assert record["answer"] in labels
        assert 0 <= record["evidence_anchor_s"] < asked
        assert record["memory_length"] == meta["retention_gap_s"] == asked - record["evidence_anchor_s"]
        assert meta["source_memory_length_discrepancy_s"] == meta["source_memory_length_s"] - record["memory_length"]
        assert ("evidence_spans" in meta) == (meta["validation_tier"] == "human_reviewed")
        for span in meta.get("evidence_spans", []):
            assert 0 <= span["start_s"] < span["end_s"] <= asked
            assert span["description"]


def test_proactive_durations_are_derived(any_release):
    for record in any_release.proactive:
        meta, asked = record["metadata"], record["instruction_time_s"]
        assert record["memory_length"] == record["deadline_s"] - asked
        assert record["memory_length"] == meta["retention_gap_s"] == meta["monitoring_horizon_s"] > 0
        assert meta["first_trigger_lead_s"] == record["windows"][0]["start_s"] - asked > 0
        assert meta["source_memory_length_discrepancy_s"] == meta["source_memory_length_s"] - record["memory_length"]
        assert meta["source_memory_length_s"] >= 0
        assert record["deadline_s"] >= record["windows"][-1]["end_s"]


def test_windows_follow_from_triggers(any_release):
    for record in any_release.proactive:
        windows, triggers = record["windows"], record["metadata"]["trigger_annotations"]
        adjusted = {a["field"]: a for a in record["metadata"].get("media_boundary_adjustments", [])}
        assert record["metadata"]["point_response_tolerance_s"] == 5
        assert len(windows) == len(triggers) > 0
        assert all(a["end_s"] <= b["start_s"] for a, b in pairwise(windows))
        for i, (window, trigger) in enumerate(zip(windows, triggers, strict=True)):
            assert window["start_s"] == trigger["response_window_start_s"]
            assert window["end_s"] == trigger["response_window_end_s"]
            assert window["expected_answer"] == trigger["answer"] != ""
            if trigger["trigger_type"] == "state_interval":
                assert trigger["point_trigger_s"] is None
                due = (trigger["interval_start_s"], trigger["interval_end_s"])
            else:
                assert trigger["interval_start_s"] is trigger["interval_end_s"] is None
                end = trigger["point_trigger_s"] + 5
                if i + 1 < len(triggers):
                    end = min(end, triggers[i + 1]["point_trigger_s"])
                if f"windows[{i}].end_s" in adjusted:
                    assert adjusted[f"windows[{i}].end_s"]["source_value_s"] == end
                    end = adjusted[f"windows[{i}].end_s"]["effective_value_s"]
                due = (trigger["point_trigger_s"], end)
            assert (window["start_s"], window["end_s"]) == due
            assert due[0] < due[1]


def test_triggers_carry_the_fields_of_their_tier(any_release):
    kinds = {"CRR": "clue_sufficient", "SSR": "state_interval", "REC": "event_completion"}
    for record in any_release.proactive:
        human = record["metadata"]["validation_tier"] == "human_reviewed"
        triggers = record["metadata"]["trigger_annotations"]
        assert len({t["event_id"] for t in triggers}) == len(triggers)
        for trigger in triggers:
            assert trigger["trigger_type"] == kinds.get(record["task_type"], "event_onset")
            assert trigger["annotation_source"] == ("human_reviewed" if human else "inferred_task_policy")
            evidence = {"evidence_start_s", "evidence_end_s", "evidence_description"} & trigger.keys()
            source = {"source_window_start_s", "source_window_end_s"} & trigger.keys()
            assert (len(evidence), len(source)) == ((3, 0) if human else (0, 2))
            assert ("accepted_facts" in trigger) == human
            if human:
                assert 0 <= trigger["evidence_start_s"] < trigger["evidence_end_s"]
            else:
                assert trigger["source_window_start_s"] < trigger["source_window_end_s"]


def test_media_adjustments_name_present_values_and_bound_every_time(any_release):
    for record in any_release.qa + any_release.proactive:
        adjustments = record["metadata"].get("media_boundary_adjustments")
        if adjustments is None:
            continue
        assert adjustments
        ends = {a["effective_value_s"] for a in adjustments}
        assert len(ends) == 1
        for adjustment in adjustments:
            assert place(record, adjustment["field"]) == adjustment["effective_value_s"] < adjustment["source_value_s"]
            assert adjustment["reason"] == "beyond_last_readable_frame"
        (media_end,) = ends
        spans = record["metadata"].get("evidence_spans", []) + record.get("windows", [])
        triggers = record["metadata"].get("trigger_annotations", [])
        times = [s["end_s"] for s in spans] + [t["evidence_end_s"] for t in triggers if "evidence_end_s" in t]
        times += [record.get("question_time_s", 0), record.get("deadline_s", 0)]
        assert max(times) <= media_end


def test_a_record_that_ends_with_its_media_shares_its_video_with_none(any_release):
    records = any_release.qa + any_release.proactive
    uses = Counter(r["video_path"] for r in records)
    cut = [r for r in records if "media_boundary_adjustments" in r["metadata"]]
    assert all(uses[r["video_path"]] == 1 for r in cut)


def test_machine_screened_records_have_no_detected_issue(any_release):
    for record in any_release.qa + any_release.proactive:
        machine = record["metadata"]["validation_tier"] == "machine_screened"
        assert machine == (record["metadata"]["machine_risk_level"] == "no_detected_issue")


# --- variety ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_qa_has_the_variety_of_real_records(tmp_path, seed):
    records = written(tmp_path / "x", seed=seed).qa
    metas = [r["metadata"] for r in records]
    options = [o for r in records for o in r["options"]]
    assert {len(r["options"]) for r in records} == {2, 3, 4, 5, 6}
    assert {r["answer"] for r in records} == set("ABCD")
    assert any(o.startswith("A. A.") for o in options)
    assert any(o.startswith("B. C.") for o in options)
    assert "E." in options
    assert 1 <= sum(r["question"].endswith(" ") for r in records) <= 4
    assert {len(m["evidence_spans"]) for m in metas if "evidence_spans" in m} == set(range(1, 10))
    ends = [
        (m["evidence_spans"][-1]["end_s"], r["question_time_s"])
        for r, m in zip(records, metas, strict=True)
        if "evidence_spans" in m
    ]
    assert any(end == asked for end, asked in ends)
    assert any(end < asked for end, asked in ends)
    assert Decimal(0) in [r["evidence_anchor_s"] for r in records]
    assert any(m["source_memory_length_discrepancy_s"] < 0 for m in metas)
    assert {m["required_ability"] for m in metas} == {"", "episodic memory", "working memory"}
    assert {m["machine_risk_level"] for m in metas} == {"no_detected_issue", "medium", "high", "blocking", "missing"}
    fields = {a["field"] for m in metas for a in m.get("media_boundary_adjustments", [])}
    assert fields == {"question_time_s", "metadata.evidence_spans[0].end_s"}


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_proactive_has_the_variety_of_real_records(tmp_path, seed):
    records = written(tmp_path / "x", seed=seed).proactive
    triggers = [t for r in records for t in r["metadata"]["trigger_annotations"]]
    kinds = {"clue_sufficient", "event_onset", "event_completion", "state_interval"}
    assert {t["trigger_type"] for t in triggers} == kinds
    assert {bool(t["accepted_facts"]) if "accepted_facts" in t else None for t in triggers} == {True, False, None}
    touching = sum(a["end_s"] == b["start_s"] for r in records for a, b in pairwise(r["windows"]))
    assert 60 <= touching <= 200
    counting = [r for r in records if r["task_type"] == "REC"]
    assert all(
        [w["expected_answer"] for w in r["windows"]] == [str(i + 1) for i in range(len(r["windows"]))] for r in counting
    )
    assert Decimal(0) in [r["instruction_time_s"] for r in records]
    late = [r["deadline_s"] > r["windows"][-1]["end_s"] for r in records]
    assert 0.2 < sum(late) / len(late) < 0.8
    assert any(
        t["point_trigger_s"] is not None and t.get("evidence_start_s", 0) > t["point_trigger_s"] for t in triggers
    )
    assert any(
        [t["event_id"] for t in r["metadata"]["trigger_annotations"]]
        != sorted(t["event_id"] for t in r["metadata"]["trigger_annotations"])
        for r in records
    )
    assert any(r["metadata"]["source_memory_length_discrepancy_s"] < 0 for r in records)
    fields = {a["field"] for r in records for a in r["metadata"].get("media_boundary_adjustments", [])}
    assert "deadline_s" in fields
    assert "windows[4].end_s" in fields


def test_texts_have_every_script_and_only_one_escape(release):
    text = release.text("qa.jsonl") + release.text("proactive.jsonl")
    assert set(re.findall(r"\\.", text)) == {'\\"'}
    assert set("é“”’，（）？") <= set(text)
    assert re.search(r"[\u4e00-\u9fff]{4}", text)


def test_video_paths_have_the_forms_of_real_ones(release):
    paths = {r["video_path"] for r in release.qa + release.proactive}
    for form in (
        r"videos/sample_\d+_proactive\.mp4",
        r"videos/sample_\d+_real\.mp4",
        r"videos/sample_\d+_Anomaly_Context_Understanding\.mp4",
        r"src_videos/COIN/-[\w-]{10}\.mp4",
        r"src_videos/COIN/_[\w-]{10}\.mp4",
        r"src_videos/Ego4D/clips/[0-9a-f-]{36}\.mp4",
    ):
        assert any(re.fullmatch(form, path) for path in paths), form


def test_changes_hold_values_of_every_kind(release):
    def kind(value):
        return f"list of {type(value[0]).__name__}" if isinstance(value, list) else type(value).__name__

    fields = [f for c in release.rows("changes.jsonl") for f in c["changes"]]
    assert {kind(f["old_value"]) for f in fields} == {"NoneType", "str", "list of str"}
    assert {kind(f["new_value"]) for f in fields} == {"NoneType", "str", "list of str", "list of dict"}


def test_tiny_records_are_short_and_various(release):
    qa = [r for r in release.qa if r["record_id"] in release.json("tiny_qa_ids.json")]
    proactive = [r for r in release.proactive if r["record_id"] in release.json("tiny_proactive_ids.json")]
    assert max(r["question_time_s"] for r in qa) <= 31
    assert max(r["windows"][-1]["end_s"] for r in proactive) <= 31
    assert {r["task_type"] for r in proactive} == {"CRR", "SSR", "REC", "stream bench proactive"}
    for records in (qa, proactive):
        assert {r["metadata"]["dataset"] for r in records} == {"ovo_bench", "streambench"}
        assert {"media_boundary_adjustments" in r["metadata"] for r in records} == {True, False}
        assert {r["metadata"]["validation_tier"] for r in records} == {"human_reviewed", "machine_screened"}


# --- folders ----------------------------------------------------------------------------------------------------


def test_a_folder_that_is_not_empty_is_refused_and_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(TraceError, match="not an empty folder") as refused:
        write_sample(tmp_path, scale=0.1)
    assert "Name another folder" in str(refused.value)
    assert [p.name for p in tmp_path.iterdir()] == ["notes.txt"]


def test_a_file_is_refused(tmp_path):
    (tmp_path / "x").write_text("mine")
    with pytest.raises(TraceError, match="not an empty folder"):
        write_sample(tmp_path / "x", scale=0)
    assert (tmp_path / "x").read_text() == "mine"


def test_an_empty_folder_and_a_folder_in_missing_ones_are_used(tmp_path):
    (tmp_path / "empty").mkdir()
    for target in (tmp_path / "empty", tmp_path / "a" / "b"):
        assert write_sample(str(target), scale=0) == target
        assert (target / "manifest.json").is_file()


def test_a_failed_write_leaves_nothing(tmp_path, monkeypatch):
    def full(out):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sample, "_write_manifest", full)
    with pytest.raises(OSError, match="No space left"):
        write_sample(tmp_path / "x", scale=0.1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("scale", [-1, float("nan"), float("inf")])
def test_a_scale_that_is_no_size_is_refused(tmp_path, scale):
    with pytest.raises(TraceError, match="scale is"):
        write_sample(tmp_path / "x", scale=scale)


def test_cached_sample_is_made_once(tmp_path, monkeypatch):
    monkeypatch.setenv("TRACE_CACHE", str(tmp_path / "cache"))
    first = cached_sample()
    made = (first / "manifest.json").stat().st_mtime_ns
    assert first.parent == tmp_path / "cache"
    assert cached_sample() == first
    assert (first / "manifest.json").stat().st_mtime_ns == made
    assert hashlib.sha256((first / "manifest.json").read_bytes()).hexdigest() == MANIFEST_SHA256


def test_cached_sample_follows_the_cache_variables(tmp_path, monkeypatch):
    monkeypatch.delenv("TRACE_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cached_sample().parent == tmp_path / "trace-hf"


def test_two_processes_that_cache_at_once_both_get_it(tmp_path):
    code = "from trace_hf.sample import cached_sample; print(cached_sample())"
    env = {**os.environ, "TRACE_CACHE": str(tmp_path)}
    runs = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=env) for _ in range(2)
    ]
    places = {run.communicate()[0].strip() for run in runs}
    assert [run.returncode for run in runs] == [0, 0]
    assert len(places) == 1
    assert [p.name for p in tmp_path.iterdir()] == [Path(places.pop()).name]


def test_videos_of_tiny_records_end_where_their_media_ends(tmp_path):
    av = pytest.importorskip("av")
    pytest.importorskip("trace_hf.sample_video")
    release = written(tmp_path / "x", videos=True)
    tiny = {*release.json("tiny_qa_ids.json"), *release.json("tiny_proactive_ids.json")}
    records = [r for r in release.qa + release.proactive if r["record_id"] in tiny]
    root = release.folder / "video_root"
    assert {p.relative_to(root).as_posix() for p in root.rglob("*.mp4")} == {r["video_path"] for r in records}
    for record in records:
        with av.open(str(root / record["video_path"])) as video:
            last = max(frame.time for frame in video.decode(video=0))
        adjusted = record["metadata"].get("media_boundary_adjustments")
        if adjusted:
            assert last == pytest.approx(float(adjusted[0]["effective_value_s"]), abs=1e-3)
        elif record["task"] == "qa":
            assert last >= record["question_time_s"]
        else:
            assert last >= record["windows"][-1]["start_s"] + 10


MANIFEST_SHA256 = "a5b19e71334ee1b5c86e7a47718b383f0991a662b460d8408d7221b5042a62f4"
