"""The archive index: which bytes of which archive are a video.

An index is JSON in the reference format of fsspec, so that a member that is stored uncompressed in one file can be
read through fsspec's ``reference://`` by anybody. A section of its own says the rest: deflated members, members
that lie across the pieces of a split tar, sizes and checksums, and what could not be mapped.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from uuid import uuid4

from ..errors import TraceError, UnsafePathError, VideoNotFoundError
from ..paths import check_relative, is_local, join_url, local_path, shown
from .access import Part, RangedFile, filesystem, stat
from .inflate import InflatedFile

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

__all__ = ["PROTOCOL", "Archive", "ArchiveIndex", "Member"]

PROTOCOL = "trace-archive"
"""The fsspec protocol of a member that plain ``reference://`` cannot express."""

_SECTION = "trace_archive_index"
_VERSION = 1


@dataclass(frozen=True)
class Archive:
    """An archive, whole or in pieces.

    Attributes
    ----------
    name : str
        Its file name, without the suffix of a piece.
    kind : {"zip", "tar", "file"}
        ``file`` is a place that a plain reference file names.
    parts : tuple of (str, int)
        Absolute path or URL, and bytes, of each piece in order. A size of -1 is not known yet.
    """

    name: str
    kind: str
    parts: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Member:
    """A video inside an archive.

    Attributes
    ----------
    path : str
        The record's `video_path`.
    archive : int
        Number of the archive in the index.
    name : str
        The member's name in it.
    offset, stored : int
        Where its bytes begin in the archive, read as one stream, and how many there are.
    size : int
        Bytes of the video.
    method : {"stored", "deflate"}
    crc32 : int or None
        CRC-32 of the video, from a zip.
    """

    path: str
    archive: int
    name: str
    offset: int
    stored: int
    size: int
    method: str = "stored"
    crc32: int | None = None


@dataclass
class ArchiveIndex:
    """Which bytes of which archives are the videos.

    Attributes
    ----------
    archives : list of Archive
    members : dict
        `Member` by video path.
    unmapped : list of dict
        ``{"archive", "member", "size"}`` of what no rule maps.
    ambiguous : dict
        ``{"archive", "member", "size"}`` of all members that claim the same path, by that path; none was chosen.
    skipped : list of dict
        ``{"archive", "member", "reason"}`` of what cannot be read or must not be named so.
    problems : list of str
        Why an archive's listing may be incomplete.
    options : mapping
        fsspec options for remote archives; never written.
    """

    archives: list[Archive] = field(default_factory=list)
    members: dict[str, Member] = field(default_factory=dict)
    unmapped: list[dict[str, Any]] = field(default_factory=list)
    ambiguous: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    skipped: list[dict[str, Any]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._mounts: dict[tuple[int, int], tuple[Part, ...]] = {}

    # --- as JSON ---

    @classmethod
    def from_json(cls, value: Mapping[str, Any], url: str, options: Mapping[str, Any] | None = None) -> ArchiveIndex:
        """Read an index, or a plain reference file of fsspec.

        Parameters
        ----------
        value : mapping
            The JSON object.
        url : str
            Where it was read from; a relative archive is relative to it.
        options : mapping, optional
            fsspec options for remote archives.

        Raises
        ------
        UnsafePathError
            If a video path is no plain relative path, or a remote index names a file of this machine.
        TraceError
            If it is not understood.
        """
        try:
            section = value.get(_SECTION)
            index = _from_references(value) if section is None else _from_section(section)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise TraceError(
                f"the archive index is not understood: {type(error).__name__}: {error}",
                file=shown(url),
                why="It is of another version, or was edited.",
                do="Make it again with `trace-hf videos index`.",
            ) from None
        for path, member in index.members.items():
            check_relative(path, what="path in the archive index", file=shown(url))
            if not 0 <= member.archive < len(index.archives) or min(member.offset, member.stored, member.size) < 0:
                raise TraceError(f"the archive index has impossible numbers for {path!r}", file=shown(url))
        index.archives = [_located(archive, url) for archive in index.archives]
        index.options = dict(options or {})
        return index

    def to_json(self) -> dict[str, Any]:
        """Return the index as JSON values: ``version`` and ``refs`` for fsspec, and a section of its own."""
        refs = {}
        for path, member in sorted(self.members.items()):
            span = self._single(member)
            if member.method == "stored" and span is not None:
                refs[path] = list(span)
        members = {path: asdict(member) for path, member in sorted(self.members.items())}
        for fields in members.values():
            del fields["path"]
        return {
            "version": 1,
            "refs": refs,
            _SECTION: {
                "version": _VERSION,
                "archives": [
                    {"name": a.name, "kind": a.kind, "parts": [{"url": u, "size": s} for u, s in a.parts]}
                    for a in self.archives
                ],
                "members": members,
                "unmapped": self.unmapped,
                "ambiguous": self.ambiguous,
                "skipped": self.skipped,
                "problems": self.problems,
            },
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the index as a JSON file, atomically."""
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        aside = target.with_name(f".{target.name}.{uuid4().hex[:8]}.part")
        try:
            aside.write_text(json.dumps(self.to_json(), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
            aside.replace(target)
        finally:
            aside.unlink(missing_ok=True)

    def digest(self) -> str:
        """Return a SHA-256 over where every video lies."""
        value = [[asdict(archive) for archive in self.archives], [asdict(m) for _, m in sorted(self.members.items())]]
        return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()

    # --- as a place for videos ---

    def member(self, path: str) -> Member:
        """Return the member that is a video.

        Raises
        ------
        VideoNotFoundError
            If there is none, or several claim its path.
        """
        if path in self.members:
            return self.members[path]
        raise VideoNotFoundError(
            f"{path!r} is not in the archive index: {self.why_not(path) or 'no member of its archives has that path'}",
            do="Look at the index's `unmapped` and `ambiguous`; add a rule, or index more archives.",
        )

    def why_not(self, path: str) -> str:
        """Return why a path has no member, if the index knows."""
        claims = self.ambiguous.get(path)
        if claims:
            return "several members claim it: " + ", ".join(f"{c['member']} in {c['archive']}" for c in claims)
        return ""

    def names(self) -> Iterable[str]:
        """Yield all paths and unmapped members, as candidates for what is missing."""
        yield from self.members
        for item in self.unmapped:
            yield f"{item['archive']}/{item['member']}"

    def url(self, path: str, index_url: str) -> str:
        """Return the fsspec URL of a video: ``reference://`` where that can express it."""
        member = self.member(path)
        plain = member.method == "stored" and self._single(member) is not None
        if not plain:
            _register()
        return f"{'reference' if plain else PROTOCOL}://{path}::{index_url}"

    def open(self, path: str) -> IO[bytes]:
        """Open a video for seeking reads; only the ranges that are read are moved."""
        member = self.member(path)
        raw = self.raw(member)
        if member.method == "deflate":
            return InflatedFile(raw, member.size, member.crc32, path)  # type: ignore[return-value]
        return raw  # type: ignore[return-value]

    def raw(self, member: Member) -> RangedFile:
        """Open the bytes of a member as they are stored."""
        return RangedFile(self.parts(member.archive), member.offset, member.stored)

    def parts(self, archive: int) -> tuple[Part, ...]:
        """Return the pieces of an archive, opened once in each process."""
        key = (os.getpid(), archive)
        with self._lock:
            if key not in self._mounts:
                self._mounts[key] = tuple(_part(url, size, self.options) for url, size in self.archives[archive].parts)
            return self._mounts[key]

    def filesystem(self) -> AbstractFileSystem:
        """Return a read-only filesystem of the videos."""
        from .indexfs import ArchiveFileSystem

        return ArchiveFileSystem(index=self)

    def _single(self, member: Member) -> tuple[str, int, int] | None:
        """URL, offset and length if the member lies in one piece."""
        offset = 0
        for url, size in self.archives[member.archive].parts:
            if size < 0 or (offset <= member.offset and member.offset + member.stored <= offset + size):
                return url, member.offset - offset, member.stored
            offset += size
        return None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_lock", "_mounts")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock(), _mounts={})


def _part(url: str, size: int, options: Mapping[str, Any]) -> Part:
    fs, path = filesystem(url, {} if is_local(url) else options)
    try:
        found = stat(fs, path).size
    except FileNotFoundError:
        raise VideoNotFoundError(
            f"the archive {shown(url)} is not there",
            why="It was moved or deleted after the index was made.",
            do="Put it back, or make the index again with `trace-hf videos index`.",
        ) from None
    if found is None or (size >= 0 and found != size):
        raise TraceError(
            f"the archive {shown(url)} has {found} bytes, not {size}",
            why="It was changed after the index was made, so that its offsets are wrong.",
            do="Make the index again with `trace-hf videos index`.",
        )
    return Part(fs, path, found)


def _from_section(section: Mapping[str, Any]) -> ArchiveIndex:
    if section["version"] != _VERSION:
        raise ValueError(f"version {section['version']}")
    return ArchiveIndex(
        [
            Archive(a["name"], a["kind"], tuple((p["url"], int(p["size"])) for p in a["parts"]))
            for a in section["archives"]
        ],
        {path: Member(path=path, **fields) for path, fields in section["members"].items()},
        list(section["unmapped"]),
        dict(section["ambiguous"]),
        list(section["skipped"]),
        list(section["problems"]),
    )


def _from_references(value: Mapping[str, Any]) -> ArchiveIndex:
    """Read a reference file that another tool made: one stretch of one file for each video."""
    if value.get("templates") or value.get("gen"):
        raise ValueError("templates and generated references are not read")
    index = ArchiveIndex()
    numbers: dict[str, int] = {}
    for path, reference in value["refs"].items():
        if not isinstance(reference, list) or len(reference) not in (1, 3):
            index.skipped.append({"archive": "", "member": path, "reason": "it is no reference to a stretch of a file"})
            continue
        url = str(reference[0])
        if len(reference) == 1:
            index.skipped.append({"archive": url, "member": path, "reason": "its length is not given"})
            continue
        if url not in numbers:
            numbers[url] = len(index.archives)
            index.archives.append(Archive(url.rpartition("/")[2], "file", ((url, -1),)))
        offset, length = int(reference[1]), int(reference[2])
        index.members[path] = Member(path, numbers[url], path, offset, length, length)
    return index


def _located(archive: Archive, index_url: str) -> Archive:
    return Archive(archive.name, archive.kind, tuple((_locate(url, index_url), size) for url, size in archive.parts))


def _locate(url: str, index_url: str) -> str:
    if not is_local(url):
        return url
    plain = url.removeprefix("file://").removeprefix("local://")
    if is_local(index_url):
        return str(Path(local_path(index_url)).parent / plain)
    if os.path.isabs(plain) or "://" in url:  # noqa: PTH117 - a URL's text, not a path yet
        raise UnsafePathError(
            f"a remote archive index names the local file {url!r}",
            file=shown(index_url),
            why="Whoever wrote the index would choose which file of this machine is read.",
            do="Make the index of the remote archives themselves.",
        )
    head, mark, rest = index_url.partition("?")
    folder = head.rpartition("/")[0]
    return join_url(folder + mark + rest, check_relative(url, what="archive in a remote index", file=shown(index_url)))


def _register() -> None:
    """Make fsspec know the protocol in this process; an installed package's entry point does so everywhere."""
    import fsspec

    if PROTOCOL not in fsspec.registry:
        fsspec.register_implementation(PROTOCOL, "trace_hf.videos.indexfs.ArchiveFileSystem", clobber=True)
