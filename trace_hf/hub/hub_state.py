"""What a repo on the Hub is now, as the Hub tells it: its files with their hashes, its tags, and who can read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .content import Content, Item, is_own
from .decide import Visibility
from .export import SNAPSHOT

ATTRIBUTES = ".gitattributes"
"""The file that every new repo on the Hub has."""


@dataclass(frozen=True)
class HubFile:
    """What the Hub says of a file: its size and hashes, computed where it is stored."""

    path: str
    size: int
    blob_id: str
    sha256: str | None

    def is_item(self, item: Item) -> bool:
        """Whether it has the bytes of a local file: by SHA-256 when it is in LFS, else by git's blob ID."""
        if self.size != item.size:
            return False
        return self.sha256 == item.sha256 if self.sha256 else self.blob_id == item.blob_id


@dataclass(frozen=True)
class HubState:
    """What a repo is now."""

    exists: bool
    visibility: Visibility = "private"
    sha: str | None = None
    files: Mapping[str, HubFile] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)


def is_part(file: HubFile, content: Content) -> bool:
    """Whether a stored file is one of the content, or one that the Hub makes itself."""
    item = content.items.get(file.path)
    return file.path == ATTRIBUTES or (item is not None and file.is_item(item))


def visibility_of(info: Any) -> Visibility:
    """Return who can read the repo that `HfApi.repo_info` told of."""
    if info.private:
        return "private"
    # An automatic gate lets everybody in who asks.
    return "gated" if getattr(info, "gated", None) == "manual" else "public"


def same_release(content: Content, files: Mapping[str, HubFile]) -> bool:
    """Whether a revision holds the release's files; its card may be another one."""
    wanted = {path: item for path, item in content.items.items() if path.startswith(f"{SNAPSHOT}/")}
    found = {path for path in files if path.startswith(f"{SNAPSHOT}/")}
    return found == set(wanted) and all(files[path].is_item(item) for path, item in wanted.items())


def differences(content: Content, files: Mapping[str, HubFile]) -> tuple[list[str], list[str]]:
    """Return the paths to upload, and the ones of an earlier mirror to delete."""
    uploads = [path for path, item in content.items.items() if path not in files or not files[path].is_item(item)]
    deletes = [path for path in files if path not in content.items and is_own(path)]
    return uploads, deletes
