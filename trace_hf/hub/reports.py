"""What a plan says would happen, what a push did, and where a mirror has drifted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from .decide import Decision, Visibility

if TYPE_CHECKING:
    from ..release import Release

Action = Literal["create", "upload", "replace", "delete", "tag", "publish"]
Kind = Literal["changed", "missing", "foreign", "visibility", "tag", "terms"]


@dataclass(frozen=True)
class Step:
    """One thing that a push would do.

    Attributes
    ----------
    action : {"create", "upload", "replace", "delete", "tag", "publish"}
    name : str
        A file's path, a tag, or the target itself.
    size : int
        Bytes that would be uploaded.
    """

    action: Action
    name: str
    size: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the form that ``--json`` prints."""
        return {"action": self.action, "name": self.name, "size": self.size}


@dataclass(frozen=True)
class Plan:
    """What a push would do. Nothing was written.

    Attributes
    ----------
    target : str
    release_id : str
    manifest_sha256 : str
    pinned : bool
        Whether the release is one that the package knows.
    visibility : {"private", "gated", "public"}
    steps : tuple of Step
        Empty when the mirror is complete.
    unchanged : int
        Files that are there already.
    foreign : tuple of str
        Files in the mirror that are no part of it; they are left alone.
    decision : Decision
        What the terms say.
    """

    target: str
    release_id: str
    manifest_sha256: str
    pinned: bool
    visibility: Visibility
    steps: tuple[Step, ...]
    unchanged: int
    foreign: tuple[str, ...]
    decision: Decision

    @classmethod
    def of(
        cls,
        target: str,
        release: Release,
        decision: Decision,
        visibility: Visibility,
        steps: Sequence[Step],
        *,
        unchanged: int,
        foreign: Iterable[str] = (),
    ) -> Plan:
        """Return the plan to bring a release to a target; see the attributes."""
        known = (release.release_id, release.manifest_sha256, release.pinned)
        return cls(target, *known, visibility, tuple(steps), unchanged, tuple(foreign), decision)

    @property
    def size(self) -> int:
        """Bytes that would be uploaded."""
        return sum(step.size for step in self.steps)

    def to_json(self) -> dict[str, Any]:
        """Return the form that ``trace-hf mirror plan --json`` prints."""
        return {
            "target": self.target,
            "release_id": self.release_id,
            "manifest_sha256": self.manifest_sha256,
            "pinned": self.pinned,
            "visibility": self.visibility,
            "steps": [step.to_json() for step in self.steps],
            "upload_bytes": self.size,
            "unchanged": self.unchanged,
            "foreign": list(self.foreign),
            "terms": self.decision.to_json(),
        }


@dataclass(frozen=True)
class PushReport:
    """What a push did.

    Attributes
    ----------
    plan : Plan
        What it set out to do; with no steps, nothing was written.
    revision : str or None
        The commit that holds the mirror, on the Hub.
    verified : int
        Files of which the hash was compared in the mirror after the last byte.
    verified_by : str
        By which hashes.
    attested : bool
        Whether the rows were read back and attested, too.
    notes : tuple of str
    """

    plan: Plan
    revision: str | None
    verified: int
    verified_by: str
    attested: bool = False
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the form that ``trace-hf mirror push --json`` prints."""
        return {
            "ok": True,
            "written": bool(self.plan.steps),
            "revision": self.revision,
            "verified": self.verified,
            "verified_by": self.verified_by,
            "attested": self.attested,
            "notes": list(self.notes),
            **self.plan.to_json(),
        }


@dataclass(frozen=True)
class Drift:
    """One way in which a mirror is not what it should be.

    Attributes
    ----------
    kind : {"changed", "missing", "foreign", "visibility", "tag", "terms"}
    name : str
        A file, a config, a tag, or the repo.
    detail : str
    """

    kind: Kind
    name: str
    detail: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.name}: {self.detail}"

    def to_json(self) -> dict[str, Any]:
        """Return the form that ``--json`` prints."""
        return {"kind": self.kind, "name": self.name, "detail": self.detail}


@dataclass(frozen=True)
class CheckReport:
    """Whether a mirror is what it should be.

    Attributes
    ----------
    target : str
    release_id : str or None
    pinned : bool
        Whether its files were compared with hashes that are built into the package, which proves origin.
    visibility : str or None
        Of a Hub repo.
    attested : tuple of str
        Configs of which the rows were attested.
    drift : tuple of Drift
    """

    target: str
    release_id: str | None
    pinned: bool
    visibility: str | None
    attested: tuple[str, ...]
    drift: tuple[Drift, ...] = field(default=())

    @property
    def ok(self) -> bool:
        """Whether nothing has drifted."""
        return not self.drift

    def to_json(self) -> dict[str, Any]:
        """Return the form that ``trace-hf mirror check --json`` prints."""
        return {
            "ok": self.ok,
            "target": self.target,
            "release_id": self.release_id,
            "pinned": self.pinned,
            "visibility": self.visibility,
            "attested": list(self.attested),
            "drift": [drift.to_json() for drift in self.drift],
        }


def unique(drift: Iterable[Drift]) -> tuple[Drift, ...]:
    """Drop what was found twice, by two ways of looking."""
    seen: dict[tuple[str, str], Drift] = {}
    for item in drift:
        seen.setdefault((item.kind, item.name), item)
    return tuple(sorted(seen.values(), key=lambda item: (item.kind, item.name)))
