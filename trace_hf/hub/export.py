"""The export: a folder that `load_dataset` of every version reads with no code, and that proves what it says.

It is written aside and renamed, so that nobody ever sees half of one; and it is attested before it appears, so that
there is none whose rows are not the release's.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq

from .._files import folder_aside
from ..arrow import UNKNOWN_FIELDS, arrow_schema
from ..attest import Attestation, attest_rows
from ..decode import Unknown
from ..errors import IntegrityError, OutputExistsError, ReleaseNotFoundError, SchemaError
from ..integrity import FileDigest, digest_file
from ..release import Release
from ..schema import CONFIGS, MANIFEST_FILE, Config
from .card import CARD_FILE, TERMS_FILE, Table, render_card, render_terms
from .croissant import CROISSANT_FILE, ListedFile, croissant
from .numbers import Numbers, count_release
from .terms import Terms, built_in_terms

SNAPSHOT = "snapshot"
"""The folder of an export that holds the release's files as they are."""

NAME_DIGITS = 12
"""So many hex digits of the content's hash a Parquet file's name carries."""

STEPS = len(CONFIGS) + 2
"""The parts of the work: the snapshot, each config, the texts."""

Digests = Mapping[str, FileDigest]
Advance = Callable[[int], None]


class Export(msgspec.Struct, frozen=True):
    """What was exported.

    Attributes
    ----------
    path : Path
        The folder.
    release_id : str
    pinned : bool
        Whether the release is one that the package knows, so that its origin is proven.
    tables : dict
        `Table` by config, for the configs that have rows.
    left_out : tuple of str
        Configs without rows.
    """

    path: Path
    release_id: str
    pinned: bool
    tables: dict[str, Table]
    left_out: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the form that ``trace-hf export --json`` prints."""
        return {
            "path": str(self.path),
            "release_id": self.release_id,
            "pinned": self.pinned,
            "configs": [msgspec.to_builtins(table) for table in self.tables.values()],
            "left_out": list(self.left_out),
        }


def export(
    release: str | os.PathLike[str] | Release | None,
    out: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    unknown: Unknown = "error",
    storage_options: Mapping[str, Any] | None = None,
    token: str | bool | None = None,
    terms: Terms | None = None,
    advance: Advance | None = None,
) -> Export:
    """Write a release as a folder that any version of `datasets` loads with no code.

    Parameters
    ----------
    release
        What to export, as `Release.open` takes it.
    out
        The folder to make.
    overwrite
        Replace `out` if it is an earlier export and holds nothing else.
    unknown
        ``"keep"`` exports a release of a newer schema, with the fields that this version does not know in a column
        of their own.
    storage_options, token
        For a remote release.
    terms
        The table of data terms; the built-in one by default.
    advance
        Called after each of the `STEPS` parts of the work with the number of parts done, which is one.

    Returns
    -------
    Export

    Raises
    ------
    IntegrityError
        When the release does not verify; nothing is written then.
    SchemaError
        When it cannot be written without loss, for example because a file is not canonically encoded.
    TraceError
        When `out` is there and may not be replaced.
    """
    opened = Release.open(release, storage_options, token, unknown)
    target = _absolute(out)
    _check_target(target, overwrite)
    digests = opened.proven()
    table_of_terms = terms or built_in_terms()
    done = advance or (lambda _steps: None)
    with folder_aside(target) as folder:
        _copy_snapshot(opened, digests, folder / SNAPSHOT)
        done(1)
        tables = {}
        for name, spec in CONFIGS.items():
            table = _write_table(opened, spec, digests, folder)
            if table is not None:
                tables[name] = table
            done(1)
        _write_texts(folder, opened, digests, tables, table_of_terms)
        _replace(folder, target)
        done(1)
    left_out = tuple(name for name in CONFIGS if name not in tables)
    return Export(target, opened.release_id, opened.pinned, tables, left_out)


def refresh_card(out: str | os.PathLike[str], *, terms: Terms | None = None) -> Export:
    """Write the card, the Croissant file and the data terms of an export again, and nothing else.

    Raises
    ------
    ReleaseNotFoundError
        When `out` is no export.
    IntegrityError
        When its snapshot does not verify, or its Parquet files are not its snapshot's.
    """
    folder = _absolute(out)
    if not is_export(folder):
        raise ReleaseNotFoundError("is no export", file=str(folder), do="make one: trace-hf export RELEASE OUT")
    keeps = any(UNKNOWN_FIELDS in pq.read_schema(path).names for path in folder.glob("*/*.parquet"))
    opened = Release.open(folder / SNAPSHOT, unknown="keep" if keeps else "error")
    digests = opened.proven()
    tables = {}
    for name, spec in CONFIGS.items():
        paths = sorted((folder / name).glob("*.parquet"))
        if len(paths) > 1:
            raise IntegrityError(f"holds {len(paths)} Parquet files", file=f"{name}/", do="make the export again")
        if paths:
            tables[name] = _measured(paths[0], _attested(paths[0], spec, opened, digests), folder)
        elif next(iter(opened.records(spec, digests=digests)), None) is not None:
            raise IntegrityError(f"config {name!r} has no Parquet file", file=str(folder), do="make the export again")
    _write_texts(folder, opened, digests, tables, terms or built_in_terms())
    left_out = tuple(name for name in CONFIGS if name not in tables)
    return Export(folder, opened.release_id, opened.pinned, tables, left_out)


# --- the folder -------------------------------------------------------------------------------------------------


def _absolute(place: str | os.PathLike[str]) -> Path:
    return Path(os.path.abspath(os.fspath(place)))  # noqa: PTH100 - a link in its place is not followed


def is_export(folder: Path) -> bool:
    """Whether a folder was made by `export`."""
    return all((folder / name).is_file() for name in (CARD_FILE, CROISSANT_FILE, f"{SNAPSHOT}/{MANIFEST_FILE}"))


def _check_target(target: Path, overwrite: bool) -> None:
    if not target.exists() and not target.is_symlink():
        return
    if target.is_dir() and not target.is_symlink() and not any(target.iterdir()):
        return
    if not target.is_dir() or target.is_symlink() or not is_export(target):
        raise OutputExistsError(
            "is there, and is no earlier export", file=str(target), do="name a folder that is not there, or an export"
        )
    if not overwrite:
        raise OutputExistsError(
            "is there", file=str(target), do="say --overwrite (overwrite=True) to replace that export"
        )
    own = {CARD_FILE, CROISSANT_FILE, TERMS_FILE, SNAPSHOT, *CONFIGS}
    foreign = sorted(path.name for path in target.iterdir() if path.name not in own)
    if foreign:
        raise OutputExistsError(
            f"holds what is no part of an export: {', '.join(foreign)}",
            file=str(target),
            why="replacing the folder would delete it",
            do="export to another folder, and copy the files from there",
        )


def _replace(folder: Path, target: Path) -> None:
    """Put a finished folder in its place; an earlier one is moved away first, and moved back if that fails."""
    if not target.is_dir() or not any(target.iterdir()):
        folder.replace(target)
        return
    old = folder.with_name(folder.name + ".old")
    target.rename(old)
    try:
        folder.replace(target)
    except OSError:
        old.rename(target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _copy_snapshot(release: Release, digests: Digests, folder: Path) -> None:
    for name, expected in [
        *((n, digests[n].sha256) for n in release.manifest.files),
        (MANIFEST_FILE, release.manifest_sha256),
    ]:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        whole = hashlib.sha256()
        with (release.root / name).open("rb") as source, target.open("xb") as sink:
            while block := source.read(2**20):
                whole.update(block)
                sink.write(block)
        if whole.hexdigest() != expected:
            raise IntegrityError("changed while it was read", file=name, do="export again; keep snapshots read-only")


def _write_texts(folder: Path, release: Release, digests: Digests, tables: Mapping[str, Table], terms: Terms) -> None:
    numbers = count_release(release, digests)
    schemas = {name: arrow_schema(CONFIGS[name].record, release.unknown) for name in tables}
    card = render_card(release, tables, numbers, schemas, terms)
    data_terms = render_terms(release, tables, numbers, terms)
    for name, text in {
        CARD_FILE: card.encode("utf-8"),
        TERMS_FILE: data_terms.encode("utf-8"),
        CROISSANT_FILE: _croissant(release, digests, tables, numbers, terms),
    }.items():
        partial = folder / f".{name}.partial"
        partial.write_bytes(text)
        partial.replace(folder / name)


def _croissant(
    release: Release, digests: Digests, tables: Mapping[str, Table], numbers: Numbers, terms: Terms
) -> bytes:
    manifest_size = (release.root / MANIFEST_FILE).stat().st_size
    files = [ListedFile(f"{SNAPSHOT}/{MANIFEST_FILE}", manifest_size, release.manifest_sha256)]
    names = sorted(release.manifest.files)
    files += [ListedFile(f"{SNAPSHOT}/{name}", digests[name].size, digests[name].sha256) for name in names]
    files += [ListedFile(table.path, table.size, table.sha256) for table in tables.values()]
    paths = {name: table.path for name, table in tables.items()}
    return croissant(release.manifest, files, paths, terms, sorted(numbers.sources), TERMS_FILE)


# --- tables -----------------------------------------------------------------------------------------------------


def _write_table(release: Release, spec: Config, digests: Digests, folder: Path) -> Table | None:
    schema = arrow_schema(spec.record, release.unknown)
    partial = folder / f".{spec.name}.partial"
    rows = 0
    # No Arrow schema is stored: it is metadata of one library's own types, which another version may not know.
    with pq.ParquetWriter(partial, schema, compression="zstd", store_schema=False, write_page_index=True) as writer:
        for part in release.tables(spec, digests=digests):
            if part.num_rows:
                rows += part.num_rows
                writer.write_table(part.replace_schema_metadata(None), row_group_size=part.num_rows)
    if not rows:
        partial.unlink()
        return None
    proof = _attested(partial, spec, release, digests)
    path = folder / spec.name / f"test-00000-of-00001-{proof.sha256[:NAME_DIGITS]}.parquet"  # type: ignore[index]
    path.parent.mkdir()
    partial.rename(path)
    return _measured(path, proof, folder)


def _attested(path: Path, spec: Config, release: Release, digests: Digests) -> Attestation:
    proof = attest_rows(path, spec, release, digests)
    if not proof.ok:
        raise SchemaError(
            f"config {spec.name!r} cannot be exported: {'; '.join(map(str, proof.differences)) or 'its rows differ'}",
            why="an export must give every byte of the release's files back",
            do="check the release with `trace-hf validate`",
        )
    return proof


def _measured(path: Path, proof: Attestation, folder: Path) -> Table:
    num_bytes = 0
    with pq.ParquetFile(path) as file:
        for index in range(file.num_row_groups):
            num_bytes += file.read_row_group(index).combine_chunks().nbytes
    digest = digest_file(path)
    return Table(
        proof.config,
        path.relative_to(folder).as_posix(),
        proof.records,
        num_bytes,
        digest.size,
        digest.sha256,
        proof.sha256 or "",
    )
