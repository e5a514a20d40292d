"""Listings: what really lies in a folder of a video root, with one request a folder."""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from ..errors import TraceError
from ..paths import join_url, local_path, scrubbed, shown
from .access import is_http, stat_of

if TYPE_CHECKING:
    from .places import Place
    from .root import VideoRoot

__all__ = ["Entry", "Listings", "Survey"]

_DEPTH = 5


@dataclass(frozen=True, slots=True)
class Entry:
    """One file or folder of a listing.

    Attributes
    ----------
    name : str
        Its last path segment.
    folder : bool
    size : int or None
        Bytes, or None where the listing does not say.
    tag : str or None
        Its etag or modification time, where the listing says.
    broken : bool
        Whether it is a link to nothing.
    """

    name: str
    folder: bool = False
    size: int | None = None
    tag: str | None = None
    broken: bool = False


class Listings:
    """The listings of a root, each made once.

    Parameters
    ----------
    root : VideoRoot
    workers : int
        How many folders are listed at once.
    """

    def __init__(self, root: VideoRoot, workers: int = 8) -> None:
        self.root = root
        self.workers = workers
        self._known: dict[tuple[Place, str], dict[str, Entry] | None] = {}
        for place in root.places:
            if not place.local and place.index is None:
                root.mount(place)[0].invalidate_cache()

    def load(self, wanted: set[tuple[Place, str]]) -> None:
        """List several folders at once."""
        todo = [(place, folder) for place, folder in wanted if (place, folder) not in self._known]
        if not todo:
            return
        with ThreadPoolExecutor(min(self.workers, len(todo))) as pool:
            for (place, folder), found in zip(todo, pool.map(lambda item: self._list(*item), todo), strict=True):
                self._known[place, folder] = found

    def get(self, place: Place, folder: str) -> dict[str, Entry] | None:
        """Return the entries of a folder below a place by name; None if it is absent or cannot be listed."""
        if (place, folder) not in self._known:
            self._known[place, folder] = self._list(place, folder)
        return self._known[place, folder]

    def _list(self, place: Place, folder: str) -> dict[str, Entry] | None:
        try:
            if place.local:
                return _local(join_url(local_path(place.url), folder))
            return self._remote(place, folder)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except TraceError:
            raise
        except Exception as error:
            if is_http(self.root.mount(place)[0]):
                return None
            raise TraceError(
                f"{shown(join_url(place.url, folder))} cannot be listed: {scrubbed(error)}",
                why="An unreadable folder is not the same as missing videos.",
                do="Check the address, the network and the credentials in the storage options.",
            ) from error

    def _remote(self, place: Place, folder: str) -> dict[str, Entry] | None:
        fs, base = self.root.mount(place)
        if is_http(fs):
            return _http(fs, join_url(base, folder)) or None
        path = f"{base.rstrip('/')}/{folder}".strip("/") if folder else base
        return {
            name: Entry(name, item.get("type") == "directory", *stat_of(item)[:2])
            for item in fs.ls(path, detail=True)
            # An object store may list the folder itself as an empty object.
            if (name := str(item["name"]).rstrip("/").rpartition("/")[2]) and str(item["name"]).strip("/") != path
        }


def _local(folder: str) -> dict[str, Entry]:
    entries = {}
    with os.scandir(folder) as found:
        for item in found:
            try:
                status = item.stat()
            except OSError:
                entries[item.name] = Entry(item.name, broken=True)
                continue
            entries[item.name] = Entry(item.name, item.is_dir(), status.st_size, str(status.st_mtime_ns))
    return entries


def _http(fs: Any, url: str) -> dict[str, Entry]:
    """The links of a web server's listing; it says no sizes."""
    cut = min((at for at in (url.find("?"), url.find("#")) if at >= 0), default=len(url))
    folder = url[:cut].rstrip("/") + "/"
    entries = {}
    # Without the slash most servers redirect, which is one more request.
    for link in fs.ls(folder + url[cut:], detail=False):
        below = link.removeprefix(folder).partition("?")[0].partition("#")[0]
        name = unquote(below.rstrip("/"))
        if link.startswith(folder) and name and "/" not in name:
            entries[name] = Entry(name, folder=below.endswith("/"))
    return entries


class Survey:
    """The files of a root, found by walking it to a depth of five and a number of folders.

    Attributes
    ----------
    files : list of (Place, str)
        Each file and its path below its place.
    complete : bool
        Whether all folders were listed.
    """

    def __init__(self, listings: Listings, *, folders: int = 64, local_folders: int = 5000) -> None:
        self.files: list[tuple[Place, str]] = []
        self.complete = True
        for place in listings.root.places:
            if place.index is not None:
                self.files += [(place, path) for path in place.index.names()]
            else:
                self._walk(listings, place, local_folders if place.local else folders)

    def _walk(self, listings: Listings, place: Place, limit: int) -> None:
        waiting, seen, listed = deque([("", 0)]), set(), 0
        while waiting:
            folder, depth = waiting.popleft()
            if place.local:
                real = os.path.realpath(join_url(local_path(place.url), folder))
                if real in seen:
                    continue
                seen.add(real)
            if listed >= limit:
                self.complete = False
                return
            listed += 1
            for entry in (listings.get(place, folder) or {}).values():
                path = f"{folder}/{entry.name}" if folder else entry.name
                if entry.broken:
                    continue
                if not entry.folder:
                    self.files.append((place, path))
                elif depth + 1 < _DEPTH:
                    waiting.append((path, depth + 1))
                else:
                    self.complete = False
