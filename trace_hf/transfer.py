"""One remote place: its filesystem, files copied out of it in bounded time, and errors that say what happened.

Filesystems raise whatever the library below them raises. Here all of it becomes a `TransferError` of a few kinds,
without the address's query, user or password and without a credential, so that nothing above has to know them.
"""

from __future__ import annotations

import errno
import hashlib
import inspect
import json
import lzma
import os
import tarfile
import tempfile
import threading
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import fsspec
from fsspec.archive import AbstractArchiveFileSystem
from fsspec.callbacks import Callback

from .errors import TraceError
from .paths import join_url, scrubbed, shown, without_user

ENV_TIMEOUT = "TRACE_TIMEOUT"
"""Seconds for which a silent server is waited for; empty counts as unset."""

DEFAULT_TIMEOUT_S = 30.0

Kind = Literal["absent", "refused", "failing", "cut", "unreachable", "too large", "unusable"]

# Web servers are asked again, since fsspec does not do it; the filesystems of object stores and of the Hub do.
_ATTEMPTS = 3
_FIRST_WAIT_S = 0.2

_WEB = ("http", "https")
_PASSING = (408, 425, 429)
_DISK = (errno.ENOSPC, errno.EROFS, getattr(errno, "EDQUOT", errno.ENOSPC))
# s3fs's names for "internal error" and "slow down".
_BUSY = (errno.EBUSY, getattr(errno, "EREMOTEIO", errno.EIO))
_DAMAGED = (zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError)
_ABSENT = (FileNotFoundError, IsADirectoryError, NotADirectoryError, KeyError)
_MISUSE = (TypeError, ValueError, AttributeError, NotImplementedError)

# The classes of libraries that need not be installed, by name.
_CREDENTIALS = {"NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError", "DefaultCredentialsError"}
_CUT = {"ClientPayloadError", "IncompleteRead", "IncompleteReadError", "ResponseStreamingError", "RemoteProtocolError"}
_UNREACHABLE = {"ClientConnectionError", "HTTPClientError", "TransportError", "RequestException"}

# Options that say where a place is; any other may be a secret.
_PLACE_OPTIONS = ("endpoint_url", "endpoint", "account_name", "host", "port", "revision")


class TransferError(Exception):
    """A file could not be had.

    Attributes
    ----------
    kind : str
        ``absent``: the place has no such file. ``refused``: it does not give it to this user. ``failing``: it
        answers with an error. ``cut``: the data ended early or is damaged. ``unreachable``: no answer. ``too
        large``: over the limit. ``unusable``: the address, the options or this installation cannot do it.
    text : str
        What happened, fit to be shown.
    passing : bool
        Whether it may work if it is tried again at once.
    package : bool
        Whether only a package is missing.
    """

    def __init__(self, kind: Kind, text: str, *, passing: bool = False, package: bool = False) -> None:
        super().__init__(text)
        self.kind: Kind = kind
        self.text = text
        self.passing = passing
        self.package = package


class _Stopped(Exception):  # noqa: N818 - no error: somebody else has failed
    """Ends a transfer that nobody waits for any more."""


class _Counter(Callback):  # type: ignore[misc]
    """Counts bytes as they arrive, and ends a transfer that is too large or no longer wanted."""

    def __init__(self, limit: int | None, advance: Callable[[int], None] | None, stop: threading.Event) -> None:
        super().__init__()
        self._limit, self._advance, self._stop = limit, advance, stop

    def relative_update(self, inc: int = 1) -> None:
        if self._stop.is_set():
            raise _Stopped
        self.value += inc
        if self._limit is not None and self.value > self._limit:
            raise TransferError("too large", f"is larger than {self._limit // 2**20} MiB")
        if self._advance:
            self._advance(inc)


def timeout_s() -> float:
    """Return for how many seconds a silent server is waited for.

    Raises
    ------
    TraceError
        When ``TRACE_TIMEOUT`` is no positive number.
    """
    named = os.environ.get(ENV_TIMEOUT)
    try:
        value = float(named) if named else DEFAULT_TIMEOUT_S
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise TraceError(f"{ENV_TIMEOUT} is {named!r}", why="it is a number of seconds", do="set it to, say, 30")
    return value


class Place:
    """A folder somewhere.

    Parameters
    ----------
    url
        Any fsspec URL of the folder.
    storage_options
        fsspec options; with a chained URL also by scheme.
    token
        Token for ``hf://``; it is given to nothing else.

    Notes
    -----
    Nothing is opened before the first `fetch`. Use it in a ``with`` statement, which removes what it keeps on disk.
    """

    def __init__(self, url: str, storage_options: Mapping[str, Any] | None, token: str | bool | None) -> None:
        self.url = url
        self.shown = shown(url)
        self.schemes = [part.partition("://")[0] for part in url.split("::")]
        self._options = _meant_for(self.schemes, storage_options or {})
        self._token = token
        self._secrets = sorted({*_strings(self._options), *([token] if isinstance(token, str) else [])}, key=len)
        self._fs: Any = None
        self._whole_archive: tempfile.TemporaryDirectory[str] | None = None

    def key(self) -> str:
        """Return a SHA-256 that tells this place from others; users and passwords are no part of it."""
        where = {k: str(v) for options in _mappings(self._options) for k, v in options.items() if k in _PLACE_OPTIONS}
        if "hf" in self.schemes:  # datasets states the default one, people do not
            where.setdefault("endpoint", os.environ.get("HF_ENDPOINT") or "https://huggingface.co")
        url = "::".join(without_user(part) for part in self.url.split("::")).rstrip("/")
        return hashlib.sha256(json.dumps([url, where], sort_keys=True).encode()).hexdigest()

    @property
    def workers(self) -> int:
        """How many files may be fetched from it at once."""
        safe = getattr(self._fs, "async_impl", False) or self.schemes[0] in ("hf", "memory", "file", "local")
        return 8 if safe and not isinstance(self._fs, AbstractArchiveFileSystem) else 1

    def __enter__(self) -> Place:
        return self

    def __exit__(self, *_: object) -> None:
        if isinstance(self._fs, AbstractArchiveFileSystem):
            # Nobody else has it, since fsspec does not share archives; it may leave its file open.
            self._fs.fo.close()
        self._fs = None
        if self._whole_archive is not None:
            self._whole_archive.cleanup()

    def forget_listings(self) -> None:
        """Drop what the filesystem remembers of the place, so that a change of it is seen."""
        if self._fs is not None:
            self._fs.invalidate_cache()

    def fetch(
        self,
        name: str,
        target: Path,
        *,
        limit: int | None = None,
        advance: Callable[[int], None] | None = None,
        stop: threading.Event | None = None,
    ) -> None:
        """Copy one file of the place to a local path, in blocks.

        Parameters
        ----------
        name
            A relative path that `trace_hf.paths.check_relative` accepts.
        target
            Where to; its folder exists.
        limit
            Bytes that it may have.
        advance
            Called with the number of bytes that arrived.
        stop
            Ends the transfer when it is set.

        Raises
        ------
        TransferError
            When the file cannot be had. A part of it may be at `target`.
        TraceError
            When `target` cannot be written.
        """
        stop = stop or threading.Event()
        for wait in (*self._waits(), None):
            try:
                counter = _Counter(limit, advance, stop)
                self._opened().get_file(self._path(name), str(target), callback=counter)
                # Filesystems that do not report progress are measured afterwards.
                if limit is not None and target.stat().st_size > limit:
                    raise TransferError("too large", f"is larger than {limit // 2**20} MiB")
                return
            except (TraceError, _Stopped):
                raise
            except Exception as problem:  # noqa: BLE001 - any library may be below
                trouble = self._trouble(problem, target)
            if wait is None or not trouble.passing or stop.wait(wait):
                raise trouble from None

    def _waits(self) -> Iterator[float]:
        if self.schemes[-1] in _WEB:
            yield from (_FIRST_WAIT_S * 2**number for number in range(_ATTEMPTS - 1))

    def _path(self, name: str) -> str:
        """Return the path in the filesystem: the part of the joined URL that the name went into."""
        parts = zip(join_url(self.url, name).split("::"), self.url.split("::"), strict=True)
        return str(self._fs._strip_protocol(next(joined for joined, root in parts if joined != root)))

    # --- the filesystem -----------------------------------------------------------------------------------------

    def _opened(self) -> Any:
        if self._fs is None:
            try:
                self._fs = self._open(self.url)
            except ValueError:
                # A web server that gives whole files only: an archive on it is fetched whole, then read.
                if len(self.schemes) == 1 or self.schemes[-1] not in _WEB:
                    raise
                self._whole_archive = tempfile.TemporaryDirectory(prefix="trace-hf-")
                head, _, archive = self.url.rpartition("::")
                cache = {"simplecache": {"cache_storage": self._whole_archive.name}}
                self._fs = self._open(f"{head}::simplecache::{archive}", cache)
            self._fs.invalidate_cache()
        return self._fs

    def _open(self, url: str, more: Mapping[str, Any] | None = None) -> Any:
        options = {
            k: dict(v) if isinstance(v, Mapping) else v for k, v in (*self._options.items(), *(more or {}).items())
        }
        for number, scheme in enumerate(self.schemes):
            own = options if number == 0 and scheme not in options else options.setdefault(scheme, {})
            if scheme in _WEB:
                own["client_kwargs"] = _web_defaults() | dict(own.get("client_kwargs") or {})
            elif scheme in ("s3", "s3a"):
                _set_s3_defaults(own)
            elif scheme == "hf" and own.get("token") is None and self._token is not None:
                own["token"] = self._token
        return fsspec.core.url_to_fs(url, **options)[0]

    # --- errors -------------------------------------------------------------------------------------------------

    def _trouble(self, problem: BaseException, target: Path) -> TransferError:
        if isinstance(problem, TransferError):
            return problem
        if isinstance(problem, OSError) and (
            problem.errno in _DISK or str(problem.filename or "").startswith(str(target.parent))
        ):
            raise TraceError(
                f"cannot write {target}: {problem.strerror}",
                why="the disk is full, or the folder is not this user's to write to",
                do="make room, or name another cache folder in TRACE_CACHE",
            ) from None
        known = self._known(problem)
        if known is not None:
            return known
        text = f"{type(problem).__name__}: {self._clean(problem)}"
        return TransferError("unusable" if isinstance(problem, _MISUSE) else "unreachable", text)

    def _known(self, problem: BaseException) -> TransferError | None:
        status = _status(problem)
        if status is not None:
            return _of_status(status)
        if isinstance(problem, _ABSENT):
            # fsspec says "not found" for whatever went wrong when it asked for a file's size.
            cause = self._known(problem.__cause__) if problem.__cause__ is not None else None
            return cause or TransferError("absent", "there is no such file")
        names = {cls.__name__ for cls in type(problem).__mro__}
        text = self._clean(problem)
        if isinstance(problem, PermissionError) or names & _CREDENTIALS:
            return TransferError("refused", text)
        if isinstance(problem, TimeoutError) or any("Timeout" in name for name in names):
            return TransferError("unreachable", f"no answer for {timeout_s():g} s" if self._is_web else text)
        if isinstance(problem, _DAMAGED) or names & _CUT:
            return TransferError("cut", f"the data ended early or is damaged ({type(problem).__name__})", passing=True)
        if isinstance(problem, OSError) or names & _UNREACHABLE:
            busy = getattr(problem, "errno", None) in _BUSY
            return TransferError("failing" if busy else "unreachable", text, passing=True)
        if isinstance(problem, ImportError):
            return TransferError("unusable", text, package=True)
        return None

    @property
    def _is_web(self) -> bool:
        return self.schemes[-1] in _WEB

    def _clean(self, problem: BaseException) -> str:
        """Return an exception's text without queries, users and anything that the options hold."""
        text = " ".join(str(problem).split())
        for secret in reversed(self._secrets):
            text = text.replace(secret, "…")
        return scrubbed(text)[:300] if text else type(problem).__name__


def _status(problem: BaseException) -> int | None:
    """Return the HTTP status of an error of aiohttp, requests, httpx or botocore."""
    response = getattr(problem, "response", None)
    if isinstance(response, Mapping):
        status = (response.get("ResponseMetadata") or {}).get("HTTPStatusCode")
    else:
        status = getattr(problem, "status", None) or getattr(response, "status_code", None)
    return status if isinstance(status, int) and status >= 300 else None


def _of_status(status: int) -> TransferError:
    text = f"the server answered {status}"
    if status in (404, 410):
        return TransferError("absent", text)
    if status in (401, 403, 407):
        return TransferError("refused", text)
    return TransferError("failing", text, passing=status in _PASSING or status >= 500)


def _web_defaults() -> dict[str, Any]:
    import aiohttp

    # aiohttp's own default bounds the whole transfer, which cuts large files on slow lines and waits minutes for
    # a silent server. Proxies are those of the environment, as everywhere else.
    seconds = timeout_s()
    return {"timeout": aiohttp.ClientTimeout(total=None, sock_connect=seconds, sock_read=seconds), "trust_env": True}


def _set_s3_defaults(options: dict[str, Any]) -> None:
    if os.environ.get(ENV_TIMEOUT):
        seconds = timeout_s()
        bounds = {"connect_timeout": seconds, "read_timeout": seconds}
        options["config_kwargs"] = bounds | dict(options.get("config_kwargs") or {})
    # Files are fetched at the same time already; s3fs would hold ten parts of each in memory besides.
    if "max_concurrency" in inspect.signature(fsspec.get_filesystem_class("s3").__init__).parameters:
        options.setdefault("max_concurrency", 1)


def _meant_for(schemes: list[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options without those of filesystems that the URL does not name; datasets adds the Hub's to all."""
    others = set(fsspec.available_protocols()) - set(schemes)
    return {k: v for k, v in options.items() if not (k in others and isinstance(v, Mapping))}


def _mappings(options: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield options
    for value in options.values():
        if isinstance(value, Mapping):
            yield from _mappings(value)


def _strings(options: Mapping[str, Any]) -> Iterator[str]:
    for mapping in _mappings(options):
        for name, value in mapping.items():
            if isinstance(value, str) and len(value) > 3 and name not in _PLACE_OPTIONS:
                yield value
