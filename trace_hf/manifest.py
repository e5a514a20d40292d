"""The manifest, and the pinned facts of known releases.

A manifest states the SHA-256 of every file, so a snapshot can be checked against itself. That proves consistency
only: whoever edits a file can edit the manifest too. For a release that the package knows, hashes, file roles,
counts and schema version are therefore compared with the ones that are built in here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from ._files import open_regular
from .decode import Unknown, decode
from .errors import ManifestError, ReleaseNotFoundError, printable
from .paths import check_relative
from .schema import CHANGES_FILE, EXCLUSIONS_FILE, MANIFEST_FILE, ROLES, SCHEMA_VERSION, Manifest

MAX_MANIFEST_BYTES = 16 * 1024 * 1024
"""A larger manifest is refused unread; a real one has a few kilobytes."""

# In bytes; beyond these, what asks for such a file need not say that it is missing, but fails.
_MAX_NAME, _MAX_PART = 1024, 255

_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Pin:
    """What is known of a published release, whatever a manifest says.

    Attributes
    ----------
    files : dict
        SHA-256 of every file, by name.
    roles : dict
        The file of each role.
    counts : dict
        Records of ``qa`` and ``proactive``.
    schema_version : str
    """

    files: dict[str, str]
    roles: dict[str, str]
    counts: dict[str, int]
    schema_version: str


PINS: dict[str, Pin] = {
    "v1.1.0": Pin(
        files={
            "changes.jsonl": "5be34f49762eeb23f433eb19f821c842f20427cb1402f4da60de56c223d17568",
            "exclusions.jsonl": "f5bfed76422c7b6bd925e07451bca9f0a7dbabd3b7be322fbaeab668fa40b316",
            "high_frequency_proactive_ids.json": "29332f98e5dc14442e23aa5c242d910cd7d6bd0f47fbf5631ada5bcbddd4e4b5",
            "proactive.jsonl": "d06328d7e506594eca3fdb30248338751284f059eed9c75bdfc1c522c53e2837",
            "proactive_high_frequency.jsonl": "4de942e70cc8d58ec6af1f1a142de40b36bb271f32bbf9a3e1e064e021659598",
            "proactive_standard.jsonl": "cbfa22508dfbdb252f8f44bd4fa2b2f5993f541e05f953187a60a0aad277a3e0",
            "proactive_subsets.json": "f555d3a8e471b8a94b845c81a64b87b55584d946aa08fecc22b5f54c2ceb9437",
            "qa.jsonl": "fa9c0c10b73904164efe73964e6bf3fcc017a81b837086be22651641acea3bcc",
            "review_summary.json": "b713eb5504817e747ce93458dec3ec423c174c31e082dab8ea1ead36b36b4e20",
            "standard_proactive_ids.json": "ec8c01b16fad6f179733a040803bd15702050dc639859f205236ee8cc42ddf85",
            "tiny_proactive_ids.json": "134fa54ed72d0c8c022a36243502a027bfed738022d083ea1b4ecdefb0c6c9e7",
            "tiny_qa_ids.json": "718bb54d0106451294c4cc2e48e7590e8046649d6f8312f122463ad68b234092",
            "validation_report.json": "ea000cb0618f31540d0c8ac3136a85dd8e5b607be1f2aa4fb5f078fe98c7e5a7",
        },
        roles={
            "qa_file": "qa.jsonl",
            "proactive_file": "proactive.jsonl",
            "tiny_qa_ids_file": "tiny_qa_ids.json",
            "tiny_proactive_ids_file": "tiny_proactive_ids.json",
        },
        counts={"qa": 833, "proactive": 415},
        schema_version="osb-canonical-v0",
    ),
}
"""Known releases by ``release_id``. The status and the provenance of a release are not pinned: two manifests of
v1.1.0 with different ones were published over the same files, and both are genuine."""


def read_manifest(path: Path, *, unknown: Unknown = "error") -> tuple[Manifest, bytes]:
    """Read and check a manifest file.

    Returns
    -------
    tuple
        The manifest and the bytes that it was read from.

    Raises
    ------
    ReleaseNotFoundError
        When there is no such file.
    ManifestError
        When it cannot be read, is not JSON, lacks a part, has a wrong type, or is of an unknown schema version.
    UnsafePathError
        When it names a file outside the snapshot.
    """
    try:
        with open_regular(path) as stream:
            data = stream.read(MAX_MANIFEST_BYTES + 1)
    except FileNotFoundError:
        raise ReleaseNotFoundError(
            f"there is no {MANIFEST_FILE}",
            file=str(path),
            why="the folder is not a snapshot of a release, or its copy is incomplete",
            do="name the folder that holds manifest.json",
        ) from None
    except OSError as problem:
        raise ManifestError(
            f"cannot be read: {problem.strerror}", file=str(path), do="check the path and its permissions"
        ) from None
    try:
        return parse_manifest(data, place=str(path), unknown=unknown), data
    except ManifestError as problem:
        from .causes import looks_like  # only a manifest that is not one needs it

        problem.why = looks_like(data, path) or problem.why
        raise


def parse_manifest(data: bytes, *, place: str, unknown: Unknown = "error") -> Manifest:
    """Decode and check a manifest's bytes; see `read_manifest` for what is raised."""
    if len(data) > MAX_MANIFEST_BYTES:
        raise ManifestError(
            f"is larger than {MAX_MANIFEST_BYTES // 2**20} MiB", file=place, do="name the manifest of a TRACE release"
        )
    manifest = decode(data, Manifest, file=place, unknown=unknown, error=ManifestError)
    if manifest.schema_version != SCHEMA_VERSION and unknown != "keep":
        raise ManifestError(
            f"unknown schema_version {manifest.schema_version!r}; this version of trace-hf reads {SCHEMA_VERSION!r}",
            file=place,
            json_path="$.schema_version",
            why="the release is newer than this version of trace-hf",
            do='update trace-hf, or try it as it is with unknown="keep"',
        )
    for key in ("release_id", "status"):
        # They stand in a dataset's description, in messages and in cards, each on one line.
        text = getattr(manifest, key)
        if len(text) > 200 or printable(text) != text:
            raise ManifestError(
                f"{key} {text[:80]!r} has a control character, or over 200 characters",
                file=place,
                json_path=f"$.{key}",
                do="get the manifest again",
            )
    _check_files(manifest, place)
    return manifest


def _check_files(manifest: Manifest, place: str) -> None:
    for name, digest in manifest.files.items():
        check_relative(name, what="file name in a manifest", file=place)
        if len(name.encode()) > _MAX_NAME or any(len(part.encode()) > _MAX_PART for part in name.split("/")):
            raise ManifestError(
                f"file name {name[:80]!r}… is longer than a file system takes", file=place, do="get the manifest again"
            )
        if not _SHA256.fullmatch(digest):
            raise ManifestError(
                f"{digest[:80]!r} is not a SHA-256 in lower-case hex",
                file=place,
                json_path=f"$.files[{name!r}]",
                do="get the manifest again",
            )
    if MANIFEST_FILE in manifest.files:
        raise ManifestError("lists itself, which no hash can prove", file=place, do="get the manifest again")
    for role in ROLES:
        name = getattr(manifest, role)
        if name not in manifest.files:
            check_relative(name, what=f"manifest's {role}", file=place)
            raise ManifestError(
                f"names {name!r} as {role}, but lists no hash for it",
                file=place,
                json_path=f"$.{role}",
                do="get the manifest again",
            )


def pin_problems(manifest: Manifest) -> list[str]:
    """Compare a manifest with what is pinned of its release.

    Returns
    -------
    list of str
        One sentence for each fact that differs; empty when all agree, or when the release is not a known one.
    """
    pin = PINS.get(manifest.release_id)
    if pin is None:
        return []
    problems = []
    for role, name in pin.roles.items():
        if getattr(manifest, role) != name:
            problems.append(f"{role} is {getattr(manifest, role)!r}, the pinned one is {name!r}")
    for task, count in pin.counts.items():
        if getattr(manifest.counts, task) != count:
            problems.append(f"counts.{task} is {getattr(manifest.counts, task)}, the pinned one is {count}")
    if manifest.schema_version != pin.schema_version:
        problems.append(f"schema_version is {manifest.schema_version!r}, the pinned one is {pin.schema_version!r}")
    problems += [f"{name} is not listed, but is pinned" for name in pin.files if name not in manifest.files]
    problems += [f"{name} is listed, but is not a pinned file" for name in manifest.files if name not in pin.files]
    problems += [
        f"the hash of {name} is {manifest.files[name]}, the pinned one is {digest}"
        for name, digest in pin.files.items()
        if manifest.files.get(name, digest) != digest
    ]
    return problems


def audit_file(source: str) -> str | None:
    """Return the fixed name of an audit file, or None when `source` is no audit config."""
    return {"changes": CHANGES_FILE, "exclusions": EXCLUSIONS_FILE}.get(source)
