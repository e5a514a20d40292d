"""One deliberate breach for every check: it makes exactly that check fail, and names the record."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from release_editor import Editor, Row, move_window, rederive, renumber

import trace_hf.checks as checks
from trace_hf.checks import CHECKS, validate

Breach = Callable[[Editor], "str | None"]
BREACHES: dict[str, Breach] = {}


def breaks(breach: Breach) -> Breach:
    """Register a breach under the name of the check that it makes fail; it returns the record to be named."""
    BREACHES[breach.__name__] = breach
    return breach


# --- what to look for in a record ---------------------------------------------------------------------------------


def _unadjusted(row: Row) -> bool:
    return "media_boundary_adjustments" not in row["metadata"]


def _states(row: Row) -> bool:
    """At least three states, with room for each other."""
    triggers = row["metadata"]["trigger_annotations"]
    return len(triggers) > 2 and all(t["trigger_type"] == "state_interval" for t in triggers) and _unadjusted(row)


def _single_point(row: Row) -> bool:
    triggers = row["metadata"]["trigger_annotations"]
    return len(triggers) == 1 and triggers[0]["point_trigger_s"] is not None and _unadjusted(row)


def _tier(name: str) -> Callable[[Row], bool]:
    return lambda row: row["metadata"]["validation_tier"] == name


def _adjusted(row: Row) -> bool:
    fields = [a["field"] for a in row["metadata"].get("media_boundary_adjustments", ())]
    return bool(fields) and not fields[-1].startswith("windows")


def _unedited(e: Editor) -> Callable[[Row], bool]:
    changed = {change["record_id"] for change in e.changes}
    return lambda row: row["record_id"] not in changed


def _id(row: Row) -> str:
    return str(row["record_id"])


# --- identity -----------------------------------------------------------------------------------------------------


@breaks
def task_fits_file(e: Editor) -> str:
    e.qa[0]["task"] = "proactive"
    return _id(e.qa[0])


@breaks
def record_id_form(e: Editor) -> str:
    metadata = e.qa[0]["metadata"]
    metadata["dataset"] = "other_bench"
    metadata["stable_id"] = "other_bench:qa:" + metadata["source_question_id"]
    return _id(e.qa[0])


@breaks
def source_id(e: Editor) -> str:
    e.qa[1]["source_id"] = e.qa[0]["source_id"]
    return _id(e.qa[1])


@breaks
def stable_id(e: Editor) -> str:
    e.proactive[0]["metadata"]["stable_id"] = e.proactive[1]["metadata"]["stable_id"]
    return _id(e.proactive[0])


@breaks
def source_question_id(e: Editor) -> str:
    e.proactive[0]["metadata"]["source_question_id"] = "0"
    return _id(e.proactive[0])


@breaks
def audit_ids_fit(e: Editor) -> str:
    e.exclusions[0]["stable_id"] += "0"
    return _id(e.exclusions[0])


@breaks
def video_path_safe(e: Editor) -> str:
    e.qa[2]["video_path"] = "videos/../../secret.mp4"
    return _id(e.qa[2])


# --- times --------------------------------------------------------------------------------------------------------


@breaks
def times_not_negative(e: Editor) -> str:
    row = e.first(e.proactive, _unadjusted)
    row["instruction_time_s"] = -1.0
    rederive(row)
    return _id(row)


@breaks
def memory_length(e: Editor) -> str:
    e.qa[0]["memory_length"] = round(e.qa[0]["memory_length"] + 0.001, 3)
    return _id(e.qa[0])


@breaks
def retention_gap(e: Editor) -> str:
    e.proactive[0]["metadata"]["retention_gap_s"] += 1.0
    return _id(e.proactive[0])


@breaks
def source_discrepancy(e: Editor) -> str:
    e.qa[0]["metadata"]["source_memory_length_discrepancy_s"] -= 1.0
    return _id(e.qa[0])


@breaks
def monitoring_horizon(e: Editor) -> str:
    e.proactive[0]["metadata"]["monitoring_horizon_s"] += 0.5
    return _id(e.proactive[0])


@breaks
def first_trigger_lead(e: Editor) -> str:
    e.proactive[0]["metadata"]["first_trigger_lead_s"] += 0.5
    return _id(e.proactive[0])


@breaks
def adjustment_fields(e: Editor) -> str:
    row = e.first([*e.qa, *e.proactive], _adjusted)
    row["metadata"]["media_boundary_adjustments"][-1]["field"] = "windows[99].end_s"
    return _id(row)


@breaks
def adjustment_values(e: Editor) -> str:
    row = e.first([*e.qa, *e.proactive], _adjusted)
    row["metadata"]["media_boundary_adjustments"][-1]["effective_value_s"] -= 0.5
    return _id(row)


# --- QA -----------------------------------------------------------------------------------------------------------


@breaks
def options_labelled(e: Editor) -> str:
    row = e.first(e.qa, lambda r: len(r["options"]) > 2)
    place = next(n for n, option in enumerate(row["options"]) if option[0] != row["answer"])
    row["options"][place] = "none of these"
    return _id(row)


@breaks
def answer_is_a_label(e: Editor) -> str:
    e.qa[0]["answer"] = "Z"
    return _id(e.qa[0])


@breaks
def evidence_not_after_question(e: Editor) -> str:
    row = e.first(e.qa, _tier("human_reviewed"), _unadjusted)
    row["metadata"]["evidence_spans"][-1]["end_s"] = row["question_time_s"] + 0.001
    return _id(row)


@breaks
def evidence_spans_by_tier(e: Editor) -> str:
    row = e.first(e.qa, _tier("machine_screened"))
    row["metadata"]["evidence_spans"] = [{"start_s": 0.0, "end_s": 0.5, "description": "seen"}]
    return _id(row)


# --- Proactive ----------------------------------------------------------------------------------------------------


@breaks
def instruction_before_trigger(e: Editor) -> str:
    row = e.first(e.proactive, _unadjusted)
    row["instruction_time_s"] = row["windows"][0]["start_s"] + 0.5
    rederive(row)
    return _id(row)


@breaks
def windows_positive(e: Editor) -> str:
    row = e.first(e.proactive, _states)
    move_window(row, 1, end_s=row["windows"][1]["start_s"])
    return _id(row)


@breaks
def windows_ordered(e: Editor) -> str:
    row = e.first(e.proactive, _states)
    for items in (row["windows"], row["metadata"]["trigger_annotations"]):
        items[1], items[2] = items[2], items[1]
    return _id(row)


@breaks
def windows_do_not_overlap(e: Editor) -> str:
    row = e.first(e.proactive, _states)
    move_window(row, 1, end_s=row["windows"][2]["start_s"] + 0.001)
    return _id(row)


@breaks
def trigger_count(e: Editor) -> str:
    row = e.first(e.proactive, _states)
    row["metadata"]["trigger_annotations"].pop()
    return _id(row)


@breaks
def trigger_boundaries(e: Editor) -> str:
    e.proactive[0]["metadata"]["trigger_annotations"][0]["response_window_end_s"] += 0.5
    return _id(e.proactive[0])


@breaks
def trigger_answers(e: Editor) -> str:
    e.proactive[0]["metadata"]["trigger_annotations"][0]["answer"] += "!"
    return _id(e.proactive[0])


@breaks
def trigger_times_by_type(e: Editor) -> str:
    row = e.first(e.proactive, _single_point)
    trigger = row["metadata"]["trigger_annotations"][0]
    trigger["interval_start_s"] = trigger["point_trigger_s"]
    return _id(row)


@breaks
def trigger_sources(e: Editor) -> str:
    row = e.first(e.proactive, _tier("human_reviewed"))
    row["metadata"]["trigger_annotations"][0] |= {"source_window_start_s": 1.0, "source_window_end_s": 2.0}
    return _id(row)


@breaks
def windows_follow_triggers(e: Editor) -> str:
    row = e.first(e.proactive, _single_point)
    move_window(row, 0, end_s=row["windows"][0]["end_s"] - 0.5)
    return _id(row)


# --- files and form -----------------------------------------------------------------------------------------------


@breaks
def files_listed(e: Editor) -> None:
    e.sides["manifest"] = lambda m: m["files"].pop("changes.jsonl")


@breaks
def schema_version(e: Editor) -> None:
    e.sides["manifest"] = lambda m: m.update(schema_version="osb-canonical-v9")


@breaks
def schema(e: Editor) -> str:
    e.qa[0]["metadata"]["new_field"] = 1
    return _id(e.qa[0])


@breaks
def canonical_encoding(e: Editor) -> str:
    e.raw["qa.jsonl"] = lambda data: data.replace(b'":', b'": ', 1)
    return _id(e.qa[0])


@breaks
def no_duplicate_keys(e: Editor) -> str:
    pair = f'"answer":"{e.qa[0]["answer"]}",'.encode()
    e.raw["qa.jsonl"] = lambda data: data.replace(pair, pair + pair, 1)
    return _id(e.qa[0])


@breaks
def release_ids(e: Editor) -> None:
    e.sides["review"] = lambda value: value.update(release_id="another")


@breaks
def lineage_parent(e: Editor) -> None:
    lineage = {
        "parent_release_id": "v1.1.0",
        "parent_files": {"qa.jsonl": "0" * 64},
        "rule": "some",
        "counts": {},
        "inherited": [],
    }
    e.sides["manifest"] = lambda m: m.update(lineage=lineage)


# --- record files -------------------------------------------------------------------------------------------------


@breaks
def manifest_counts(e: Editor) -> None:
    e.sides["manifest"] = lambda m: m["counts"].update(qa=len(e.qa) + 1)


@breaks
def record_ids_unique(e: Editor) -> str:
    twin = copy.deepcopy(e.qa[0])
    twin["question"] += " Really?"
    e.qa.insert(1, twin)
    return _id(twin)


@breaks
def record_ids_sorted(e: Editor) -> str:
    e.qa[0], e.qa[1] = e.qa[1], e.qa[0]
    return _id(e.qa[1])


@breaks
def content_unique(e: Editor) -> str:
    twin = copy.deepcopy(e.qa[-1])
    renumber(twin, "999999")
    e.qa.append(twin)
    return _id(twin)


@breaks
def id_files_unique(e: Editor) -> str:
    e.tiny_qa.append(e.tiny_qa[0])
    return e.tiny_qa[0]


@breaks
def id_files_known(e: Editor) -> str:
    e.tiny_proactive.append(_id(e.qa[0]))
    return _id(e.qa[0])


# --- the partition ------------------------------------------------------------------------------------------------


@breaks
def partition_disjoint(e: Editor) -> str:
    standard, high = e.split()
    e.high_ids = sorted([*high, standard[0]])
    return standard[0]


@breaks
def partition_complete(e: Editor) -> str:
    e.standard_ids = e.split()[0][1:]
    return e.split()[0][0]


@breaks
def partition_criterion(e: Editor) -> str:
    standard, high = e.split()
    e.standard_ids, e.high_ids = sorted([*standard, high[0]]), high[1:]
    return high[0]


@breaks
def partition_records(e: Editor) -> str:
    row = e.first(e.proactive, lambda r: _id(r) == e.split()[0][0])
    video = row["video_path"].encode()
    e.raw["proactive_standard.jsonl"] = lambda data: data.replace(video, b"videos/other.mp4", 1)
    return _id(row)


@breaks
def descriptor_files(e: Editor) -> None:
    e.sides["descriptor"] = lambda d: d.update(source_file="qa.jsonl")


@breaks
def descriptor_rule(e: Editor) -> None:
    e.sides["descriptor"] = lambda d: d["criterion"].update(scope="window")


@breaks
def descriptor_counts(e: Editor) -> None:
    e.sides["descriptor"] = lambda d: d["subsets"]["standard"].update(window_count=1)


@breaks
def descriptor_hashes(e: Editor) -> None:
    e.sides["descriptor"] = lambda d: d["hashes"].update(source_file="0" * 64)


@breaks
def descriptor_statements(e: Editor) -> None:
    e.sides["descriptor"] = lambda d: d["checks"].update(record_ids_disjoint=False)


# --- audit files --------------------------------------------------------------------------------------------------


def _audit_row(row: Row, **fields: Any) -> Row:
    mode = row["task"]
    dataset = row["metadata"]["dataset"]
    shared = {"record_id": _id(row), "stable_id": row["metadata"]["stable_id"], "task_type": row["task_type"]}
    return {**shared, "dataset": dataset, "mode": mode, **fields}


@breaks
def audit_ids_unique(e: Editor) -> str:
    e.exclusions.append(e.exclusions[-1])
    return _id(e.exclusions[-1])


@breaks
def removals_are_exclusions(e: Editor) -> str:
    other = copy.deepcopy(e.qa[-1])
    renumber(other, "999999")
    e.exclusions.append(_audit_row(other, reason_codes=["OTHER"]))
    return _id(other)


@breaks
def excluded_not_retained(e: Editor) -> str:
    row = e.first(e.qa, _unedited(e))
    e.exclusions.append(_audit_row(row, reason_codes=["OTHER"]))
    e.changes.append(_audit_row(row, disposition="remove", issue_codes=["OTHER"], changes=[]))
    return _id(row)


@breaks
def edits_are_retained(e: Editor) -> str:
    other = copy.deepcopy(e.qa[-1])
    renumber(other, "999999")
    e.changes.append(_audit_row(other, disposition="edit", issue_codes=["OTHER"], changes=[]))
    return _id(other)


# --- statements ---------------------------------------------------------------------------------------------------


def _raise(name: str) -> Callable[[Row], None]:
    def edit(value: Row) -> None:
        value[name] += 1

    return edit


@breaks
def review_by_dataset_mode(e: Editor) -> None:
    e.sides["review"] = lambda v: v["included_by_dataset_mode"].pop("ovo_bench:qa")


@breaks
def review_by_task_type(e: Editor) -> None:
    e.sides["review"] = lambda v: v["included_by_task_type"].update({"invented": 1})


@breaks
def review_by_tier(e: Editor) -> None:
    e.sides["review"] = _raise("pending_machine_screened_count")


@breaks
def review_totals(e: Editor) -> None:
    e.sides["review"] = _raise("source_record_count")


@breaks
def review_dispositions(e: Editor) -> None:
    e.sides["review"] = _raise("saved_review_count")


@breaks
def review_duplicates(e: Editor) -> None:
    e.sides["review"] = _raise("duplicate_upper_id_removals")


@breaks
def review_statements(e: Editor) -> None:
    e.sides["review"] = _raise("unresolved_saved_reviews")


@breaks
def report_counts(e: Editor) -> None:
    e.sides["report"] = lambda v: v["counts"].update(excluded=99)


@breaks
def report_statements(e: Editor) -> None:
    e.sides["report"] = lambda v: v["checks"].update(answers_match_options=False)


@breaks
def known_counts(e: Editor) -> None:
    for name in ("manifest", "review", "report"):
        e.sides[name] = lambda v: v.update(release_id="v1.1.0")


# --- the tests ----------------------------------------------------------------------------------------------------


def test_every_check_has_a_breach_and_says_what_it_proves() -> None:
    assert set(BREACHES) == set(CHECKS)
    for check in CHECKS.values():
        assert len(check.meaning) > 20, check.name


@pytest.fixture(params=["real_release", "small_sample"])
def folder(request: pytest.FixtureRequest) -> Path:
    if request.param == "real_release":
        request.getfixturevalue("real")
    release: Path = request.getfixturevalue(request.param)
    return release


def test_a_release_that_the_editor_wrote_again_is_valid(folder: Path) -> None:
    Editor(folder).save()
    report = validate(folder)
    assert [(c.name, c.detail) for c in report.failed] == []
    assert report.verification.ok


@pytest.mark.parametrize("name", CHECKS)
def test_a_breach_makes_exactly_its_check_fail_and_names_the_record(folder: Path, name: str) -> None:
    editor = Editor(folder)
    record_id = BREACHES[name](editor)
    editor.save()
    report = validate(folder)
    assert [check.name for check in report.failed] == [name], [(c.name, c.detail) for c in report.failed]
    (failed,) = report.failed
    assert not report.ok
    assert failed.detail
    assert failed.records == ((record_id,) if record_id else ()), failed.detail
    assert len(failed.records) <= checks.MAX_NAMED
