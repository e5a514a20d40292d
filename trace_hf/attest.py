"""Attestation: the proof that rows, however they were stored, are a release's rows.

Rows are written again as the release writes them, in the config's canonical order, and the SHA-256 of those bytes
is compared with the hash of the config's record file. A row that lost a digit, a null or a field cannot have it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from ._lines import Difference, LineStore, differing_lines
from ._rows import iter_rows
from .arrow import canonical_line
from .decode import encode_canonical
from .errors import TraceError
from .integrity import FileDigest, read_line_blocks
from .manifest import PINS, Pin, audit_file
from .release import Release, config_named
from .schema import Config

__all__ = ["Attestation", "Difference", "attest", "attest_rows", "release_lines"]

MAX_DIFFERENCES = 20
"""So many differences are named."""

_PROOFS = {True: "a pinned hash: origin proven", False: "consistent with the given release; origin not proven"}


@dataclass(frozen=True)
class Attestation:
    """Whether rows are a release's rows.

    Attributes
    ----------
    ok : bool
    config : str
    release_id : str or None
        The release that they were compared with.
    pinned : bool
        Whether the expected hash is built into the package, which proves origin. Otherwise it is the one of the
        given release's manifest, which proves consistency with that release only.
    records : int
        Rows seen.
    sha256 : str or None
        Of the canonical bytes of the rows; None when a row could not be written.
    expected : str or None
        The hash that is due.
    reordered : bool
        Whether the rows came in another order than the canonical one, which was restored.
    differences : tuple of Difference
        At most `MAX_DIFFERENCES`.
    pinned_as : str or None
        The known release whose pinned file of this config has exactly these rows. It may be another one than
        `release_id`: a release can hand on a file of an earlier one unchanged, and then these rows, though not the
        release as a whole, are of proven origin.
    """

    ok: bool
    config: str
    release_id: str | None
    pinned: bool
    records: int
    sha256: str | None
    expected: str | None
    reordered: bool = False
    differences: tuple[Difference, ...] = field(default=())
    pinned_as: str | None = None

    def __str__(self) -> str:
        if not self.ok:
            head = f"NOT attested: {self.config} of {self.release_id or 'an unknown release'}, {self.records} records"
            return "\n  ".join([head, *map(str, self.differences)])
        notes = [_PROOFS[self.pinned]]
        if self.pinned_as and self.pinned_as != self.release_id:
            notes.append(f"these rows are also {self.pinned_as}'s pinned ones")
        if self.reordered:
            notes.append("the rows came in another order, which was restored")
        return (
            f"attested: {self.config} of {self.release_id}, {self.records} records, sha256 {self.sha256} "
            f"({'; '.join(notes)})"
        )

    def to_json(self) -> dict[str, Any]:
        """Return the form of one entry of ``trace-hf attest --json``."""
        return {
            "config": self.config,
            "ok": self.ok,
            "release_id": self.release_id,
            "pinned": self.pinned,
            "pinned_as": self.pinned_as,
            "records": self.records,
            "sha256": self.sha256,
            "expected": self.expected,
            "reordered": self.reordered,
            "differences": [difference.to_json() for difference in self.differences],
        }


def attest(rows: Any, config: str, *, release: str | os.PathLike[str] | Release | None = None) -> Attestation:
    """Prove that rows are those of a release, or say where they are not.

    Parameters
    ----------
    rows
        A `datasets.Dataset` or `IterableDataset`, an Arrow table, a pandas or polars frame, the path of a Parquet
        file, or an iterable of mappings. Columns that the schema does not name are ignored; column and row order
        do not matter.
    config
        The config that they are said to be.
    release
        What to compare with, as `Release.open` takes it. Without it, the pinned hash of the release that the data
        names (a loaded dataset's ``info``), or of any known release, is used; then a difference can be seen but
        not placed. Tiny configs need it.

    Raises
    ------
    UnknownConfigError
        For an unknown config.
    IntegrityError
        When `release` does not verify.
    TraceError
        When there is nothing to compare with, or the rows are of the view ``model_input``, which holds no answers.
    """
    spec = config_named(config)
    named = _named_release(rows)
    opened = Release.open(release, unknown="keep") if release is not None else None
    if opened is None:
        if spec.ids_role:
            raise TraceError(
                f"config {config!r} has no record file of its own, so no hash of it was published",
                do="pass release=, whose ID list and full file say what it holds",
            )
        with LineStore(spec) as lines:
            lines.add_rows(iter_rows(rows, spec))
            return _against_pins(lines, named)
    return attest_rows(rows, spec, opened, opened.proven())


def attest_rows(rows: Any, spec: Config, release: Release, digests: Mapping[str, FileDigest]) -> Attestation:
    """Compare rows with a release that was verified a moment ago; see `attest`."""
    with LineStore(spec, release.ids(spec, digests)) as lines:
        lines.add_rows(iter_rows(rows, spec))
        return _against_release(lines, release, digests)


def _named_release(rows: Any) -> str | None:
    from .loading import provenance

    found = provenance(rows) if hasattr(rows, "info") and hasattr(rows, "features") else None
    if found is not None and found.view != "full":
        raise TraceError(
            f"rows of the view {found.view!r} leave fields out, so no hash can be theirs",
            do='load them with view="full"',
        )
    return found.release_id if found else None


# --- against pinned hashes --------------------------------------------------------------------------------------


def _pinned_hash(spec: Config, pin: Pin) -> str:
    if spec.source in ("qa", "proactive"):
        return pin.files[pin.roles[f"{spec.source}_file"]]
    return pin.files[audit_file(spec.source) or f"proactive_{spec.source}.jsonl"]


def _pinned_as(spec: Config, sha256: str | None) -> str | None:
    if spec.ids_role or sha256 is None:
        return None
    return next((release_id for release_id, pin in PINS.items() if _pinned_hash(spec, pin) == sha256), None)


def _against_pins(lines: LineStore, named: str | None) -> Attestation:
    """Compare with the pinned hash of the release that the rows name, or of any known one.

    Rows that name an unknown release, yet are those of a known one, are attested as the known one's: the hash says
    what they are, a name says nothing.
    """
    spec, sha256 = lines.spec, lines.sha256()
    found = _pinned_as(spec, sha256)
    known = named if named in PINS else (next(iter(PINS)) if len(PINS) == 1 and named is None else None)
    if found is not None and (named not in PINS or found == named):
        return Attestation(True, spec.name, found, True, len(lines), sha256, sha256, lines.reordered, pinned_as=found)
    if named is not None and named not in PINS and not lines.faults:
        raise TraceError(
            f"the rows are of {named}, of which no hash is pinned", do="pass release= to compare with its manifest"
        )
    differences = tuple(lines.faults[:MAX_DIFFERENCES]) or (
        Difference(None, None, f"the {len(lines)} rows differ from the pinned ones; pass release= to be told where"),
    )
    expected = _pinned_hash(spec, PINS[known]) if known else None
    return Attestation(
        False, spec.name, known or named, known is not None, len(lines), sha256, expected, lines.reordered, differences
    )


# --- against a release ------------------------------------------------------------------------------------------


def release_lines(
    release: Release, config: str | Config, digests: Mapping[str, FileDigest]
) -> Iterator[tuple[str, bytes]]:
    """Give the record ID and canonical line of every record of a config, in canonical order, with no line ends."""
    spec = config_named(config)
    if release.unknown == "error":
        for record in release.records(spec, digests=digests):
            yield record.record_id, encode_canonical(record)
        return
    for table in release.tables(spec, digests=digests):
        for batch in table.to_batches(max_chunksize=1024):
            for row in batch.to_pylist():
                yield row["record_id"], canonical_line(row, spec.record)


def _against_release(lines: LineStore, release: Release, digests: Mapping[str, FileDigest]) -> Attestation:
    spec, sha256 = lines.spec, lines.sha256()
    expected = None if spec.ids_role else digests[release.record_file(spec, digests)].sha256
    differences: tuple[Difference, ...] = ()
    if expected is None or sha256 != expected:
        order: list[str] = []
        whole = hashlib.sha256()
        places = _compare(lines, _noted(release_lines(release, spec, digests), order, whole))
        differences = tuple(islice(places, MAX_DIFFERENCES))
        if not differences:
            lines.set_order(order)  # the release's own order, which need not be that of the IDs
            sha256 = lines.sha256()
            expected = expected or whole.hexdigest()
            if sha256 == whole.hexdigest() != expected:
                differences = (_not_canonical(release, spec, digests),)
    return Attestation(
        not differences and not lines.faults and sha256 == expected,
        spec.name,
        release.release_id,
        release.pinned,
        len(lines),
        sha256,
        expected,
        lines.reordered,
        differences,
        _pinned_as(spec, sha256),
    )


def _noted(lines: Iterator[tuple[str, bytes]], order: list[str], whole: Any) -> Iterator[tuple[str, bytes]]:
    for record_id, line in lines:
        order.append(record_id)
        whole.update(line + b"\n")
        yield record_id, line


def _compare(lines: LineStore, due: Iterator[tuple[str, bytes]]) -> Iterator[Difference]:
    """Walk the release's records and name what differs in the rows; neither is ever held as a whole."""
    faults = {fault.record_id: fault for fault in lines.faults}
    seen: set[str] = set()
    for record_id, line in due:
        seen.add(record_id)
        if record_id not in lines:
            yield Difference(record_id, None, "is missing")
            continue
        found = lines[record_id]
        if found != line:
            named = list(differing_lines(record_id, line, found))
            yield from named or [Difference(record_id, None, "is written otherwise than the canonical way")]
        elif record_id in faults:
            yield faults[record_id]
    if len(lines) != len(seen):
        yield Difference(None, None, f"{len(lines)} rows instead of {len(seen)}")
    came: set[str] = set()
    for record_id in lines.ids():
        if record_id not in seen:
            yield Difference(record_id or None, None, "is not in the release")
        elif record_id in came:
            yield Difference(record_id, None, "comes twice")
        came.add(record_id)


def _not_canonical(release: Release, spec: Config, digests: Mapping[str, FileDigest]) -> Difference:
    """Say that every value agrees, but that the release's file has other bytes than the canonical ones."""
    name = release.record_file(spec, digests)
    raw = (
        line
        for _, block in read_line_blocks(release.root / name, digests[name])
        for line in block.removesuffix(b"\n").split(b"\n")
    )
    number = next(
        (
            i
            for i, (line, (_, due)) in enumerate(zip(raw, release_lines(release, spec, digests), strict=False), 1)
            if line != due
        ),
        None,
    )
    place = f"first on line {number}" if number else "at its end"
    return Difference(
        None, None, f"every value agrees, but {name} is not canonically encoded ({place}), so its hash proves no copy"
    )
