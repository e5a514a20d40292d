"""Mirrors: copies of a release that a lab keeps for itself, made, checked and repaired within the data terms.

A target is a dataset repo on the Hub (``hf://datasets/org/name``), any folder or object store that fsspec writes to, or
a folder to carry to machines with no network. What may go there is decided by `trace_hf.hub.decide` and nothing else.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import DataTermsError, IntegrityError, SchemaError, TraceError
from ..paths import is_local, local_path, shown
from ..release import SAMPLE, Release
from .airgap import HomeMirror
from .content import Content, prepared
from .decide import Visibility, terms_in_use
from .hub_client import HubClient
from .mirror_files import FileMirror
from .mirror_hub import HubMirror
from .proof import attest_export
from .reports import CheckReport, Drift, Plan, PushReport, Step

__all__ = ["CheckReport", "Drift", "Plan", "PushReport", "Step", "Target", "check", "plan", "pull", "push"]

_REPO = re.compile(r"hf://datasets/([A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(?:@([\w.+-]+))?/?")

AnyMirror = HubMirror | FileMirror | HomeMirror


@dataclass(frozen=True)
class Target:
    """Where a mirror is.

    Attributes
    ----------
    url : str
        ``hf://datasets/org/name``, a folder, or an fsspec URL.
    repo_id : str or None
        Of a Hub repo.
    revision : str or None
        What stands behind ``@``.
    home : str or None
        The folder of an air-gapped mirror of that repo.
    """

    url: str
    repo_id: str | None
    revision: str | None
    home: str | None

    @classmethod
    def parse(cls, url: str | os.PathLike[str], hf_home: str | os.PathLike[str] | None = None) -> Target:
        """Read a target.

        Raises
        ------
        DataTermsError
            For what is no place for a mirror: another kind of Hub repo, a bucket, a path inside a repo, a chain.
        """
        text = os.fspath(url)
        home = None if hf_home is None else os.fspath(hf_home)
        found = _REPO.fullmatch(text)
        if found and "--" not in found[1] and ".." not in found[1]:
            return cls(text, found[1], found[2], home)
        if "hf:" in text.lower() or home is not None:
            raise DataTermsError(
                "is no dataset repo on the Hub",
                file=shown(text),
                why="only a dataset repo as a whole can be proven to be private",
                do="name it as hf://datasets/org/name",
            )
        return cls(text, None, None, None)


def _open(
    target: Target, visibility: Visibility, storage_options: Mapping[str, Any] | None, token: str | bool | None
) -> AnyMirror:
    if target.repo_id is None:
        if visibility == "gated":
            raise DataTermsError("only a repo on the Hub can be gated", file=shown(target.url), do="leave --gated out")
        return FileMirror(target.url, storage_options, visibility)
    if target.revision not in (None, "main"):
        raise TraceError(
            "names a revision, but a mirror is pushed as a whole", file=target.url, do="leave out what follows the @"
        )
    if target.home is not None:
        return HomeMirror(target.home, target.repo_id)
    return HubMirror(HubClient(target.repo_id, token), visibility)


@contextmanager
def _opened(
    source: Any,
    target: str | os.PathLike[str],
    visibility: Visibility,
    terms: str | os.PathLike[str] | None,
    *,
    only_redistributable: bool,
    hf_home: str | os.PathLike[str] | None,
    storage_options: Mapping[str, Any] | None,
    source_options: Mapping[str, Any] | None,
    token: str | bool | None,
) -> Iterator[tuple[Content, AnyMirror, Target]]:
    place = Target.parse(target, hf_home)
    _refuse_itself(source, place)
    mirror = _open(place, visibility, storage_options, token)
    with prepared(
        source,
        visibility,
        terms_in_use(terms),
        only_redistributable=only_redistributable,
        storage_options=source_options,
        token=token,
    ) as content:
        yield content, mirror, place


def _refuse_itself(source: Any, place: Target) -> None:
    """Refuse to make a release the mirror of itself; a folder for machines with no network is another place."""
    named = source.url if isinstance(source, Release) else os.fspath(source or "")
    if place.home is None and named != SAMPLE and named and _place(named) == _place(place.url):
        raise TraceError("is the release itself", file=shown(place.url), do="name another target, for the mirror alone")


def _place(url: str) -> str:
    return os.path.realpath(local_path(url)) if is_local(url) else url.rstrip("/")


def plan(
    source: str | os.PathLike[str] | Release,
    target: str | os.PathLike[str],
    *,
    visibility: Visibility = "private",
    terms: str | os.PathLike[str] | None = None,
    only_redistributable: bool = False,
    hf_home: str | os.PathLike[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    source_options: Mapping[str, Any] | None = None,
    token: str | bool | None = None,
) -> Plan:
    """Say what `push` would do; nothing is written.

    Parameters
    ----------
    source
        The release, as `Release.open` takes it.
    target
        ``hf://datasets/org/name``, a folder, or an fsspec URL.
    visibility
        Who may read the mirror. ``"gated"`` and ``"public"`` are for releases whose terms allow publication.
    terms
        A table of terms to decide by, for an administrator who has other rights; the built-in one by default.
    only_redistributable
        Mirror a derived release of the records that may be public.
    hf_home
        Make a folder to carry to machines with no network, as if the repo `target` had been downloaded there.
    storage_options, source_options
        fsspec options of the target, and of a remote source.
    token
        For the Hub; the one that is logged in by default.

    Raises
    ------
    DataTermsError
        When the release may not go there.
    IntegrityError
        When the release does not verify, or the target's tag stands for other content.
    TraceError
        When the target cannot be read, or is a release and no mirror.
    """
    with _opened(
        source,
        target,
        visibility,
        terms,
        only_redistributable=only_redistributable,
        hf_home=hf_home,
        storage_options=storage_options,
        source_options=source_options,
        token=token,
    ) as (content, mirror, _):
        return mirror.plan(content)


def push(
    source: str | os.PathLike[str] | Release,
    target: str | os.PathLike[str],
    *,
    visibility: Visibility = "private",
    terms: str | os.PathLike[str] | None = None,
    only_redistributable: bool = False,
    hf_home: str | os.PathLike[str] | None = None,
    deep: bool = False,
    confirm: Callable[[Plan], bool] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    source_options: Mapping[str, Any] | None = None,
    token: str | bool | None = None,
) -> PushReport | None:
    """Make a mirror, complete one, or repair one.

    A second call after any failure completes it; one after a success writes nothing.

    Parameters
    ----------
    source, target, visibility, terms, only_redistributable, hf_home, storage_options, source_options, token
        As `plan` takes them.
    deep
        Read the rows back and attest them, beside comparing hashes.
    confirm
        Asked with the plan before anything is written; nothing is when it says no.

    Returns
    -------
    PushReport or None
        None when `confirm` said no.

    Raises
    ------
    DataTermsError
        When the release may not go there, or the repo was open to others at any moment that was looked at.
    IntegrityError
        When what arrived is not what was sent.
    TraceError
        When the target cannot be written, or is a release and no mirror.
    """
    with _opened(
        source,
        target,
        visibility,
        terms,
        only_redistributable=only_redistributable,
        hf_home=hf_home,
        storage_options=storage_options,
        source_options=source_options,
        token=token,
    ) as (content, mirror, place):
        if confirm is not None:
            planned = mirror.plan(content)
            if planned.steps and not confirm(planned):
                return None
        report = mirror.push(content)
        if deep:
            report = _attested(report, content, mirror, place, storage_options, token)
        return report


def _attested(
    report: PushReport,
    content: Content,
    mirror: AnyMirror,
    place: Target,
    storage_options: Mapping[str, Any] | None,
    token: str | bool | None,
) -> PushReport:
    if isinstance(mirror, HomeMirror):
        url, options = str(mirror.snapshot), None
        faults = [f"{name}: {what}" for _, name, what in mirror.faults(content.release, content.release.proven())]
    else:
        url = f"hf://datasets/{place.repo_id}@{report.revision}" if place.repo_id else place.url
        options, faults = (None if place.repo_id else storage_options), []
    try:
        found = attest_export(url, release=content.release, storage_options=options, token=token)
        faults += [str(proof) for proof in found.configs if not proof.ok] + [str(p) for p in found.problems]
    except SchemaError as problem:
        faults.append(f"{problem.where}: {problem.what}")
    except TraceError:
        raise
    except Exception as problem:  # noqa: BLE001 - any filesystem may be below
        raise TraceError(
            f"the rows could not be read back: {type(problem).__name__}",
            file=mirror.name,
            do="run it again with --deep",
        ) from None
    if faults:
        raise IntegrityError(
            f"the rows that were read back are not the release's: {'; '.join(faults)}",
            file=mirror.name,
            why="the store gives other bytes than its hashes say",
            do="delete the mirror and push it anew; if it stays so, tell whoever runs the store",
        )
    return PushReport(report.plan, report.revision, report.verified, report.verified_by, True, report.notes)


def check(
    target: str | os.PathLike[str],
    *,
    release: str | os.PathLike[str] | Release | None = None,
    visibility: Visibility | None = None,
    terms: str | os.PathLike[str] | None = None,
    hf_home: str | os.PathLike[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    source_options: Mapping[str, Any] | None = None,
    token: str | bool | None = None,
) -> CheckReport:
    """Verify a mirror in place, and say where it has drifted. Nothing is written.

    Parameters
    ----------
    target
        As `plan` takes it; or a folder that was made with `hf_home`.
    release
        What it should hold. Without it, its files are compared with its own manifest, and with the pinned hashes of a
        known release.
    visibility
        Who should be able to read it. Without it, whatever the terms allow for what it holds is right.
    terms, hf_home, storage_options, source_options, token
        As `plan` takes them.

    Raises
    ------
    ReleaseNotFoundError
        When there is no mirror, or a release in its place.
    TraceError
        When it cannot be read.
    """
    from .mirror_check import check_mirror

    return check_mirror(
        _target(target, hf_home),
        release=release,
        visibility=visibility,
        terms=terms_in_use(terms),
        storage_options=storage_options,
        source_options=source_options,
        token=token,
    )


def pull(
    target: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    hf_home: str | os.PathLike[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    token: str | bool | None = None,
) -> CheckReport:
    """Bring a mirror to a folder, which appears only when it is verified.

    Parameters
    ----------
    target, hf_home, storage_options, token
        As `check` takes them; ``@rev`` behind the repo's name means that revision.
    out
        The folder to make.

    Raises
    ------
    ReleaseNotFoundError
        When there is no mirror.
    IntegrityError
        When it is not what it says; nothing is made then.
    TraceError
        When `out` is there already, or the mirror cannot be read.
    """
    from .mirror_check import pull_mirror

    return pull_mirror(_target(target, hf_home), Path(out), storage_options=storage_options, token=token)


def _target(target: str | os.PathLike[str], hf_home: str | os.PathLike[str] | None) -> Target:
    """Read the target of a check or pull; of a folder that has a Hub cache, the one repo in it is meant."""
    text = os.fspath(target)
    if hf_home is None and is_local(text):
        repos = sorted(Path(text.removeprefix("file://"), "hub").glob("datasets--*--*/refs/main"))
        if len(repos) > 1:
            raise TraceError(
                f"holds {len(repos)} repos", file=text, do="name one: hf://datasets/org/name --hf-home " + text
            )
        if repos:
            owner, _, name = repos[0].parts[-3].removeprefix("datasets--").partition("--")
            return Target(f"hf://datasets/{owner}/{name}", f"{owner}/{name}", None, text)
    return Target.parse(target, hf_home)
