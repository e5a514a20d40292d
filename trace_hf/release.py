"""A release: find it, open it, verify it, iterate over it."""

from __future__ import annotations

import codecs
import difflib
import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonlines

from ._files import open_regular
from .decode import Unknown, decode
from .errors import (
    IntegrityError,
    ManifestError,
    ReleaseNotFoundError,
    SchemaError,
    TraceError,
    UnknownConfigError,
)
from .integrity import FileDigest, VerificationReport, read_line_blocks, verify_snapshot
from .manifest import PINS, audit_file, pin_problems, read_manifest
from .paths import check_relative, shown
from .schema import CONFIGS, MANIFEST_FILE, SUBSETS_FILE, Config, Manifest, ProactiveSubsets

if TYPE_CHECKING:
    import pyarrow as pa

ENV_RELEASE = "TRACE_RELEASE"
"""Names the release when none is given; empty counts as unset."""

MAX_DOCUMENT_BYTES = 32 * 1024 * 1024
"""A larger ID file or sidecar is refused, so that memory stays bounded whatever a file holds."""

SAMPLE = "sample"
"""The word for the built-in synthetic release."""

Digests = Mapping[str, FileDigest]

_HOW_TO_GET = (
    "name a snapshot's folder, or a URL such as hf://datasets/org/name@rev/snapshot: as an argument on the command "
    f'line, as release= or data_dir= in Python, or in {ENV_RELEASE}; release="{SAMPLE}" is a synthetic one to try with'
)


def config_named(name: str | Config) -> Config:
    """Return the config of that name; a config is returned as it is.

    Raises
    ------
    UnknownConfigError
        Lists the known names, and the nearest one.
    """
    if isinstance(name, Config):
        return name
    if name in CONFIGS:
        return CONFIGS[name]
    near = difflib.get_close_matches(str(name), CONFIGS, n=1)
    raise UnknownConfigError(
        f"there is no config {name!r}; the configs are {', '.join(CONFIGS)}",
        do=f"did you mean {near[0]!r}?" if near else "name one of them",
    )


class Release:
    """One published snapshot, opened.

    Use `Release.open`. Opening reads the manifest only; nothing else of the snapshot is trusted before `verify`.

    Attributes
    ----------
    url : str
        Where it was opened from.
    root : pathlib.Path
        The local folder of its files.
    manifest : trace_hf.schema.Manifest
    manifest_sha256 : str
        SHA-256 of ``manifest.json``.
    unknown : {"error", "keep"}
        What to do about fields that the schema does not name.
    """

    def __init__(self, url: str, root: Path, manifest: Manifest, manifest_sha256: str, unknown: Unknown) -> None:
        self.url = url
        self.root = root
        self.manifest = manifest
        self.manifest_sha256 = manifest_sha256
        self.unknown: Unknown = unknown

    def __repr__(self) -> str:
        return f"Release({self.release_id!r}, {shown(self.url)!r})"

    @classmethod
    def open(
        cls,
        url: str | os.PathLike[str] | Release | None = None,
        storage_options: Mapping[str, Any] | None = None,
        token: str | bool | None = None,
        unknown: Unknown = "error",
        *,
        for_report: bool = False,
    ) -> Release:
        """Open a release.

        Parameters
        ----------
        url
            A folder, any fsspec URL, or the word ``sample``; else the environment variable ``TRACE_RELEASE``.
            A place that has no ``manifest.json`` but a ``snapshot/manifest.json`` (an export) means that one.
        storage_options
            fsspec options of a remote place.
        token
            Token for ``hf://`` places.
        unknown
            ``"keep"`` accepts a newer schema: fields that the schema does not name are kept.
        for_report
            Of a remote place, get what is there now, right or wrong, for `verify` to report on; otherwise a remote
            snapshot that is not right is an error. It makes no difference to a local one.

        Raises
        ------
        ReleaseNotFoundError
            When none is named, or there is none.
        ManifestError, UnsafePathError
            When its manifest is not sound.
        IntegrityError
            When files of a remote place are not those of its manifest.
        """
        if isinstance(url, Release):
            return url
        if unknown not in ("error", "keep"):
            raise UnknownConfigError(f'unknown={unknown!r} is neither "error" nor "keep"', do='use unknown="keep"')
        place = os.fspath(url) if url else os.environ.get(ENV_RELEASE, "")
        if not place:
            raise ReleaseNotFoundError("no release was named", do=_HOW_TO_GET)
        root = _local_root(place, storage_options, token, unknown, for_report)
        manifest, data = read_manifest(root / MANIFEST_FILE, unknown=unknown)
        return cls(place, root, manifest, hashlib.sha256(data).hexdigest(), unknown)

    def reopened(self, unknown: Unknown) -> Release:
        """Return this release with another setting for unknown fields; its manifest is read again for that."""
        if unknown == self.unknown:
            return self
        manifest, data = read_manifest(self.root / MANIFEST_FILE, unknown=unknown)
        return Release(self.url, self.root, manifest, hashlib.sha256(data).hexdigest(), unknown)

    def stamp(self) -> tuple[tuple[int, int, int, int] | None, ...]:
        """Return what the file system says of every file, which changes whenever one is written or replaced."""
        return tuple(_stat(self.root / name) for name in self.manifest.files)

    @property
    def release_id(self) -> str:
        """The release's ID, as its manifest states it."""
        return self.manifest.release_id

    @property
    def pinned(self) -> bool:
        """Whether the package knows this release, so that verification compares it with built-in facts."""
        return self.release_id in PINS

    def verify(self, advance: Callable[[int], None] | None = None) -> VerificationReport:
        """Hash every file and compare it with the manifest, and with the pins of a known release.

        Parameters
        ----------
        advance
            Called with the number of bytes hashed, for a progress bar.
        """
        pin = PINS.get(self.release_id)
        return verify_snapshot(
            self.root,
            self.manifest,
            self.manifest_sha256,
            problems=tuple(pin_problems(self.manifest)),
            pins=pin.files if pin else None,
            find_cause=self._find_cause,
            advance=advance,
        )

    def _find_cause(self, path: Path, expected: str) -> str | None:
        from .causes import find_cause  # only a file that differs needs it

        return find_cause(path, expected, self.manifest)

    def proven(self) -> Digests:
        """Verify, and return the digests that later reads are held to.

        Raises
        ------
        IntegrityError
            When the snapshot does not verify.
        """
        report = self.verify()
        report.raise_if_failed()
        return report.digests

    # --- what a config is made of -----------------------------------------------------------------------------

    def record_file(self, config: str | Config, digests: Digests | None = None) -> str:
        """Return the name of the file that holds a config's rows.

        Raises
        ------
        ManifestError
            When the release has no such file.
        """
        spec = config_named(config)
        if spec.source in ("qa", "proactive"):
            return str(getattr(self.manifest, f"{spec.source}_file"))
        name = audit_file(spec.source) or getattr(self.subsets(digests).subsets, spec.source).record_file
        return self._listed(name, f"config {spec.name!r}")

    def count(self, config: str | Config, digests: Digests | None = None) -> int | None:
        """Return the number of rows that the release states for a config, or None where it states none."""
        spec = config_named(config)
        if spec.ids_role:
            return len(self.ids(spec, digests) or ())
        if spec.source in ("qa", "proactive"):
            return int(getattr(self.manifest.counts, spec.source))
        if audit_file(spec.source):
            return None
        return int(getattr(self.subsets(digests).subsets, spec.source).record_count)

    def ids(self, config: str | Config, digests: Digests | None = None) -> list[str] | None:
        """Return the record IDs that select and order a tiny config's rows; None for a config with a file of its own.

        Raises
        ------
        SchemaError
            When the ID file is no list of strings, or names an ID twice.
        """
        spec = config_named(config)
        if spec.ids_role is None:
            return None
        name = getattr(self.manifest, spec.ids_role)
        ids = decode(self.read_file(name, digests), list[str], file=name)
        _IdGuard(name).check(ids)
        return ids

    def subsets(self, digests: Digests | None = None) -> ProactiveSubsets:
        """Return ``proactive_subsets.json``, which says how the Proactive records are split."""
        name = self._listed(SUBSETS_FILE, "the standard population")
        return decode(self.read_file(name, digests), ProactiveSubsets, file=name, unknown=self.unknown)

    def read_file(self, name: str, digests: Digests | None = None) -> bytes:
        """Return a whole small file; with `digests`, only if it is still the one that was verified."""
        try:
            with open_regular(self.root / name) as stream:
                data = stream.read(MAX_DOCUMENT_BYTES + 1)
        except OSError as problem:
            raise _unreadable(name, problem) from None
        if len(data) > MAX_DOCUMENT_BYTES:
            raise SchemaError(
                f"is larger than {MAX_DOCUMENT_BYTES // 2**20} MiB",
                file=name,
                why="an ID file or a sidecar of a release has some kilobytes",
                do="get the file again, or tell its maintainers",
            )
        if digests is not None and hashlib.sha256(data).hexdigest() != digests[name].sha256:
            raise IntegrityError("changed while it was read", file=name, do="load again; keep snapshots read-only")
        return data

    def _listed(self, name: str, wanted_for: str) -> str:
        if name in self.manifest.files:
            return name
        raise ManifestError(
            f"lists no {name}, which {wanted_for} needs",
            file=MANIFEST_FILE,
            why="the release does not have it, or the manifest was edited",
            do="use a release that has it",
        )

    # --- iterate ----------------------------------------------------------------------------------------------

    def records(self, config: str | Config, *, verify: bool = True, digests: Digests | None = None) -> Iterator[Any]:
        """Iterate over a config's records as typed structs of `trace_hf.schema`, in canonical order.

        Parameters
        ----------
        config
            A config's name.
        verify
            Hash every file first, and each block again before its rows are given.
        digests
            What `proven` gave a moment ago, to be held to that instead of hashing every file again.

        Raises
        ------
        TraceError
            `IntegrityError` or `SchemaError`, with the place.
        """
        spec = config_named(config)
        if digests is None and verify:
            digests = self.proven()
        ids = self.ids(spec, digests)
        records = self._read_records(spec, digests)
        if ids is None:
            yield from records
            return
        wanted = set(ids)
        found = {record.record_id: record for record in records if record.record_id in wanted}
        self._check_ids(spec, ids, found)
        yield from (found[record_id] for record_id in ids)

    def _read_records(self, spec: Config, digests: Digests | None) -> Iterator[Any]:
        name = self.record_file(spec, digests)
        guard = _IdGuard(name)
        line = 0

        def lines() -> Iterator[bytes]:
            nonlocal line
            for first_line, block in self._blocks(name, digests):
                for line, row in enumerate(block.split(b"\n"), first_line):
                    # jsonlines would pass over a mark at the start, and over lines of any Unicode white space.
                    if row.startswith(codecs.BOM_UTF8):
                        raise SchemaError(
                            "not JSON (a UTF-8 byte-order mark)", file=name, line=line, do="get the file again"
                        )
                    if row.strip():
                        yield row

        def loads(text: str | bytes) -> Any:
            data = text.encode("utf-8") if isinstance(text, str) else text
            return decode(data, spec.record, file=name, line=line, unknown=self.unknown)

        try:
            records: Iterator[Any] = jsonlines.Reader(lines(), loads=loads).iter()
            for record in records:
                guard.check([record.record_id])
                if spec.inputs:
                    check_relative(record.video_path, what="video_path", file=name, record_id=record.record_id)
                yield record
        except jsonlines.InvalidLineError as problem:
            what = "invalid UTF-8" if "utf-8" in str(problem) else "not JSON"
            raise SchemaError(what, file=name, line=line, do="get the file again") from None
        self._check_subset(spec, guard, digests)
        self._check_count(spec, name, guard.count, digests)

    def tables(self, config: str | Config, *, digests: Digests | None) -> Iterator[pa.Table]:
        """Iterate over a config's rows as Arrow tables of `trace_hf.arrow.arrow_schema`, in canonical order.

        Parameters
        ----------
        config
            A config's name.
        digests
            What `proven` gave; None reads without proof.

        Raises
        ------
        TraceError
            `IntegrityError` or `SchemaError`, with the place.
        """
        spec = config_named(config)
        ids = self.ids(spec, digests)
        tables = self._read_tables(spec, digests)
        if ids is None:
            yield from tables
            return
        import pyarrow as pa
        import pyarrow.compute as pc

        wanted = pa.array(ids, pa.string())
        table = pa.concat_tables([t.filter(pc.is_in(t["record_id"], value_set=wanted)) for t in tables])
        place = {record_id: index for index, record_id in enumerate(table["record_id"].to_pylist())}
        self._check_ids(spec, ids, place)
        yield table.take(pa.array([place[record_id] for record_id in ids], pa.int64()))

    def _read_tables(self, spec: Config, digests: Digests | None) -> Iterator[pa.Table]:
        from .arrow import arrow_schema, decode_blocks

        name = self.record_file(spec, digests)
        guard = _IdGuard(name)
        yield arrow_schema(spec.record, self.unknown).empty_table()
        for table in decode_blocks(self._blocks(name, digests), spec.record, file=name, unknown=self.unknown):
            guard.check(table["record_id"].to_pylist())
            if spec.inputs:
                _check_video_paths(table, name)
            yield table
        self._check_subset(spec, guard, digests)
        self._check_count(spec, name, guard.count, digests)

    def _blocks(self, name: str, digests: Digests | None) -> Iterator[tuple[int, bytes]]:
        try:
            yield from read_line_blocks(self.root / name, digests[name] if digests is not None else None)
        except OSError as problem:
            raise _unreadable(name, problem) from None

    def _check_ids(self, spec: Config, ids: list[str], found: Mapping[str, object]) -> None:
        for record_id in ids:
            if record_id not in found:
                raise _foreign_id(getattr(self.manifest, spec.ids_role or ""), record_id, self.record_file(spec))

    def _check_subset(self, spec: Config, guard: _IdGuard, digests: Digests | None) -> None:
        """Refuse an ID file of the split that names a record which its record file does not hold."""
        if spec.source not in ("standard", "high_frequency"):
            return
        name = self._listed(getattr(self.subsets(digests).subsets, spec.source).ids_file, f"config {spec.name!r}")
        for record_id in decode(self.read_file(name, digests), list[str], file=name):
            if record_id not in guard:
                raise _foreign_id(name, record_id, self.record_file(spec, digests))

    def _check_count(self, spec: Config, name: str, count: int, digests: Digests | None) -> None:
        if spec.ids_role:
            return
        stated = self.count(spec, digests)
        if stated is not None and stated != count:
            where = SUBSETS_FILE if spec.source in ("standard", "high_frequency") else "the manifest"
            raise SchemaError(
                f"holds {count} records, {where} says {stated}",
                file=name,
                why="the file is cut short, or the counts belong to another one",
                do="get the release again, or tell its maintainers",
            )


class _IdGuard:
    """Refuses a record ID that comes twice in a file."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._seen: set[str] = set()

    @property
    def count(self) -> int:
        return len(self._seen)

    def __contains__(self, record_id: str) -> bool:
        return record_id in self._seen

    def check(self, ids: list[str]) -> None:
        fresh = set(ids)
        if len(fresh) == len(ids) and fresh.isdisjoint(self._seen):
            self._seen |= fresh
            return
        for record_id in ids:
            if record_id in self._seen:
                raise SchemaError(
                    "a record ID that comes twice",
                    file=self._file,
                    record_id=record_id,
                    why="the file was put together from two, or edited",
                    do="get the file again, or tell its maintainers",
                )
            self._seen.add(record_id)


# What nearly every path looks like; whatever does not is looked at one by one.
_PLAIN_PATH = r"^[A-Za-z0-9_-][A-Za-z0-9_.-]*(/[A-Za-z0-9_-][A-Za-z0-9_.-]*)*$"


def _check_video_paths(table: pa.Table, file: str) -> None:
    import pyarrow.compute as pc

    odd = table.filter(pc.invert(pc.match_substring_regex(table["video_path"], _PLAIN_PATH)))
    for path, record_id in zip(odd["video_path"].to_pylist(), odd["record_id"].to_pylist(), strict=True):
        check_relative(path, what="video_path", file=file, record_id=record_id)


def _foreign_id(file: str, record_id: str, record_file: str) -> SchemaError:
    return SchemaError(
        f"names a record that is not in {record_file}",
        file=file,
        record_id=record_id,
        why="the ID file belongs to another release, or was edited",
        do="get both files again",
    )


def _unreadable(name: str, problem: OSError) -> IntegrityError:
    why = "a directory stands in its place" if isinstance(problem, IsADirectoryError) else problem.strerror
    return IntegrityError("cannot be read", file=name, why=why, do="get the file again, or mend its permissions")


def _local_root(
    place: str,
    storage_options: Mapping[str, Any] | None,
    token: str | bool | None,
    unknown: Unknown,
    for_report: bool,
) -> Path:
    if place == SAMPLE:
        from .sample import cached_sample

        return cached_sample()
    if "://" in place.removeprefix("file://") or "::" in place:
        from .remote import fetch_release

        return fetch_release(
            place, storage_options=storage_options, token=token, unknown=unknown, for_report=for_report
        )
    try:
        root = Path(place.removeprefix("file://")).expanduser().absolute()
        if root.name == MANIFEST_FILE:
            root = root.parent
        if not root.is_dir():
            raise _no_folder(place, root)
        export = root / "snapshot"
        absent = not os.path.lexists(root / MANIFEST_FILE)
        return export if absent and os.path.lexists(export / MANIFEST_FILE) else root
    except TraceError:
        raise
    except (OSError, RuntimeError) as problem:  # no permission, a name that is too long, an unknown user's home
        raise ReleaseNotFoundError(
            f"cannot be looked into: {getattr(problem, 'strerror', None) or problem}",
            file=place,
            do="check the path and its permissions",
        ) from None


def _stat(path: Path) -> tuple[int, int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _no_folder(place: str, root: Path) -> ReleaseNotFoundError:
    source = f" (from {ENV_RELEASE})" if place == os.environ.get(ENV_RELEASE) else ""
    if root.is_file():
        return ReleaseNotFoundError(
            f"is a file{source}, not the folder of a release", file=place, do=f"name its folder, {root.parent}"
        )
    do = _HOW_TO_GET
    if re.fullmatch(r"[\w.-]+/[\w.-]+", place):
        do = f"for a Hub repo write hf://datasets/{place}; else {do}"
    elif difflib.get_close_matches(place, [SAMPLE], n=1):
        do = f"did you mean {SAMPLE!r}? Else {do}"
    return ReleaseNotFoundError(f"there is no such folder{source}", file=place, do=do)


def verify(
    release: str | os.PathLike[str] | Release | None = None,
    storage_options: Mapping[str, Any] | None = None,
    token: str | bool | None = None,
) -> VerificationReport:
    """Verify a release: hash every file, compare with the manifest and, for a known release, with the pins.

    Parameters
    ----------
    release, storage_options, token
        As `Release.open` takes them.

    Returns
    -------
    VerificationReport

    Raises
    ------
    ReleaseNotFoundError, ManifestError, UnsafePathError
        When there is nothing to verify. Files that differ are reported, not raised.
    """
    return Release.open(release, storage_options, token, unknown="keep", for_report=True).verify()
