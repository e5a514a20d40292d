"""Hashing: prove that the files of a snapshot are those of its manifest, and that what is read is what was hashed.

Every file is hashed whole before anything of it is used. When a record file is read afterwards, it is hashed again,
and the running hash is compared with that of the first pass after each block, before a row of the block is decoded.
So a file that changes between the two passes never gives a row.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ._files import open_regular
from .errors import IntegrityError, SchemaError
from .schema import MANIFEST_FILE, MAX_LINE_BYTES

if TYPE_CHECKING:
    from .schema import Manifest

BLOCK_BYTES = 2 * 1024 * 1024
"""Files are read and hashed in blocks of this size; larger ones are no faster and hold more memory."""

_MAX_LINES = BLOCK_BYTES // 32

_ABSENT = "not in the folder; get it from where the release is published"
_FOREIGN = "no part of the release; ignored"

_SERIAL_BYTES = 8 * 1024 * 1024

FileState = Literal["ok", "missing", "differs", "unlisted"]


@dataclass(frozen=True)
class FileDigest:
    """What one pass over a file found.

    Attributes
    ----------
    sha256 : str
        SHA-256 of the whole file, in lower-case hex.
    size : int
        Bytes.
    prefixes : tuple of bytes
        SHA-256 of the file up to the end of each block of `BLOCK_BYTES`; the running hash gives them for nothing.
    """

    sha256: str
    size: int
    prefixes: tuple[bytes, ...]


def digest_file(path: Path, *, advance: Callable[[int], None] | None = None) -> FileDigest:
    """Hash a file in blocks.

    Parameters
    ----------
    path
        A local file.
    advance
        Called with the number of bytes after each block.

    Raises
    ------
    IntegrityError
        When the file changes while it is read.
    OSError
        When it cannot be read.
    """
    running = hashlib.sha256()
    prefixes = []
    size = 0
    with open_regular(path, buffering=0) as stream:
        before = os.fstat(stream.fileno())
        while block := _read_full(stream, BLOCK_BYTES):
            running.update(block)
            prefixes.append(running.digest())
            size += len(block)
            if size > before.st_size:
                raise _changed(path)  # else a file that only grows would be read for ever
            if advance:
                advance(len(block))
        after = os.fstat(stream.fileno())
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns) or size != after.st_size:
        raise _changed(path)
    return FileDigest(running.hexdigest(), size, tuple(prefixes))


def _read_full(stream: Any, size: int) -> bytes:
    """Read `size` bytes, or what is left: a raw read may give less than it was asked for."""
    block: bytes = stream.read(size)
    if len(block) == size or not block:
        return block
    parts = [block]
    missing = size - len(block)
    while missing and (more := stream.read(missing)):
        parts.append(more)
        missing -= len(more)
    return b"".join(parts)


def _changed(path: Path) -> IntegrityError:
    return IntegrityError(
        "changed while it was read",
        file=str(path),
        why="another process writes to the snapshot",
        do="let that finish, then load again; keep snapshots read-only",
    )


def read_line_blocks(path: Path, digest: FileDigest | None) -> Iterator[tuple[int, bytes]]:
    """Read a line file as blocks of whole lines, each proven against the first pass.

    Parameters
    ----------
    path
        A local file.
    digest
        What `digest_file` found, or None to read without proof.

    Yields
    ------
    tuple
        The 1-based number of the first line, and bytes that end at a line end (or at the end of the file).

    Raises
    ------
    IntegrityError
        When the file is not what was hashed; before a byte of the block in question is given.
    SchemaError
        When a line is longer than `MAX_LINE_BYTES`.
    """
    line, rest, index, running = 1, b"", 0, hashlib.sha256()
    with open_regular(path, buffering=0) as stream:
        while block := _read_full(stream, BLOCK_BYTES):
            if digest is not None:
                running.update(block)
                if index >= len(digest.prefixes) or running.digest() != digest.prefixes[index]:
                    raise _changed(path)
            index += 1
            cut = block.rfind(b"\n") + 1
            lines = rest + block[:cut] if cut else b""
            rest = block[cut:] if cut else rest + block
            _check_line_length(lines or rest, path, line)
            if lines:
                count = lines.count(b"\n")
                _check_line_count(count, path, line)
                yield line, lines
                line += count
    if digest is not None and index != len(digest.prefixes):
        raise _changed(path)
    if rest:
        yield line, rest


def _check_line_count(count: int, path: Path, line: int) -> None:
    # Each line costs memory and time, however short it is, and the shortest record has more than 80 bytes.
    if count > _MAX_LINES:
        raise SchemaError(
            f"over {_MAX_LINES} lines within {BLOCK_BYTES // 2**20} MiB, most of them blank or no records",
            file=path.name,
            line=line,
            why="this is no record file",
            do="get the file again",
        )


def _check_line_length(lines: bytes, path: Path, line: int) -> None:
    # Only the first line of a block can be longer than a block: the others lie inside one.
    end = lines.find(b"\n", 0, MAX_LINE_BYTES + 1)
    if end < 0 and len(lines) > MAX_LINE_BYTES:
        raise SchemaError(
            f"a line of over {MAX_LINE_BYTES // 2**20} MiB",
            file=path.name,
            line=line,
            why="the line ends were lost, or this is no record file",
            do="get the file again",
        )


@dataclass(frozen=True)
class FileReport:
    """What verification found of one file.

    Attributes
    ----------
    name : str
        The file's name in the snapshot.
    state : {"ok", "missing", "differs", "unlisted"}
        ``unlisted`` files are in the folder but not in the manifest; they only warn.
    expected, actual : str or None
        SHA-256 that is due, and the one found.
    cause : str or None
        Why the file is likely not the one that is due, and what to do.
    """

    name: str
    state: FileState
    expected: str | None = None
    actual: str | None = None
    cause: str | None = None


@dataclass(frozen=True)
class VerificationReport:
    """What verification found of a snapshot.

    Attributes
    ----------
    release_id : str
    ok : bool
        Whether every file of the manifest is the one that is due and no pinned fact differs.
    pinned : bool
        Whether the release is known to the package, so that hashes, file roles, counts and schema version were
        compared with built-in values. Otherwise the files were only compared with their own manifest, which
        proves consistency, not origin.
    manifest_sha256 : str
        SHA-256 of ``manifest.json``.
    files : tuple of FileReport
        By name.
    problems : tuple of str
        Pinned facts from which the manifest differs.
    """

    release_id: str
    ok: bool
    pinned: bool
    manifest_sha256: str
    files: tuple[FileReport, ...]
    problems: tuple[str, ...] = ()
    digests: Mapping[str, FileDigest] = field(default_factory=dict, repr=False, compare=False)

    def to_json(self) -> dict[str, Any]:
        """Return the report with the stable keys of ``trace-hf verify --json``."""
        return {
            "release_id": self.release_id,
            "ok": self.ok,
            "pinned": self.pinned,
            "manifest_sha256": self.manifest_sha256,
            "problems": list(self.problems),
            "files": [
                {"name": f.name, "state": f.state, "expected": f.expected, "actual": f.actual, "cause": f.cause}
                for f in self.files
            ],
        }

    def raise_if_failed(self) -> None:
        """Raise what is wrong.

        Raises
        ------
        IntegrityError
            Names every file that is missing or differs, and every pinned fact that does not hold.
        """
        if self.ok:
            return
        bad = [f for f in self.files if f.state in ("missing", "differs")]
        facts = [f"{f.name} {f.state if f.state == 'differs' else 'is missing'}" for f in bad]
        causes = [f"{f.name}: {f.cause}" for f in bad if f.cause]
        against = f"pinned release {self.release_id}" if self.pinned else f"release {self.release_id}"
        raise IntegrityError(
            f"not the files of {against}: {'; '.join([*self.problems, *facts])}",
            file=bad[0].name if len(bad) == 1 else None,
            why="; ".join(causes) or None,
            do="get the named files again from where the release is published; `trace-hf verify` lists every file",
        )


def verify_snapshot(
    root: Path,
    manifest: Manifest,
    manifest_sha256: str,
    *,
    problems: tuple[str, ...],
    pins: Mapping[str, str] | None,
    find_cause: Callable[[Path, str], str | None] | None = None,
    advance: Callable[[int], None] | None = None,
) -> VerificationReport:
    """Hash every file of a snapshot, in parallel, and compare.

    Parameters
    ----------
    root
        The local folder.
    manifest, manifest_sha256
        What it should hold.
    problems
        Pinned facts that the manifest itself breaks.
    pins
        The pinned hashes of a known release, which win over the manifest's; None for an unknown one.
    find_cause
        Explains a differing file from its path and expected SHA-256.
    advance
        Called with the number of bytes hashed.
    """
    expected = dict(manifest.files) | dict(pins or {})
    digests: dict[str, FileDigest] = {}

    def one(name: str) -> FileReport:
        due = expected[name]
        try:
            digest = digest_file(root / name, advance=advance)
        except FileNotFoundError:
            return FileReport(
                name, "missing", due, cause="not in the folder; get it from where the release is published"
            )
        except IntegrityError as problem:
            return FileReport(name, "differs", due, cause=problem.what)
        except OSError as problem:
            return FileReport(name, "differs", due, cause=_unreadable(problem))
        digests[name] = digest
        if digest.sha256 == due:
            return FileReport(name, "ok", due, digest.sha256)
        cause = find_cause(root / name, due) if find_cause else None
        return FileReport(name, "differs", due, digest.sha256, cause)

    reports = sorted(_each(one, {name: _size(root / name) for name in expected}), key=lambda report: report.name)
    reports += [
        FileReport(name, "unlisted", cause="no part of the release; ignored") for name in _unlisted(root, expected)
    ]
    ok = not problems and all(report.state in ("ok", "unlisted") for report in reports)
    return VerificationReport(
        manifest.release_id, ok, pins is not None, manifest_sha256, tuple(reports), problems, digests
    )


def _each(one: Callable[[str], FileReport], sizes: Mapping[str, int]) -> list[FileReport]:
    """Do one file after the other, or, where that takes longer than starting threads, several at once."""
    if sum(sizes.values()) < _SERIAL_BYTES:
        return [one(name) for name in sizes]
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        # The largest first, so that no thread is left alone with it at the end.
        return list(pool.map(one, sorted(sizes, key=lambda name: -sizes[name])))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _unreadable(problem: OSError) -> str:
    if isinstance(problem, IsADirectoryError):
        return "a directory stands in its place; remove it and get the file again"
    if isinstance(problem, PermissionError):
        return "permission denied; make the file readable for this user"
    return f"cannot be read: {problem.strerror}"


def _unlisted(root: Path, listed: Mapping[str, str]) -> list[str]:
    """Name the files beside listed ones that the manifest does not know; hidden ones and sub-folders are no part."""
    folders = {root / name for name in listed}
    found = set()
    for folder in {path.parent for path in folders}:
        try:
            entries = list(os.scandir(folder))
        except OSError:
            continue
        for entry in entries:
            name = Path(entry.path).relative_to(root).as_posix()
            if name not in listed and name != MANIFEST_FILE and not entry.name.startswith(".") and entry.is_file():
                found.add(name)
    return sorted(found)
