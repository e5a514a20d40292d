"""Relative paths from a release, an index or an archive, and how they are joined to a root.

Whatever a release, an archive or an index names is text that somebody else wrote. It is looked up below a root
that the user chose, and must not be able to mean anything else.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

from .errors import UnsafePathError

__all__ = ["check_relative", "is_local", "join_url", "local_path", "scrubbed", "shown", "without_user"]

_HTTP = ("http://", "https://")

# These stand before another URL in a chain and have no path of their own: the next part's path is theirs.
_CACHES = ("simplecache", "filecache", "blockcache", "cached")

_DRIVE = re.compile(r"[A-Za-z]:")


# Before the `@` of these stands no user.
_AT_IS_A_REVISION = ("hf", "github")


def check_relative(path: str, *, what: str, **where: Any) -> str:
    """Return ``path`` if it can only mean a place below its root.

    Parameters
    ----------
    path : str
        A relative path with forward slashes, for example ``videos/sample_48_proactive.mp4``.
    what : str
        What the path is, for the message: ``video_path``, ``file name in the manifest``.
    **where
        Passed on to the error: ``file``, ``line``, ``record_id``, ``json_path``.

    Returns
    -------
    str
        ``path``, unchanged.

    Raises
    ------
    UnsafePathError
        If it is empty, absolute, begins with ``~``, has a backslash, a drive, a scheme, ``::``, a control
        character, or an empty, ``.`` or ``..`` segment.
    """
    fault = _fault(path)
    if fault is None:
        return path
    raise UnsafePathError(
        f"{what} {path!r} is refused: it {fault}",
        why="A path of a release is looked up below a root; this one could name something outside of it.",
        do="Do not use this copy; get the release, index or archive from its publisher again.",
        **where,
    )


def _fault(path: object) -> str | None:
    if not isinstance(path, str):
        return "is not text"
    segments = path.split("/")
    rules = (
        (not path, "is empty"),
        (any(ord(c) < 32 or ord(c) == 127 for c in path), "has a control character"),
        ("\\" in path, "has a backslash"),
        (path.startswith("/"), "is absolute"),
        (path.startswith("~"), "begins with a home folder"),
        (bool(_DRIVE.match(path)), "has a drive"),
        ("::" in path, "has `::`, which chains URLs"),
        # RFC 3986, 4.2: a colon in the first segment of a relative reference would read as a scheme.
        ("://" in path or ":" in segments[0], "has a scheme"),
        (".." in segments, "has a `..` segment"),
        ("" in segments or "." in segments, "has an empty or `.` segment"),
    )
    return next((text for broken, text in rules if broken), None)


def join_url(root: str, relative: str) -> str:
    """Join a checked relative path to a local folder or an fsspec URL.

    A chained URL is joined in its first part that has a path: ``zip://inner::https://host/a.zip`` and
    ``videos/x.mp4`` give ``zip://inner/videos/x.mp4::https://host/a.zip``. In an HTTP URL the path goes before a
    query, which stays as it is (a token that opens the folder also opens the file), and is percent-encoded, so
    that ``#``, ``?`` and ``%`` in a file name mean themselves.

    Parameters
    ----------
    root : str
        A path or an fsspec URL, with or without a slash at its end.
    relative : str
        A path that `check_relative` accepts. The empty string gives ``root`` itself.

    Returns
    -------
    str
        The joined path or URL.
    """
    if not relative:
        return root
    parts = root.split("::")
    for number, part in enumerate(parts[:-1]):
        if part.split("://")[0] not in _CACHES:
            parts[number] = _join_one(part if "://" in part else f"{part}://", relative)
            return "::".join(parts)
    parts[-1] = _join_one(parts[-1], relative)
    return "::".join(parts)


def _join_one(root: str, relative: str) -> str:
    if root.startswith(_HTTP):
        cut = min((at for at in (root.find("?"), root.find("#")) if at >= 0), default=len(root))
        return f"{root[:cut].rstrip('/')}/{quote(relative, safe='/')}{root[cut:]}"
    if "://" not in root:
        return f"{root.rstrip('/')}/{relative}"
    scheme, _, path = root.partition("://")
    stripped = path.rstrip("/")
    if not stripped:
        # `file:///` is the root folder, while `zip://` and `memory://` begin with nothing.
        return f"{scheme}://{path[:1]}{relative}"
    return f"{scheme}://{stripped}/{relative}"


def is_local(url: str) -> bool:
    """Return whether a path or URL is a plain local one, with nothing chained before it."""
    return "::" not in url and ("://" not in url or url.startswith(("file://", "local://")))


def local_path(url: str) -> str:
    """Return the absolute plain path of a local path or ``file://`` URL; ``~`` is the home folder."""
    path = Path(url.removeprefix("file://").removeprefix("local://")).expanduser()
    return os.path.abspath(path)  # noqa: PTH100 - Path.resolve() would follow links, which name their own place


def shown(url: str) -> str:
    """Return a URL as it may be shown: without user, password, query and fragment, which can be credentials."""
    parts = []
    for part in url.split("::"):
        part = without_user(part)
        parts.append(re.split(r"[?#]", part, maxsplit=1)[0] if "://" in part else part)
    return "::".join(parts)


def without_user(part: str) -> str:
    """Return one part of a URL without user and password."""
    scheme, mark, rest = part.partition("://")
    if scheme in _AT_IS_A_REVISION:
        return part
    host, slash, path = rest.partition("/")
    return scheme + mark + host.rpartition("@")[2] + slash + path


def scrubbed(problem: object) -> str:
    """Return an error's text on one line, with no user, password or query of the URLs in it."""
    text = re.sub(r"(?<=://)[^/\s@]+@", "", " ".join(str(problem).split()))
    text = re.sub(r"\?[^\s'\")\]]+", "", text)
    return f"{type(problem).__name__}: {text}" if isinstance(problem, BaseException) else text
