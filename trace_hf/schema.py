"""Every file kind of a TRACE release, field by field: the only place that names a field.

Each record kind is a `msgspec.Struct`. Its annotations say three things apart:

- ``T``: the field must be there and must not be null.
- ``T | None``: *nullable*. The field must be there; null is one of its values.
- ``T | UnsetType = UNSET``: *optional*. The field may be absent; null is not one of its values.

No field is both nullable and optional, so in a columnar form a null always means one thing: null for a nullable
field, absent for an optional one. The Arrow schema, the features, the field tables and the canonical writer are
derived from these classes by `fields_of`. Fields stand in the order of the field reference, which is also the
order of the columns. All times are seconds of the original video.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

SCHEMA_VERSION = "osb-canonical-v0"
"""The ``schema_version`` that this package reads."""

SUBSETS_SCHEMA_VERSION = "osb-proactive-subsets-v1"
"""The ``schema_version`` of ``proactive_subsets.json`` that this package reads."""

PACKAGE_SCHEMA = 1
"""Raised by one whenever the typed form of the same bytes changes; part of every cache key."""

MAX_LINE_BYTES = 16 * 1024 * 1024
"""A longer line of a record file is refused, so that memory stays bounded whatever a file holds."""

# The bounds refuse NaN and the infinities, which compare false with every number.
_FINITE = Meta(ge=-sys.float_info.max, le=sys.float_info.max)

Seconds = Annotated[float, _FINITE, Meta(extra={"unit": "s"})]


def _about(description: str) -> Meta:
    return Meta(description=description)


class _Strict(Struct, forbid_unknown_fields=True, kw_only=True, gc=False):
    """Fields that the schema does not name are an error. Records are trees, so the garbage collector has no work."""


# --- QA -------------------------------------------------------------------------------------------------------


class EvidenceSpan(_Strict):
    """One stretch of video that shows what a question needs."""

    start_s: Annotated[Seconds, _about("Start of the span.")]
    end_s: Annotated[Seconds, _about("End of the span; it may equal the question time.")]
    description: Annotated[str, _about("What the reviewer saw there.")]


class MediaBoundaryAdjustment(_Strict):
    """A time that was moved back because it lay beyond the last readable frame."""

    field: Annotated[str, _about("The adjusted field, for example `deadline_s` or `windows[4].end_s`.")]
    source_value_s: Annotated[Seconds, _about("The value before the adjustment.")]
    effective_value_s: Annotated[Seconds, _about("The value that the record carries now.")]
    reason: Annotated[str, _about("Why, for example `beyond_last_readable_frame`.")]


class QAMetadata(_Strict):
    """Provenance and review of a QA record; none of it is a model input."""

    dataset: Annotated[str, _about("The source benchmark, `ovo_bench` or `streambench`; data terms follow from it.")]
    source_file: Annotated[str, _about("The source file that the record was made from.")]
    source_question_id: Annotated[str, _about("The question's ID in the source.")]
    stable_id: Annotated[str, _about("`dataset:mode:number`, for example `streambench:qa:21`.")]
    validation_tier: Annotated[str, _about("`human_reviewed` or `machine_screened`.")]
    machine_risk_level: Annotated[str, _about("The risk that the machine screening gave.")]
    required_ability: Annotated[str, _about("The ability that the source states; often empty.")]
    retention_gap_s: Annotated[Seconds, _about("Question time minus evidence anchor.")]
    source_memory_length_s: Annotated[Seconds, _about("The memory length that the source states.")]
    source_memory_length_discrepancy_s: Annotated[
        Seconds, _about("Source memory length minus the derived one; may be negative.")
    ]
    evidence_spans: Annotated[
        list[EvidenceSpan] | UnsetType, _about("Reviewed evidence; on human-reviewed records only.")
    ] = UNSET
    media_boundary_adjustments: Annotated[
        list[MediaBoundaryAdjustment] | UnsetType, _about("Times that were moved inside the readable media.")
    ] = UNSET


class QARecord(_Strict):
    """A question about what the video has shown up to one moment."""

    record_id: Annotated[str, _about("Unique ID, for example `ovo_bench_qa:10`.")]
    source_id: Annotated[str, _about("Equal to `record_id`.")]
    task: Annotated[str, _about("`qa`.")]
    task_type: Annotated[str, _about("The kind of question, for example `EPM`; not a closed set.")]
    video_path: Annotated[str, _about("Path of the video below a video root.")]
    question: Annotated[str, _about("The question, as it is shown to a model.")]
    options: Annotated[list[str], _about("Two to six options, each with its label (`A. …`).")]
    answer: Annotated[str, _about("The label of the right option.")]
    question_time_s: Annotated[Seconds, _about("When the question is asked; nothing later may be seen.")]
    evidence_anchor_s: Annotated[Seconds, _about("The moment that the answer rests on.")]
    memory_length: Annotated[Seconds | None, _about("Question time minus evidence anchor.")]
    metadata: Annotated[QAMetadata, _about("Provenance and review; never a model input.")]


# --- Proactive ------------------------------------------------------------------------------------------------


class Window(_Strict):
    """A half-open interval `[start_s, end_s)` in which an answer is due."""

    start_s: Annotated[Seconds, _about("Start of the window, inclusive.")]
    end_s: Annotated[Seconds, _about("End of the window, exclusive.")]
    expected_answer: Annotated[str, _about("The answer that is due in the window.")]


class Trigger(_Strict):
    """The annotated event or state behind a window."""

    event_id: Annotated[str, _about("Names the event within its record, in no order.")]
    trigger_type: Annotated[
        str, _about("`clue_sufficient`, `event_onset`, `event_completion` or `state_interval`; not a closed set.")
    ]
    annotation_source: Annotated[str, _about("`human_reviewed` or `inferred_task_policy`.")]
    answer: Annotated[str, _about("The answer that the trigger makes due.")]
    point_trigger_s: Annotated[Seconds | None, _about("The moment of a point trigger; null exactly for states.")]
    interval_start_s: Annotated[Seconds | None, _about("Start of a state; null for point triggers.")]
    interval_end_s: Annotated[Seconds | None, _about("End of a state; null for point triggers.")]
    response_policy: Annotated[str, _about("How the response window follows from the trigger.")]
    response_window_start_s: Annotated[Seconds, _about("Start of the stored window.")]
    response_window_end_s: Annotated[Seconds, _about("End of the stored window.")]
    accepted_facts: Annotated[list[str] | UnsetType, _about("Facts that a right answer may state; may be empty.")] = (
        UNSET
    )
    evidence_start_s: Annotated[Seconds | UnsetType, _about("Start of the evidence; human-reviewed triggers only.")] = (
        UNSET
    )
    evidence_end_s: Annotated[Seconds | UnsetType, _about("End of the evidence; human-reviewed triggers only.")] = UNSET
    evidence_description: Annotated[str | UnsetType, _about("What the reviewer saw; human-reviewed triggers only.")] = (
        UNSET
    )
    source_window_start_s: Annotated[
        Seconds | UnsetType, _about("Start of the source's window; machine-screened triggers only.")
    ] = UNSET
    source_window_end_s: Annotated[
        Seconds | UnsetType, _about("End of the source's window; machine-screened triggers only.")
    ] = UNSET


class ProactiveMetadata(_Strict):
    """Provenance, triggers and review of a Proactive record; none of it is a model input."""

    dataset: Annotated[str, _about("The source benchmark, `ovo_bench` or `streambench`; data terms follow from it.")]
    source_file: Annotated[str, _about("The source file that the record was made from.")]
    source_question_id: Annotated[str, _about("The question's ID in the source.")]
    stable_id: Annotated[str, _about("`dataset:mode:number`, for example `streambench:proactive:21`.")]
    validation_tier: Annotated[str, _about("`human_reviewed` or `machine_screened`.")]
    machine_risk_level: Annotated[str, _about("The risk that the machine screening gave.")]
    required_ability: Annotated[str, _about("The ability that the source states; often empty.")]
    video_categories: Annotated[str, _about("The source's video categories; empty in v1.1.0.")]
    point_response_tolerance_s: Annotated[Seconds, _about("How long after a point trigger an answer is due.")]
    monitoring_horizon_s: Annotated[Seconds, _about("From the instruction to the deadline.")]
    first_trigger_lead_s: Annotated[Seconds, _about("From the instruction to the first trigger.")]
    retention_gap_s: Annotated[Seconds, _about("The derived memory length.")]
    source_memory_length_s: Annotated[Seconds, _about("The memory length that the source states.")]
    source_memory_length_discrepancy_s: Annotated[
        Seconds, _about("Source memory length minus the derived one; may be negative.")
    ]
    trigger_annotations: Annotated[list[Trigger], _about("One trigger for each window, in the same order.")]
    media_boundary_adjustments: Annotated[
        list[MediaBoundaryAdjustment] | UnsetType, _about("Times that were moved inside the readable media.")
    ] = UNSET


class ProactiveRecord(_Strict):
    """An instruction that a model has to act upon at the right moments, unasked."""

    record_id: Annotated[str, _about("Unique ID, for example `streambench_proactive:21`.")]
    source_id: Annotated[str, _about("Equal to `record_id`.")]
    task: Annotated[str, _about("`proactive`.")]
    task_type: Annotated[str, _about("The kind of task, for example `SSR`; not a closed set.")]
    video_path: Annotated[str, _about("Path of the video below a video root.")]
    instruction: Annotated[str, _about("The instruction, as it is shown to a model.")]
    instruction_time_s: Annotated[Seconds, _about("When the instruction is given.")]
    deadline_s: Annotated[Seconds | None, _about("The source's deadline; provenance only, it bounds nothing.")]
    memory_length: Annotated[Seconds | None, _about("From the instruction to the deadline; bounds nothing.")]
    windows: Annotated[list[Window], _about("The stored response windows, in order of time.")]
    metadata: Annotated[ProactiveMetadata, _about("Provenance, triggers and review; never a model input.")]


# --- audit ----------------------------------------------------------------------------------------------------


class FieldChange(_Strict):
    """One field that the review changed."""

    field: Annotated[str, _about("The changed field; `$record` when the whole record was removed.")]
    old_value: Annotated[msgspec.Raw, _about("JSON text of the value before; it may be of any JSON type.")]
    new_value: Annotated[msgspec.Raw, _about("JSON text of the value after; it may be of any JSON type.")]


class ChangeRecord(_Strict):
    """What the review did to one record."""

    record_id: Annotated[str, _about("The record that was edited or removed.")]
    stable_id: Annotated[str, _about("`dataset:mode:number`.")]
    dataset: Annotated[str, _about("The source benchmark.")]
    mode: Annotated[str, _about("`qa` or `proactive`.")]
    task_type: Annotated[str, _about("The record's task type.")]
    disposition: Annotated[str, _about("`edit` or `remove`.")]
    issue_codes: Annotated[list[str], _about("Why.")]
    changes: Annotated[list[FieldChange], _about("What was changed, field by field.")]


class ExclusionRecord(_Strict):
    """A source record that the release leaves out."""

    record_id: Annotated[str, _about("The record that is not in the release.")]
    stable_id: Annotated[str, _about("`dataset:mode:number`.")]
    dataset: Annotated[str, _about("The source benchmark.")]
    mode: Annotated[str, _about("`qa` or `proactive`.")]
    task_type: Annotated[str, _about("The record's task type.")]
    reason_codes: Annotated[list[str], _about("Why it was left out.")]


# --- sidecars -------------------------------------------------------------------------------------------------


class SubsetCriterion(_Strict):
    """The rule that splits the Proactive records."""

    name: Annotated[str, _about("Name of the rule.")]
    scope: Annotated[str, _about("`record`: a record is kept whole.")]
    window_duration: Annotated[str, _about("How a window's duration is computed.")]
    threshold_s: Annotated[Seconds, _about("A window this long or shorter puts its record in sampling stress.")]
    inclusive: Annotated[bool, _about("Whether the threshold itself counts.")]
    reason: Annotated[str, _about("Why the rule exists.")]


class SubsetSource(_Strict):
    """What was split."""

    record_count: Annotated[int, _about("Records in the source file.")]
    window_count: Annotated[int, _about("Windows in the source file.")]


class Subset(_Strict):
    """One side of the split."""

    ids_file: Annotated[str, _about("The file of its record IDs.")]
    record_file: Annotated[str, _about("The file of its records.")]
    record_count: Annotated[int, _about("Its records.")]
    window_count: Annotated[int, _about("Its windows.")]
    qualifying_window_count: Annotated[int, _about("Its windows that meet the criterion.")]


class SubsetPair(_Strict):
    """Both sides of the split."""

    standard: Annotated[Subset, _about("The standard population.")]
    high_frequency: Annotated[Subset, _about("Sampling stress: records with a window that 1 FPS may not see.")]


class ProactiveSubsets(_Strict):
    """`proactive_subsets.json`: how the Proactive records are split."""

    schema_version: Annotated[str, _about("Version of this file's schema.")]
    source_file: Annotated[str, _about("The file that was split.")]
    source: Annotated[SubsetSource, _about("Its counts.")]
    criterion: Annotated[SubsetCriterion, _about("The rule.")]
    subsets: Annotated[SubsetPair, _about("The two sides.")]
    hashes: Annotated[dict[str, str], _about("SHA-256 of the files involved, by role.")]
    checks: Annotated[dict[str, bool], _about("What the maintainers checked.")]


class ReviewSummary(_Strict):
    """`review_summary.json`: tallies of the review."""

    release_id: Annotated[str, _about("The release.")]
    source_record_count: Annotated[int, _about("Records before the review.")]
    included_record_count: Annotated[int, _about("Records in the release.")]
    excluded_record_count: Annotated[int, _about("Records left out.")]
    included_by_dataset_mode: Annotated[dict[str, int], _about("Records by `dataset:mode`.")]
    included_by_task_type: Annotated[dict[str, int], _about("Records by task type.")]
    validation_tiers: Annotated[dict[str, int], _about("Records by validation tier.")]
    review_dispositions: Annotated[dict[str, int], _about("Saved reviews by what they decided.")]
    saved_review_count: Annotated[int, _about("Saved reviews.")]
    unresolved_saved_reviews: Annotated[int, _about("Saved reviews with no decision.")]
    pending_machine_screened_count: Annotated[int, _about("Records that no human reviewed.")]
    duplicate_policy: Annotated[str, _about("Which of two equal records is kept.")]
    duplicate_upper_id_removals: Annotated[int, _about("Records removed as duplicates.")]


class ValidationReportFile(_Strict):
    """`validation_report.json`: what the maintainers say that they checked."""

    release_id: Annotated[str, _about("The release.")]
    status: Annotated[str, _about("`passed` or otherwise.")]
    checks: Annotated[dict[str, bool], _about("Check by name.")]
    counts: Annotated[dict[str, int], _about("Counts by name.")]


class SourceFile(_Strict):
    """A file that the release was made from."""

    path: Annotated[str, _about("Its path at the maintainers; provenance, never opened.")]
    sha256: Annotated[str, _about("Its SHA-256.")]


class Lineage(_Strict):
    """Where a derived release comes from."""

    parent_release_id: Annotated[str, _about("The release that it was derived from.")]
    parent_files: Annotated[dict[str, str], _about("SHA-256 of the parent's files.")]
    rule: Annotated[str, _about("Which records were kept.")]
    counts: Annotated[dict[str, int], _about("Kept and left-out records by name.")]
    inherited: Annotated[list[str], _about("Statements that were copied, not recomputed.")]


class Counts(_Strict):
    """Records by record file."""

    qa: Annotated[int, _about("QA records.")]
    proactive: Annotated[int, _about("Proactive records.")]


class Manifest(_Strict):
    """`manifest.json`: what a release is made of."""

    release_id: Annotated[str, _about("The release, for example `v1.1.0`.")]
    schema_version: Annotated[str, _about("Version of the record schema.")]
    status: Annotated[str, _about("`private_provisional`, `public` or other; not a licence.")]
    counts: Annotated[Counts, _about("Records by record file.")]
    files: Annotated[dict[str, str], _about("SHA-256 of every file, by its name.")]
    qa_file: Annotated[str, _about("The QA record file.")]
    proactive_file: Annotated[str, _about("The canonical Proactive record file.")]
    tiny_qa_ids_file: Annotated[str, _about("The IDs of the tiny QA subset.")]
    tiny_proactive_ids_file: Annotated[str, _about("The IDs of the tiny Proactive subset.")]
    limitations: Annotated[list[str], _about("What the maintainers want to be known.")]
    source_files: Annotated[list[SourceFile], _about("Provenance.")]
    video_root_notes: Annotated[str, _about("How the videos are to be found.")]
    lineage: Annotated[Lineage | UnsetType, _about("For a derived release: where it comes from.")] = UNSET


ROLES = ("qa_file", "proactive_file", "tiny_qa_ids_file", "tiny_proactive_ids_file")
"""The manifest's fields that name a file by its role."""

# Files that no role of the manifest names have the same name in every release.
CHANGES_FILE = "changes.jsonl"
EXCLUSIONS_FILE = "exclusions.jsonl"
SUBSETS_FILE = "proactive_subsets.json"
REVIEW_SUMMARY_FILE = "review_summary.json"
VALIDATION_REPORT_FILE = "validation_report.json"
MANIFEST_FILE = "manifest.json"

SIDECARS: dict[str, type[Struct]] = {
    SUBSETS_FILE: ProactiveSubsets,
    REVIEW_SUMMARY_FILE: ReviewSummary,
    VALIDATION_REPORT_FILE: ValidationReportFile,
}
"""The JSON files of a release that are one object each."""


# --- what load_dataset takes as its second argument --------------------------------------------------------------


@dataclass(frozen=True)
class Config:
    """One config: which records it holds and what of them a model may see.

    Attributes
    ----------
    name : str
        What `load_dataset` takes as its second argument.
    record : type
        The record kind.
    source : {"qa", "proactive", "standard", "high_frequency", "changes", "exclusions"}
        Which record file holds the rows.
    ids_role : str or None
        The manifest's role of the ID file that selects and orders the rows, or None for the whole file.
    description : str
        What the config is, and when to use it.
    inputs : tuple of str
        The columns of the ``model_input`` view; empty where there is no such view.
    """

    name: str
    record: type[Struct]
    source: Literal["qa", "proactive", "standard", "high_frequency", "changes", "exclusions"]
    description: str
    ids_role: str | None = None
    inputs: tuple[str, ...] = ()


_QA_INPUTS = ("record_id", "task", "video_path", "question", "options", "question_time_s")
_PROACTIVE_INPUTS = ("record_id", "task", "video_path", "instruction", "instruction_time_s")

CONFIGS: dict[str, Config] = {
    config.name: config
    for config in (
        Config("qa", QARecord, "qa", "All QA records.", inputs=_QA_INPUTS),
        Config("qa_tiny", QARecord, "qa", "A few QA records, for set-up.", "tiny_qa_ids_file", _QA_INPUTS),
        Config(
            "proactive",
            ProactiveRecord,
            "proactive",
            "All Proactive records, sampling stress included.",
            inputs=_PROACTIVE_INPUTS,
        ),
        Config(
            "proactive_standard",
            ProactiveRecord,
            "standard",
            "The standard Proactive population: no window of one second or less.",
            inputs=_PROACTIVE_INPUTS,
        ),
        Config(
            "proactive_high_frequency",
            ProactiveRecord,
            "high_frequency",
            "Sampling stress: records with a window of one second or less; report them apart.",
            inputs=_PROACTIVE_INPUTS,
        ),
        Config(
            "proactive_tiny",
            ProactiveRecord,
            "proactive",
            "A few Proactive records, for set-up.",
            "tiny_proactive_ids_file",
            _PROACTIVE_INPUTS,
        ),
        Config("changes", ChangeRecord, "changes", "Audit: what the review edited and removed."),
        Config("exclusions", ExclusionRecord, "exclusions", "Audit: source records that were left out."),
    )
}
"""Every config by name, in the order in which they are listed."""

VIEWS = ("full", "model_input")
"""The views of a config: every canonical field, or only what a model may see."""


# --- the schema as data -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Field:
    """One field of a record kind, as data.

    Attributes
    ----------
    name : str
    kind : {"string", "float", "int", "bool", "json", "list", "struct", "map"}
        ``json`` is a value of any JSON type, kept as its text.
    description, unit : str
        One line; ``s`` for seconds, else empty.
    optional, nullable : bool
        Whether the field may be absent; whether null is one of its values. Never both.
    children : tuple of Field
        The fields of a struct; the single item of a list or map, under the name ``item``.
    """

    name: str
    kind: Literal["string", "float", "int", "bool", "json", "list", "struct", "map"]
    description: str = ""
    unit: str = ""
    optional: bool = False
    nullable: bool = False
    children: tuple[Field, ...] = ()

    @property
    def item(self) -> Field:
        """The item of a list or map."""
        return self.children[0]


@cache
def fields_of(record: type[Struct]) -> tuple[Field, ...]:
    """Return the fields of a record kind, in the order of the field reference."""
    info = msgspec.inspect.type_info(record)
    assert isinstance(info, msgspec.inspect.StructType)
    return _fields(info)


def _fields(info: msgspec.inspect.StructType) -> tuple[Field, ...]:
    return tuple(_field(f.encode_name, f.type, optional=not f.required) for f in info.fields)


def _field(name: str, node: msgspec.inspect.Type, *, optional: bool = False) -> Field:
    description, unit = "", ""
    while isinstance(node, msgspec.inspect.Metadata):
        description = (node.extra_json_schema or {}).get("description", description)
        unit = (node.extra or {}).get("unit", unit)
        node = node.type
    if isinstance(node, msgspec.inspect.UnionType):
        (inner,) = (t for t in node.types if not isinstance(t, msgspec.inspect.NoneType))
        return replace(_field(name, inner, optional=optional), description=description, nullable=True)
    kind, children = _kind(node)
    return Field(name, kind, description, unit, optional, False, children)


def _kind(node: msgspec.inspect.Type) -> tuple[Any, tuple[Field, ...]]:
    if isinstance(node, msgspec.inspect.StructType):
        return "struct", _fields(node)
    if isinstance(node, msgspec.inspect.ListType):
        return "list", (_field("item", node.item_type),)
    if isinstance(node, msgspec.inspect.DictType):
        return "map", (_field("item", node.value_type),)
    scalars: dict[type[msgspec.inspect.Type], str] = {
        msgspec.inspect.StrType: "string",
        msgspec.inspect.FloatType: "float",
        msgspec.inspect.IntType: "int",
        msgspec.inspect.BoolType: "bool",
        msgspec.inspect.RawType: "json",
    }
    return scalars[type(node)], ()
