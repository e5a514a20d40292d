"""A mirror for machines with no network: a folder that is their ``HF_HOME``.

Plain `datasets`, offline, does not look into the Hub's cache: it looks for an Arrow copy that is prepared already. So
the folder has both: the repo as the Hub's cache keeps it, which `trace_hf` and `huggingface_hub` read, and one Arrow
copy a config, described in the form that every version from 2.21 on reads.

::

    hub/datasets--org--name/refs/main                 the revision, a name made from the content
    hub/datasets--org--name/snapshots/<revision>/     the export, plain files, so that any carrier can hold them
    datasets/org___name/<config>/0.0.0/<revision>/    the Arrow copy, and dataset_info.json
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from ..arrow import arrow_schema
from ..errors import DataTermsError, IntegrityError, SchemaError, TraceError
from ..integrity import FileDigest
from ..release import Release
from ..schema import CONFIGS, Config
from .content import Content, files_of, measure
from .reports import Plan, PushReport, Step

VERSION = "0.0.0"
INFO_FILE = "dataset_info.json"
MADE_BY = "Prepared by trace-hf"
"""How the description of a prepared copy begins, by which it is known again."""

# What `datasets` itself leaves in a cache folder when it works there.
_TRACES = re.compile(r"cache-[0-9a-f]+.*\.arrow|tmp.*|.*\.lock|.*_builder\.lock")


def revision_of(content: Content) -> str:
    """Return a name for a content, of the form that the Hub gives a commit."""
    listing = "".join(f"{path}\0{item.sha256}\n" for path, item in sorted(content.items.items()))
    return hashlib.sha1(listing.encode(), usedforsecurity=False).hexdigest()


def hub_folder(home: Path, repo_id: str) -> Path:
    """Return the folder of a dataset repo in a Hub cache."""
    return home / "hub" / f"datasets--{repo_id.replace('/', '--')}"


def prepared_folder(home: Path, repo_id: str) -> Path:
    """Return the folder of a repo's prepared copies in a datasets cache."""
    owner, _, name = repo_id.partition("/")
    return home / "datasets" / f"{owner}___{_snake(name)}"


def _snake(name: str) -> str:
    # As datasets does it for the names of files and folders.
    name = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name)
    return re.sub(r"([a-z\d])([A-Z])", r"\1_\2", name).lower()


class HomeMirror:
    """One dataset repo in a folder that is to be an ``HF_HOME``.

    Parameters
    ----------
    home
        The folder.
    repo_id
        ``org/name``, as `load_dataset` will be asked for it.
    """

    wanted = "private"

    def __init__(self, home: str | os.PathLike[str], repo_id: str) -> None:
        self.home = Path(os.path.abspath(os.fspath(home)))  # noqa: PTH100 - a link in its place is not followed
        self.repo_id = repo_id
        self.name = f"{self.home} (hf://datasets/{repo_id})"
        self.hub = hub_folder(self.home, repo_id)
        self.prepared = prepared_folder(self.home, repo_id)

    @property
    def revision(self) -> str | None:
        """What ``refs/main`` says."""
        try:
            return (self.hub / "refs" / "main").read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError):
            return None

    @property
    def snapshot(self) -> Path:
        """The folder of the export that ``refs/main`` names."""
        return self.hub / "snapshots" / (self.revision or "none")

    # --- writing ----------------------------------------------------------------------------------------------------

    def build(self, content: Content, folder: Path) -> dict[str, Path]:
        """Make everything in another folder; return the files by their place in the home."""
        revision = revision_of(content)
        root = hub_folder(folder, self.repo_id)
        for path in content.items:
            target = root / "snapshots" / revision / path
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(content.folder / path, target)
        (root / "refs").mkdir()
        for name in (content.release.release_id, "main"):
            (root / "refs" / name).write_text(revision, encoding="ascii")
        digests = content.release.proven()
        for config in CONFIGS.values():
            if any(path.startswith(f"{config.name}/") for path in content.items):
                self._prepare(content, config, digests, folder, revision)
        return {path: folder / path for path in files_of(folder)}

    def _prepare(
        self, content: Content, config: Config, digests: Mapping[str, FileDigest], folder: Path, revision: str
    ) -> None:
        release = content.release
        target = prepared_folder(folder, self.repo_id) / config.name / VERSION / revision
        target.mkdir(parents=True)
        name = _snake(self.repo_id.partition("/")[2])
        schema = arrow_schema(config.record)
        rows = size = 0
        # No metadata in the schema: every version takes the features from dataset_info.json.
        with pa.OSFile(str(target / f"{name}-test.arrow"), "wb") as sink, pa.ipc.new_stream(sink, schema) as writer:
            for table in release.tables(config, digests=digests):
                for batch in table.replace_schema_metadata(None).to_batches(max_chunksize=1000):
                    rows, size = rows + batch.num_rows, size + batch.nbytes
                    writer.write_batch(batch)
        download = sum(item.size for path, item in content.items.items() if path.startswith(f"{config.name}/"))
        info = {
            "builder_name": "parquet",
            "config_name": config.name,
            "dataset_name": name,
            "dataset_size": size,
            "description": f"{MADE_BY} from TRACE {release.release_id}, manifest {release.manifest_sha256}.",
            "download_size": download,
            "features": {field.name: _feature(field.type) for field in schema},
            "size_in_bytes": size + download,
            "splits": {"test": {"dataset_name": name, "name": "test", "num_bytes": size, "num_examples": rows}},
            "version": {"version_str": VERSION, "major": 0, "minor": 0, "patch": 0},
        }
        (target / INFO_FILE).write_text(json.dumps(info, sort_keys=True, indent=1) + "\n", encoding="utf-8")

    def plan(self, content: Content) -> Plan:
        """Say what a push would do.

        Raises
        ------
        DataTermsError, TraceError
            When the folder holds copies of that repo which were not made by a push.
        """
        with tempfile.TemporaryDirectory(prefix="trace-hf-home-") as folder:
            return self._plan(content, self.build(content, Path(folder)))

    def _plan(self, content: Content, built: Mapping[str, Path]) -> Plan:
        here = set(self._files())
        uploads = [path for path, file in built.items() if not _same(file, self.home / path)]
        stale = [path for path in here if path not in built and not _TRACES.fullmatch(Path(path).name)]
        self._refuse(stale)
        steps = [] if here else [Step("create", self.name)]
        sizes = {path: built[path].stat().st_size for path in uploads}
        steps += [Step("replace" if path in here else "upload", path, sizes[path]) for path in uploads]
        steps += [Step("delete", path) for path in sorted(stale)]
        unchanged = len(built) - len(uploads)
        return Plan.of(self.name, content.release, content.decision, "private", steps, unchanged=unchanged)

    def _files(self) -> Iterator[str]:
        for root in (self.hub, self.prepared):
            for path in files_of(root):
                yield (root / path).relative_to(self.home).as_posix()

    def _refuse(self, stale: Iterable[str]) -> None:
        """Refuse a cache that somebody works with: only what a push has made is replaced."""
        for path in stale:
            file = self.home / path
            info = file.parent / INFO_FILE
            ours = file.is_relative_to(self.prepared) and _description(info).startswith(MADE_BY)
            if not ours and (file.is_relative_to(self.prepared) or not self._is_carried):
                raise DataTermsError(
                    "holds a copy of that repo that was not made by `trace-hf mirror`",
                    file=str(file),
                    why="this is somebody's own cache; which of two copies `datasets` takes depends on their age",
                    do="name a folder of its own with --hf-home",
                )

    @property
    def _is_carried(self) -> bool:
        """Whether the Hub's part has plain files only, as a push makes it."""
        return not any(path.is_symlink() for path in self.hub.rglob("*"))

    def push(self, content: Content) -> PushReport:
        """Make the folder complete; the revision's name is written last.

        Raises
        ------
        DataTermsError, IntegrityError, TraceError
        """
        by = "SHA-256, read back"
        try:
            self.home.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".trace-hf-partial-", dir=self.home) as folder:
                built = self.build(content, Path(folder))
                plan = self._plan(content, built)
                if plan.steps:
                    self._settle(plan, built)
                return PushReport(plan, revision_of(content), len(built), by)
        except OSError as problem:
            raise TraceError(
                f"cannot be written: {problem.strerror or problem}",
                file=str(self.home),
                do="make room, or name another",
            ) from None

    def _settle(self, plan: Plan, built: Mapping[str, Path]) -> None:
        for step in plan.steps:
            if step.action == "delete":
                (self.home / step.name).unlink()
        uploads = [step.name for step in plan.steps if step.action in ("upload", "replace")]
        expected = {path: measure(built[path].parent, built[path].name).sha256 for path in uploads}
        for path in sorted(uploads, key=lambda path: ("/refs/" in path, path.endswith("/refs/main"), path)):
            target = self.home / path
            target.parent.mkdir(parents=True, exist_ok=True)
            built[path].replace(target)
            if measure(target.parent, target.name).sha256 != expected[path]:
                raise IntegrityError("what was read back is not what was written", file=str(target), do="run it again")
        for root in (self.hub / "snapshots", self.prepared):
            for folder in sorted((p for p in root.rglob("*") if p.is_dir()), reverse=True):
                with suppress(OSError):
                    folder.rmdir()  # only an empty one goes

    # --- checking ---------------------------------------------------------------------------------------------------

    def copies(self) -> dict[str, Path]:
        """Return the prepared copies by config."""
        found = {}
        for path in sorted(self.prepared.glob(f"*/{VERSION}/*/{INFO_FILE}")):
            found[path.parts[-4]] = path.parent
        return found

    def faults(self, release: Release, digests: Mapping[str, FileDigest]) -> Iterator[tuple[str, str, str]]:
        """Compare each Arrow copy, and what it is said to be, with the release; yield kind, name and detail."""
        from ..attest import attest_rows

        copies = self.copies()
        for config in CONFIGS.values():
            rows = next(iter(release.records(config, digests=digests)), None)
            folders = list(self.prepared.glob(f"{config.name}/{VERSION}/*"))
            if rows is None or not folders:
                if rows is not None:
                    yield "missing", f"datasets/{config.name}", "has no prepared copy, so `load_dataset` fails offline"
                continue
            if len(folders) > 1 or config.name not in copies:
                yield "foreign", f"datasets/{config.name}", "another copy lies beside it; `datasets` takes the newest"
                continue
            folder = copies[config.name]
            yield from self._info_faults(folder, config)
            try:
                proof = attest_rows(arrow_batches(folder), config, release, digests)
            except SchemaError as problem:
                yield "changed", f"datasets/{config.name}", problem.what
                continue
            if not proof.ok:
                yield "changed", f"datasets/{config.name}", "; ".join(map(str, proof.differences)) or "rows differ"
            elif proof.reordered:
                yield "changed", f"datasets/{config.name}", "its rows stand in another order"

    def _info_faults(self, folder: Path, config: Config) -> Iterator[tuple[str, str, str]]:
        place = f"datasets/{config.name}"
        try:
            info = json.loads((folder / INFO_FILE).read_bytes())
        except (OSError, ValueError):
            yield "changed", place, f"{INFO_FILE} cannot be read"
            return
        due = {field.name: _feature(field.type) for field in arrow_schema(config.record)}
        if not isinstance(info, dict) or info.get("features") != due or info.get("config_name") != config.name:
            yield "changed", place, f"{INFO_FILE} states other features or another config"


def arrow_batches(folder: Path) -> Iterator[pa.RecordBatch]:
    """Read the Arrow files of a prepared copy, a batch at a time.

    Raises
    ------
    SchemaError
        When one cannot be read.
    """
    for path in sorted(folder.glob("*-test*.arrow")):
        try:
            with pa.memory_map(str(path)) as source, pa.ipc.open_stream(source) as reader:
                yield from reader
        except (OSError, pa.ArrowException) as problem:
            raise SchemaError(f"is no readable Arrow file ({problem})", file=str(path), do="make it again") from None


def _feature(kind: pa.DataType) -> Any:
    """Return a feature in the form of `dataset_info.json` that all versions read."""
    if pa.types.is_struct(kind):
        fields = [kind.field(index) for index in range(kind.num_fields)]
        return {field.name: _feature(field.type) for field in fields}
    if pa.types.is_list(kind):
        inner = _feature(kind.value_type)
        return [inner] if pa.types.is_struct(kind.value_type) else {"feature": inner, "_type": "Sequence"}
    name = {pa.string(): "string", pa.float64(): "float64", pa.int64(): "int64", pa.bool_(): "bool"}[kind]
    return {"dtype": name, "_type": "Value"}


def _same(a: Path, b: Path) -> bool:
    if not b.is_file() or a.stat().st_size != b.stat().st_size:
        return False
    return measure(a.parent, a.name).sha256 == measure(b.parent, b.name).sha256


def _description(info: Path) -> str:
    try:
        value = json.loads(info.read_bytes())
        return str(value.get("description", "")) if isinstance(value, dict) else ""
    except (OSError, ValueError):
        return ""
