"""A mirror at any fsspec URL: each file is written aside and read back before it takes its place, the manifest last."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Any

import fsspec

from ..errors import DataTermsError, IntegrityError, TraceError
from ..paths import is_local, local_path, shown
from ..schema import MANIFEST_FILE
from .content import MANIFEST_PATH, Content, is_own
from .decide import Visibility
from .reports import Plan, PushReport, Step

ASIDE = ".trace-hf-partial"
"""The folder, inside the target, in which files lie until they are whole."""

# Places that files can be put to, and of which nothing is published by the putting alone.
_OBJECT_STORES = ("s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oci", "oss")
_SCHEMES = (
    *("file", "local", "memory", "sftp", "ssh", "smb", "webdav", "webdavs", "hdfs", "arrow_hdfs", "webhdfs"),
    *_OBJECT_STORES,
)
_BLOCK = 2**20


def check_url(url: str, storage_options: Mapping[str, Any] | None, visibility: Visibility) -> None:
    """Refuse a URL that is no place for a mirror, or one that others can read unless that is allowed.

    Raises
    ------
    DataTermsError
    """
    scheme = url.partition("://")[0] if "://" in url else "file"
    if "::" in url or scheme not in _SCHEMES:
        raise DataTermsError(
            f"{scheme}:// is no place for a mirror" if "::" not in url else "a chain of URLs is no place for a mirror",
            file=shown(url),
            why="who can read what is put there cannot be told",
            do="name hf://datasets/org/name, a folder, or an object store such as s3://bucket/prefix",
        )
    if visibility == "private" and _is_public(storage_options or {}):
        raise DataTermsError(
            "the storage options make every file readable for all",
            file=shown(url),
            why="they set a public access list",
            do="take it out; or say --public, for a release that may be public",
        )


def _is_public(options: Mapping[str, Any]) -> bool:
    for value in options.values():
        if isinstance(value, Mapping) and _is_public(value):
            return True
        if isinstance(value, str) and value.lower().replace("_", "-").startswith(("public", "authenticated-read")):
            return True
    return False


def is_release(paths: Collection[str]) -> bool:
    """Whether the files of a place are those of a plain release: its manifest lies at the root, and none below."""
    return MANIFEST_FILE in paths and MANIFEST_PATH not in paths


def refuse_release(paths: Collection[str], name: str) -> None:
    """Refuse to put a mirror's files among those of a plain release, which then would be neither.

    Raises
    ------
    TraceError
    """
    if is_release(paths):
        raise TraceError(
            "is a release, not a mirror",
            file=name,
            why=f"{MANIFEST_FILE} lies at its root; a mirror has it in {MANIFEST_PATH}",
            do="name another target, for the mirror alone",
        )


class FileMirror:
    """A folder on disk, or a prefix of an object store, as a mirror.

    Parameters
    ----------
    url
        Of the folder.
    storage_options
        fsspec options.
    visibility
        What its owner says of it; nothing here can find out.
    """

    def __init__(
        self, url: str, storage_options: Mapping[str, Any] | None = None, visibility: Visibility = "private"
    ) -> None:
        check_url(url, storage_options, visibility)
        self.url = local_path(url) if is_local(url) else url
        self.name = shown(self.url)
        self.wanted: Visibility = visibility
        self.options = dict(storage_options or {})
        self._fs: Any = None
        with self._explained("open"):
            self._fs, root = fsspec.core.url_to_fs(self.url, **self.options)
        self._root: str = root.rstrip("/")
        if not PurePosixPath(self._root).name:
            raise TraceError("names no folder", file=self.name, do="name a folder below it, for the mirror alone")

    # --- reading ----------------------------------------------------------------------------------------------------

    def files(self) -> dict[str, int]:
        """Return the files below the folder and their sizes; what lies aside is none of them."""
        with self._explained("list"):
            self._fs.invalidate_cache()
            found = self._fs.find(self._root, detail=True) if self._fs.exists(self._root) else {}
        start = len(self._root) + 1
        files = {path[start:]: int(info["size"]) for path, info in found.items() if info["type"] == "file"}
        return {path: size for path, size in files.items() if not path.startswith(f"{ASIDE}/")}

    def plan(self, content: Content) -> Plan:
        """Say what a push would do; files of the right size are read and hashed.

        Raises
        ------
        TraceError
            When the place cannot be read, or is a plain release.
        """
        found = self.files()
        refuse_release(found, self.name)
        uploads = [path for path, item in content.items.items() if not self._is_right(path, content, found)]
        deletes = [path for path in found if is_own(path) and path not in content.items]
        steps = [] if found else [Step("create", self.name)]
        steps += [Step("replace" if path in found else "upload", path, content.items[path].size) for path in uploads]
        steps += [Step("delete", path) for path in deletes]
        unchanged = len(content.items) - len(uploads)
        foreign = [path for path in found if not is_own(path)]
        return Plan.of(
            self.name, content.release, content.decision, self.wanted, steps, unchanged=unchanged, foreign=foreign
        )

    def _is_right(self, path: str, content: Content, found: Mapping[str, int]) -> bool:
        item = content.items[path]
        return found.get(path) == item.size and self._sha256(path) == item.sha256

    def _sha256(self, path: str) -> str:
        whole = hashlib.sha256()
        with self._explained(f"read {path} of"), self._fs.open(self._place(path), "rb") as stream:
            while block := stream.read(_BLOCK):
                whole.update(block)
        return whole.hexdigest()

    def _place(self, path: str) -> str:
        return f"{self._root}/{path}"

    # --- writing ----------------------------------------------------------------------------------------------------

    def push(self, content: Content) -> PushReport:
        """Make the folder a complete mirror, or raise; until the last file, it has no manifest or the earlier one.

        Raises
        ------
        DataTermsError, IntegrityError, TraceError
        """
        plan = self.plan(content)
        by = "SHA-256, read back"
        if not plan.steps:
            return PushReport(plan, None, len(content.items), by)
        content.decision.require()
        uploads = content.in_order(step.name for step in plan.steps if step.action in ("upload", "replace"))
        try:
            self._put_aside(content, uploads)
            if any(step.action == "replace" and step.name == MANIFEST_PATH for step in plan.steps):
                self._remove(MANIFEST_PATH)  # while the files of two releases lie here, there is no release here
            for path in uploads:
                if path == MANIFEST_PATH:
                    self._require(content, (other for other in content.items if other != path))
                self._settle(path)
            self._require(content, [MANIFEST_PATH] if MANIFEST_PATH in uploads else uploads)
            for step in plan.steps:
                if step.action == "delete":
                    self._remove(step.name)
        finally:
            self._sweep()
        return PushReport(plan, None, len(content.items), by)

    def _put_aside(self, content: Content, paths: Iterable[str]) -> None:
        for path in paths:
            aside = f"{ASIDE}/{path}"
            with self._explained(f"write {path} to"):
                self._make_parent(aside)
                self._fs.put_file(str(content.folder / path), self._place(aside))
            self._require(content, [path], aside=True)

    def _settle(self, path: str) -> None:
        with self._explained(f"put {path} into its place in"):
            self._make_parent(path)
            if self._on_disk:
                os.replace(self._place(f"{ASIDE}/{path}"), self._place(path))  # noqa: PTH105 - not a Path
            else:
                self._fs.cp_file(self._place(f"{ASIDE}/{path}"), self._place(path))

    def _require(self, content: Content, paths: Iterable[str], *, aside: bool = False) -> None:
        with self._explained("look at"):
            self._fs.invalidate_cache()
        for path in paths:
            try:
                right = self._sha256(f"{ASIDE}/{path}" if aside else path) == content.items[path].sha256
            except FileNotFoundError:
                right = False
            if not right:
                raise IntegrityError(
                    f"what was read back of {path} is not what was written",
                    file=self.name,
                    why="the store is damaged, or somebody else writes there at the same time",
                    do="run it again: it sends what is wrong once more",
                )

    def _remove(self, path: str) -> None:
        with self._explained(f"delete {path} from"):
            self._fs.rm_file(self._place(path))

    def _sweep(self) -> None:
        """Remove what lies aside; what cannot be removed now, the next push removes."""
        try:
            self._fs.invalidate_cache()
            if self._fs.exists(self._place(ASIDE)):
                self._fs.rm(self._place(ASIDE), recursive=True)
        except Exception:  # noqa: BLE001 - what went wrong before is what is told
            return

    def _make_parent(self, path: str) -> None:
        if self.url.partition("://")[0] not in _OBJECT_STORES:  # there, it could make a bucket
            self._fs.makedirs(str(PurePosixPath(self._place(path)).parent), exist_ok=True)

    @property
    def _on_disk(self) -> bool:
        return is_local(self.url)

    # --- errors -----------------------------------------------------------------------------------------------------

    @contextmanager
    def _explained(self, doing: str) -> Iterator[None]:
        try:
            yield
        except TraceError:
            raise
        except FileNotFoundError:
            if doing.startswith("read "):
                raise
            raise self._trouble(doing, "there is no such place") from None
        except ImportError as problem:
            error = self._trouble(doing, str(problem))
            error.do = (
                "pip install 'trace-hf[s3]'" if self.url.startswith("s3") else "install the package that is named"
            )
            raise error from None
        except Exception as problem:  # noqa: BLE001 - any library may be below
            raise self._trouble(doing, f"{type(problem).__name__}: {self._clean(str(problem))}") from None

    def _trouble(self, doing: str, what: str) -> TraceError:
        return TraceError(
            f"cannot {doing} the mirror: {what}",
            file=self.name,
            do="check the address, the network and --storage-options, then run it again; it goes on where it stopped",
        )

    def _clean(self, text: str) -> str:
        for secret in _strings(self.options):
            text = text.replace(secret, "…")
        return shown(" ".join(text.split()))[:300]


def _strings(options: Mapping[str, Any]) -> Iterator[str]:
    for value in options.values():
        if isinstance(value, Mapping):
            yield from _strings(value)
        elif isinstance(value, str) and len(value) > 3:
            yield value
