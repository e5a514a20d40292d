"""One record by its ID."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from .errors import UnknownRecordError
from .release import Digests, Release
from .schema import CONFIGS, EXCLUSIONS_FILE, SUBSETS_FILE, ProactiveRecord, QARecord

__all__ = ["Found", "find_record", "record_ids"]


@dataclass(frozen=True)
class Found:
    """A record and the configs that hold it.

    Attributes
    ----------
    record : QARecord or ProactiveRecord
    configs : tuple of str
    """

    record: QARecord | ProactiveRecord
    configs: tuple[str, ...]


def find_record(release: Release, record_id: str) -> Found:
    """Return a record of a release, after every file was verified.

    Parameters
    ----------
    release
        The release.
    record_id
        For example ``streambench_proactive:21``.

    Raises
    ------
    UnknownRecordError
        Names the nearest IDs; for a record that the release leaves out, says so.
    IntegrityError, SchemaError
        When the release does not verify, or is not of its schema.
    """
    digests = release.proven()
    known: list[str] = []
    for whole in ("qa", "proactive"):
        for record in release.records(whole, digests=digests):
            if record.record_id == record_id:
                return Found(record, (whole, *_subsets(release, digests, whole, record_id)))
            known.append(record.record_id)
    raise _unknown(release, digests, record_id, known)


def record_ids(release: Release) -> list[str]:
    """Return the IDs of all records, in canonical order, without proof: for completion, not for use."""
    return [record.record_id for whole in ("qa", "proactive") for record in release.records(whole, verify=False)]


def _subsets(release: Release, digests: Digests, whole: str, record_id: str) -> list[str]:
    """The configs that hold a part of another one and this record."""
    found = []
    for name, spec in CONFIGS.items():
        if name == whole or spec.record is not CONFIGS[whole].record:
            continue
        if spec.ids_role is None and SUBSETS_FILE not in release.manifest.files:
            continue
        ids = release.ids(spec, digests)
        if ids is None:
            ids = [record.record_id for record in release.records(spec, digests=digests)]
        if record_id in ids:
            found.append(name)
    return found


def _unknown(release: Release, digests: Digests, record_id: str, known: list[str]) -> UnknownRecordError:
    if EXCLUSIONS_FILE in release.manifest.files:
        for record in release.records("exclusions", digests=digests):
            if record.record_id == record_id:
                return UnknownRecordError(
                    f"the release leaves {record_id} out: {', '.join(record.reason_codes)}",
                    file=EXCLUSIONS_FILE,
                    do="see the config `exclusions`",
                )
    near = difflib.get_close_matches(record_id, known, n=3, cutoff=0.7)
    # A number alone is how people remember a record.
    near = near or [one for one in known if one.endswith(f":{record_id}")][:3]
    return UnknownRecordError(
        f"{release.release_id} has no record {record_id!r}",
        do=f"did you mean {' or '.join(near)}?" if near else "search in the timelines of `trace-hf report`",
    )
