"""Remote releases: copied once into the local cache, verified, and from then on read from there."""

from __future__ import annotations

import re
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .decode import Unknown
from .errors import IntegrityError, ReleaseNotFoundError, TraceError, UnsafePathError
from .hubcache import cached_snapshot
from .integrity import digest_file
from .manifest import MAX_MANIFEST_BYTES, parse_manifest
from .paths import join_url, shown
from .release_cache import ReleaseCache
from .schema import MANIFEST_FILE, Manifest
from .transfer import ENV_TIMEOUT, Place, TransferError

_EXTRAS = {"s3": "s3", "s3a": "s3"}

MAX_FILE_BYTES = 4 * 2**30
"""A larger file of a remote release is refused: the manifest states no sizes, and a hostile place could fill a disk."""

# An answer of "not for you", or a mistake of the caller's, is no missing network: the cache does not stand in for it.
_CACHE_ANSWERS = ("absent", "failing", "cut", "unreachable")

# What is wrong with the release there, not with the way to it.
_FAULTS = {"absent": "is missing", "cut": "is cut short"}

_NEXT = {
    "absent": f"check the address: it has to lead to the folder that holds {MANIFEST_FILE}",
    "refused": "check the credentials: token= for hf:// places, storage_options= for all others",
    "failing": "try again later; if it stays so, tell whoever runs the server",
    "cut": "try again; if it stays so, the file there is damaged",
    "unreachable": f"check the address and the network; {ENV_TIMEOUT} is how many seconds of silence are borne",
    "too large": "name the folder of a TRACE release",
    "unusable": "check the address and storage_options",
}


def fetch_release(
    url: str,
    *,
    storage_options: Mapping[str, Any] | None = None,
    token: str | bool | None = None,
    unknown: Unknown = "error",
    for_report: bool = False,
) -> Path:
    """Return a local copy of a remote snapshot.

    The first time its files are fetched, several at once, and proven by the manifest's hashes before any is put
    into the cache. Afterwards only the manifest is fetched, and whatever is damaged in the cached copy. If the
    place cannot be reached, the newest intact copy of it is used, and a warning says so.

    Parameters
    ----------
    url
        Any fsspec URL of a snapshot, or of an export that holds one as ``snapshot``.
    storage_options
        fsspec options; with a chained URL also by scheme.
    token
        Token for ``hf://`` places.
    unknown
        As `Release.open` takes it.
    for_report
        Look at the place itself: fetch every file, right or wrong, into a folder that ends with this process, for a
        verification to report on. The cache is neither read nor changed.

    Returns
    -------
    pathlib.Path
        The folder. It is a copy that was right a moment ago; whoever reads it has to verify it.

    Raises
    ------
    ReleaseNotFoundError
        When the place cannot be reached or has no release, and there is no intact cached copy of it.
    IntegrityError
        When files of it are not those of its manifest; names them.
    ManifestError, UnsafePathError
        When its manifest is not sound.
    """
    cache = ReleaseCache()
    with Place(_folder_of(url), storage_options, token) as place:
        try:
            inner, data = _find_manifest(place)
        except TransferError as trouble:
            if for_report or trouble.kind not in _CACHE_ANSWERS:
                raise _not_found(place, trouble) from None
            return _cached(cache, place, trouble, unknown)
        manifest = _parse(place, data, unknown)
        if for_report:
            return _copy_for_report(cache, place, inner, manifest, data)
        return _into_cache(cache, place, inner, manifest, data, unknown)


def _folder_of(url: str) -> str:
    """Return the URL of the folder when a manifest is named."""
    return re.sub(rf"(?<=/){re.escape(MANIFEST_FILE)}(?=$|[?#]|::)", "", url, count=1)


def _find_manifest(place: Place) -> tuple[str, bytes]:
    """Return where in the place the snapshot is (``""`` or ``"snapshot/"``), and its manifest's bytes."""
    try:
        return "", _read_manifest(place, "")
    except TransferError as trouble:
        # Some object stores refuse a file that is not there to those who may not list.
        if trouble.kind not in ("absent", "refused"):
            raise
        first = trouble
    try:
        return "snapshot/", _read_manifest(place, "snapshot/")
    except TransferError as trouble:
        raise (first if trouble.kind in ("absent", "refused") else trouble) from None


def _read_manifest(place: Place, inner: str) -> bytes:
    # Not in the cache, which may be one that this user can only read.
    with tempfile.TemporaryDirectory(prefix="trace-hf-") as folder:
        target = Path(folder) / MANIFEST_FILE
        place.fetch(inner + MANIFEST_FILE, target, limit=MAX_MANIFEST_BYTES)
        return target.read_bytes()


def _parse(place: Place, data: bytes, unknown: Unknown) -> Manifest:
    return parse_manifest(data, place=shown(join_url(place.url, MANIFEST_FILE)), unknown=unknown)


def _cached(cache: ReleaseCache, place: Place, trouble: TransferError, unknown: Unknown) -> Path:
    found = cache.newest(place.key(), unknown)
    if found is None:
        carried = cached_snapshot(place.url)
        if carried is not None:
            text = f"{place.shown} cannot be read ({trouble.text}); the copy in the local Hub cache is used"
            warnings.warn(text, stacklevel=3)
            return carried
        raise _not_found(place, trouble, why="there is no intact cached copy of it either") from None
    folder, manifest = found
    warnings.warn(
        f"{place.shown} cannot be read ({trouble.text}); release {manifest.release_id} is used from the cached copy of "
        f"it (manifest {folder.name[:12]}…), which is intact. Whether the place has another one by now is not known.",
        stacklevel=3,
    )
    return folder


def _into_cache(
    cache: ReleaseCache, place: Place, inner: str, manifest: Manifest, data: bytes, unknown: Unknown
) -> Path:
    renewed = False
    while True:
        folder = cache.intact(manifest, data)
        try:
            if folder is None:
                folder = cache.complete(
                    manifest,
                    data,
                    lambda names, to: _fetch_right(place, inner, manifest, names, to),  # noqa: B023
                )
        except IntegrityError:
            # A new release may have been put there in the middle: then all of it is new, the manifest too.
            newer = None if renewed else _newer_manifest(place, inner)
            if newer is None or newer == data:
                raise
            renewed, data, manifest = True, newer, _parse(place, newer, unknown)
            continue
        cache.remember(place.key(), data)
        return folder


def _newer_manifest(place: Place, inner: str) -> bytes | None:
    place.forget_listings()
    try:
        return _read_manifest(place, inner)
    except TransferError:
        return None


def _fetch_right(place: Place, inner: str, manifest: Manifest, names: Sequence[str], to: Path) -> None:
    """Fetch files and prove them; whatever is wrong is an error that names every file."""
    faults: dict[str, str] = {}

    def prove(name: str) -> None:
        # Hashed from the disk, so that what is proven is what will be used.
        if digest_file(to / name).sha256 != manifest.files[name]:
            faults[name] = "differs"

    for name, trouble in _fetch_all(place, inner, manifest, names, to, prove).items():
        if trouble is not None and trouble.kind not in _FAULTS:
            raise _not_found(place, trouble, file=inner + name)
        if trouble is not None:
            faults[name] = _FAULTS[trouble.kind]
    if faults:
        raise IntegrityError(
            f"not the files of release {manifest.release_id}: "
            + "; ".join(f"{name} {fault}" for name, fault in sorted(faults.items())),
            file=place.shown,
            why="the copy there is damaged or incomplete, or its server changes what it sends; nothing of it was kept",
            do=f"`trace-hf verify {place.shown}` reports on every file; get the release from where it is published",
        )


def _copy_for_report(cache: ReleaseCache, place: Place, inner: str, manifest: Manifest, data: bytes) -> Path:
    folder = cache.report_folder(data)
    for name, trouble in _fetch_all(place, inner, manifest, list(manifest.files), folder).items():
        if trouble is None or trouble.kind == "absent":
            continue
        if trouble.kind not in ("refused", "failing", "cut"):
            raise _not_found(place, trouble, file=inner + name)
        if trouble.kind != "cut":  # a part of a file is what the place has of it
            (folder / name).unlink(missing_ok=True)
        warnings.warn(f"{shown(join_url(place.url, inner + name))}: {trouble.text}", stacklevel=3)
    return folder


def _fetch_all(
    place: Place,
    inner: str,
    manifest: Manifest,
    names: Sequence[str],
    to: Path,
    arrived: Callable[[str], None] = lambda _name: None,
) -> dict[str, TransferError | None]:
    """Fetch files, several at once, and return what went wrong with each; an unreachable place ends it early."""
    stop = threading.Event()
    outcome: dict[str, TransferError | None] = {}

    def one(name: str) -> None:
        try:
            place.fetch(inner + name, _target(to, name), limit=MAX_FILE_BYTES, advance=moved, stop=stop)
            arrived(name)
            outcome[name] = None
        except TransferError as trouble:
            outcome[name] = trouble
            if trouble.kind in ("unreachable", "unusable"):
                raise

    with _progress(f"fetching {manifest.release_id}") as moved, ThreadPoolExecutor(place.workers) as pool:
        futures = [pool.submit(one, name) for name in names]
        try:
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
            for future in done:
                future.result()
        except TransferError as trouble:
            raise _not_found(place, trouble) from None
        finally:
            stop.set()  # every transfer has ended, or nobody waits for it any more
            pool.shutdown(wait=True, cancel_futures=True)
    return outcome


def _target(folder: Path, name: str) -> Path:
    target = folder / name
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise TraceError(
            f"cannot make the folder of {target}: {problem.strerror}",
            why="the disk is full, or the manifest names a file and a folder alike",
            do="make room, or tell the maintainers of the release",
        ) from None
    # The manifest's names are checked; this holds even if a link was put into the folder.
    if not target.parent.resolve().is_relative_to(folder.resolve()) or target.is_symlink():
        raise UnsafePathError(f"{name!r} leads out of {folder}", why="there is a link in it", do="remove that folder")
    return target


def _not_found(
    place: Place, trouble: TransferError, file: str | None = None, why: str | None = None
) -> ReleaseNotFoundError:
    where = shown(join_url(place.url, file)) if file else place.shown
    extra = next((_EXTRAS[scheme] for scheme in place.schemes if scheme in _EXTRAS), None)
    if trouble.package:
        return ReleaseNotFoundError(
            f"a package that reads such places is not installed: {trouble.text}",
            file=where,
            do=f"pip install 'trace-hf[{extra}]'" if extra else "install the package that is named",
        )
    what = f"cannot be read: {trouble.text}"
    if trouble.kind == "absent" and not file:
        what = f"there is no release here: neither {MANIFEST_FILE} nor snapshot/{MANIFEST_FILE}"
    return ReleaseNotFoundError(what, file=where, why=why, do=_NEXT[trouble.kind])


@contextmanager
def _progress(title: str) -> Iterator[Any]:
    """Show moved bytes on standard error, on a terminal only and from the first second on."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import DownloadColumn, Progress, SpinnerColumn, TextColumn, TransferSpeedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), DownloadColumn(), TransferSpeedColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task(title, total=None)
    begun, lock = time.monotonic(), threading.Lock()

    def moved(size: int) -> None:
        bar.advance(task, size)
        with lock:
            if not bar.live.is_started and time.monotonic() - begun > 1:
                bar.start()

    try:
        yield moved
    finally:
        bar.stop()
