"""Opening files that somebody else put there."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

# No line of a release is shorter on average; small files are split whatever they hold.
_SHORTEST_LINE = 24
_FREE_BYTES = 2 * 1024 * 1024

# Opening a pipe that nobody writes to would wait for ever.
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)


def open_regular(path: Path, *, buffering: int = -1) -> IO[bytes]:
    """Open a regular file for reading, directly or through a link.

    Raises
    ------
    OSError
        Also for what is no regular file: a pipe, a device, a socket, a folder.
    """
    stream = open(path, "rb", buffering=buffering, opener=_open)  # noqa: SIM115 - Path.open() takes no opener
    if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
        stream.close()
        raise OSError(errno.EINVAL, "it is no regular file, but a pipe or a device", str(path))
    return stream


def _open(name: str, flags: int) -> int:
    return os.open(name, flags | _NO_WAIT)


def lines_of(data: bytes) -> list[bytes]:
    """Split bytes into lines.

    Raises
    ------
    ValueError
        When there are more of them than a release's files can have: line ends alone would fill the memory.
    """
    if data.count(b"\n") * _SHORTEST_LINE > len(data) + _FREE_BYTES:
        raise ValueError("more lines than records or IDs can be")
    return data.split(b"\n")


@contextmanager
def folder_aside(target: Path) -> Iterator[Path]:
    """Give a new folder beside `target`, which is gone afterwards unless it was renamed."""
    target.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{target.name}.partial-", dir=target.parent))
    mask = os.umask(0)
    os.umask(mask)
    folder.chmod(0o777 & ~mask)  # mkdtemp's is for its user only
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
