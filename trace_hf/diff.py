"""What changed between two releases: records, fields, subsets, manifest.

Each side is a release, or an export. Of an export, the Parquet files are read, not the snapshot beside them, so that
a difference between the two can be seen as well.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from ._lines import ABSENT, LineStore, differing_values, shown
from ._rows import iter_rows
from .attest import release_lines
from .errors import SchemaError
from .hub.export import SNAPSHOT, is_export
from .paths import is_local, local_path
from .release import Release
from .schema import CONFIGS, Config

_FILES = ("qa", "proactive", "changes", "exclusions")
_SUBSETS = tuple(name for name in CONFIGS if name not in _FILES)


@dataclass(frozen=True)
class FieldDiff:
    """One field that differs.

    Attributes
    ----------
    path : str
        JSON path.
    a, b
        Both values; `ABSENT` for a field that is not there.
    """

    path: str
    a: Any
    b: Any

    def __str__(self) -> str:
        return f"{self.path}: {shown(self.a)} -> {shown(self.b)}"

    def to_json(self) -> dict[str, Any]:
        """Return path and values; a side where the field is not there has no key."""
        sides = {name: value for name, value in (("a", self.a), ("b", self.b)) if value is not ABSENT}
        return {"path": self.path, **sides}


@dataclass
class RecordsDiff:
    """What differs between the records of one record file.

    Attributes
    ----------
    added, removed : list of str
        Record IDs that only `b`, or only `a`, has.
    changed : dict
        List of `FieldDiff` by record ID.
    reordered : bool
        Whether the records that both have stand in another order.
    """

    added: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    changed: dict[str, list[FieldDiff]] = field(default_factory=dict)
    reordered: bool = False

    @property
    def equal(self) -> bool:
        """Whether nothing differs."""
        return not (self.added or self.removed or self.changed or self.reordered)


@dataclass
class ReleaseDiff:
    """What differs between two releases.

    Attributes
    ----------
    a, b : str
        The release IDs.
    records : dict
        `RecordsDiff` by config, for the four that have a file of all their own.
    subsets : dict
        By config, the record IDs that joined and left it.
    manifest : list of FieldDiff
    """

    a: str
    b: str
    records: dict[str, RecordsDiff]
    subsets: dict[str, tuple[list[str], list[str]]]
    manifest: list[FieldDiff]

    @property
    def equal(self) -> bool:
        """Whether nothing differs."""
        moved = any(joined or left for joined, left in self.subsets.values())
        return not moved and not self.manifest and all(part.equal for part in self.records.values())

    def to_json(self) -> dict[str, Any]:
        """Return the form that ``trace-hf diff --json`` prints."""
        return {
            "equal": self.equal,
            "a": self.a,
            "b": self.b,
            "records": {
                name: {
                    "added": part.added,
                    "removed": part.removed,
                    "changed": [
                        {"record_id": record_id, "fields": [one.to_json() for one in fields]}
                        for record_id, fields in part.changed.items()
                    ],
                    "reordered": part.reordered,
                }
                for name, part in self.records.items()
            },
            "subsets": {name: {"joined": moved[0], "left": moved[1]} for name, moved in self.subsets.items()},
            "manifest": [one.to_json() for one in self.manifest],
        }

    def lines(self) -> Iterator[str]:
        """Give the report as text, line by line."""
        for name, part in self.records.items():
            yield from (f"{name}: + {record_id}" for record_id in part.added)
            yield from (f"{name}: - {record_id}" for record_id in part.removed)
            for record_id, fields in part.changed.items():
                yield from (f"{name}: ~ {record_id}, {one}" for one in fields)
            if part.reordered:
                yield f"{name}: the order of the records differs"
        for name, (joined, left) in self.subsets.items():
            yield from (f"{name}: {record_id} joined" for record_id in joined)
            yield from (f"{name}: {record_id} left" for record_id in left)
        yield from (f"manifest: {one}" for one in self.manifest)


class Side:
    """A release, or the Parquet files of an export with the manifest beside them.

    Parameters
    ----------
    place
        What `Release.open` takes, or the folder of an export.
    storage_options
        For a remote one.
    """

    def __init__(
        self, place: str | os.PathLike[str] | Release, storage_options: Mapping[str, Any] | None = None
    ) -> None:
        self.release = Release.open(place, storage_options, unknown="keep")
        self._digests = self.release.proven()
        self._folder = None if isinstance(place, Release) else _export_folder(os.fspath(place), self.release)

    def ids(self, spec: Config) -> list[str]:
        """Return the record IDs of a config, in order."""
        return [record_id for record_id, _ in self.lines(spec)]

    def lines(self, spec: Config) -> Iterator[tuple[str, bytes]]:
        """Give record ID and canonical line of every record of a config, in order."""
        paths = sorted((self._folder / spec.name).glob("*.parquet")) if self._folder else None
        if paths is None:
            yield from release_lines(self.release, spec, self._digests)
            return
        with LineStore(spec) as store:
            for path in paths:
                store.add_rows(iter_rows(path, spec))
            if store.faults:
                raise SchemaError(
                    f"config {spec.name!r} holds a row that is no record: {store.faults[0]}",
                    file=str(self._folder),
                    do="attest the export: `trace-hf attest`",
                )
            yield from ((record_id, store[record_id]) for record_id in store.ids())


def _export_folder(place: str, release: Release) -> Path | None:
    """Return the folder of the export that a place means; None when it means a release."""
    folder = Path(local_path(place)) if is_local(place) else None
    return folder if folder is not None and folder / SNAPSHOT == release.root.absolute() and is_export(folder) else None


def diff(
    a: str | os.PathLike[str] | Release,
    b: str | os.PathLike[str] | Release,
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> ReleaseDiff:
    """Compare two releases, a release and an export, or two exports.

    Parameters
    ----------
    a, b
        As `Release.open` takes them. A folder that holds an export means its Parquet files; name the ``snapshot``
        inside it to mean the release.
    storage_options
        For remote ones.

    Returns
    -------
    ReleaseDiff

    Raises
    ------
    IntegrityError
        When one of them does not verify: a difference to files that are not the stated ones says nothing.
    """
    one, other = Side(a, storage_options), Side(b, storage_options)
    records = {name: _records(one, other, CONFIGS[name]) for name in _FILES}
    subsets = {name: _moves(one.ids(CONFIGS[name]), other.ids(CONFIGS[name])) for name in _SUBSETS}
    manifests = [msgspec.to_builtins(side.release.manifest) for side in (one, other)]
    manifest = [FieldDiff(*found) for found in differing_values(*manifests)]
    return ReleaseDiff(one.release.release_id, other.release.release_id, records, subsets, manifest)


def _records(one: Side, other: Side, spec: Config) -> RecordsDiff:
    found = RecordsDiff()
    with LineStore(spec) as store:
        for record_id, line in one.lines(spec):
            store.add(record_id, line)
        common: list[str] = []
        there: set[str] = set()
        for record_id, line in other.lines(spec):
            there.add(record_id)
            if record_id not in store:
                found.added.append(record_id)
                continue
            common.append(record_id)
            if line != store[record_id]:
                pairs = differing_values(msgspec.json.decode(store[record_id]), msgspec.json.decode(line))
                found.changed[record_id] = [FieldDiff(*pair) for pair in pairs]
        found.removed = [record_id for record_id in store.ids() if record_id not in there]
        found.reordered = common != [record_id for record_id in store.ids() if record_id in there]
    return found


def _moves(a: list[str], b: list[str]) -> tuple[list[str], list[str]]:
    before, after = set(a), set(b)
    return [record_id for record_id in b if record_id not in before], [i for i in a if i not in after]
