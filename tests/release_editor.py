"""Edit a release in memory and write it again, consistent in everything but what was broken on purpose."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

Row = dict[str, Any]

_SIDES = {
    "descriptor": "proactive_subsets.json",
    "review": "review_summary.json",
    "report": "validation_report.json",
    "manifest": "manifest.json",
}


class Editor:
    """The records of a release as plain objects; `save` writes every file anew.

    `standard_ids` and `high_ids` follow from the records unless they are set. `raw` edits a record file's bytes before
    it is hashed, `sides` edits a sidecar or the manifest after it was computed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.manifest: Row = self._json("manifest.json")
        self.qa = self._rows("qa.jsonl")
        self.proactive = self._rows("proactive.jsonl")
        self.changes = self._rows("changes.jsonl")
        self.exclusions = self._rows("exclusions.jsonl")
        self.tiny_qa: list[str] = self._json("tiny_qa_ids.json")
        self.tiny_proactive: list[str] = self._json("tiny_proactive_ids.json")
        self.standard_ids: list[str] | None = None
        self.high_ids: list[str] | None = None
        self.raw: dict[str, Callable[[bytes], bytes]] = {}
        self.sides: dict[str, Callable[[Row], object]] = {}

    def _json(self, name: str) -> Any:
        return json.loads((self.folder / name).read_text(encoding="utf-8"))

    def _rows(self, name: str) -> list[Row]:
        return [json.loads(line) for line in (self.folder / name).read_text(encoding="utf-8").split("\n") if line]

    # --- finding and deriving ---------------------------------------------------------------------------------------

    def split(self) -> tuple[list[str], list[str]]:
        """Return the standard and the high-frequency IDs by the criterion."""
        high = [r["record_id"] for r in self.proactive if any(_is_short(w) for w in r["windows"])]
        return [r["record_id"] for r in self.proactive if r["record_id"] not in set(high)], high

    def first(self, rows: list[Row], *conditions: Callable[[Row], object]) -> Row:
        """Return the first record for which all conditions hold."""
        return next(row for row in rows if all(condition(row) for condition in conditions))

    # --- writing ----------------------------------------------------------------------------------------------------

    def save(self) -> None:
        standard, high = self.split()
        standard = standard if self.standard_ids is None else self.standard_ids
        high = high if self.high_ids is None else self.high_ids
        self._write_rows("qa.jsonl", self.qa)
        self._write_rows("proactive.jsonl", self.proactive)
        self._write_rows("changes.jsonl", self.changes)
        self._write_rows("exclusions.jsonl", self.exclusions)
        self._write_rows("proactive_standard.jsonl", [r for r in self.proactive if r["record_id"] in set(standard)])
        self._write_rows("proactive_high_frequency.jsonl", [r for r in self.proactive if r["record_id"] in set(high)])
        for name, ids in (("standard", standard), ("high_frequency", high)):
            self._write_json(f"{name}_proactive_ids.json", ids)
        self._write_json("tiny_qa_ids.json", self.tiny_qa)
        self._write_json("tiny_proactive_ids.json", self.tiny_proactive)
        self._side("descriptor", self._descriptor)
        self._side("review", self._review)
        self._side("report", self._report)
        self._side("manifest", self._manifest)

    def _write_rows(self, name: str, rows: list[Row]) -> None:
        text = "".join(_line(row) + "\n" for row in rows)
        (self.folder / name).write_bytes(self.raw.get(name, bytes)(text.encode("utf-8")))

    def _write_json(self, name: str, value: Any) -> None:
        text = json.dumps(value, ensure_ascii=False, indent=2, sort_keys=True) + "\n"
        (self.folder / name).write_text(text, encoding="utf-8")

    def _side(self, key: str, compute: Callable[[Row], None]) -> None:
        value = self.manifest if key == "manifest" else self._json(_SIDES[key])
        compute(value)
        self.sides.get(key, lambda _value: None)(value)
        self._write_json(_SIDES[key], value)

    def _descriptor(self, value: Row) -> None:
        value["source"] = {
            "record_count": len(self.proactive),
            "window_count": sum(len(r["windows"]) for r in self.proactive),
        }
        value["hashes"]["source_file"] = self._sha256("proactive.jsonl")
        for name in ("standard", "high_frequency"):
            rows = self._rows(f"proactive_{name}.jsonl")
            windows = [window for row in rows for window in row["windows"]]
            value["subsets"][name] |= {
                "record_count": len(rows),
                "window_count": len(windows),
                "qualifying_window_count": sum(map(_is_short, windows)),
            }
            value["hashes"][f"{name}_record_file"] = self._sha256(f"proactive_{name}.jsonl")
            value["hashes"][f"{name}_ids_file"] = self._sha256(f"{name}_proactive_ids.json")

    def _review(self, value: Row) -> None:
        rows = [("qa", r) for r in self.qa] + [("proactive", r) for r in self.proactive]
        tiers = Counter(r["metadata"]["validation_tier"] for _, r in rows)
        edits = sum(c["disposition"] == "edit" for c in self.changes)
        removals = sum(c["disposition"] == "remove" for c in self.changes)
        value |= {
            "included_record_count": len(rows),
            "excluded_record_count": len(self.exclusions),
            "source_record_count": len(rows) + len(self.exclusions),
            "included_by_dataset_mode": Counter(f"{r['metadata']['dataset']}:{mode}" for mode, r in rows),
            "included_by_task_type": Counter(r["task_type"] for _, r in rows),
            "validation_tiers": tiers,
            "pending_machine_screened_count": tiers["machine_screened"],
            "review_dispositions": {"edit": edits, "remove": removals, "valid": tiers["human_reviewed"] - edits},
            "saved_review_count": removals + tiers["human_reviewed"],
            "duplicate_upper_id_removals": sum("DUPLICATE_RECORD" in e["reason_codes"] for e in self.exclusions),
        }

    def _report(self, value: Row) -> None:
        value["counts"] |= {
            "changes": len(self.changes),
            "excluded": len(self.exclusions),
            "included": len(self.qa) + len(self.proactive),
            "proactive": len(self.proactive),
            "qa": len(self.qa),
        }

    def _manifest(self, value: Row) -> None:
        value["counts"] = {"qa": len(self.qa), "proactive": len(self.proactive)}
        value["files"] = {name: self._sha256(name) for name in value["files"]}

    def _sha256(self, name: str) -> str:
        return hashlib.sha256((self.folder / name).read_bytes()).hexdigest()


def _line(row: Row) -> str:
    return json.dumps(row, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def _is_short(window: Row) -> bool:
    return window["end_s"] - window["start_s"] <= 1.0


def rederive(row: Row) -> None:
    """Make the derived durations of a record follow from its times again."""
    metadata = row["metadata"]
    if row["task"] == "qa":
        span = row["question_time_s"] - row["evidence_anchor_s"]
    else:
        span = row["deadline_s"] - row["instruction_time_s"]
        metadata["monitoring_horizon_s"] = round(span, 3)
        metadata["first_trigger_lead_s"] = round(row["windows"][0]["start_s"] - row["instruction_time_s"], 3)
    row["memory_length"] = metadata["retention_gap_s"] = round(span, 3)
    metadata["source_memory_length_discrepancy_s"] = round(metadata["source_memory_length_s"] - span, 3)


def move_window(row: Row, index: int, **times: float) -> None:
    """Set ``start_s`` or ``end_s`` of a window, of its trigger's response window, and of a state's interval."""
    row["windows"][index].update(times)
    trigger = row["metadata"]["trigger_annotations"][index]
    for name, value in times.items():
        trigger[f"response_window_{name}"] = value
        if trigger["trigger_type"] == "state_interval":
            trigger[f"interval_{name}"] = value


def renumber(row: Row, number: str) -> None:
    """Give a record another number, in every field that has it."""
    metadata = row["metadata"]
    row["record_id"] = row["source_id"] = row["record_id"].rpartition(":")[0] + ":" + number
    metadata["stable_id"] = metadata["stable_id"].rpartition(":")[0] + ":" + number
    metadata["source_question_id"] = number
