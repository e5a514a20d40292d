"""Copying videos into a local root: concurrent, resumed after a kill at any byte, checked, never half there."""

from __future__ import annotations

import os
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import Event, Lock
from typing import TYPE_CHECKING, Any

from ..errors import TraceError
from ..paths import is_local, local_path, scrubbed
from .inventory import Inventory, MissingVideo, check_videos, videos_of
from .root import RootLike, VideoRoot
from .transfer import Transfer, aside_prefix

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["FetchPlan", "FetchReport", "fetch_videos", "plan_fetch"]

_LOCK = ".trace-fetch.lock"


@dataclass
class FetchReport:
    """What a fetch did.

    Attributes
    ----------
    fetched, already, kept : list of str
        Videos that were copied; that were there before, whole; that are there while the source has them not.
    missing : list of MissingVideo
        Videos that neither the source nor the destination has.
    conflicts : list of dict
        ``{"path", "here", "source"}``, sizes in bytes, of files that are not the source's; left alone.
    failed : list of dict
        ``{"path", "error"}``.
    bytes : int
        Bytes that were moved.
    """

    fetched: list[str] = field(default_factory=list)
    already: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    missing: list[MissingVideo] = field(default_factory=list)
    conflicts: list[dict[str, Any]] = field(default_factory=list)
    failed: list[dict[str, str]] = field(default_factory=list)
    bytes: int = 0

    @property
    def ok(self) -> bool:
        """Whether every video is at the destination now."""
        return not (self.missing or self.conflicts or self.failed)

    def to_json(self) -> dict[str, Any]:
        """Return the report with stable keys."""
        return {"ok": self.ok, **asdict(self)}


@dataclass
class FetchPlan:
    """What a fetch will do.

    Attributes
    ----------
    root : VideoRoot
        The source.
    destination : Path
        The local root that is filled.
    todo : list of Transfer
        What will be copied.
    report : FetchReport
        What is known already: what is there, missing, or in conflict.
    """

    root: VideoRoot
    destination: Path
    todo: list[Transfer]
    report: FetchReport

    @property
    def bytes(self) -> int:
        """Bytes that will be moved; what an interrupted fetch left is not moved again."""
        return sum(max(0, (transfer.stored or 0) - transfer.have()) for transfer in self.todo)

    def run(self, workers: int = 4, progress: Callable[[int], None] = lambda _bytes: None) -> FetchReport:
        """Do it.

        Parameters
        ----------
        workers : int
            Videos at once.
        progress : callable
            Told the number of bytes of each block that arrived.

        Raises
        ------
        TraceError
            If the disk has no room, or another fetch fills the same destination now.
        """
        report = self.report
        self._sweep()
        if not self.todo:
            return report
        self.destination.mkdir(parents=True, exist_ok=True)
        self._need_room()
        stop, counting = Event(), Lock()

        def advance(count: int) -> None:
            with counting:
                report.bytes += count
                progress(count)

        with _locked(self.destination), ThreadPoolExecutor(workers) as pool:
            futures = [(transfer, pool.submit(transfer.run, stop, advance)) for transfer in self.todo]
            try:
                for transfer, future in futures:
                    try:
                        future.result()
                        report.fetched.append(transfer.path)
                    except Exception as error:  # noqa: BLE001 - one video's failure must not stop the others
                        text = str(error) if isinstance(error, TraceError) else scrubbed(error)
                        report.failed.append({"path": transfer.path, "error": text})
            except BaseException:
                stop.set()
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        return report

    def _sweep(self) -> None:
        """Remove what a fetch that was killed at its last step left beside videos that are whole."""
        whole: dict[Path, set[str]] = defaultdict(set)
        for path in self.report.already:
            whole[(self.destination / path).parent].add(aside_prefix(path))
        stale = [
            file
            for folder, prefixes in whole.items()
            for file in folder.glob(".trace-*")
            if any(file.name.startswith(prefix) for prefix in prefixes)
        ]
        if stale or (self.destination / _LOCK).exists():
            with _locked(self.destination):
                for file in stale:
                    file.unlink(missing_ok=True)

    def _need_room(self) -> None:
        needed = sum(transfer.size or 0 for transfer in self.todo) + max(
            (transfer.stored or 0 for transfer in self.todo if transfer.packed), default=0
        )
        held = sum(transfer.have() for transfer in self.todo)
        free = shutil.disk_usage(self.destination).free
        if needed - held > free:
            raise TraceError(
                f"{self.destination} has room for {free / 1e9:.1f} GB; {(needed - held) / 1e9:.1f} GB are needed",
                do="Free some space, choose another folder, or fetch a smaller subset.",
            )


def plan_fetch(
    records_or_paths: Iterable[Any],
    source: RootLike | None,
    destination: str | os.PathLike[str],
    storage_options: Mapping[str, Any] | None = None,
    *,
    overwrite: bool = False,
) -> FetchPlan:
    """Find out what has to be copied; nothing is written.

    Parameters
    ----------
    records_or_paths : iterable
        Typed records, rows as dicts, or video paths.
    source : VideoRoot or what makes one
        Any root, an archive index included.
    destination : path
        The local folder that becomes a root with the same video paths.
    storage_options : mapping, optional
        For a source that is not a VideoRoot yet.
    overwrite : bool
        Whether a file of another size than the source's is replaced. Without it, it is reported and left alone.

    Raises
    ------
    VideoNotFoundError
        If there is no source.
    TraceError
        If the destination is remote.
    """
    root = VideoRoot.need(source, storage_options)
    text = os.fspath(destination)
    if not is_local(text):
        raise TraceError(
            f"the destination {text} is not local", do="Fetch into a local folder, then copy it with your own tools."
        )
    target = Path(local_path(text))
    inventory = check_videos(videos_of(records_or_paths), root, sizes=True)
    plan = FetchPlan(root, target, [], FetchReport())
    for path in inventory.present:
        transfer = Transfer.of(root, path, target / path, inventory.sizes.get(path), inventory.tags.get(path))
        here = _size(target / path)
        if here is None or (overwrite and here != transfer.size):
            plan.todo.append(transfer)
        elif transfer.size is None or here == transfer.size:
            plan.report.already.append(path)
        else:
            plan.report.conflicts.append({"path": path, "here": here, "source": transfer.size})
    _absent(inventory, plan)
    return plan


def fetch_videos(
    records_or_paths: Iterable[Any],
    source: RootLike | None,
    destination: str | os.PathLike[str],
    storage_options: Mapping[str, Any] | None = None,
    *,
    overwrite: bool = False,
    workers: int = 4,
    progress: Callable[[int], None] = lambda _bytes: None,
) -> FetchReport:
    """Copy videos out of archives or any root into a local root.

    Each video is written aside, checked (size, and CRC-32 where an archive has one) and renamed. A fetch that was
    killed goes on where it stopped; one that is complete does nothing. See `plan_fetch` and `FetchPlan.run` for the
    parameters and errors.
    """
    plan = plan_fetch(records_or_paths, source, destination, storage_options, overwrite=overwrite)
    return plan.run(workers, progress)


def _absent(inventory: Inventory, plan: FetchPlan) -> None:
    for video in inventory.missing:
        if _size(plan.destination / video.path):
            plan.report.kept.append(video.path)
        else:
            plan.report.missing.append(video)
    for state, videos in (("is empty", inventory.empty), ("is a pointer, not the video", inventory.pointers)):
        plan.report.failed += [{"path": video.path, "error": f"the source's file {state}"} for video in videos]


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return None


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold a folder against a second fetch; the system frees it when this process ends, however it ends."""
    try:
        import fcntl
    except ImportError:  # pragma: no cover - not on Windows, where two fetches at once are the user's affair
        yield
        return
    path = folder / _LOCK
    while True:
        file = path.open("a")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise TraceError(
                f"another fetch fills {folder} now", do="Wait for it to end; a second run then does what is left."
            ) from None
        except OSError:
            # Some network filesystems have no locks.
            break
        # The one before may have removed the file between our opening and locking it.
        with suppress(FileNotFoundError):
            if path.stat().st_ino == os.fstat(file.fileno()).st_ino:
                break
        file.close()
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        file.close()
