"""Video roots: where a record's relative ``video_path`` is looked up.

A root is a folder, an fsspec URL, a mapping of path prefixes to such places, or a JSON file that holds a mapping
or an archive index. Whatever it is, it answers the same few questions.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Union

from ..errors import TraceError, UnsafePathError, VideoNotFoundError
from ..paths import check_relative, is_local, join_url, shown
from .access import Stat, filesystem, open_ranges, stat
from .places import Place, display, places_of

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

__all__ = ["RootLike", "VideoRoot"]

ENVIRONMENT = "TRACE_VIDEO_ROOT"
"""The environment variable that gives the default root; empty counts as unset."""

RootLike = Union["VideoRoot", str, "os.PathLike[str]", Mapping[str, Any]]

# Options that say where a bucket really is; every other option may be a secret and is no part of a key.
_PLACE_OPTIONS = ("endpoint_url", "endpoint", "account_name", "host", "port", "revision")


class VideoRoot:
    """Where videos are looked up.

    Parameters
    ----------
    url_or_mapping : str, path or mapping
        A folder; an fsspec URL (``s3://``, ``hf://``, ``https://``, ``zip://::…``, ``memory://``); a mapping of
        path prefixes to any of these (the longest prefix wins, and is replaced by its place); or the path or URL
        of a ``.json`` file that holds a mapping or an archive index. A mapping's value may also be an object
        ``{"url": …, "storage_options": …}``. A relative folder in a JSON file is relative to that file.
    storage_options : mapping, optional
        Options for fsspec. With a mapping, options by prefix; options that name no prefix go to every remote place.
    follow_symlinks : bool
        Whether a local video may be a link that leads out of the root. Links inside of it are always followed.

    Raises
    ------
    TraceError
        If a mapping or JSON file is not understood.
    UnsafePathError
        If a prefix is not a plain relative path.

    Examples
    --------
    >>> root = VideoRoot({"videos/": "s3://lab/streamingbench/videos", "src_videos/": "/mnt/ovo/src_videos"})
    >>> root.url("videos/sample_48_proactive.mp4")
    's3://lab/streamingbench/videos/sample_48_proactive.mp4'
    """

    def __init__(
        self,
        url_or_mapping: str | os.PathLike[str] | Mapping[str, Any],
        storage_options: Mapping[str, Any] | None = None,
        *,
        follow_symlinks: bool = True,
    ) -> None:
        self.follow_symlinks = follow_symlinks
        self._lock = threading.Lock()
        self._mounts: dict[tuple[int, str, str], tuple[AbstractFileSystem, str]] = {}
        self.name = display(url_or_mapping)
        self.places = places_of(url_or_mapping, storage_options or {})

    # --- made from what people pass ---

    @classmethod
    def coerce(
        cls, value: RootLike | None = None, storage_options: Mapping[str, Any] | None = None
    ) -> VideoRoot | None:
        """Return a root for whatever a ``video_root`` argument holds.

        None means the environment variable ``TRACE_VIDEO_ROOT``; if that is unset or empty, the result is None.
        """
        if isinstance(value, VideoRoot):
            return value
        if value is None:
            value = os.environ.get(ENVIRONMENT, "")
        if isinstance(value, str) and not value:
            return None
        return cls(value, storage_options)

    @classmethod
    def need(cls, value: RootLike | None = None, storage_options: Mapping[str, Any] | None = None) -> VideoRoot:
        """Return a root like `coerce`, or say how to name one.

        Raises
        ------
        VideoNotFoundError
            If no root was given.
        """
        root = cls.coerce(value, storage_options)
        if root is None:
            raise VideoNotFoundError(
                "no video root was given",
                why="Videos are not part of a release; they lie wherever you keep them.",
                do=f"Pass video_root=… (`--video-root` on the command line), or set {ENVIRONMENT}.",
            )
        return root

    # --- what it answers ---

    def place(self, video_path: str) -> Place:
        """Return the place where a video path is looked up: the one with the longest prefix.

        Raises
        ------
        UnsafePathError
            If the path is not a plain relative path.
        VideoNotFoundError
            If no prefix of the mapping fits.
        """
        check_relative(video_path, what="video_path")
        for place in self.places:
            if place.below(video_path) is not None:
                return place
        raise VideoNotFoundError(
            f"no prefix of the video root fits {video_path!r}",
            why=f"The mapping knows {', '.join(repr(place.prefix + '/') for place in self.places)} only.",
            do='Add a prefix for it, or "" for everything else.',
        )

    def url(self, video_path: str) -> str:
        """Return where a video is, as an absolute local path or an fsspec URL; nothing is opened.

        Raises
        ------
        UnsafePathError
            If the path would leave the root.
        VideoNotFoundError
            If no prefix of a mapping, or no entry of an archive index, fits.
        """
        place = self.place(video_path)
        if place.index is not None:
            return place.index.url(video_path, place.url)
        url = place.join(video_path)
        return self._inside(place, url) if place.local else url

    def fs_for(self, video_path: str) -> tuple[AbstractFileSystem, str]:
        """Return the filesystem of a video and its path there."""
        place = self.place(video_path)
        if place.index is not None:
            return place.index.filesystem(), video_path
        fs, base = self.mount(place)
        relative = place.below(video_path) or ""
        if "://" in base or not relative:
            return fs, join_url(base, relative)
        return fs, f"{base.rstrip('/')}/{relative}" if base else relative

    def mount(self, place: Place) -> tuple[AbstractFileSystem, str]:
        """Return the filesystem of a place and the path of the place there; opened once in each process."""
        key = (os.getpid(), place.prefix, place.url)
        with self._lock:
            if key not in self._mounts:
                self._mounts[key] = filesystem(place.url, place.options)
            return self._mounts[key]

    def open(self, video_path: str) -> IO[bytes]:
        """Open a video for reading; remote ones by ranges, so that only what is read is moved.

        Returns
        -------
        file
            Binary and seekable.

        Raises
        ------
        VideoNotFoundError
            If it is not there.
        TraceError
            If its server gives no byte ranges: nothing is downloaded whole without being asked for.
        """
        place = self.place(video_path)
        try:
            if place.index is not None:
                return place.index.open(video_path)
            if place.local:
                return Path(self.url(video_path)).open("rb")
            fs, path = self.fs_for(video_path)
            return open_ranges(fs, path)
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
            if isinstance(error, TraceError):
                raise
            raise self._not_found(video_path) from None

    def stat(self, video_path: str) -> Stat:
        """Return size and etag or modification time of a video, with one request for a remote one.

        Raises
        ------
        VideoNotFoundError
            If it is not there.
        """
        place = self.place(video_path)
        if place.index is not None:
            member = place.index.member(video_path)
            place_there = repr((place.index.archives[member.archive], member))
            return Stat(member.size, hashlib.sha256(place_there.encode()).hexdigest())
        try:
            if place.local:
                status = Path(self.url(video_path)).stat()
                return Stat(status.st_size, str(status.st_mtime_ns))
            return stat(*self.fs_for(video_path))
        except (FileNotFoundError, NotADirectoryError):
            raise self._not_found(video_path) from None

    def exists(self, video_path: str) -> bool:
        """Return whether a video is there, with one request for a remote one.

        A path that would leave the root is refused as by `url`.
        """
        place = self.place(video_path)
        if place.index is not None:
            return video_path in place.index.members
        if place.local:
            return Path(self.url(video_path)).is_file()
        try:
            stat(*self.fs_for(video_path))
        except FileNotFoundError:
            return False
        return True

    def packed_far_away(self, video_path: str, limit: int) -> bool:
        """Return whether a video is a compressed member of a remote archive, larger there than ``limit`` bytes."""
        index = self.place(video_path).index
        if index is None or video_path not in index.members:
            return False
        member = index.members[video_path]
        remote = not all(is_local(url) for url, _ in index.archives[member.archive].parts)
        return remote and member.method == "deflate" and member.stored > limit

    def key(self) -> str:
        """Return a stable key of this root, for caches.

        It is a SHA-256 over the prefixes, places and archive indexes, and tells roots apart without holding or
        depending on credentials. It says nothing about the videos.
        """
        parts: list[Any] = [self.follow_symlinks]
        for place in self.places:
            options = {name: str(place.options[name]) for name in _PLACE_OPTIONS if name in place.options}
            client = place.options.get("client_kwargs")
            if isinstance(client, Mapping) and "endpoint_url" in client:
                options["endpoint_url"] = str(client["endpoint_url"])
            parts.append([place.prefix, place.url, options, place.index.digest() if place.index else None])
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_lock", "_mounts")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock(), _mounts={})

    def __repr__(self) -> str:
        return f"VideoRoot({self.name})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VideoRoot) and self.key() == other.key()

    def __hash__(self) -> int:
        return hash(self.key())

    # --- inside ---

    def _inside(self, place: Place, path: str) -> str:
        if self.follow_symlinks:
            return path
        real, root = os.path.realpath(path), os.path.realpath(place.url)
        if real != root and not real.startswith(root.rstrip(os.sep) + os.sep):
            raise UnsafePathError(
                f"{path} is a link that leads out of the video root, to {real}",
                why="follow_symlinks=False allows only what lies below the root.",
                do="Copy the video into the root, or allow links with follow_symlinks=True.",
            )
        return path

    def _not_found(self, video_path: str) -> VideoNotFoundError:
        return VideoNotFoundError(
            f"{video_path!r} is not at {shown(self.url(video_path))}",
            why=f"The video root is {self.name}; the file may have another name or folder there.",
            do="`trace-hf videos check` lists what is missing and the nearest files that are really there.",
        )
