"""Checking a mirror where it is, and bringing one home: both look at every byte, and believe nothing but hashes."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import IntegrityError, ManifestError, ReleaseNotFoundError, SchemaError, TraceError, UnsafePathError
from ..paths import check_relative, is_local, local_path
from ..release import Release
from ..transfer import Place, TransferError
from .airgap import HomeMirror
from .content import MANIFEST_PATH, TEXTS, files_of, is_own, measure, prepared
from .croissant import CROISSANT_FILE
from .decide import TermsInUse, Visibility, decide
from .export import SNAPSHOT
from .hub_client import HubClient
from .hub_state import HubState
from .mirror_files import FileMirror, is_release
from .mirror_hub import BRANCH, HubMirror
from .proof import attest_export
from .reports import CheckReport, Drift, unique

if TYPE_CHECKING:
    from .mirror import Target

_NO_MIRROR = "push one there: trace-hf mirror push RELEASE TARGET"


@dataclass
class MirrorCopy:
    """A mirror's own files in a local folder, and what was seen on the way.

    Attributes
    ----------
    folder : Path
    paths : list of str
        All of its files, the foreign ones too, which are not fetched.
    drift : list of Drift
    state : HubState or None
    mirror : HubMirror, FileMirror or HomeMirror
    """

    folder: Path
    paths: list[str]
    mirror: HubMirror | FileMirror | HomeMirror
    drift: list[Drift] = field(default_factory=list)
    state: HubState | None = None


# --- getting at the bytes -----------------------------------------------------------------------------------------


@contextmanager
def _copied(
    target: Target, storage_options: Mapping[str, Any] | None, token: str | bool | None
) -> Iterator[MirrorCopy]:
    with tempfile.TemporaryDirectory(prefix="trace-hf-mirror-") as temporary:
        folder = Path(temporary)
        if target.home is not None and target.repo_id is not None:
            yield _home_copy(HomeMirror(target.home, target.repo_id))
        elif target.repo_id is not None:
            yield _hub_copy(target, folder, token)
        else:
            yield _file_copy(FileMirror(target.url, storage_options), folder)


def _require_mirror(paths: Collection[str], name: str) -> None:
    if is_release(paths):
        raise ReleaseNotFoundError(
            "is a release, not a mirror", file=name, do=f"verify it: trace-hf verify {name}; or name another target"
        )


def _home_copy(mirror: HomeMirror) -> MirrorCopy:
    if mirror.revision is None:
        raise ReleaseNotFoundError("there is no mirror", file=mirror.name, do=_NO_MIRROR)
    # Symbolic links are followed: what they lead to is what is read.
    return MirrorCopy(mirror.snapshot, list(files_of(mirror.snapshot)), mirror)


def _file_copy(mirror: FileMirror, folder: Path) -> MirrorCopy:
    paths = list(mirror.files())
    if not paths:
        raise ReleaseNotFoundError("there is no mirror", file=mirror.name, do=_NO_MIRROR)
    _require_mirror(paths, mirror.name)
    if is_local(mirror.url):
        return MirrorCopy(Path(mirror.url), paths, mirror)
    copy = MirrorCopy(folder, paths, mirror)
    fetch(copy, mirror.url, mirror.options, None)
    return copy


def _hub_copy(target: Target, folder: Path, token: str | bool | None) -> MirrorCopy:
    assert target.repo_id is not None
    mirror = HubMirror(HubClient(target.repo_id, token))
    state = mirror.read(target.revision or BRANCH)
    if not state.exists or state.sha is None:
        raise ReleaseNotFoundError("there is no such repo, or it is empty", file=mirror.name, do=_NO_MIRROR)
    _require_mirror(state.files, mirror.name)
    copy = MirrorCopy(folder, list(state.files), mirror, state=state)
    fetch(copy, f"{mirror.name}@{state.sha}", None, token)
    for path in files_of(folder):
        if not state.files[path].is_item(measure(folder, path)):
            copy.drift.append(Drift("changed", path, "the Hub gives other bytes than its hash says"))
    return copy


def fetch(copy: MirrorCopy, url: str, options: Mapping[str, Any] | None, token: str | bool | None) -> None:
    """Fetch a mirror's own files into a copy's folder; what is missing there is drift."""
    with Place(url, options, token) as place:

        def one(path: str) -> Drift | None:
            target = copy.folder / check_relative(path, what="file of a mirror", file=place.shown)
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                place.fetch(path, target)
            except TransferError as trouble:
                if trouble.kind not in ("absent", "cut"):
                    raise TraceError(
                        f"{path} cannot be read: {trouble.text}", file=place.shown, do="try again later"
                    ) from None
                target.unlink(missing_ok=True)
                return Drift("missing", path, trouble.text)
            return None

        own = [path for path in copy.paths if is_own(path)]
        found = [one(path) for path in own[:1]]  # the first one opens the place
        with ThreadPoolExecutor(place.workers) as pool:
            found += pool.map(one, own[1:])
        copy.drift += [drift for drift in found if drift is not None]


# --- judging them -------------------------------------------------------------------------------------------------


def judge_copy(copy: MirrorCopy) -> tuple[Release | None, tuple[str, ...]]:
    """Add to a copy's drift whatever is wrong with its bytes; return its release and what was attested."""
    drift, folder = copy.drift, copy.folder
    drift += [Drift("missing", name, "is not there") for name in TEXTS if not (folder / name).is_file()]
    if not (folder / MANIFEST_PATH).is_file():
        drift.append(Drift("missing", MANIFEST_PATH, "is not there, so nothing here is a release"))
        return None, ()
    try:
        release = Release.open(folder / SNAPSHOT, unknown="keep")
    except (ManifestError, UnsafePathError) as problem:
        drift.append(Drift("changed", MANIFEST_PATH, problem.what))
        return None, ()
    report = release.verify()
    drift += [Drift("changed", MANIFEST_PATH, problem) for problem in report.problems]
    for file in report.files:
        if file.state in ("missing", "differs"):
            drift.append(
                Drift(
                    "missing" if file.state == "missing" else "changed",
                    f"{SNAPSHOT}/{file.name}",
                    file.cause or "is not the released one",
                )
            )
    listed = dict(_listed(folder))
    for path, sha256 in listed.items():
        if not (folder / path).is_file():
            drift.append(Drift("missing", path, "is not there"))
        elif measure(folder, path).sha256 != sha256:
            drift.append(Drift("changed", path, f"is not the one that {CROISSANT_FILE} lists"))
    if not listed:  # then nothing says which tables there should be, and their rows alone are judged
        listed = {path: "" for path in copy.paths if path.endswith(".parquet") and is_own(path)}
    known = {MANIFEST_PATH, *TEXTS, *listed, *(f"{SNAPSHOT}/{name}" for name in release.manifest.files)}
    drift += [
        Drift("foreign", path, "is no part of the mirror")
        for path in copy.paths
        if path not in known and path != ".gitattributes"
    ]
    return release, _attest(copy) if report.ok else ()


def _listed(folder: Path) -> Iterator[tuple[str, str]]:
    try:
        value = json.loads((folder / CROISSANT_FILE).read_bytes())
        entries = value["distribution"]
        for entry in entries:
            path = check_relative(entry["contentUrl"], what="file of a mirror")
            yield path, str(entry["sha256"])
    except (OSError, ValueError, KeyError, TypeError, UnsafePathError):
        return  # what it should list is missed elsewhere


def _attest(copy: MirrorCopy) -> tuple[str, ...]:
    try:
        found = attest_export(copy.folder)
    except (SchemaError, ReleaseNotFoundError, IntegrityError) as problem:
        copy.drift.append(Drift("changed", _below(copy.folder, problem.file or "rows"), problem.what))
        return ()
    for proof in found.configs:
        if not proof.ok:
            copy.drift.append(Drift("changed", proof.config, "; ".join(map(str, proof.differences)) or "rows differ"))
    copy.drift += [Drift("changed", problem.field or "rows", problem.what) for problem in found.problems]
    return tuple(proof.config for proof in found.configs if proof.ok)


def _below(folder: Path, file: str) -> str:
    """Name a file by its path in the mirror, as all other drift does, so that one file is told once."""
    root = Path(local_path(str(folder)))
    return Path(file).relative_to(root).as_posix() if Path(file).is_relative_to(root) else file


# --- the two verbs ------------------------------------------------------------------------------------------------


def check_mirror(
    target: Target,
    *,
    release: Any,
    visibility: Visibility | None,
    terms: TermsInUse,
    storage_options: Mapping[str, Any] | None,
    source_options: Mapping[str, Any] | None,
    token: str | bool | None,
) -> CheckReport:
    """See `trace_hf.hub.mirror.check`."""
    with _copied(target, storage_options, token) as copy:
        found, attested = judge_copy(copy)
        if found is not None and isinstance(copy.mirror, HomeMirror):
            copy.drift += _home_drift(copy.mirror, found)
        if found is not None and release is not None:
            _compare(copy, release, terms, source_options, token)
        if isinstance(copy.mirror, HubMirror) and copy.state is not None:
            copy.drift += _hub_drift(copy.mirror, copy.state, found, visibility, terms)
        return CheckReport(
            copy.mirror.name,
            found.release_id if found else None,
            found.pinned if found else False,
            copy.state.visibility if copy.state else None,
            attested,
            unique(copy.drift),
        )


def _compare(
    copy: MirrorCopy, release: Any, terms: TermsInUse, options: Mapping[str, Any] | None, token: str | bool | None
) -> None:
    with prepared(release, "private", terms, storage_options=options, token=token) as content:
        for path, item in content.items.items():
            if not (copy.folder / path).is_file():
                copy.drift.append(Drift("missing", path, "is not there"))
            elif measure(copy.folder, path) != item:
                copy.drift.append(Drift("changed", path, f"is not that of {content.release.release_id}"))
        extra = [path for path in copy.paths if is_own(path) and path not in content.items]
        copy.drift += [Drift("foreign", path, f"is no part of {content.release.release_id}") for path in extra]


def _home_drift(mirror: HomeMirror, release: Release) -> Iterator[Drift]:
    report = release.verify()
    if not report.ok:
        return
    opened = Release.open(release.root)
    for kind, name, detail in mirror.faults(opened, report.digests):
        yield Drift(kind, name, detail)  # type: ignore[arg-type]


def _hub_drift(
    mirror: HubMirror, state: HubState, release: Release | None, wanted: Visibility | None, terms: TermsInUse
) -> Iterator[Drift]:
    seen = state.visibility
    if wanted is not None and seen != wanted:
        yield Drift("visibility", mirror.name, f"is {seen}, not {wanted}")
    elif seen != "private":
        reasons = ["what it holds could not be told"]
        if release is not None and release.verify().ok:
            decision = decide(release, release.proven(), seen, terms)
            reasons = [] if decision.allowed else list(decision.reasons)
        if reasons:
            yield Drift("visibility", mirror.name, f"is {seen}, which the terms do not allow: {' '.join(reasons)}")
    if release is None:
        return
    tag = state.tags.get(release.release_id)
    if tag is None:
        yield Drift("tag", release.release_id, "is missing")
    elif tag != state.sha:
        there = mirror.tree(tag)
        here = {path: file for path, file in state.files.items() if path.startswith(f"{SNAPSHOT}/")}
        if here != {path: file for path, file in there.items() if path.startswith(f"{SNAPSHOT}/")}:
            yield Drift("tag", release.release_id, f"stands for other content, at {tag[:12]}")


def pull_mirror(
    target: Target, out: Path, *, storage_options: Mapping[str, Any] | None, token: str | bool | None
) -> CheckReport:
    """See `trace_hf.hub.mirror.pull`."""
    if out.is_symlink() or (out.exists() and (not out.is_dir() or any(out.iterdir()))):
        raise TraceError("is there", file=str(out), do="name a folder that is not there")
    out.parent.mkdir(parents=True, exist_ok=True)
    with _copied(target, storage_options, token) as copy:
        release, attested = judge_copy(copy)
        wrong = [drift for drift in unique(copy.drift) if drift.kind != "foreign"]
        if wrong or release is None:
            raise IntegrityError(
                f"is not the mirror that it says it is: {'; '.join(map(str, wrong[:10]))}",
                file=copy.mirror.name,
                why="it was damaged or changed after it was made, or somebody is just making it",
                do="check it with `trace-hf mirror check`, and repair it with `trace-hf mirror push`",
            )
        with tempfile.TemporaryDirectory(prefix=f".{out.name}.partial-", dir=out.parent) as aside:
            folder = Path(aside, "mirror")
            for path in files_of(copy.folder):
                if is_own(path):
                    (folder / path).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(copy.folder / path, folder / path)
            Release.open(folder / SNAPSHOT, unknown="keep").proven()  # what is handed over is what was proven
            if out.exists():
                out.rmdir()
            folder.replace(out)
        state = copy.state
        return CheckReport(
            copy.mirror.name, release.release_id, release.pinned, state.visibility if state else None, attested
        )
