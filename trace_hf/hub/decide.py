"""The decision which copy of a release the data terms allow, per target. Everything that copies asks here.

There is no way around it: whoever has other rights passes another table of terms, and the report names its file and
hash. Where something is in doubt, the answer is no.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from ..decode import decode
from ..errors import DataTermsError
from ..integrity import FileDigest
from ..release import Release
from ..schema import (
    CHANGES_FILE,
    CONFIGS,
    EXCLUSIONS_FILE,
    MANIFEST_FILE,
    ROLES,
    SIDECARS,
    SUBSETS_FILE,
    ProactiveSubsets,
)
from .terms import Terms, load_terms

Visibility = Literal["private", "gated", "public"]
"""Who can read a copy: its owners; whoever is let in one by one; everybody. A gate is a form of publication."""

PUBLIC_STATUS = "public"
"""The manifest's status of a release that its maintainers have published."""

BUILT_IN_NAME = "built in"

_RECORD_ID = re.compile(r"(.+)_(?:qa|proactive):")
_BLOCK = 2**20


class TermsInUse(Struct, frozen=True):
    """A table of terms, and where it came from.

    Attributes
    ----------
    terms : Terms
    file : str
        The path that was given, or ``built in``.
    sha256 : str
        Of the file.
    """

    terms: Terms
    file: str
    sha256: str

    def to_json(self) -> dict[str, Any]:
        """Return what reports say of it."""
        return {"file": self.file, "sha256": self.sha256, "date": self.terms.date}


def terms_in_use(path: str | os.PathLike[str] | None = None) -> TermsInUse:
    """Read a table of terms, or the built-in one.

    Raises
    ------
    DataTermsError
        When it cannot be read, or is no table of terms.
    """
    terms, sha256 = load_terms(path)
    return TermsInUse(terms, BUILT_IN_NAME if path is None else os.fspath(path), sha256)


class Decision(Struct, frozen=True):
    """Whether a release may go to a target of some visibility.

    Attributes
    ----------
    visibility : {"private", "gated", "public"}
    allowed : bool
    reasons : tuple of str
        Why, or why not.
    release_id, status : str
    sources : dict
        QA and Proactive records by source.
    blocked : dict
        Rows, audit rows included, by source that may not be public.
    terms : TermsInUse
    """

    visibility: Visibility
    allowed: bool
    reasons: tuple[str, ...]
    release_id: str
    status: str
    sources: dict[str, int]
    blocked: dict[str, int]
    terms: TermsInUse

    def to_json(self) -> dict[str, Any]:
        """Return what reports say of it."""
        return {
            "visibility": self.visibility,
            "allowed": self.allowed,
            "reasons": list(self.reasons),
            "status": self.status,
            "sources": self.sources,
            "blocked": self.blocked,
            "terms": self.terms.to_json(),
        }

    def require(self) -> None:
        """Raise unless it is allowed.

        Raises
        ------
        DataTermsError
            With the reasons, and the table that they come from.
        """
        if self.allowed:
            return
        terms = self.terms
        raise DataTermsError(
            f"{self.release_id} may not go to a {self.visibility} place",
            why=f"{' '.join(self.reasons)} (terms: {terms.file}, SHA-256 {terms.sha256}, of {terms.terms.date})",
            do="keep the copy private; or make a derived release of what may be public: --only-redistributable",
        )


def sources_of(record: Any) -> set[str]:
    """Return every source that a record names, in its source field and in its IDs; usually one."""
    inner = getattr(record, "metadata", record)
    names = {inner.dataset}
    head, colon, _ = inner.stable_id.partition(":")
    if colon:
        names.add(head)
    if found := _RECORD_ID.match(record.record_id):
        names.add(found[1])
    return names


def permitted(record: Any, terms: Terms) -> bool:
    """Whether a record may stand where everybody can get it."""
    return all(terms.of(source).public for source in sources_of(record))


def decide(release: Release, digests: Mapping[str, FileDigest], visibility: Visibility, terms: TermsInUse) -> Decision:
    """Decide whether a release may go to a place that is private, gated or public.

    A private copy is always allowed. A gated or public one needs the manifest's status to be ``public`` *and* the
    source of every row, in every file, to permit it; and no file may hold what this package cannot tell the source of.

    Parameters
    ----------
    release
        The release.
    digests
        What `Release.proven` gave a moment ago.
    visibility
        Of the target.
    terms
        The table to decide by.
    """
    sources: Counter[str] = Counter()
    blocked: Counter[str] = Counter()
    for name, spec in CONFIGS.items():
        if spec.ids_role or not _has(release, name, digests):
            continue
        for record in release.records(spec, digests=digests):
            if name in ("qa", "proactive"):
                sources[record.metadata.dataset] += 1
            blocked.update(source for source in sources_of(record) if not terms.terms.of(source).public)
    reasons = list(_objections(release, digests, blocked, terms.terms)) if visibility != "private" else []
    allowed = not reasons
    if visibility == "private":
        reasons = ["A private copy is for your own use; the data terms hold for it."]
    elif allowed:
        reasons = ["The status is public, and the source of every record permits publication."]
    return Decision(
        visibility,
        allowed,
        tuple(reasons),
        release.release_id,
        release.manifest.status,
        dict(sorted(sources.items())),
        dict(sorted(blocked.items())),
        terms,
    )


def _has(release: Release, config: str, digests: Mapping[str, FileDigest]) -> bool:
    audit = {"changes": CHANGES_FILE, "exclusions": EXCLUSIONS_FILE}.get(config)
    if audit:
        return audit in release.manifest.files
    if config.startswith("proactive_"):
        return SUBSETS_FILE in release.manifest.files
    return True


def _objections(
    release: Release, digests: Mapping[str, FileDigest], blocked: Mapping[str, int], terms: Terms
) -> Iterator[str]:
    status = release.manifest.status
    if status != PUBLIC_STATUS:
        yield f"The manifest's status is {status!r}, not {PUBLIC_STATUS!r}."
    for source, rows in blocked.items():
        yield f"{rows} rows are of {terms.of(source).title}: {' '.join(terms.of(source).reasons)}"
    known = set(file_kinds(release, digests))
    for name in sorted(set(release.manifest.files) - known):
        yield f"What {name} holds is not known, so its source is not either."
    if not blocked:
        for name, source in named_sources(release, digests, terms):
            yield f"{name} names {source}, whose records may not be public."


def file_kinds(release: Release, digests: Mapping[str, FileDigest]) -> dict[str, str]:
    """Return what each file of a release is, for the files of which that is known.

    Returns
    -------
    dict
        By file name: ``qa``, ``proactive``, ``standard``, ``high_frequency``, ``changes`` or ``exclusions`` for record
        files, ``qa_ids`` or ``proactive_ids`` for ID files, and a sidecar's own name.
    """
    manifest = release.manifest
    kinds = dict(zip((getattr(manifest, role) for role in ROLES), _ROLE_KINDS, strict=True))
    kinds |= {CHANGES_FILE: "changes", EXCLUSIONS_FILE: "exclusions"} | {name: name for name in SIDECARS}
    if SUBSETS_FILE in manifest.files:
        data = release.read_file(SUBSETS_FILE, digests)
        subsets = decode(data, ProactiveSubsets, file=SUBSETS_FILE, unknown=release.unknown).subsets
        for name in ("standard", "high_frequency"):
            part = getattr(subsets, name)
            kinds |= {part.record_file: name, part.ids_file: "proactive_ids"}
    return {name: kind for name, kind in kinds.items() if name in manifest.files}


_ROLE_KINDS = ("qa", "proactive", "qa_ids", "proactive_ids")


def named_sources(release: Release, digests: Mapping[str, FileDigest], terms: Terms) -> Iterator[tuple[str, str]]:
    """Name the files of a release whose text has the name of a source that may not be public.

    The manifest may name it in ``source_files`` and in its lineage, which say where a release comes from.
    """
    names = [source.name for source in terms.sources if not source.public]
    for file in sorted(release.manifest.files):
        if file.endswith(".json"):  # escapes in JSON text could hide a name
            texts = [_unescaped(release.read_file(file, digests))]
        else:
            texts = list(_windows(release.root / file, max(map(len, names), default=1)))
        for name in names:
            if any(name.encode() in text for text in texts):
                yield file, name
    manifest = json.loads(release.read_file(MANIFEST_FILE))
    for key in ("source_files", "lineage"):
        manifest.pop(key, None)
    text = json.dumps(manifest, ensure_ascii=False)
    yield from ((MANIFEST_FILE, name) for name in names if name in text)


def _unescaped(data: bytes) -> bytes:
    return json.dumps(json.loads(data), ensure_ascii=False).encode("utf-8")


def _windows(path: Path, overlap: int) -> Iterator[bytes]:
    """Read a file in blocks that overlap, so that no name is cut in two."""
    rest = b""
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            yield rest + block
            rest = (rest + block)[-overlap:]
