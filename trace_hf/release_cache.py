"""The local copies of remote snapshots: one folder for each manifest, by its SHA-256.

::

    releases/
      <SHA-256 of manifest.json>/   a snapshot; what is here verified when it was put here, and is hashed at each use
      .aside/<name>/                files on their way in; whose lock is free was left over by a killed process
      .locks/<name>.lock            held while .aside/<name> is worked on
      .places/<place>.json          the manifests that a place has had, newest first

Nothing is believed because it exists: a folder is used when every file of it has the hash that its manifest states.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import filelock

from .cachedir import ENV_CACHE, cache_dir
from .decode import Unknown
from .errors import TraceError
from .integrity import verify_snapshot
from .manifest import parse_manifest
from .schema import MANIFEST_FILE, Manifest

_MANIFESTS_KEPT = 16
_DIGEST = re.compile(r"[0-9a-f]{64}")


def damaged(folder: Path, manifest: Manifest) -> list[str]:
    """Return the names of the listed files that a folder lacks, or has with other bytes."""
    report = verify_snapshot(folder, manifest, "", problems=(), pins=None)
    return [file.name for file in report.files if file.state in ("missing", "differs")]


class ReleaseCache:
    """The folder of cached snapshots.

    Parameters
    ----------
    root
        Where it is; ``releases`` in the cache folder by default.
    """

    def __init__(self, root: Path | None = None) -> None:
        self.root = root or cache_dir() / "releases"

    def intact(self, manifest: Manifest, data: bytes) -> Path | None:
        """Return the cached copy of a snapshot if every file of it is right; nothing is written.

        Parameters
        ----------
        manifest, data
            The manifest, and its bytes.
        """
        folder = self._folder(data)
        return folder if self._has_manifest(folder, data) and not damaged(folder, manifest) else None

    def complete(self, manifest: Manifest, data: bytes, fetch: Callable[[list[str], Path], None]) -> Path:
        """Make the cached copy of a snapshot right, and return it.

        Parameters
        ----------
        manifest, data
            The manifest, and its bytes.
        fetch
            Called with the names that are needed and the folder to put them in; raises unless all are right.

        Raises
        ------
        TraceError
            When the cache cannot be written, or what `fetch` raises. Nothing is left behind.
        """
        folder = self._folder(data)
        with _writing(self.root), self._lock(folder.name):
            self._sweep(but=folder.name)
            needed = damaged(folder, manifest)
            aside = self.root / ".aside" / folder.name
            try:
                if needed:
                    aside.mkdir(parents=True, exist_ok=True)
                    # A killed process may have left files here that are right already.
                    here = set(damaged(aside, manifest))
                    fetch([name for name in needed if name in here], aside)
                (self._repair if folder.exists() else self._move)(aside, folder, needed, data)
            finally:
                shutil.rmtree(aside, ignore_errors=True)
        return folder

    def _move(self, aside: Path, folder: Path, _needed: list[str], data: bytes) -> None:
        aside.mkdir(parents=True, exist_ok=True)  # a release without files needs none fetched
        (aside / MANIFEST_FILE).write_bytes(data)
        aside.rename(folder)

    def _repair(self, aside: Path, folder: Path, needed: list[str], data: bytes) -> None:
        for name in needed:
            target = folder / name
            if target.is_dir() and not target.is_symlink():
                shutil.rmtree(target)
            target.parent.mkdir(parents=True, exist_ok=True)
            (aside / name).replace(target)
        if not self._has_manifest(folder, data):
            aside.mkdir(parents=True, exist_ok=True)
            (aside / MANIFEST_FILE).write_bytes(data)
            (aside / MANIFEST_FILE).replace(folder / MANIFEST_FILE)

    # --- for a report -------------------------------------------------------------------------------------------

    def report_folder(self, data: bytes) -> Path:
        """Return a new folder with a manifest, for a snapshot that need not be right; it ends with this process."""
        with _writing(self.root):
            name = f"report-{os.getpid()}-{os.urandom(8).hex()}"
            # The lock comes first: a folder of which the lock is free is taken for a left-over one.
            lock = self._lock(name)
            lock.acquire()
            self._sweep(but=name)
            folder = self.root / ".aside" / name
            folder.mkdir(parents=True)
            (folder / MANIFEST_FILE).write_bytes(data)
        atexit.register(_end_report, os.getpid(), folder, lock)
        return folder

    # --- places -------------------------------------------------------------------------------------------------

    def remember(self, place: str, data: bytes) -> None:
        """Note which manifest a place has now. Without it everything works but the use without a network."""
        digest = _sha256(data)
        known = self._known(place)
        if known[:1] == [digest]:
            return
        kept = [digest, *(other for other in known if other != digest)][:_MANIFESTS_KEPT]
        with suppress(OSError):
            for folder in (self.root / ".places", self.root / ".aside"):
                folder.mkdir(parents=True, exist_ok=True)
            new = self.root / ".aside" / f"place-{os.getpid()}-{os.urandom(8).hex()}"
            new.write_text(json.dumps({"manifests": kept}))
            new.replace(self.root / ".places" / f"{place}.json")

    def newest(self, place: str, unknown: Unknown) -> tuple[Path, Manifest] | None:
        """Return the newest cached copy of a place that is intact, with its manifest; None where there is none."""
        for digest in self._known(place):
            path = self.root / digest / MANIFEST_FILE
            try:
                data = path.read_bytes()
            except OSError:
                continue
            if _sha256(data) == digest:
                manifest = parse_manifest(data, place=str(path), unknown=unknown)
                folder = self.intact(manifest, data)
                if folder is not None:
                    return folder, manifest
        return None

    def _known(self, place: str) -> list[str]:
        try:
            noted: Any = json.loads((self.root / ".places" / f"{place}.json").read_bytes())["manifests"]
        except (OSError, ValueError, KeyError, TypeError):
            return []
        return [d for d in noted if isinstance(d, str) and _DIGEST.fullmatch(d)] if isinstance(noted, list) else []

    # --- inside -------------------------------------------------------------------------------------------------

    def _folder(self, data: bytes) -> Path:
        return self.root / _sha256(data)

    def _has_manifest(self, folder: Path, data: bytes) -> bool:
        try:
            return (folder / MANIFEST_FILE).read_bytes() == data
        except OSError:
            return False

    def _lock(self, name: str) -> filelock.BaseFileLock:
        locks = self.root / ".locks"
        locks.mkdir(parents=True, exist_ok=True)
        return filelock.FileLock(str(locks / f"{name}.lock"))

    def _sweep(self, *, but: str) -> None:
        """Remove what killed processes left behind."""
        for folder in (self.root / ".aside").glob("*"):
            if folder.name == but:
                continue
            if folder.is_file():  # a note of a place; if it was still wanted, the next load writes it
                folder.unlink(missing_ok=True)
                continue
            lock = self._lock(folder.name)
            with suppress(filelock.Timeout, OSError), lock.acquire(timeout=0):
                shutil.rmtree(folder, ignore_errors=True)
                if folder.name.startswith("report-"):
                    Path(lock.lock_file).unlink(missing_ok=True)


def _end_report(pid: int, folder: Path, lock: filelock.BaseFileLock) -> None:
    if os.getpid() == pid:  # a forked child runs its parent's exit functions, too
        shutil.rmtree(folder, ignore_errors=True)
        Path(lock.lock_file).unlink(missing_ok=True)
        lock.release()


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@contextmanager
def _writing(root: Path) -> Iterator[None]:
    """Turn a cache that cannot be written into an error of ours."""
    try:
        yield
    except TraceError:
        raise
    except OSError as problem:
        raise TraceError(
            f"the cache folder {root} cannot be written: {problem.strerror or problem}",
            why="remote releases are copied there before they are used",
            do=f"make it writable and see that there is room, or name another folder in {ENV_CACHE}",
        ) from None
