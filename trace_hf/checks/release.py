"""Checks of a release as a whole: its files against each other and against what its sidecars state."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import UNSET

from ..manifest import PINS
from ..schema import (
    CHANGES_FILE,
    EXCLUSIONS_FILE,
    REVIEW_SUMMARY_FILE,
    SCHEMA_VERSION,
    SUBSETS_FILE,
    SUBSETS_SCHEMA_VERSION,
    VALIDATION_REPORT_FILE,
)
from .facts import SUBSETS, Facts
from .table import Fault, compare, denied, on_release, while_reading

_LISTS = {
    "tiny_qa": "qa",
    "tiny_proactive": "proactive",
    "standard_ids": "proactive",
    "high_frequency_ids": "proactive",
}


# --- files and form -----------------------------------------------------------------------------------------------


@on_release()
def files_listed(facts: Facts) -> Iterator[Fault]:
    """The manifest lists every file kind of a release; a derived release may leave audit files and sidecars out."""
    if facts.manifest.lineage is UNSET:
        for name in (CHANGES_FILE, EXCLUSIONS_FILE, SUBSETS_FILE, REVIEW_SUMMARY_FILE, VALIDATION_REPORT_FILE):
            if name not in facts.manifest.files:
                yield None, f"the manifest does not list {name}"


@on_release()
def schema_version(facts: Facts) -> Iterator[Fault]:
    """The manifest's schema version is the one that this package reads."""
    if facts.manifest.schema_version != SCHEMA_VERSION:
        yield None, f"schema_version is {facts.manifest.schema_version[:100]!r}, not {SCHEMA_VERSION!r}"


while_reading("schema", "Every file is of the schema: known fields of the right types, none missing")
while_reading(
    "canonical_encoding",
    "Records are written canonically, one a line: keys sorted, no spaces, UTF-8, floats with a point",
)
while_reading("no_duplicate_keys", "No JSON object has a key twice")


@on_release()
def release_ids(facts: Facts) -> Iterator[Fault]:
    """The sidecars are of the release that the manifest names."""
    for need in ("review", "report"):
        side = facts.sides.get(need)
        if side is not None and side.release_id != facts.manifest.release_id:
            yield None, f"{facts.names[need]} is of {side.release_id[:100]!r}, not {facts.manifest.release_id!r}"


@on_release()
def lineage_parent(facts: Facts) -> Iterator[Fault]:
    """A derived release names its parent's files as they are known."""
    lineage = facts.manifest.lineage
    if lineage is UNSET:
        return
    if lineage.parent_release_id == facts.manifest.release_id:
        yield None, "the release is its own parent"
    pin = PINS.get(lineage.parent_release_id)
    for name, digest in lineage.parent_files.items() if pin else ():
        if pin and pin.files.get(name) != digest:
            yield None, f"{name[:100]} of {lineage.parent_release_id} has another hash than the lineage states"


# --- record files -------------------------------------------------------------------------------------------------


@on_release("qa", "proactive")
def manifest_counts(facts: Facts) -> Iterator[Fault]:
    """The record files hold as many records as the manifest states."""
    counts = facts.manifest.counts
    found = {name: facts.rows(name) for name in ("qa", "proactive")}
    yield from compare({"qa": counts.qa, "proactive": counts.proactive}, found, "the manifest")


@on_release("qa", "proactive")
def record_ids_unique(facts: Facts) -> Iterator[Fault]:
    """No record ID comes twice."""
    seen: set[str] = set()
    for need in ("qa", "proactive"):
        for record_id in facts.populations[need].ids:
            if record_id in seen:
                yield record_id, "comes twice"
            seen.add(record_id)


@on_release("qa", "proactive")
def record_ids_sorted(facts: Facts) -> Iterator[Fault]:
    """Records stand in the order of their IDs as text."""
    for need in ("qa", "proactive"):
        ids = facts.populations[need].ids
        for index in range(1, len(ids)):
            if ids[index] < ids[index - 1]:
                yield ids[index], f"stands after {ids[index - 1]}"


while_reading("content_unique", "No two records have the same content under different IDs", "qa", "proactive")


@on_release(*_LISTS)
def id_files_unique(facts: Facts) -> Iterator[Fault]:
    """No ID file names a record twice."""
    for need, ids in facts.lists.items():
        seen: set[str] = set()
        for record_id in ids:
            if record_id in seen:
                yield record_id, f"comes twice in {facts.names[need]}"
            seen.add(record_id)


@on_release("qa", "proactive", *_LISTS)
def id_files_known(facts: Facts) -> Iterator[Fault]:
    """Every ID in an ID file is that of a record of the right file."""
    known = {need: set(facts.populations[need].ids) for need in ("qa", "proactive")}
    for need, ids in facts.lists.items():
        for record_id in ids:
            if record_id not in known[_LISTS[need]]:
                yield record_id, f"is in {facts.names[need]}, but not in {facts.names[_LISTS[need]]}"


# --- the partition ------------------------------------------------------------------------------------------------


@on_release("standard_ids", "high_frequency_ids")
def partition_disjoint(facts: Facts) -> Iterator[Fault]:
    """No record is both standard and high-frequency."""
    for record_id in sorted(set(facts.lists["standard_ids"]) & set(facts.lists["high_frequency_ids"])):
        yield record_id, "is in both ID files"


@on_release("proactive", "standard_ids", "high_frequency_ids")
def partition_complete(facts: Facts) -> Iterator[Fault]:
    """Every Proactive record is standard or high-frequency."""
    named = {*facts.lists["standard_ids"], *facts.lists["high_frequency_ids"]}
    for record_id in facts.populations["proactive"].ids:
        if record_id not in named:
            yield record_id, "is in neither ID file"


@on_release("subsets", "proactive", "standard_ids", "high_frequency_ids")
def partition_criterion(facts: Facts) -> Iterator[Fault]:
    """A record is high-frequency exactly if one of its windows meets the criterion as it is written."""
    standard, high = set(facts.lists["standard_ids"]), set(facts.lists["high_frequency_ids"])
    population = facts.populations["proactive"]
    for record_id, short in zip(population.ids, population.short, strict=True):
        if (record_id in standard) == (record_id in high):
            continue  # in both or neither: rules of their own
        if (record_id in high) != bool(short):
            yield (
                record_id,
                f"has {short} windows that meet the criterion and is {'standard' if short else 'high-frequency'}",
            )


@on_release("proactive", "standard", "high_frequency", "standard_ids", "high_frequency_ids")
def partition_records(facts: Facts) -> Iterator[Fault]:
    """Each side's record file holds the canonical rows of its ID file, byte for byte and in canonical order."""
    place = {record_id: index for index, record_id in enumerate(facts.populations["proactive"].ids)}
    for subset in SUBSETS:
        name, part = facts.names[subset], facts.parts[subset]
        strangers = {record_id for record_id, _ in part.strangers}
        for record_id, line in part.strangers:
            yield record_id, f"is no row of {facts.names['proactive']} ({name}, line {line})"
        wanted = sorted({place[i] for i in facts.lists[f"{subset}_ids"] if i in place and i not in strangers})
        found = [index for index in part.rows if index is not None]
        if found != wanted:
            ids = facts.populations["proactive"].ids
            yield from _row_faults(found, wanted, ids, name)


def _row_faults(found: list[int], wanted: list[int], ids: list[str], name: str) -> Iterator[Fault]:
    missing, extra = set(wanted) - set(found), set(found) - set(wanted)
    yield from ((ids[index], f"is missing in {name}") for index in sorted(missing))
    yield from ((ids[index], f"is in {name}, but not in its ID file") for index in sorted(extra))
    if not missing and not extra:
        index = next(b for a, b in zip([*wanted, -1], found, strict=False) if a != b)
        yield ids[index], f"is twice or out of order in {name}"


@on_release("subsets")
def descriptor_files(facts: Facts) -> Iterator[Fault]:
    """The descriptor splits the manifest's Proactive file."""
    source = facts.sides["subsets"].source_file
    if source != facts.manifest.proactive_file:
        yield None, f"{SUBSETS_FILE} splits {source[:100]!r}, the Proactive file is {facts.manifest.proactive_file}"


@on_release("subsets")
def descriptor_rule(facts: Facts) -> Iterator[Fault]:
    """The descriptor's criterion is the one that can be computed: `end_s - start_s` against a threshold, by record."""
    descriptor = facts.sides["subsets"]
    rule = descriptor.criterion
    for name, value, due in (
        ("schema_version", descriptor.schema_version, SUBSETS_SCHEMA_VERSION),
        ("criterion.scope", rule.scope, "record"),
        ("criterion.window_duration", rule.window_duration, "end_s - start_s"),
    ):
        if value != due:
            yield None, f"{name} is {value[:100]!r}, not {due!r}"


@on_release("subsets", "proactive", "standard", "high_frequency", statement=f"{SUBSETS_FILE}:subsets")
def descriptor_counts(facts: Facts) -> Iterator[Fault]:
    """The descriptor's record, window and qualifying-window counts are those of the files."""
    descriptor = facts.sides["subsets"]
    population = facts.populations["proactive"]
    stated = {
        "source.record_count": descriptor.source.record_count,
        "source.window_count": descriptor.source.window_count,
    }
    found = {"source.record_count": len(population.ids), "source.window_count": sum(population.windows)}
    for subset in SUBSETS:
        side, part = getattr(descriptor.subsets, subset), facts.parts[subset]
        stated |= {
            f"{subset}.record_count": side.record_count,
            f"{subset}.window_count": side.window_count,
            f"{subset}.qualifying_window_count": side.qualifying_window_count,
        }
        found |= {
            f"{subset}.record_count": len(part.rows),
            f"{subset}.window_count": part.windows,
            f"{subset}.qualifying_window_count": part.short,
        }
    yield from compare(stated, found, SUBSETS_FILE)


@on_release("subsets", statement=f"{SUBSETS_FILE}:hashes")
def descriptor_hashes(facts: Facts) -> Iterator[Fault]:
    """The descriptor's hashes are those of the files."""
    stated = facts.sides["subsets"].hashes
    roles = {"source_file": "proactive"}
    for subset in SUBSETS:
        roles |= {f"{subset}_ids_file": f"{subset}_ids", f"{subset}_record_file": subset}
    for role, need in roles.items():
        digest = facts.digests.get(facts.names.get(need, ""))
        if role not in stated:
            yield None, f"{SUBSETS_FILE} states no hash of {role}"
        elif digest is not None and stated[role] != digest.sha256:
            yield None, f"{SUBSETS_FILE} states another hash of {facts.names[need]} than it has"


@on_release("subsets", kind="stated only", statement=f"{SUBSETS_FILE}:checks")
def descriptor_statements(facts: Facts) -> Iterator[Fault]:
    """The maintainers state that their own checks of the partition passed."""
    yield from denied(facts.sides["subsets"].checks, SUBSETS_FILE)


# --- audit files --------------------------------------------------------------------------------------------------


@on_release("changes", "exclusions")
def audit_ids_unique(facts: Facts) -> Iterator[Fault]:
    """No audit file names a record twice."""
    for need, audit in facts.audits.items():
        seen: set[str] = set()
        for record_id in audit.ids:
            if record_id in seen:
                yield record_id, f"comes twice in {facts.names[need]}"
            seen.add(record_id)


@on_release("changes", "exclusions")
def removals_are_exclusions(facts: Facts) -> Iterator[Fault]:
    """The records that the changes remove are exactly the exclusions."""
    removed, excluded = facts.audits["changes"].removed, set(facts.audits["exclusions"].ids)
    yield from ((i, "is removed in the changes, but no exclusion") for i in sorted(removed - excluded))
    yield from ((i, "is an exclusion, but not removed in the changes") for i in sorted(excluded - removed))


@on_release("qa", "proactive", "exclusions")
def excluded_not_retained(facts: Facts) -> Iterator[Fault]:
    """No excluded record is in the release."""
    excluded = set(facts.audits["exclusions"].ids)
    for need in ("qa", "proactive"):
        yield from ((i, f"is excluded, but in the {need} file") for i in facts.populations[need].ids if i in excluded)


@on_release("qa", "proactive", "changes")
def edits_are_retained(facts: Facts) -> Iterator[Fault]:
    """Every edited record is in the release, and human-reviewed."""
    reviewed = facts.populations["qa"].reviewed | facts.populations["proactive"].reviewed
    for record_id in facts.audits["changes"].edited:
        if record_id not in reviewed:
            yield record_id, "was edited, but is no human-reviewed record of the release"
