"""Making an archive index: which archives, in which pieces, and which member is which video."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import unquote

from ..errors import TraceError, UnsafePathError, VideoNotFoundError
from ..paths import check_relative, is_local, join_url, local_path, shown
from .access import Part, filesystem, stat
from .archive import Archive, ArchiveIndex, Member
from .listing import Listings
from .members import ArchiveFacts, RawMember, data_offsets, list_members
from .root import VideoRoot
from .rules import BUILT_IN_RULES, Rule, record_path

__all__ = ["build_index", "find_archives"]

# `src_videos.tar.partaa`, `x.zip.001`, `x.tar.part-1`: the pieces that `split` and its relatives make.
_PIECE = re.compile(r"(?P<name>.+?\.(?:tar|zip))\.(?:part[-_.]?)?(?P<piece>[a-z]{2,3}|\d{1,4})", re.IGNORECASE)
_ARCHIVE = re.compile(r".+\.(?:tar|zip)", re.IGNORECASE)

# What archivers of desktop systems add beside each file.
_LITTER = re.compile(r"(?:.*/)?(?:\._[^/]*|\.DS_Store|Thumbs\.db)|__MACOSX/.*")


def find_archives(
    sources: Iterable[str | os.PathLike[str]], options: Mapping[str, Any] | None = None
) -> dict[str, list[str]]:
    """Return the pieces of each archive, in order, by the archive's name.

    Parameters
    ----------
    sources : iterable
        Archives, pieces of split ones (one names all of them), folders of archives, and patterns such as
        ``/data/*.zip``; paths or fsspec URLs.
    options : mapping, optional
        fsspec options for remote ones.

    Returns
    -------
    dict
        Paths or URLs of the pieces by ``folder/name``; one piece for a whole archive.

    Raises
    ------
    VideoNotFoundError
        If a source has no archive.
    TraceError
        If a piece is missing between two others.
    """
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for source in sources:
        urls = _expand(os.fspath(source), options or {})
        if not urls:
            raise VideoNotFoundError(
                f"there is no archive at {shown(os.fspath(source))}",
                why="Only zip files, tars and the pieces of split ones count; others must be unpacked first.",
                do="Name an archive, a piece of one, a folder of them, or a pattern such as 'folder/*.zip'.",
            )
        for url in urls:
            folder, name = _split(url)
            piece = _PIECE.fullmatch(name)
            found[join_url(folder, piece["name"] if piece else name)][piece["piece"].lower() if piece else ""] = url
    return {name: _in_order(name, pieces) for name, pieces in sorted(found.items())}


def build_index(
    sources: Iterable[str | os.PathLike[str]],
    rules: Sequence[Rule] = BUILT_IN_RULES,
    options: Mapping[str, Any] | None = None,
    *,
    workers: int = 8,
    progress: Callable[[str], None] = lambda _name: None,
) -> ArchiveIndex:
    """Make an index over archives, reading only their directories.

    Parameters
    ----------
    sources : iterable
        What `find_archives` takes.
    rules : sequence of Rule
        The first rule that is about a member gives its video path.
    options : mapping, optional
        fsspec options for remote archives; they are not stored.
    workers : int
        Archives that are read at once.
    progress : callable
        Told the name of each archive when it is done.

    Returns
    -------
    ArchiveIndex
        What no rule maps, what several members claim, and what cannot be read is listed in it.

    Raises
    ------
    TraceError
        If an archive is neither zip nor tar, compressed as a whole, or damaged.
    """
    archives = find_archives(sources, options)

    def read(item: tuple[str, list[str]]) -> tuple[Archive, ArchiveFacts, list[tuple[str, RawMember]], ArchiveIndex]:
        name, urls = item
        result = _read_archive(unquote(_split(name)[1]), urls, rules, options or {})
        progress(result[0].name)
        return result

    index = ArchiveIndex(options=dict(options or {}))
    claims: dict[str, list[Member]] = defaultdict(list)
    with ThreadPoolExecutor(max(1, min(workers, len(archives)))) as pool:
        for number, (archive, facts, mapped, notes) in enumerate(pool.map(read, archives.items())):
            index.archives.append(archive)
            index.unmapped += notes.unmapped
            index.skipped += notes.skipped
            if facts.problem:
                index.problems.append(f"{archive.name}: {facts.problem}")
            for path, raw in mapped:
                claims[path].append(
                    Member(path, number, raw.name, raw.offset, raw.stored, raw.size, raw.method, raw.crc32)
                )
    _settle(index, claims)
    return index


def _settle(index: ArchiveIndex, claims: Mapping[str, list[Member]]) -> None:
    """Enter what one member claims; list what several do."""
    for path, members in claims.items():
        if len(members) == 1:
            index.members[path] = members[0]
        else:
            index.ambiguous[path] = [
                {"archive": index.archives[m.archive].name, "member": m.name, "size": m.size} for m in members
            ]


def _read_archive(
    name: str, urls: list[str], rules: Sequence[Rule], options: Mapping[str, Any]
) -> tuple[Archive, ArchiveFacts, list[tuple[str, RawMember]], ArchiveIndex]:
    parts = [_part(url, options) for url in urls]
    facts = list_members(name, parts)
    archive = Archive(name, facts.kind, tuple((url, part.size) for url, part in zip(urls, parts, strict=True)))
    notes = ArchiveIndex()
    mapped: list[tuple[str, RawMember]] = []
    for raw in facts.members:
        if _LITTER.fullmatch(raw.name):
            continue
        path = record_path(rules, name, raw.name)
        if path is None:
            notes.unmapped.append({"archive": name, "member": _text(raw.name), "size": raw.size})
            continue
        try:
            check_relative(path, what="path of a member")
            problem = raw.problem
        except UnsafePathError as error:
            problem = error.what
        if problem:
            notes.skipped.append({"archive": name, "member": _text(raw.name), "reason": problem})
        else:
            mapped.append((path, raw))
    if facts.kind == "zip":
        offsets = data_offsets(parts, [raw for _, raw in mapped])
        mapped = [(path, replace(raw, offset=offset)) for (path, raw), offset in zip(mapped, offsets, strict=True)]
    return archive, facts, mapped, notes


def _part(url: str, options: Mapping[str, Any]) -> Part:
    fs, path = filesystem(url, {} if is_local(url) else options)
    try:
        size = stat(fs, path).size
    except FileNotFoundError:
        raise VideoNotFoundError(f"the archive {shown(url)} is not there", do="Check its name.") from None
    if size is None:
        raise TraceError(
            f"the size of {shown(url)} is not known",
            why="Its server does not say it, so that the archive's end cannot be found.",
            do="Download the archive, or use another server.",
        )
    return Part(fs, path, size)


def _text(name: str) -> str:
    """A member's name as text that JSON can hold; a name that is not UTF-8 shows its bytes."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _expand(source: str, options: Mapping[str, Any]) -> list[str]:
    """The archives that a source names: itself, all pieces beside it, those of a folder, those that fit a pattern."""
    url = local_path(source) if is_local(source) else source
    folder, name = _split(url)
    if "*" in name:
        return [join_url(folder, other) for other in _names(folder, options) if fnmatchcase(other, name)]
    piece = _PIECE.fullmatch(name)
    if piece:
        siblings = [other for other in _names(folder, options) if _same_archive(other, piece["name"])]
        return [join_url(folder, other) for other in siblings] or [url]
    if _ARCHIVE.fullmatch(name):
        return [url]
    inside = [other for other in _names(url, options) if _ARCHIVE.fullmatch(other) or _PIECE.fullmatch(other)]
    return [join_url(url, other) for other in inside] or ([url] if _is_file(url, options) else [])


def _same_archive(other: str, name: str) -> bool:
    piece = _PIECE.fullmatch(other)
    return piece is not None and piece["name"] == name


def _names(folder: str, options: Mapping[str, Any]) -> list[str]:
    root = VideoRoot({"": folder}, options)
    entries = Listings(root).get(root.places[0], "") or {}
    return sorted(name for name, entry in entries.items() if not entry.folder and not entry.broken)


def _is_file(url: str, options: Mapping[str, Any]) -> bool:
    try:
        stat(*filesystem(url, {} if is_local(url) else options))
    except FileNotFoundError:
        return False
    return True


def _split(url: str) -> tuple[str, str]:
    """Folder and name of a path or URL; a query stays with the folder, and a web address's name is decoded."""
    head, chain, rest = url.partition("::")
    cut = min((at for at in (head.find("?"), head.find("#")) if at >= 0), default=len(head))
    web = head.startswith(("http://", "https://"))
    path, query = (head[:cut], head[cut:]) if web else (head, "")
    folder, _, name = path.rstrip("/").rpartition("/")
    return (folder or "/") + query + chain + rest, unquote(name) if web else name


def _in_order(name: str, pieces: dict[str, str]) -> list[str]:
    if "" in pieces:
        # The joined archive lies beside its pieces.
        return [pieces[""]]
    order = sorted(pieces, key=lambda piece: (len(piece) if not piece.isdigit() else 0, _number(piece)))
    numbers = [_number(piece) for piece in order]
    first = 0 if order[0].isalpha() else min(numbers[0], 1)
    gaps = sorted(set(range(first, numbers[-1] + 1)) - set(numbers))
    if gaps:
        raise TraceError(
            f"{shown(name)} lacks {len(gaps)} of its pieces: {', '.join(order)} are there",
            why="A split archive is read as one stream, so that every piece is needed.",
            do="Fetch the missing pieces beside the others.",
        )
    return [pieces[piece] for piece in order]


def _number(piece: str) -> int:
    if piece.isdigit():
        return int(piece)
    value = 0
    for letter in piece:
        value = value * 26 + ord(letter) - ord("a")
    return value
