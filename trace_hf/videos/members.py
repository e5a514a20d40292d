"""The members of a zip or tar, found by range requests, without unpacking it."""

from __future__ import annotations

import io
import struct
import tarfile
import zipfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from ..errors import TraceError
from ..paths import shown
from .access import Part, RangedFile

__all__ = ["ArchiveFacts", "RawMember", "data_offsets", "list_members"]

_HOP = 4096
_METHODS = {zipfile.ZIP_STORED: "stored", zipfile.ZIP_DEFLATED: "deflate"}
_LOCAL_HEADER = struct.Struct("<4s5H3L2H")

# Deflate cannot do better: a member that claims to is no honest one.
_BEST_RATIO = 1032

_COMPRESSED = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"\x28\xb5\x2f\xfd": "zstd"}


@dataclass(frozen=True)
class RawMember:
    """One file in an archive.

    Attributes
    ----------
    name : str
        Its name there, without a leading ``./``.
    offset : int
        Where its bytes begin in the archive; of a zip's member first where its header does.
    stored, size : int
        Bytes in the archive, and unpacked.
    method : {"stored", "deflate"}
        How it is packed.
    crc32 : int or None
        CRC-32 of the unpacked bytes; a tar has none.
    problem : str
        Why it cannot be read, or empty.
    """

    name: str
    offset: int
    stored: int
    size: int
    method: str = "stored"
    crc32: int | None = None
    problem: str = ""


@dataclass(frozen=True)
class ArchiveFacts:
    """What an archive holds.

    Attributes
    ----------
    kind : {"zip", "tar"}
    members : list of RawMember
    problem : str
        Why the listing may be incomplete, or empty.
    """

    kind: str
    members: list[RawMember]
    problem: str = ""


def list_members(name: str, parts: Sequence[Part]) -> ArchiveFacts:
    """List the files of an archive: from a zip's central directory, or from tar header to tar header.

    Parameters
    ----------
    name : str
        The archive's name, for messages.
    parts : sequence of Part
        The archive, or the pieces that it was split into, in order.

    Raises
    ------
    TraceError
        If it is neither zip nor tar, is compressed as a whole, or its directory is damaged.
    """
    with RangedFile(parts, block=_HOP) as file:
        head = file.read(512)
        for magic, packer in _COMPRESSED.items():
            if head.startswith(magic):
                raise TraceError(
                    f"{name} is compressed with {packer} as a whole",
                    why="Nothing can be found in it without unpacking all of it.",
                    do="Unpack it once, or ask for an uncompressed tar.",
                )
        if head.startswith((b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")) or name.lower().endswith(".zip"):
            return _zip(name, file)
        return _tar(name, file)


def _zip(name: str, file: RangedFile) -> ArchiveFacts:
    try:
        with zipfile.ZipFile(io.BufferedReader(file, 1 << 16)) as archive:
            infos = archive.infolist()
    except (zipfile.BadZipFile, OverflowError, struct.error, NotImplementedError, ValueError) as error:
        raise TraceError(
            f"{name} has no readable directory: {error}",
            why="A zip's directory stands at its end: the download was probably cut, or a part is missing.",
            do="Compare its size with the publisher's, and fetch it again.",
        ) from error
    members = []
    for info in infos:
        if info.is_dir():
            continue
        method = _METHODS.get(info.compress_type, "")
        member = RawMember(
            _plain(info.filename), info.header_offset, info.compress_size, info.file_size, method, info.CRC
        )
        members.append(replace(member, problem=_zip_problem(info, method, file.size)))
    return ArchiveFacts("zip", _overlaps(members))


def _zip_problem(info: zipfile.ZipInfo, method: str, total: int) -> str:
    if info.flag_bits & 1:
        return "it is encrypted"
    if not method:
        return f"its compression method {info.compress_type} is not read here"
    if (info.external_attr >> 16) & 0o170000 == 0o120000:
        return "it is a link"
    if method == "stored" and info.compress_size != info.file_size:
        return "its two sizes differ though it is stored"
    if info.file_size > _BEST_RATIO * info.compress_size + 64:
        return f"it claims {info.file_size} bytes out of {info.compress_size}, more than compression can give"
    if info.header_offset + _LOCAL_HEADER.size + info.compress_size > total:
        return "it reaches beyond the archive's end"
    return ""


def _overlaps(members: list[RawMember]) -> list[RawMember]:
    """Mark members that share bytes, as those of a zip bomb do."""
    shared = set()
    order = sorted(range(len(members)), key=lambda number: members[number].offset)
    reach, owner = 0, -1
    for number in order:
        member = members[number]
        if member.offset < reach:
            shared |= {number, owner}
        end = member.offset + _LOCAL_HEADER.size + member.stored
        if end > reach:
            reach, owner = end, number
    return [
        replace(member, problem=member.problem or "it shares bytes with another member") if number in shared else member
        for number, member in enumerate(members)
    ]


def _tar(name: str, file: RangedFile) -> ArchiveFacts:
    members, problem = [], ""
    file.seek(0)
    try:
        # Errors of names do not matter here; a name that is not UTF-8 matches no rule and is listed.
        with tarfile.open(fileobj=file, mode="r:", errors="surrogateescape") as archive:
            while (info := archive.next()) is not None:
                if not info.isdir():
                    members.append(_tar_member(info, file.size))
            problem = _tar_end(file, archive.offset)
    except tarfile.ReadError as error:
        if not members:
            raise TraceError(
                f"{name} is neither a zip nor a tar: {error}",
                why="It may be a web page or a pointer in place of the archive, or its first part is missing.",
                do="Look at its size and first bytes, and fetch it again.",
            ) from error
        problem = f"it ends within a member ({error}): a part is missing, or the download was cut"
    return ArchiveFacts("tar", members, problem)


def _tar_member(info: tarfile.TarInfo, total: int) -> RawMember:
    member = RawMember(_plain(info.name), info.offset_data, info.size, info.size)
    if info.issym() or info.islnk():
        return replace(member, problem=f"it is a link to {info.linkname}")
    if not info.isreg() or info.issparse():
        return replace(member, problem="it is no plain file")
    if info.offset_data + info.size > total:
        return replace(member, problem="it reaches beyond the archive's end")
    return member


def _tar_end(file: RangedFile, offset: int) -> str:
    """A tar ends with blocks of zeros; anything else means that its walk broke off."""
    file.seek(min(offset, file.size))
    block = file.read(512)
    if not block:
        return "it has no end mark: a part may be missing"
    return f"the header at byte {offset} is damaged, so what follows it was not listed" if any(block) else ""


def _plain(name: str) -> str:
    while name.startswith("./"):
        name = name[2:]
    return name


def data_offsets(parts: Sequence[Part], members: Sequence[RawMember], workers: int = 8) -> list[int]:
    """Return where the bytes of a zip's members begin: each local header says how long it is itself.

    Raises
    ------
    TraceError
        If a local header is not there or names another member.
    """

    def read(some: Sequence[RawMember]) -> list[int]:
        with RangedFile(parts) as file:
            return [_data_offset(file, member, parts[0].path) for member in some]

    if not members:
        return []
    share = -(-len(members) // workers)
    groups = [members[first : first + share] for first in range(0, len(members), share)]
    with ThreadPoolExecutor(len(groups)) as pool:
        return [offset for offsets in pool.map(read, groups) for offset in offsets]


def _data_offset(file: RangedFile, member: RawMember, archive: str) -> int:
    header = file.range(member.offset, member.offset + _LOCAL_HEADER.size)
    magic, *_, name_length, extra_length = _LOCAL_HEADER.unpack(header)
    start: int = member.offset + _LOCAL_HEADER.size + name_length + extra_length
    if magic != b"PK\x03\x04" or start + member.stored > file.size:
        raise TraceError(
            f"{shown(archive)} has no member at byte {member.offset}, where its directory puts {member.name!r}",
            why="The archive is damaged, or two archives were joined.",
            do="Fetch it again.",
        )
    return start
