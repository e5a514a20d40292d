"""Reading by ranges: whatever holds the bytes, only what is asked for is moved."""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from ..errors import TraceError
from ..paths import scrubbed, shown

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

__all__ = ["NoRangesError", "Part", "RangedFile", "Stat", "filesystem", "open_ranges", "reader", "stat"]

FIRST_BLOCK = 64 * 1024
LARGEST_BLOCK = 4 * 1024 * 1024
_KEPT_BLOCKS = 4

# What filesystems call the thing that changes when a file changes, the surest first.
_TAGS = (
    *("ETag", "etag", "e_tag", "Content-MD5", "Digest", "md5Hash", "blob_id", "CRC"),
    *("mtime", "LastModified", "Last-Modified", "last_modified", "created", "date_time"),
)


_URL = re.compile(r"[a-z][a-z0-9+.-]*://[^\s'\"<>()]+")


class NoRangesError(TraceError):
    """A server gives whole files only."""


class Stat(NamedTuple):
    """What is known of a file without reading it.

    Attributes
    ----------
    size : int or None
        Bytes, or None where the server does not say.
    tag : str or None
        An etag or modification time, or None where there is none.
    ranges : bool
        False where a web server says that it gives whole files only.
    """

    size: int | None
    tag: str | None
    ranges: bool = True


def filesystem(url: str, options: Mapping[str, Any]) -> tuple[AbstractFileSystem, str]:
    """Return the filesystem of a path or URL and the path there, or say which package is missing."""
    import fsspec

    try:
        fs, path = fsspec.core.url_to_fs(url, **options)
    except (ImportError, ValueError) as error:
        raise TraceError(
            f"{shown(url)} cannot be opened: {scrubbed(error)}",
            why="fsspec knows no such filesystem here.",
            do="Check the scheme, or install the package that fsspec needs for it, such as s3fs, gcsfs or aiohttp.",
        ) from error
    return fs, path


def is_http(fs: AbstractFileSystem) -> bool:
    """Return whether a filesystem is a plain web server."""
    names = (fs.protocol,) if isinstance(fs.protocol, str) else fs.protocol
    return "http" in names or "https" in names


def stat(fs: AbstractFileSystem, path: str) -> Stat:
    """Return size and tag of a file with one request.

    Raises
    ------
    FileNotFoundError
        If it is not there, or is a folder.
    TraceError
        If a web server refuses or fails, which fsspec does not tell from an absent file.
    """
    try:
        info = fs.info(path)
    except FileNotFoundError as error:
        status = getattr(error.__cause__, "status", None)
        if status in (None, 404, 410) and not isinstance(error.__cause__, OSError):
            raise
        raise TraceError(
            f"{shown(path)} could not be asked for: {scrubbed(error.__cause__)}",
            why="The server refused or failed; this is not the same as an absent file.",
            do="Check the address, the network and the credentials in the storage options.",
        ) from error
    if info.get("type") == "directory":
        raise FileNotFoundError(path)
    return stat_of(info)


def stat_of(info: Mapping[str, Any]) -> Stat:
    """Return size and tag from an entry of a listing."""
    lfs = info.get("lfs")
    tag = lfs.get("sha256") if isinstance(lfs, Mapping) else getattr(lfs, "sha256", None)
    tag = tag or next((info[name] for name in _TAGS if info.get(name) is not None), None)
    size = info.get("size")
    size, tag = (None if size is None else int(size)), (None if tag is None else str(tag))
    return Stat(size, tag, bool(info.get("partial", True)))


class Part(NamedTuple):
    """A file, or a piece of one that was split.

    Attributes
    ----------
    fs : AbstractFileSystem
    path : str
        The path in that filesystem.
    size : int
        Bytes.
    """

    fs: AbstractFileSystem
    path: str
    size: int


def reader(fs: AbstractFileSystem, path: str, size: int | None = None) -> IO[bytes]:
    """Open a file so that each read is one range request, with nothing read ahead.

    Raises
    ------
    FileNotFoundError
        If it is not there.
    NoRangesError
        If a web server says that it gives no ranges.
    """
    options: dict[str, Any] = {"cache_type": "none", "block_size": LARGEST_BLOCK}
    if is_http(fs) and size:
        options["size"] = size
    try:
        handle = fs.open(path, "rb", **options)
    except KeyError:
        # Older fsspec: an absent member of a zip.
        raise FileNotFoundError(path) from None
    if isinstance(handle, io.BytesIO):
        # A file of memory:// is one object with one position for all who open it.
        return io.BytesIO(handle.getvalue())
    if is_http(fs):
        from fsspec.implementations.http import HTTPStreamFile

        if isinstance(handle, HTTPStreamFile):
            handle.close()
            raise _no_ranges(path)
    return handle  # type: ignore[no-any-return]


def _no_ranges(path: str) -> NoRangesError:
    return NoRangesError(
        f"the server of {shown(path)} gives no byte ranges",
        why="Without them the whole video would have to be downloaded to read a part of it.",
        do="Fetch the videos first with `trace-hf videos fetch`, or use a server with range support.",
    )


class Positioned(io.RawIOBase):
    """A readable file of a known size whose position is a number; nothing is read before it is asked for."""

    size: int
    _position: int

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position in bytes."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a position in bytes; nothing is read."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self.size}[whence]
        if base + offset < 0:
            raise OSError(f"seek to {base + offset}")
        self._position = base + offset
        return self._position


class RangedFile(Positioned):
    """Several files read as one, by ranges.

    Blocks are small after a jump and grow while reading goes straight on, so that a header costs one small request
    and a long stretch few large ones. The last few blocks are kept. Not for use by several threads at once.

    Parameters
    ----------
    parts : sequence of Part
        In order.
    start, size : int, optional
        A stretch of the whole, in bytes; all of it if left out.
    block : int
        Bytes of the first request after a jump.
    """

    def __init__(
        self, parts: Sequence[Part], start: int = 0, size: int | None = None, *, block: int = FIRST_BLOCK
    ) -> None:
        super().__init__()
        total = sum(part.size for part in parts)
        self.parts = tuple(parts)
        self.size = total - start if size is None else size
        if start < 0 or self.size < 0 or start + self.size > total:
            raise ValueError(f"bytes {start} … {start + self.size} lie outside of {total} bytes")
        self._start, self._position, self._next = start, 0, 0
        self._first = self._block = block
        self._blocks: list[tuple[int, bytes]] = []
        self._handles: dict[int, IO[bytes]] = {}
        self._lock = threading.Lock()

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer; less only at the end."""
        view = memoryview(buffer).cast("B")
        done = 0
        while done < len(view) and self._position < self.size:
            data = self._at(self._position, len(view) - done)
            view[done : done + len(data)] = data
            done += len(data)
            self._position += len(data)
        return done

    def close(self) -> None:
        """Close every part."""
        for handle in self._handles.values():
            handle.close()
        self._handles.clear()
        self._blocks.clear()
        super().close()

    def _at(self, position: int, wanted: int) -> memoryview:
        for start, block in self._blocks:
            if start <= position < start + len(block):
                return memoryview(block)[position - start :][:wanted]
        self._block = min(self._block * 2, LARGEST_BLOCK) if position == self._next else self._first
        length = min(max(wanted, self._block), max(LARGEST_BLOCK, wanted), self.size - position)
        block = self.range(position, position + length)
        self._next = position + length
        self._blocks = [(position, block), *self._blocks[: _KEPT_BLOCKS - 1]]
        return memoryview(block)[:wanted]

    def range(self, start: int, stop: int) -> bytes:
        """Return bytes ``start`` to ``stop`` with one request for each part that they lie in."""
        pieces, offset = [], 0
        low, high = self._start + start, self._start + stop
        for number, part in enumerate(self.parts):
            first, last = max(low, offset), min(high, offset + part.size)
            if first < last:
                pieces.append(self._read(number, first - offset, last - first))
            offset += part.size
        return b"".join(pieces)

    def _read(self, number: int, offset: int, length: int) -> bytes:
        part = self.parts[number]
        with self._lock:
            handle = self._handles.get(number)
            if handle is None:
                handle = self._handles[number] = reader(part.fs, part.path, part.size)
            try:
                handle.seek(offset)
                data = handle.read(length)
            except ValueError as error:
                if is_http(part.fs) and "range" in str(error):
                    raise _no_ranges(part.path) from None
                raise
        if len(data) != length:
            raise TraceError(
                f"{shown(part.path)} gave {len(data)} of {length} bytes at {offset}",
                why="The file was cut or changed while it was read.",
                do="Check the source and run this again.",
            )
        return data


def open_ranges(fs: AbstractFileSystem, path: str) -> IO[bytes]:
    """Open one file for seeking reads, by ranges where it is remote.

    Raises
    ------
    FileNotFoundError
        If it is not there.
    NoRangesError
        If a web server gives no ranges.
    """
    if "file" in ((fs.protocol,) if isinstance(fs.protocol, str) else fs.protocol):
        return Path(path).open("rb")
    known = stat(fs, path) if is_http(fs) else None
    if known is not None and (known.size is None or not known.ranges):
        raise _no_ranges(path)
    first = reader(fs, path, known.size if known else None)
    size = getattr(first, "size", None)
    if isinstance(first, io.BytesIO) or not isinstance(size, int):
        return first
    ranged = RangedFile([Part(fs, path, size)])
    ranged._handles[0] = first
    return ranged  # type: ignore[return-value]
