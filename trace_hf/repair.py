"""`verify --repair`: a correct snapshot out of a damaged one, as far as hashes prove what its files have to be.

Nothing is guessed and nothing is mended in place. A file is written when bytes with the hash that is due can be made:
it has them already, a known kind of damage to it can be undone, or the rest of the folder holds them. Every other file
is left out and named.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from ._files import folder_aside, open_regular
from .causes import find_cause
from .errors import IntegrityError, OutputExistsError, TraceError
from .manifest import PINS, pin_problems
from .release import Release
from .repairs import BAD_BYTES, Repair, rebuilding, rewriting
from .schema import MANIFEST_FILE

__all__ = ["RepairReport", "RepairedFile", "repair"]

FileOutcome = Literal["kept", "repaired", "refused"]

_CHUNK = 1024 * 1024

# A release has 13 files. More than this would take too long to search for, one by one.
_MOST_FILES = 256


@dataclass(frozen=True)
class RepairedFile:
    """What became of one file.

    Attributes
    ----------
    name : str
        Its name in the snapshot.
    outcome : {"kept", "repaired", "refused"}
        ``kept``: it was right. ``repaired``: other bytes were written in its place. ``refused``: it was not written.
    expected : str
        The SHA-256 that is due; what was written has it.
    why : str
        What proves the bytes that were written, or why there are none.
    """

    name: str
    outcome: FileOutcome
    expected: str
    why: str


@dataclass(frozen=True)
class RepairReport:
    """What a repair wrote.

    Attributes
    ----------
    release_id : str
    ok : bool
        Whether the new folder is a complete snapshot that verifies.
    pinned : bool
        Whether the hashes are built into the package, which proves origin; otherwise they are the manifest's own.
    path : Path or None
        The new folder; None when not one file could be proven, and nothing was written.
    files : tuple of RepairedFile
        By name.
    """

    release_id: str
    ok: bool
    pinned: bool
    path: Path | None
    files: tuple[RepairedFile, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the report as ``trace-hf verify --repair OUT --json`` prints it."""
        return {
            "ok": self.ok,
            "path": None if self.path is None else str(self.path),
            "pinned": self.pinned,
            "files": [{"name": f.name, "outcome": f.outcome, "expected": f.expected, "why": f.why} for f in self.files],
        }


def repair(release: Release, out: str | os.PathLike[str]) -> RepairReport:
    """Write a correct snapshot into a new folder, as far as hashes prove its files.

    Parameters
    ----------
    release
        The damaged snapshot, opened. It is read only.
    out
        The folder to make. It appears whole, or not at all.

    Returns
    -------
    RepairReport
        Says for every file what proves it, or why it was left out.

    Raises
    ------
    IntegrityError
        When the manifest itself breaks pinned facts: then nothing says which bytes are due.
    TraceError
        When `out` is there, or cannot be written.
    """
    target = Path(os.path.abspath(os.fspath(out)))  # noqa: PTH100 - a link in its place is not followed
    problems = pin_problems(release.manifest)
    if problems:
        raise IntegrityError(
            f"the manifest is not one of release {release.release_id}: {'; '.join(problems)}",
            file=MANIFEST_FILE,
            why="it was edited; the hashes that it states prove nothing",
            do="get manifest.json again from where the release is published, then repair",
        )
    if len(release.manifest.files) > _MOST_FILES:
        raise TraceError(
            f"lists {len(release.manifest.files)} files; a repair looks for {_MOST_FILES} at the most",
            file=MANIFEST_FILE,
            do="get the release again from where it is published",
        )
    _refuse_if_taken(target)
    with _writing(target), folder_aside(target) as folder:
        files = _Repairer(release, folder).all()
        written = any(file.outcome != "refused" for file in files)
        if written:
            _copy_manifest(release, folder)
            folder.replace(target)
    ok = all(file.outcome != "refused" for file in files)
    return RepairReport(release.release_id, ok, release.pinned, target if written else None, files)


class _Repairer:
    """Makes the files of one snapshot, those first that need no other."""

    def __init__(self, release: Release, folder: Path) -> None:
        self._release = release
        self._folder = folder
        pin = PINS.get(release.release_id)
        self._due = dict(pin.files) if pin else dict(release.manifest.files)
        self._by = "the hash that is pinned" if pin else "the hash that the manifest states"
        self._done: dict[str, RepairedFile] = {}

    def all(self) -> tuple[RepairedFile, ...]:
        """Make every file that can be proven."""
        for step in (self._keep, self._rewrite, self._find, self._rebuild):
            for name in self._due:
                if name not in self._done:
                    step(name)
        for name in self._due:
            if name not in self._done:
                self._refuse(name)
        return tuple(self._done[name] for name in sorted(self._due))

    def _keep(self, name: str) -> None:
        if self._write(name, partial(_read, self._release.root / name)):
            self._note(name, "kept", f"it has {self._by}")

    def _rewrite(self, name: str) -> None:
        path = self._release.root / name
        if path.is_file():  # no pipe or device, which could be read for ever
            self._use(name, _try(partial(rewriting, path, self._due[name])))

    def _find(self, name: str) -> None:
        """Look for the file under another name, compressed or not."""
        for other in self._strangers(name):
            if self._write(name, partial(_read, other)):
                self._note(name, "repaired", f"{other.name} has {self._by}; that was copied")
                return
            near = other.name.startswith(Path(name).stem)
            found = _try(partial(rewriting, other, self._due[name])) if near else None
            if found is not None and self._write(name, found.chunks):
                self._note(name, "repaired", f"{other.name} {found.what}; undoing that gives {self._by}")
                return

    def _rebuild(self, name: str) -> None:
        """Put the file together from those that are proven by now."""
        proven = [self._folder / other for other in self._done]
        found = _try(partial(rebuilding, self._release.root / name, self._due[name], proven))
        self._use(name, found)

    def _use(self, name: str, found: Repair | None) -> None:
        if found is not None and self._write(name, found.chunks):
            done = "writing that" if found.kind == "rebuilt" else "undoing that"
            self._note(name, "repaired", f"it {found.what}; {done} gives {self._by}")

    def _refuse(self, name: str) -> None:
        path = self._release.root / name
        cause = find_cause(path, self._due[name], self._release.manifest) if path.is_file() else "it is missing"
        why = f"nothing here gives {self._by}; {cause or 'get the file again from where the release is published'}"
        self._note(name, "refused", why)

    def _note(self, name: str, outcome: FileOutcome, why: str) -> None:
        self._done[name] = RepairedFile(name, outcome, self._due[name], why)

    def _strangers(self, name: str) -> Iterator[Path]:
        """Give the other files beside a file, those with a like name first."""
        own = self._release.root / name
        try:
            paths = [p for p in own.parent.iterdir() if p != own and p.is_file() and not p.is_symlink()]
        except OSError:
            return
        paths.sort(key=lambda path: (not path.name.startswith(own.stem), path.name))
        yield from paths[:_MOST_FILES]

    def _write(self, name: str, chunks: Any) -> bool:
        """Write a file if its bytes have the hash that is due; what has not never stays."""
        target = self._folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        whole = hashlib.sha256()
        with target.open("wb") as sink:
            for chunk in _until_bad(chunks):
                whole.update(chunk)
                sink.write(chunk)
        if whole.hexdigest() == self._due[name]:
            return True
        target.unlink()
        return False


def _try(find: Any) -> Repair | None:
    """Search for a repair; whatever damaged bytes do to the search, there is none then."""
    try:
        found: Repair | None = find()
    except (*BAD_BYTES, TraceError):
        return None
    return found


def _read(path: Path) -> Iterator[bytes]:
    with open_regular(path) as stream:
        while chunk := stream.read(_CHUNK):
            yield chunk


def _until_bad(chunks: Any) -> Iterator[bytes]:
    """Give chunks until the source fails; the hash then tells that they are not all."""
    source = iter(chunks())
    while True:
        try:
            chunk = next(source, None)
        except BAD_BYTES:
            return
        if chunk is None:
            return
        yield chunk


def _copy_manifest(release: Release, folder: Path) -> None:
    data = b"".join(_read(release.root / MANIFEST_FILE))
    if hashlib.sha256(data).hexdigest() != release.manifest_sha256:
        raise IntegrityError("changed while it was read", file=MANIFEST_FILE, do="repair again")
    (folder / MANIFEST_FILE).write_bytes(data)


def _refuse_if_taken(target: Path) -> None:
    if target.is_symlink() or (target.exists() and (not target.is_dir() or any(target.iterdir()))):
        raise OutputExistsError(
            "is there", file=str(target), do="name a folder that is not there: a repair replaces nothing"
        )


@contextmanager
def _writing(target: Path) -> Iterator[None]:
    """Turn a folder that cannot be written into an error of ours."""
    try:
        yield
    except TraceError:
        raise
    except OSError as problem:
        raise TraceError(
            f"cannot be written: {problem.strerror or problem}",
            file=str(target),
            do="see that there is room and access",
        ) from None
