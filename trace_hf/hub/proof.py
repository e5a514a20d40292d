"""A whole export attested in one call, wherever it lies: its Parquet files, and what its card makes of them.

The Parquet files alone do not decide which rows `load_dataset` gives: the card's YAML names the files of each config
and the types that they are cast to. So both are compared with what an export's card says.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import fsspec
import yaml

from .._lines import Difference
from .._rows import parquet_batches
from ..arrow import arrow_schema
from ..attest import Attestation, attest, attest_rows
from ..errors import ManifestError, ReleaseNotFoundError, TraceError
from ..integrity import FileDigest
from ..paths import is_local, join_url, local_path
from ..release import Release, config_named
from ..schema import CONFIGS, MANIFEST_FILE, Config
from .card import CARD_FILE
from .export import NAME_DIGITS, SNAPSHOT
from .features import same_features, yaml_features

_HASHED_NAME = re.compile(rf"-([0-9a-f]{{{NAME_DIGITS}}})\.parquet$")
_MAX_CARD_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True)
class ExportAttestation:
    """Whether an export's rows are a release's rows.

    Attributes
    ----------
    ok : bool
    place : str
    release_id : str or None
        The release that it was compared with.
    pinned : bool
        Whether the expected hashes are built into the package, which proves origin; otherwise they are those of the
        export's own snapshot, or of the given release, which proves consistency.
    configs : tuple of Attestation
        One for every config that has rows.
    problems : tuple of Difference
        What is wrong beside the rows: a config without a file, a card that names other files or other types.
    notes : tuple of str
        What is worth knowing, and wrong with nothing.
    """

    ok: bool
    place: str
    release_id: str | None
    pinned: bool
    configs: tuple[Attestation, ...]
    problems: tuple[Difference, ...]
    notes: tuple[str, ...]

    def __str__(self) -> str:
        lines = [str(config) for config in self.configs]
        lines += [f"problem: {problem}" for problem in self.problems]
        lines += [f"note: {note}" for note in self.notes]
        if not self.ok:
            lines.append("NOT attested as a whole")
        elif self.pinned:
            lines.append("attested as a whole; the hashes are pinned in trace-hf, which proves origin")
        else:
            lines.append(
                f"attested as a whole; the hashes are those of the compared release ({self.release_id}) itself, which "
                "proves consistency with it, not origin"
            )
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Return the form that ``trace-hf attest --json`` prints."""
        return {
            "ok": self.ok,
            "release_id": self.release_id,
            "pinned": self.pinned,
            "configs": [config.to_json() for config in self.configs],
            "problems": [problem.to_json() for problem in self.problems],
            "notes": list(self.notes),
        }


def attest_export(
    place: str | os.PathLike[str],
    *,
    release: str | os.PathLike[str] | Release | None = None,
    configs: Sequence[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    token: str | bool | None = None,
) -> ExportAttestation:
    """Prove that an export's rows are those of a release, or say where they are not.

    Parameters
    ----------
    place
        The folder of an export, or a URL of one, for example ``hf://datasets/org/name@rev``.
    release
        What to compare with, as `Release.open` takes it. Without it, the export's own ``snapshot/``; without that,
        pinned hashes.
    configs
        Only these.
    storage_options, token
        For a remote export.

    Raises
    ------
    ReleaseNotFoundError
        When there is nothing at `place`.
    IntegrityError
        When the snapshot, or `release`, does not verify.
    UnknownConfigError
        For an unknown config.
    """
    wanted = [config_named(name) for name in configs] if configs else list(CONFIGS.values())
    folder = _Folder(os.fspath(place), storage_options, token)
    opened, digests = _opened(folder, release)
    card, notes = folder.card()
    problems: list[Difference] = []
    proofs = []
    for spec in wanted:
        names = folder.tables(spec.name)
        proof = _proof(folder, spec, names, opened, digests, problems)
        if proof is not None:
            proofs.append(proof)
        if card is not None:
            problems += _card_problems(card, spec, names, folder)
    if not proofs and not problems:
        raise ReleaseNotFoundError(
            "holds no Parquet file of any config", file=folder.url, do="name the folder of an export"
        )
    if opened is None:
        notes.append("there is no snapshot/, so rows were compared with pinned hashes")
    ok = not problems and all(proof.ok for proof in proofs)
    pinned = opened.pinned if opened is not None else bool(proofs) and all(p.pinned for p in proofs)
    release_id = opened.release_id if opened is not None else next((p.release_id for p in proofs if p.release_id), None)
    return ExportAttestation(ok, folder.url, release_id, pinned, tuple(proofs), tuple(problems), tuple(notes))


def _opened(
    folder: _Folder, release: str | os.PathLike[str] | Release | None
) -> tuple[Release | None, Mapping[str, FileDigest]]:
    if release is not None:
        opened = Release.open(release, unknown="keep")
    elif folder.exists(f"{SNAPSHOT}/{MANIFEST_FILE}"):
        opened = Release.open(join_url(folder.url, SNAPSHOT), folder.options or None, folder.token, unknown="keep")
    else:
        return None, {}
    return opened, opened.proven()


def _proof(
    folder: _Folder,
    spec: Config,
    names: list[str],
    release: Release | None,
    digests: Mapping[str, FileDigest],
    problems: list[Difference],
) -> Attestation | None:
    """Attest one config; one without rows has no file, and then there is nothing to attest."""
    if release is None:
        if not names:
            return None
        if spec.ids_role:
            problems.append(Difference(None, spec.name, "cannot be proven without a release: pass one"))
            return None
        proof = attest(folder.rows(names), spec.name)
    else:
        try:
            proof = attest_rows(folder.rows(names), spec, release, digests)
        except ManifestError:
            return None  # the release has no such config
        if not names:
            if not proof.ok:
                problems.append(Difference(None, spec.name, "has no Parquet file, but the release has rows of it"))
            return None
    stated = _HASHED_NAME.search(names[0]) if len(names) == 1 else None
    if stated and proof.sha256 and not proof.sha256.startswith(stated[1]):
        problems.append(Difference(None, names[0], f"is named after other content than it has ({proof.sha256})"))
    return proof


def _card_problems(card: Mapping[str, Any], spec: Config, names: list[str], folder: _Folder) -> Iterator[Difference]:
    """Say where the card's YAML makes `load_dataset` give other rows than the attested ones."""
    place = f"{CARD_FILE}, {spec.name}"
    entry = _entry(card.get("configs"), spec.name)
    if entry is None:
        if names:
            yield Difference(None, place, "is not among the card's configs, so `load_dataset` does not find it")
        return
    patterns = _patterns(entry)
    if patterns is None:
        yield Difference(None, place, "data_files is of no form that an export's card has")
    elif sorted({path for pattern in patterns for path in folder.glob(pattern)}) != names:
        yield Difference(None, place, f"names {', '.join(patterns)}, but the attested files are {', '.join(names)}")
    info = _entry(card.get("dataset_info"), spec.name)
    if info is not None and "features" in info:
        dialects = [yaml_features(arrow_schema(spec.record, unknown)) for unknown in ("error", "keep")]
        if not any(same_features(info["features"], due) for due in dialects):
            yield Difference(None, place, "states other features than the schema's, so `load_dataset` changes values")


def _entry(entries: Any, config: str) -> dict[str, Any] | None:
    for entry in [entries] if isinstance(entries, dict) else entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and entry.get("config_name") == config:
            return entry
    return None


def _patterns(entry: Mapping[str, Any]) -> list[str] | None:
    """Return the paths of the `test` split; None when the entry says anything else."""
    files = entry.get("data_files")
    if set(entry) - {"config_name", "data_files", "default"}:
        return None
    if not (
        isinstance(files, list) and len(files) == 1 and isinstance(files[0], dict) and files[0].get("split") == "test"
    ):
        return None
    paths = files[0].get("path")
    paths = [paths] if isinstance(paths, str) else paths
    return paths if isinstance(paths, list) and all(isinstance(path, str) for path in paths) else None


class _Folder:
    """The folder of an export, local or at a URL."""

    def __init__(self, url: str, storage_options: Mapping[str, Any] | None, token: str | bool | None) -> None:
        self.url = local_path(url) if is_local(url) else url
        self.options = dict(storage_options or {})
        self.token = token
        if token is not None and "hf://" in url:
            self.options.setdefault("token", token)
        try:
            self._fs, self._root = fsspec.core.url_to_fs(self.url, **self.options)
            found = self._fs.isdir(self._root)
        except (OSError, ValueError, ImportError) as problem:
            raise ReleaseNotFoundError(f"cannot be opened: {problem}", file=url, do="check the path or URL") from None
        if not found:
            raise ReleaseNotFoundError(
                "there is no such folder", file=url, do="name an export; for a Hub repo write hf://datasets/org/name"
            )
        self._root = self._root.rstrip("/")

    def exists(self, name: str) -> bool:
        return bool(self._fs.isfile(f"{self._root}/{name}"))

    def glob(self, pattern: str) -> list[str]:
        """Name the files that match a pattern, below the folder."""
        start = len(self._root) + 1
        return sorted(path[start:] for path in self._fs.glob(f"{self._root}/{pattern}"))

    def tables(self, config: str) -> list[str]:
        return self.glob(f"{config}/*.parquet")

    def rows(self, names: list[str]) -> Iterator[Any]:
        for name in names:
            yield from parquet_batches(join_url(self.url, name), self.options)

    def card(self) -> tuple[dict[str, Any] | None, list[str]]:
        """Read the card's YAML block; None, and why, when there is none."""
        if not self.exists(CARD_FILE):
            return None, [f"there is no {CARD_FILE}, so `load_dataset` finds no configs here"]
        with self._fs.open(f"{self._root}/{CARD_FILE}", "rb") as stream:
            text = stream.read(_MAX_CARD_BYTES).decode("utf-8-sig", "replace")
        found = re.match(r"\s*---[\r\n]+([\s\S]*?)[\r\n]+---(?:\r\n|\r|\n|$)", text)
        try:
            card = yaml.safe_load(found[1]) if found else None
        except yaml.YAMLError:
            raise TraceError("has a YAML block that cannot be read", file=CARD_FILE, do="make the card again") from None
        return (card, []) if isinstance(card, dict) else (None, [f"{CARD_FILE} has no YAML block"])
