"""What the revisions of a repo hold: whoever can read a repo can read all of them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ..errors import TraceError
from ..integrity import FileDigest
from ..release import Release
from .content import MANIFEST_PATH, Content
from .decide import TermsInUse, decide
from .export import SNAPSHOT
from .hub_state import HubFile, is_part

if TYPE_CHECKING:
    from .mirror_hub import HubMirror

Verdict = Literal["clean", "restricted", "unknown"]
"""Everything in it may be public; it has rows that may not; it has something of which that cannot be told."""


def revisions(mirror: HubMirror) -> Iterator[tuple[str, dict[str, HubFile]]]:
    """Give every revision that can be reached by a branch, tag or pull request, with its files; the newest first."""
    api, client, repo = mirror.api, mirror.client, mirror.repo
    refs = client.call("read the branches of", api.list_repo_refs, **repo, include_pull_requests=True)
    seen: set[str] = set()
    for ref in (*refs.branches, *refs.converts, *refs.tags, *(refs.pull_requests or ())):
        commits = client.call("read the history of", api.list_repo_commits, **repo, revision=ref.ref)
        for revision in (ref.target_commit, *(commit.commit_id for commit in commits)):
            if revision not in seen:
                seen.add(revision)
                yield revision, mirror.tree(revision)


def judge(
    mirror: HubMirror, revision: str, files: Mapping[str, HubFile], content: Content, terms: TermsInUse
) -> tuple[Verdict, str]:
    """Say what a revision holds.

    Parameters
    ----------
    mirror
        The repo.
    revision, files
        One of its revisions.
    content
        What is to be pushed, which is known without looking.
    terms
        The table to decide by.

    Returns
    -------
    tuple
        The verdict, and one of the files that it is about.
    """
    strange = [file.path for file in files.values() if not is_part(file, content)]
    if not strange:
        whole = MANIFEST_PATH in files and content.decision.blocked
        return ("restricted", MANIFEST_PATH) if whole else ("clean", "")
    if MANIFEST_PATH not in files:
        return "unknown", strange[0]
    return _look(mirror, revision, files, terms), strange[0]


def _look(mirror: HubMirror, revision: str, files: Mapping[str, HubFile], terms: TermsInUse) -> Verdict:
    from .mirror_check import MirrorCopy, fetch, judge_copy

    with tempfile.TemporaryDirectory(prefix="trace-hf-mirror-") as folder:
        copy = MirrorCopy(Path(folder), list(files), mirror)
        fetch(copy, f"{mirror.name}@{revision}", None, mirror.client.token)
        release, _ = judge_copy(copy)
        try:
            if release is not None:
                digests: Mapping[str, FileDigest] = release.proven()
                decision = decide(Release.open(release.root), digests, "public", terms)
                if decision.blocked:
                    return "restricted"
                return "clean" if decision.allowed and not copy.drift else "unknown"
        except TraceError:
            pass  # it is damaged: what can still be told is told from the text
        names = [source.name.encode() for source in terms.terms.sources if not source.public]
        texts = (path.read_bytes() for path in (copy.folder / SNAPSHOT).glob("*.jsonl"))
        return "restricted" if any(name in text for text in texts for name in names) else "unknown"
