"""Checks of what names a record: its IDs, its file and its video."""

from __future__ import annotations

import re

from ..errors import UnsafePathError
from ..paths import check_relative
from ..schema import ChangeRecord, ExclusionRecord, ProactiveRecord, QARecord
from .table import mode_of, on_records


def _number(record_id: str) -> str:
    return record_id.rpartition(":")[2]


@on_records(QARecord, ProactiveRecord)
def task_fits_file(record: QARecord | ProactiveRecord) -> str | None:
    """`task` is that of the file: `qa` or `proactive`."""
    return None if record.task == mode_of(record) else f"task is {record.task!r} in the {mode_of(record)} file"


@on_records(QARecord, ProactiveRecord)
def record_id_form(record: QARecord | ProactiveRecord) -> str | None:
    """`record_id` is `dataset_task:number`, of the record's own dataset."""
    prefix = f"{record.metadata.dataset}_{mode_of(record)}:"
    fits = record.record_id.startswith(prefix) and len(record.record_id) > len(prefix)
    return None if fits else f"does not begin with {prefix!r}"


@on_records(QARecord, ProactiveRecord)
def source_id(record: QARecord | ProactiveRecord) -> str | None:
    """`source_id` equals `record_id`."""
    return None if record.source_id == record.record_id else f"source_id is {record.source_id!r}"


@on_records(QARecord, ProactiveRecord)
def stable_id(record: QARecord | ProactiveRecord) -> str | None:
    """`stable_id` is `dataset:task:number` of the same record."""
    due = f"{record.metadata.dataset}:{mode_of(record)}:{_number(record.record_id)}"
    return None if record.metadata.stable_id == due else f"stable_id is {record.metadata.stable_id!r}, not {due!r}"


@on_records(QARecord, ProactiveRecord)
def source_question_id(record: QARecord | ProactiveRecord) -> str | None:
    """`source_question_id` is the number of the record ID."""
    found = record.metadata.source_question_id
    return None if found == _number(record.record_id) else f"source_question_id is {found!r}"


@on_records(ChangeRecord, ExclusionRecord)
def audit_ids_fit(record: ChangeRecord | ExclusionRecord) -> str | None:
    """`record_id` and `stable_id` of an audit record are made of its dataset, mode and number."""
    number = _number(record.record_id)
    if record.record_id != f"{record.dataset}_{record.mode}:{number}":
        return f"does not fit dataset {record.dataset!r} and mode {record.mode!r} ({mode_of(record)})"
    due = f"{record.dataset}:{record.mode}:{number}"
    return None if record.stable_id == due else f"stable_id is {record.stable_id!r}, not {due!r} ({mode_of(record)})"


# A path of these characters is safe; the others are looked at closely. The second is the long way.
_SAFE_PATH = re.compile(r"(?!~)(?:(?!\.{1,2}(?:/|\Z))[^\x00-\x1f\x7f\\:/]+(?:/(?!\Z)|\Z))+")


@on_records(QARecord, ProactiveRecord)
def video_path_safe(record: QARecord | ProactiveRecord) -> str | None:
    """`video_path` is relative and stays below the video root."""
    if _SAFE_PATH.fullmatch(record.video_path):
        return None
    try:
        check_relative(record.video_path, what="video_path")
    except UnsafePathError as problem:
        return problem.what
    return None
