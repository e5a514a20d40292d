"""What a mirror holds: the files of an export, with their hashes, and what is whose in a folder that others use too."""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import DataTermsError, ManifestError
from ..integrity import FileDigest
from ..paths import check_relative
from ..release import Release
from ..schema import CONFIGS, MANIFEST_FILE
from .card import CARD_FILE, TERMS_FILE
from .croissant import CROISSANT_FILE
from .decide import Decision, TermsInUse, Visibility, decide
from .derive import derive
from .export import SNAPSHOT, export

MANIFEST_PATH = f"{SNAPSHOT}/{MANIFEST_FILE}"
"""The last file to be put in place: who finds it, finds a whole mirror."""

TEXTS = (CARD_FILE, TERMS_FILE, CROISSANT_FILE)

_OWN = re.compile(rf"{SNAPSHOT}/.+|({'|'.join(CONFIGS)})/[^/]+\.parquet|{'|'.join(map(re.escape, TEXTS))}")
_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")
_BLOCK = 2**20


@dataclass(frozen=True)
class Item:
    """One file of a mirror.

    Attributes
    ----------
    path : str
        Below the mirror's root.
    size : int
        Bytes.
    sha256 : str
    blob_id : str
        SHA-1 that git gives a blob of these bytes.
    """

    path: str
    size: int
    sha256: str
    blob_id: str


@dataclass(frozen=True)
class Content:
    """What goes into a mirror.

    Attributes
    ----------
    folder : Path
        The export.
    items : dict
        Its files by path.
    release : Release
        Its snapshot, opened.
    decision : Decision
        What the terms say about the target.
    """

    folder: Path
    items: dict[str, Item]
    release: Release
    decision: Decision

    def in_order(self, paths: Iterable[str]) -> list[str]:
        """Sort paths so that whatever names others comes after them, and the manifest last of all."""
        rank = {CARD_FILE: 1, MANIFEST_PATH: 2}
        return sorted(paths, key=lambda path: (rank.get(path, 0), path))


def is_own(path: str) -> bool:
    """Whether a path is one that an export has; all others in a mirror are foreign."""
    return _OWN.fullmatch(path) is not None


def measure(folder: Path, path: str) -> Item:
    """Hash one file."""
    file = folder / path
    size = file.stat().st_size
    sha256, blob = hashlib.sha256(), hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    with file.open("rb") as stream:
        while block := stream.read(_BLOCK):
            sha256.update(block)
            blob.update(block)
    return Item(path, size, sha256.hexdigest(), blob.hexdigest())


def files_of(folder: Path) -> Iterator[str]:
    """Name the files below a folder, hidden ones too, by relative path."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield path.relative_to(folder).as_posix()


@contextmanager
def prepared(
    source: Any,
    visibility: Visibility,
    terms: TermsInUse,
    *,
    only_redistributable: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    token: str | bool | None = None,
) -> Iterator[Content]:
    """Export a release into a folder that lives as long as the `with` statement.

    The terms are asked twice: for the source, before anything is made, and for what was made.

    Parameters
    ----------
    source
        As `Release.open` takes it.
    visibility
        Of the target.
    terms
        The table to decide by.
    only_redistributable
        Derive a release of the records that may be public, and take that one.
    storage_options, token
        For a remote source.

    Raises
    ------
    DataTermsError
        When it may not go there.
    IntegrityError
        When the release does not verify.
    """
    with tempfile.TemporaryDirectory(prefix="trace-hf-mirror-") as folder:
        release = Release.open(source, storage_options, token)
        if only_redistributable:
            release = derive(release, Path(folder, "derived"), terms)
        decide(release, release.proven(), visibility, terms).require()
        made = export(release, Path(folder, "export"), terms=terms.terms)
        yield content_of(made.path, visibility, terms)


def content_of(folder: Path, visibility: Visibility, terms: TermsInUse) -> Content:
    """Measure an export, and decide about it; see `prepared`.

    Raises
    ------
    DataTermsError
        When it may not go to a target of that visibility, or holds what no export has.
    """
    release = Release.open(folder / SNAPSHOT)
    if not _TAG.fullmatch(release.release_id) or ".." in release.release_id:
        raise ManifestError(
            f"the release ID {release.release_id[:100]!r} can be no tag",
            why="a mirror is tagged with it, so it is letters, digits and . _ + - only",
            do="tell whoever made the release",
        )
    digests: Mapping[str, FileDigest] = release.proven()
    decision = decide(release, digests, visibility, terms)
    decision.require()
    items = {}
    for path in files_of(folder):
        check_relative(path, what="file of an export")
        items[path] = measure(folder, path)
    known = {MANIFEST_PATH, *(f"{SNAPSHOT}/{name}" for name in release.manifest.files)}
    strange = [path for path in items if not is_own(path) or (path.startswith(f"{SNAPSHOT}/") and path not in known)]
    if strange:
        raise DataTermsError(
            f"holds files that no export has: {', '.join(strange[:10])}",
            file=str(folder),
            why="of what is not the release's, nobody knows the terms",
            do="take them out, or make the export again",
        )
    return Content(folder, items, release, decision)
