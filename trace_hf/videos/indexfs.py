"""An archive index as a read-only filesystem of fsspec, ``trace-archive://path::index.json``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import IO, Any

import fsspec
from fsspec import AbstractFileSystem

from .archive import PROTOCOL, ArchiveIndex

__all__ = ["ArchiveFileSystem"]


class ArchiveFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """The videos of an archive index.

    Parameters
    ----------
    fo : str
        Path or URL of the index; fsspec gives it for a chained URL.
    target_options : mapping, optional
        Options for the index and for its archives.
    index : ArchiveIndex, optional
        The index itself, instead of ``fo``.
    """

    protocol = PROTOCOL
    cachable = False

    def __init__(
        self,
        fo: str = "",
        target_protocol: str | None = None,
        target_options: Mapping[str, Any] | None = None,
        index: ArchiveIndex | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        if index is None:
            found = dict(target_options or {})
            url = f"{target_protocol}://{fo}" if target_protocol not in (None, "file") and "://" not in fo else fo
            with fsspec.open(url, "rb", **found) as file:
                index = ArchiveIndex.from_json(json.load(file), url, found)
        self.index = index
        self._folders: dict[str, dict[str, dict[str, Any]]] = {"": {}}
        for path, member in index.members.items():
            entry = {"name": path, "type": "file", "size": member.size, "CRC": member.crc32}
            while True:
                parent = path.rpartition("/")[0]
                known = parent in self._folders
                self._folders.setdefault(parent, {})[path] = entry
                if known:
                    break
                path, entry = parent, {"name": parent, "type": "directory", "size": 0}

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        stripped = super()._strip_protocol(path)
        return [item.strip("/") for item in stripped] if isinstance(stripped, list) else stripped.strip("/")

    def ls(self, path: str, detail: bool = True, **_options: Any) -> list[Any]:
        """List a folder of videos."""
        path = self._strip_protocol(path)
        entries = self._folders.get(path)
        if entries is None:
            entry = self._folders.get(path.rpartition("/")[0], {}).get(path)
            if entry is None:
                raise FileNotFoundError(path)
            entries = {path: entry}
        return list(entries.values()) if detail else sorted(entries)

    def info(self, path: str, **_options: Any) -> dict[str, Any]:
        """Say what a path is, from the index alone."""
        path = self._strip_protocol(path)
        if path in self._folders:
            return {"name": path, "type": "directory", "size": 0}
        entry = self._folders.get(path.rpartition("/")[0], {}).get(path)
        if entry is None:
            raise FileNotFoundError(path)
        return entry

    def _open(self, path: str, mode: str = "rb", **_options: Any) -> IO[bytes]:
        if mode != "rb":
            raise NotImplementedError("an archive index is read-only")
        return self.index.open(self._strip_protocol(path))
