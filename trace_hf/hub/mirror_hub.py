"""A mirror in a dataset repo on the Hub: private before the first byte and after the last, whatever happens between."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..errors import DataTermsError, IntegrityError, TraceError
from .content import Content, is_own
from .decide import Visibility
from .export import SNAPSHOT
from .hub_client import WAITS_S, HubClient, HubError, sleep
from .hub_history import judge, revisions
from .hub_state import ATTRIBUTES, HubFile, HubState, differences, same_release, visibility_of
from .mirror_files import refuse_release
from .reports import Plan, PushReport, Step

BRANCH = "main"
_SETTLE_TRIES = 6
_TRIES = 3


class HubMirror:
    """One dataset repo as a mirror.

    Parameters
    ----------
    client
        Speaks to the repo.
    visibility
        What the repo is to be in the end.
    """

    def __init__(self, client: HubClient, visibility: Visibility = "private") -> None:
        self.client = client
        self.api = client.api
        self.wanted: Visibility = visibility
        self.repo: dict[str, Any] = {"repo_id": client.repo_id, "repo_type": "dataset"}
        self._created = False
        self._may_be: Visibility = "private"

    @property
    def name(self) -> str:
        """The target as it is shown."""
        return f"hf://datasets/{self.client.repo_id}"

    # --- reading ----------------------------------------------------------------------------------------------------

    def read(self, revision: str = BRANCH) -> HubState:
        """Return what the repo is now, at a revision; of one that is absent, that it is.

        Raises
        ------
        HubError
        """
        try:
            info = self.client.call(
                "look at", self.api.repo_info, **self.repo, revision=None if revision == BRANCH else revision
            )
        except HubError as trouble:
            if trouble.kind == "absent":
                return HubState(exists=False)
            raise
        refs = self.client.call("read the tags of", self.api.list_repo_refs, **self.repo)
        tags = {tag.name: tag.target_commit for tag in refs.tags}
        files = self.tree(info.sha) if info.sha else {}
        return HubState(True, visibility_of(info), info.sha, files, tags)

    def _info(self, tries: int = len(WAITS_S) + 1) -> Any:
        return self.client.call("look at", self.api.repo_info, **self.repo, tries=tries)

    def tree(self, revision: str) -> dict[str, HubFile]:
        """Return the files of a revision, with the Hub's own hashes."""
        try:
            found = self.client.call(
                "list", self.api.list_repo_tree, **self.repo, revision=revision, recursive=True, expand=False
            )
        except HubError as trouble:
            if trouble.kind == "absent":
                return {}  # a repo without a commit has no tree
            raise
        files: list[Any] = [entry for entry in found if hasattr(entry, "blob_id")]
        return {f.path: HubFile(f.path, f.size, f.blob_id, f.lfs.sha256 if f.lfs else None) for f in files}

    def plan(self, content: Content, state: HubState | None = None) -> Plan:
        """Say what a push would do.

        Raises
        ------
        DataTermsError
            When the repo is open to others than a push may fill.
        IntegrityError
            When the release's tag stands for other content.
        TraceError
            When the repo is a plain release.
        """
        if self.wanted == "gated" and not hasattr(self.api, "update_repo_settings"):
            raise TraceError("this huggingface_hub can gate no repo", do="pip install -U huggingface_hub")
        state = state or self.read()
        self._refuse(content, state)
        if state.exists and self.wanted != "private":
            self._require_clean_history(content)  # before anything is written over what could then not be opened
        steps = [] if state.exists else [Step("create", self.name)]
        uploads, deletes = differences(content, state.files)
        steps += [
            Step("replace" if path in state.files else "upload", path, content.items[path].size) for path in uploads
        ]
        steps += [Step("delete", path) for path in deletes]
        if content.release.release_id not in state.tags:
            steps.append(Step("tag", content.release.release_id))
        if self.wanted != "private" and (not state.exists or state.visibility != self.wanted):
            steps.append(Step("publish", self.wanted))
        unchanged = len(content.items) - len(uploads)
        foreign = [path for path in state.files if not is_own(path) and path != ATTRIBUTES]
        return Plan.of(
            self.name, content.release, content.decision, self.wanted, steps, unchanged=unchanged, foreign=foreign
        )

    def _refuse(self, content: Content, state: HubState) -> None:
        self._refuse_open(state.visibility)
        refuse_release(state.files, self.name)
        tag = content.release.release_id
        if tag not in state.tags:
            return
        files = state.files if state.tags[tag] == state.sha else self.tree(state.tags[tag])
        if not same_release(content, files):
            raise IntegrityError(
                f"the tag {tag} stands for other content; it is not moved",
                file=self.name,
                why="another release was tagged so, or the tag was moved",
                do="use another repo; or look at what is tagged, and delete the tag if it is wrong",
            )

    def _refuse_open(self, visibility: Visibility) -> None:
        if visibility == "private" or visibility == self.wanted:
            return
        raise DataTermsError(
            f"the repo is {visibility}, and nothing is pushed to it as a {self.wanted} mirror",
            file=self.name,
            why="who could read it before could read the mirror",
            do="make it private in its settings if that is what it should be, or name another repo",
        )

    # --- writing ----------------------------------------------------------------------------------------------------

    def push(self, content: Content) -> PushReport:
        """Make the repo a complete mirror, or raise; never leave it open to others than it should be.

        Raises
        ------
        DataTermsError, HubError, IntegrityError
        """
        try:
            state = self.read()
            plan = self.plan(content, state)
        except TraceError as problem:
            self._close_restricted(content, problem)
            raise
        if not plan.steps:
            self._close_restricted(content)
            return self._report(plan, state.sha, content)
        content.decision.require()
        self._may_be = state.visibility
        with self._guarded():
            sha = self._fill(content, state)
            self._tag(content, sha)
            if self.wanted != "private":
                self._publish(content, sha)
        return self._report(plan, sha, content)

    def _close_restricted(self, content: Content, problem: TraceError | None = None) -> None:
        """Close a repo that is open and holds rows which may not be public, as no push would have left it."""
        found = False
        for attempt in range(_TRIES):
            if attempt:
                sleep(WAITS_S[attempt - 1])
            try:
                if visibility_of(self._info(tries=1)) == "private":
                    return
                found = any(
                    judge(self, revision, files, content, content.decision.terms)[0] == "restricted"
                    for revision, files in revisions(self)
                )
                break
            except HubError:
                continue  # what went wrong before is what is told
        if not found:
            return  # not ours: it is refused, and left as it is
        said = self._close()
        raise DataTermsError(
            said or "the repo was open for a moment",
            file=self.name,
            why="it holds rows that may not be public, and who looked meanwhile may have read them",
            do="find out who opened it; then run it again",
        ) from problem

    def _report(self, plan: Plan, sha: str | None, content: Content) -> PushReport:
        return PushReport(plan, sha, len(content.items), "the Hub's hashes (LFS SHA-256, git blob ID)")

    def _fill(self, content: Content, state: HubState) -> str:
        """Create and commit until the Hub's hashes are those of the content; return the commit."""
        for attempt in range(_TRIES):
            try:
                if not state.exists:
                    self._create()
                self._commit(content, state)
            except HubError as trouble:
                # The request may have done its work and lost only its answer: look, and go on from there.
                if attempt == _TRIES - 1 or not (trouble.passing or trouble.kind == "conflict"):
                    raise
                sleep(max(trouble.wait_s, WAITS_S[attempt]))
            else:
                break
            state = self.read()
            self._refuse(content, state)
        return self._arrived(content)

    def _create(self) -> None:
        self.client.once("create", self.api.create_repo, **self.repo, private=True)
        self._created = True

    def _commit(self, content: Content, state: HubState) -> None:
        from huggingface_hub import CommitOperationAdd, CommitOperationDelete

        uploads, deletes = differences(content, state.files)
        if not uploads and not deletes:
            return
        parent = self._require_closed()
        adds = [CommitOperationAdd(path, str(content.folder / path)) for path in content.in_order(uploads)]
        with self.client.storage():
            # The large files go first, and are part of no commit yet; then who can read it is asked once more.
            self.client.once(
                "upload files to", self.api.preupload_lfs_files, self.client.repo_id, adds, repo_type="dataset",
                free_memory=False,
            )  # fmt: skip
            parent = self._require_closed()
            self.client.once(
                "commit to",
                self.api.create_commit,
                self.client.repo_id,
                [*adds, *(CommitOperationDelete(path, is_folder=False) for path in deletes)],
                commit_message=f"TRACE {content.release.release_id}",
                commit_description=f"SHA-256 of {SNAPSHOT}/manifest.json: {content.release.manifest_sha256}",
                repo_type="dataset",
                revision=BRANCH,
                parent_commit=parent,
            )

    def _require_closed(self) -> str | None:
        """Make sure that nobody can read the repo who should not; return its head."""
        info = self._info()
        self._refuse_open(visibility_of(info))
        sha: str | None = info.sha
        return sha

    def _arrived(self, content: Content) -> str:
        info = self._info()
        uploads, deletes = differences(content, self.tree(info.sha) if info.sha else {})
        if uploads or deletes:
            wrong = [*uploads, *deletes]
            raise IntegrityError(
                f"what arrived is not what was sent: {', '.join(wrong[:5])}" + (" and more" if len(wrong) > 5 else ""),
                file=self.name,
                why="the Hub's hashes of these files are not those of the files here",
                do="run it again: it sends what is wrong once more",
            )
        sha: str = info.sha
        return sha

    def _tag(self, content: Content, sha: str) -> None:
        tag = content.release.release_id
        for attempt in range(_TRIES):
            refs = self.client.call("read the tags of", self.api.list_repo_refs, **self.repo)
            found = {ref.name: ref.target_commit for ref in refs.tags}.get(tag)
            if found is not None:
                self._refuse(content, HubState(True, self.wanted, sha, self.tree(sha), {tag: found}))
                return
            try:
                self.client.once("tag", self.api.create_tag, **self.repo, tag=tag, revision=sha)
            except HubError as trouble:
                if attempt == _TRIES - 1 or not (trouble.passing or trouble.kind == "conflict"):
                    raise
                sleep(max(trouble.wait_s, WAITS_S[attempt]))
            else:
                return

    # --- who can read it --------------------------------------------------------------------------------------------

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Look who can read the repo when all is done or something has failed, and close it where it is open."""
        try:
            yield
        except BaseException as problem:
            said = self._close()
            if said and isinstance(problem, TraceError):
                problem.why = f"{problem.why}; {said}" if problem.why else said
            elif said:
                raise DataTermsError(said, file=self.name) from problem
            raise
        said = self._close()
        if said:
            raise DataTermsError(
                said,
                file=self.name,
                why="somebody changed its settings while it was filled; who looked meanwhile may have read it",
                do="find out who did; then run it again",
            )

    def _close(self) -> str | None:
        """Make the repo as closed as it should be; return what had to be done for it, None for nothing."""
        was: str | None = None
        trouble: TraceError | None = None
        absent = 0
        for attempt in range(_SETTLE_TRIES):
            if attempt:
                sleep(WAITS_S[min(attempt - 1, len(WAITS_S) - 1)])
            try:
                visibility = visibility_of(self._info(tries=1))
                if visibility in ("private", self._may_be):
                    return f"the repo was {was}; it was made private again" if was else None
                was = visibility
                self._set_private(True)
            except HubError as problem:
                trouble = problem
                absent = absent + 1 if problem.kind == "absent" else 0
                if absent == _TRIES:
                    return None  # it was never made, or is gone: nobody can read it
        return self._last_resort(was, trouble)

    def _set_private(self, private: bool) -> None:
        if hasattr(self.api, "update_repo_visibility"):  # huggingface_hub before 1.0
            self.client.once(
                "set who can read", self.api.update_repo_visibility, self.client.repo_id, private, repo_type="dataset"
            )
        else:
            self.client.once("set who can read", self.api.update_repo_settings, **self.repo, private=private)

    def _last_resort(self, was: str | None, trouble: TraceError | None) -> str:
        if was is None:
            what = trouble.what if trouble else "no answer"
            return f"whether the repo is private could not be asked ({what}): look at its settings now"
        if self._created:
            try:
                self.client.call("delete", self.api.delete_repo, **self.repo)
            except HubError as problem:
                trouble = problem
            else:
                return f"the repo was {was} and could not be made private, so it was deleted"
        what = trouble.what if trouble else "no answer"
        return f"THE REPO IS {was.upper()} and could not be made private ({what}): close it by hand, now"

    def _publish(self, content: Content, sha: str) -> None:
        """Open the repo, after the last look at everything that would be opened with it."""
        content.decision.require()
        if visibility_of(self._info()) == self.wanted:
            return
        self._require_clean_history(content)
        if self.wanted == "gated":
            self.client.call("gate", self.api.update_repo_settings, **self.repo, gated="manual")
        self._set_private(False)
        info = self._info()
        if info.sha != sha or visibility_of(info) != self.wanted:
            raise DataTermsError(
                f"the repo is {visibility_of(info)} at {info.sha}, but was to be {self.wanted} at {sha}",
                file=self.name,
                why="somebody else changed it at the same moment",
                do="look at what is there, then run it again",
            )
        self._may_be = self.wanted

    def _require_clean_history(self, content: Content) -> None:
        """Refuse to open a repo, or to add to an open one, of which a revision holds what may not be public."""
        for revision, files in revisions(self):
            verdict, path = judge(self, revision, files, content, content.decision.terms)
            if verdict != "clean":
                what = "rows that may not be public" if verdict == "restricted" else "other files"
                raise DataTermsError(
                    f"is no place for a {self.wanted} mirror: its history holds {what}, for example {path} "
                    f"in {revision[:12]}",
                    file=self.name,
                    why="whoever can read a repo can read all its revisions",
                    do="push to a new repo, or squash the history of this one",
                )
