"""Checks of what a release states about itself: the review summary, the validation report, and published counts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ..schema import REVIEW_SUMMARY_FILE, VALIDATION_REPORT_FILE
from .facts import SUBSETS, Facts
from .table import Fault, compare, denied, on_release

# --- the review summary and the validation report -----------------------------------------------------------------


def _both(facts: Facts, name: str) -> dict[str, int]:
    qa, proactive = (getattr(facts.populations[need], name) for need in ("qa", "proactive"))
    return dict(qa + proactive)


@on_release("review", "qa", "proactive", statement=f"{REVIEW_SUMMARY_FILE}:included_by_dataset_mode")
def review_by_dataset_mode(facts: Facts) -> Iterable[Fault]:
    """The review summary's records by dataset and mode are those of the files."""
    found = {f"{d}:{n}": c for n in ("qa", "proactive") for d, c in facts.populations[n].by_dataset.items()}
    return compare(facts.sides["review"].included_by_dataset_mode, found, REVIEW_SUMMARY_FILE)


@on_release("review", "qa", "proactive", statement=f"{REVIEW_SUMMARY_FILE}:included_by_task_type")
def review_by_task_type(facts: Facts) -> Iterable[Fault]:
    """The review summary's records by task type are those of the files."""
    return compare(facts.sides["review"].included_by_task_type, _both(facts, "by_task_type"), REVIEW_SUMMARY_FILE)


@on_release("review", "qa", "proactive", statement=f"{REVIEW_SUMMARY_FILE}:validation_tiers")
def review_by_tier(facts: Facts) -> Iterator[Fault]:
    """The review summary's records by validation tier are those of the files; the machine-screened ones are pending."""
    review, tiers = facts.sides["review"], _both(facts, "by_tier")
    yield from compare(review.validation_tiers, tiers, REVIEW_SUMMARY_FILE)
    pending = {"pending_machine_screened_count": review.pending_machine_screened_count}
    yield from compare(
        pending, {"pending_machine_screened_count": tiers.get("machine_screened", 0)}, REVIEW_SUMMARY_FILE
    )


@on_release("review", "qa", "proactive", "exclusions", statement=f"{REVIEW_SUMMARY_FILE}:included_record_count")
def review_totals(facts: Facts) -> Iterator[Fault]:
    """The review summary's included, excluded and source records are those of the files, and add up."""
    review = facts.sides["review"]
    included, excluded = facts.rows("qa") + facts.rows("proactive"), facts.rows("exclusions")
    found = {
        "included_record_count": included,
        "excluded_record_count": excluded,
        "source_record_count": included + excluded,
    }
    yield from compare({name: getattr(review, name) for name in found}, found, REVIEW_SUMMARY_FILE)


@on_release("review", "qa", "proactive", "changes", statement=f"{REVIEW_SUMMARY_FILE}:review_dispositions")
def review_dispositions(facts: Facts) -> Iterator[Fault]:
    """Edits and removals are those of the changes; valid ones are human-reviewed less edits; saved is their sum."""
    review, changes = facts.sides["review"], facts.audits["changes"]
    edits, removals = len(changes.edited), len(changes.removed)
    valid = _both(facts, "by_tier").get("human_reviewed", 0) - edits
    found = {name: n for name, n in (("edit", edits), ("remove", removals), ("valid", valid)) if n}
    stated = {name: n for name, n in review.review_dispositions.items() if n}
    yield from compare(stated, found, REVIEW_SUMMARY_FILE)
    saved = {"saved_review_count": edits + removals + valid}
    yield from compare({"saved_review_count": review.saved_review_count}, saved, REVIEW_SUMMARY_FILE)


@on_release("review", "exclusions", statement=f"{REVIEW_SUMMARY_FILE}:duplicate_upper_id_removals")
def review_duplicates(facts: Facts) -> Iterator[Fault]:
    """The review summary's duplicates are the exclusions with the reason `DUPLICATE_RECORD`."""
    stated = {"duplicate_upper_id_removals": facts.sides["review"].duplicate_upper_id_removals}
    yield from compare(
        stated, {"duplicate_upper_id_removals": facts.audits["exclusions"].duplicates}, REVIEW_SUMMARY_FILE
    )


@on_release("review", kind="stated only", statement=f"{REVIEW_SUMMARY_FILE}:unresolved_saved_reviews")
def review_statements(facts: Facts) -> Iterator[Fault]:
    """The maintainers state that no saved review is unresolved, and which of two duplicates they kept."""
    unresolved = facts.sides["review"].unresolved_saved_reviews
    if unresolved:
        yield None, f"{REVIEW_SUMMARY_FILE} states {unresolved} unresolved saved reviews"


@on_release("report", "qa", "proactive", "changes", "exclusions", statement=f"{VALIDATION_REPORT_FILE}:counts")
def report_counts(facts: Facts) -> Iterator[Fault]:
    """The validation report's counts are those of the files."""
    found = {
        "qa": facts.rows("qa"),
        "proactive": facts.rows("proactive"),
        "included": facts.rows("qa") + facts.rows("proactive"),
        "excluded": facts.rows("exclusions"),
        "changes": facts.rows("changes"),
    }
    stated = facts.sides["report"].counts
    yield from compare({name: n for name, n in stated.items() if name in found}, found, VALIDATION_REPORT_FILE)


@on_release("report", kind="stated only", statement=f"{VALIDATION_REPORT_FILE}:checks")
def report_statements(facts: Facts) -> Iterator[Fault]:
    """The maintainers state that their own validation passed."""
    report = facts.sides["report"]
    yield from denied(report.checks, VALIDATION_REPORT_FILE)
    if report.status != "passed":
        yield None, f"{VALIDATION_REPORT_FILE} has the status {report.status[:100]!r}"


# --- what is known of v1.1.0 ----------------------------------------------------------------------------------------

_KNOWN: dict[str, dict[str, Any]] = {
    "v1.1.0": {
        "qa": 833,
        "qa ovo_bench": 304,
        "qa streambench": 529,
        "proactive": 415,
        "proactive ovo_bench": 171,
        "proactive streambench": 244,
        "windows": 1338,
        "standard": 407,
        "standard windows": 1270,
        "high_frequency": 8,
        "high_frequency windows": 68,
        "high_frequency short windows": 25,
        "tiny_qa": 9,
        "tiny_proactive": 9,
        "changes": 380,
        "edits": 328,
        "removals": 52,
        "exclusions": 52,
        "human_reviewed": 525,
        "machine_screened": 723,
        "videos of qa": 340,
        "videos of standard": 178,
        "videos of qa and standard": 517,
        "videos": 522,
    }
}
"""Counts that were published with a release."""


@on_release("qa", "proactive", "standard", "high_frequency", "tiny_qa", "tiny_proactive", "changes", "exclusions")
def known_counts(facts: Facts) -> Iterator[Fault]:
    """A known release (v1.1.0) has the counts that were published with it."""
    known = _KNOWN.get(facts.manifest.release_id)
    if known is None:
        return
    found: dict[str, Any] = {need: facts.rows(need) for need in ("qa", "proactive", "changes", "exclusions")}
    for need in ("qa", "proactive"):
        found |= {f"{need} {dataset}": n for dataset, n in facts.populations[need].by_dataset.items()}
    for subset in SUBSETS:
        part = facts.parts[subset]
        found |= {subset: len(part.rows), f"{subset} windows": part.windows, f"{subset} short windows": part.short}
    found |= {need: len(facts.lists[need]) for need in ("tiny_qa", "tiny_proactive")}
    found |= _both(facts, "by_tier")
    qa, proactive = facts.populations["qa"], facts.populations["proactive"]
    changes = facts.audits["changes"]
    found |= {"windows": sum(proactive.windows), "edits": len(changes.edited), "removals": len(changes.removed)}
    standard = {proactive.videos[index] for index in facts.parts["standard"].rows if index is not None}
    found |= {"videos of qa": len(set(qa.videos)), "videos of standard": len(standard)}
    found |= {"videos of qa and standard": len({*qa.videos, *standard}), "videos": len({*qa.videos, *proactive.videos})}
    yield from compare(known, {name: found.get(name) for name in known}, facts.manifest.release_id)
