"""The way of one video from its source to its place: written aside, resumed, checked, renamed."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Event
from typing import IO, Any

from ..errors import IntegrityError
from .access import NoRangesError
from .archive import Member
from .inflate import inflate
from .root import VideoRoot

__all__ = ["Transfer", "aside_prefix"]

_BLOCK = 1 << 20
_ATTEMPTS = 4
_FIRST_PAUSE_S = 0.5


def aside_prefix(path: str) -> str:
    """Return how the names of unfinished files of a video begin, whatever version of it they are of."""
    return f".trace-{hashlib.sha256(path.encode()).hexdigest()[:16]}-"


class _StoppedError(Exception):
    """The fetch was interrupted."""


@dataclass(frozen=True)
class Transfer:
    """One video that is to be copied.

    Attributes
    ----------
    root : VideoRoot
    path : str
        The record's `video_path`.
    target : Path
        Where it goes.
    size : int or None
        Bytes of the video, if known.
    member : Member or None
        Where it lies in an archive.
    part : Path
        Where it is written until it is whole. Its name changes when the source's file changes, so that pieces of
        two files are never joined.
    """

    root: VideoRoot
    path: str
    target: Path
    size: int | None
    member: Member | None
    part: Path

    @classmethod
    def of(cls, root: VideoRoot, path: str, target: Path, size: int | None, tag: str | None) -> Transfer:
        """Describe the transfer of a video whose size and tag (etag or time) are known from a listing."""
        index = root.place(path).index
        member = index.member(path) if index is not None else None
        source: Any = [root.url(path), size, tag]
        if index is not None and member is not None:
            source = [asdict(index.archives[member.archive]), asdict(member)]
        version = hashlib.sha256(json.dumps(source).encode()).hexdigest()[:16]
        part = target.with_name(f"{aside_prefix(path)}{version}.part")
        return cls(root, path, target, member.size if member else size, member, part)

    @property
    def packed(self) -> bool:
        """Whether the source holds it compressed."""
        return self.member is not None and self.member.method == "deflate"

    @property
    def stored(self) -> int | None:
        """Bytes that have to be moved."""
        return self.member.stored if self.member else self.size

    def have(self) -> int:
        """Bytes that an interrupted transfer left."""
        try:
            return self.part.stat().st_size
        except (FileNotFoundError, NotADirectoryError):
            return 0

    def run(self, stop: Event, progress: Callable[[int], None]) -> None:
        """Copy the video; on return it is whole at its place.

        Raises
        ------
        IntegrityError
            If what arrived is not what the source promised, twice.
        TraceError
            If the source cannot be read, also when asked again.
        """
        self.target.parent.mkdir(parents=True, exist_ok=True)
        self._forget_others()
        mistrusted = False
        for attempt in range(_ATTEMPTS):
            try:
                self._copy(stop, progress)
                self._finish()
                return
            except (_StoppedError, FileNotFoundError, PermissionError):
                raise
            except IntegrityError:
                self.part.unlink(missing_ok=True)
                if mistrusted:
                    raise
                mistrusted = True
            except Exception as error:
                # Whatever a network does; what has arrived is kept, and the rest is asked for again.
                if attempt == _ATTEMPTS - 1 or (isinstance(error, OSError) and _is_full(error)):
                    raise
                if stop.wait(_FIRST_PAUSE_S * 2**attempt):
                    raise _StoppedError from None

    def _copy(self, stop: Event, progress: Callable[[int], None]) -> None:
        if self.stored is not None and self.have() > self.stored:
            self.part.unlink()
        with self.part.open("ab") as out:
            done = out.tell()
            if self.stored is not None and done == self.stored:
                return
            try:
                source = self._open()
                source.seek(done)
            except NoRangesError:
                # The whole file is wanted, so a server that gives nothing else will do; it starts over.
                source = self._stream()
                out.truncate(0)
            with source:
                self._pour(source, out, stop, progress)

    def _pour(self, source: IO[bytes], out: IO[bytes], stop: Event, progress: Callable[[int], None]) -> None:
        try:
            while block := source.read(_BLOCK):
                if stop.is_set():
                    raise _StoppedError
                out.write(block)
                progress(len(block))
        except NoRangesError:
            out.truncate(0)
            with self._stream() as whole:
                while block := whole.read(_BLOCK):
                    if stop.is_set():
                        raise _StoppedError from None
                    out.write(block)
                    progress(len(block))

    def _open(self) -> IO[bytes]:
        if self.member is None:
            return self.root.open(self.path)
        index = self.root.place(self.path).index
        assert index is not None
        return index.raw(self.member)  # type: ignore[return-value]

    def _stream(self) -> IO[bytes]:
        fs, path = self.root.fs_for(self.path)
        return fs.open(path, "rb", block_size=0)  # type: ignore[no-any-return]

    def _finish(self) -> None:
        have = self.have()
        if self.stored is not None and have != self.stored:
            raise IntegrityError(
                f"{self.path}: {have} bytes arrived, not {self.stored}",
                why="The source was cut or changed while it was read.",
                do="Run the fetch again; if it stays so, check the source.",
            )
        ready = self.part
        if self.member is not None and self.packed:
            ready = self.part.with_suffix(".out")
            with self.part.open("rb") as packed, ready.open("wb") as out:
                out.writelines(inflate(packed, self.member.size, self.member.crc32, self.path))
        elif self.member is not None and self.member.crc32 is not None:
            self._check_crc(self.member.crc32)
        with ready.open("rb+") as file:
            os.fsync(file.fileno())
        ready.replace(self.target)
        self.part.unlink(missing_ok=True)

    def _check_crc(self, expected: int) -> None:
        crc = 0
        with self.part.open("rb") as file:
            while block := file.read(_BLOCK):
                crc = zlib.crc32(block, crc)
        if crc != expected:
            raise IntegrityError(
                f"{self.path}: its CRC-32 is {crc:08x}, not {expected:08x}",
                why="The archive is damaged, or was changed after its index was made.",
                do="Fetch the archive again, or make the index again with `trace-hf videos index`.",
            )

    def _forget_others(self) -> None:
        """Remove what interrupted fetches of another source's file left for this video."""
        for other in self.target.parent.glob(f"{aside_prefix(self.path)}*"):
            if other.name != self.part.name:
                with suppress(FileNotFoundError):
                    other.unlink()


def _is_full(error: OSError) -> bool:
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
