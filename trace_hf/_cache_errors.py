"""What goes wrong with the folder that `datasets` prepares rows in, as errors of ours."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyarrow as pa
from datasets.exceptions import DatasetGenerationError

from .errors import TraceError

_FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC), errno.EFBIG)
_DAMAGED = (pa.ArrowInvalid, json.JSONDecodeError, FileNotFoundError)


@contextmanager
def cache_errors(folder: Callable[[], str]) -> Iterator[None]:
    """Let errors of ours through, out of whatever datasets has wrapped them in, and explain those of the cache.

    Parameters
    ----------
    folder
        Gives the folder that datasets writes to or reads from.
    """
    try:
        yield
    except TraceError:
        raise
    except (DatasetGenerationError, OSError, pa.ArrowException, json.JSONDecodeError) as problem:
        known = _ours(problem) or _explained(problem, folder())
        if known is None:
            raise
        raise known from None


def _chain(problem: BaseException | None) -> Iterator[BaseException]:
    while problem is not None:
        yield problem
        problem = problem.__cause__ or problem.__context__


def _ours(problem: BaseException) -> TraceError | None:
    return next((error for error in _chain(problem) if isinstance(error, TraceError)), None)


def _explained(problem: BaseException, folder: str) -> TraceError | None:
    for error in _chain(problem):
        # pyarrow reports what it cannot read as an OSError of its own, which has no number.
        if isinstance(error, _DAMAGED) or (isinstance(error, OSError) and error.errno is None):
            return TraceError(
                f"the prepared rows cannot be read: {type(error).__name__}: {error}",
                file=folder,
                why="the cache was damaged, or something else removes files from it",
                do='remove that folder, or load with download_mode="force_redownload"',
            )
        if isinstance(error, OSError):
            return TraceError(
                f"the cache folder cannot be written: {error.strerror or error}",
                file=folder,
                why="the disk is full" if error.errno in _FULL else "it is not this user's to write to",
                do="make room and see that it is writable, or name another folder with cache_dir= or HF_DATASETS_CACHE",
            )
    return None
