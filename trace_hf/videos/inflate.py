"""Deflated members, read as files: bounded by what they claim, checked by their CRC-32."""

from __future__ import annotations

import io
import tempfile
import zlib
from typing import IO, Any

from ..errors import IntegrityError
from .access import Positioned

__all__ = ["InflatedFile", "inflate"]

_BLOCK = 1 << 18
_IN_MEMORY = 64 << 20


def _differs(name: str, what: str) -> IntegrityError:
    return IntegrityError(
        f"{name!r} is damaged: {what}",
        why="The archive was changed or cut after its index was made, or the member claims a wrong size.",
        do="Make the index again with `trace-hf videos index`, or fetch the archive again.",
    )


class inflate:  # noqa: N801 - used as a function that yields blocks
    """Iterate over the unpacked blocks of a raw deflate stream.

    Parameters
    ----------
    raw : file
        The packed bytes.
    size : int
        What the member claims to unpack to, in bytes; never more than that is given.
    crc32 : int or None
        CRC-32 of the unpacked bytes.
    name : str
        The member's name, for messages.

    Raises
    ------
    IntegrityError
        If it is no deflate stream, or size or CRC-32 differ. The last block is given before the CRC-32 is compared.
    """

    def __init__(self, raw: IO[bytes] | io.RawIOBase, size: int, crc32: int | None, name: str) -> None:
        self._raw, self._size, self._crc32, self._name = raw, size, crc32, name
        self._engine = zlib.decompressobj(-zlib.MAX_WBITS)
        self._done, self._crc = 0, 0

    def __iter__(self) -> inflate:
        return self

    def __next__(self) -> bytes:
        # One byte more than is claimed is asked for, so that a bomb shows itself without going off.
        while True:
            data = self._engine.unconsumed_tail or (b"" if self._engine.eof else self._raw.read(_BLOCK) or b"")
            try:
                block = self._engine.decompress(data, min(_BLOCK, self._size - self._done + 1))
            except zlib.error as error:
                raise _differs(self._name, f"it is no deflate stream ({error})") from None
            self._done += len(block)
            self._crc = zlib.crc32(block, self._crc)
            if self._done > self._size:
                raise _differs(self._name, f"it unpacks to more than the {self._size} bytes that it claims")
            if block:
                return block
            if self._engine.eof or not data:
                self._finish()
                raise StopIteration

    def _finish(self) -> None:
        if self._done != self._size or not self._engine.eof:
            raise _differs(self._name, f"it unpacks to {self._done} bytes, not {self._size}")
        if self._crc32 is not None and self._crc != self._crc32:
            raise _differs(self._name, f"its CRC-32 is {self._crc:08x}, not {self._crc32:08x}")


class InflatedFile(Positioned):
    """A deflated member as a seekable file.

    What was unpacked once is kept (in memory, beyond 64 MiB in a temporary file), so that going back costs nothing.
    """

    def __init__(self, raw: io.RawIOBase, size: int, crc32: int | None, name: str) -> None:
        super().__init__()
        self._raw = raw
        self._blocks = inflate(raw, size, crc32, name)
        self._kept = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 - closed with this file
        self._have, self._position, self.size = 0, 0, size

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer; less only at the end."""
        view = memoryview(buffer).cast("B")
        end = min(self._position + len(view), self.size)
        if self._have < end:
            self._kept.seek(self._have)
            while self._have < end:
                block = next(self._blocks, b"")
                if not block:
                    break
                self._have += self._kept.write(block)
        # The end of the stream is where size and checksum are compared.
        if self._have == self.size:
            next(self._blocks, b"")
        self._kept.seek(self._position)
        data = self._kept.read(max(0, min(end, self._have) - self._position))
        view[: len(data)] = data
        self._position += len(data)
        return len(data)

    def close(self) -> None:
        """Close the member and forget what was unpacked."""
        self._kept.close()
        self._raw.close()
        super().close()
