"""The `datasets` builder: a verified release as typed splits."""

from __future__ import annotations

import difflib
import hashlib
import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import datasets
import pyarrow as pa
from datasets.fingerprint import Hasher

from ._cache_errors import cache_errors
from .arrow import arrow_schema, features_of
from .errors import ReleaseNotFoundError, UnknownConfigError, VideoNotFoundError
from .paths import is_local, shown
from .release import Digests, Release, config_named
from .schema import CONFIGS, PACKAGE_SCHEMA, VIEWS
from .videos.root import VideoRoot

if TYPE_CHECKING:
    from datasets import Dataset, DatasetInfo, Features, IterableDataset

# What datasets opens by itself to decode a video, beside local paths.
_DECODABLE = ("http://", "https://", "hf://")

# Versions before and from 4 write features that the other cannot always read, so they share no cache entry.
_DIALECT = "d4" if int(datasets.__version__.split(".")[0]) >= 4 else "d3"


@dataclass
class TraceConfig(datasets.BuilderConfig):
    """What `load_dataset("trace", name, ...)` takes beside datasets' own keywords.

    Attributes
    ----------
    release : str, path or Release, optional
        The release, as `Release.open` takes it; ``data_dir`` is a synonym.
    view : {"full", "model_input"}
        Every canonical field, or only what a model may see.
    verify : bool
        Hash every file before a row is given. ``False`` warns.
    unknown : {"error", "keep"}
        What to do about fields that the schema does not name.
    video_root : str, path, mapping or VideoRoot, optional
        Where videos lie; adds the column ``video_url``. Defaults to ``TRACE_VIDEO_ROOT``.
    video : {"path", "decode"}, optional
        Adds the column ``video`` as well, as `datasets.Video`: its path only, or to be decoded when it is read.
    """

    release: Any = None
    view: str = "full"
    verify: bool = True
    unknown: Any = "error"
    video_root: Any = None
    video: str | None = None

    def create_config_id(self, config_kwargs: dict[str, Any], custom_features: Features | None = None) -> str:
        """Return a placeholder: the builder makes the ID, since only it has opened the release."""
        return f"{self.name}-"


_KEYWORDS = ("release", "data_dir", "view", "verify", "unknown", "video_root", "video")


class Trace(datasets.ArrowBasedBuilder):
    """Builds a config's `test` split from a release, of which nothing is believed before it is verified."""

    BUILDER_CONFIG_CLASS = TraceConfig
    BUILDER_CONFIGS: ClassVar[list[TraceConfig]] = [
        TraceConfig(name=config.name, description=config.description) for config in CONFIGS.values()
    ]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # It makes the cache folder and a lock in it, and reads what was prepared there.
        with cache_errors(lambda: str(kwargs.get("cache_dir") or datasets.config.HF_DATASETS_CACHE)):
            super().__init__(*args, **kwargs)

    def _create_builder_config(
        self, config_name: str | None = None, custom_features: Features | None = None, **kwargs: Any
    ) -> tuple[TraceConfig, str]:
        kwargs.pop("config_id", None)
        if config_name is None:
            raise UnknownConfigError(
                f"no config was named; the configs are {', '.join(CONFIGS)}",
                do='name one, for example load_dataset("trace", "proactive_standard")',
            )
        self._spec = config_named(config_name)
        for name in kwargs:
            if name not in _KEYWORDS:
                near = difflib.get_close_matches(name, _KEYWORDS, n=1)
                raise UnknownConfigError(
                    f"there is no option {name!r}; beside datasets' own, there are {', '.join(_KEYWORDS)}",
                    do=f"did you mean {near[0]!r}?" if near else "leave it out",
                )
        config, _ = super()._create_builder_config(config_name, custom_features, **kwargs)
        _check_options(config)
        place = config.release or config.data_dir
        if isinstance(place, Release):
            place = place.reopened(config.unknown)
        self._release = Release.open(place, self.storage_options, self.token, unknown=config.unknown)
        self._video_root = VideoRoot.coerce(config.video_root) if self._spec.inputs else None
        self._digests: Digests | None = None
        self._proven: object = None
        _SOURCES[self._release.manifest_sha256, config.name, config.view] = (self._release, self._video_root)
        return config, self._config_id(config, custom_features)

    def _config_id(self, config: TraceConfig, custom_features: Features | None) -> str:
        """Name the cache entry by everything that its content follows from."""
        parts = [self._release.manifest_sha256, f"s{PACKAGE_SCHEMA}", _DIALECT, config.view, config.unknown]
        if self._video_root is not None:
            parts += [self._video_root.key(), config.video]
        if custom_features is not None:
            parts.append(Hasher.hash(custom_features))
        if not config.verify:
            parts += ["unverified", self._content_key()]
        return f"{config.name}-{hashlib.sha256(repr(parts).encode()).hexdigest()[:32]}"

    def _content_key(self) -> str:
        # Unverified files may differ from the manifest, so their own bytes have to be part of the key.
        digests = self._release.verify().digests
        return hashlib.sha256(repr(sorted((n, d.sha256) for n, d in digests.items())).encode()).hexdigest()

    def _info(self) -> DatasetInfo:
        features = features_of(self._schema())
        if self.config.video:
            features["video"] = _video_feature(self.config.video)
        return datasets.DatasetInfo(description=self._description(), features=features)

    def _schema(self) -> pa.Schema:
        schema = arrow_schema(self._spec.record, self._release.unknown)
        if self.config.view == "model_input":
            schema = pa.schema([schema.field(name) for name in self._spec.inputs])
        if self._video_root is not None:
            schema = schema.append(pa.field("video_url", pa.string()))
        return schema

    def _description(self) -> str:
        release = self._release
        proof = "not verified"
        if self.config.verify:
            proof = "verified against pinned hashes" if release.pinned else "verified against its own manifest only"
        return (
            f"TRACE {release.release_id}, {self._spec.description} {proof.capitalize()}.\n"
            f"release_id: {release.release_id}\n"
            f"manifest_sha256: {release.manifest_sha256}\n"
            f"pinned: {str(release.pinned and self.config.verify).lower()}\n"
            f"verified: {str(bool(self.config.verify)).lower()}\n"
            f"status: {release.manifest.status}\n"
            f"view: {self.config.view}"
        )

    # --- no row before proof ----------------------------------------------------------------------------------

    def _prove(self) -> None:
        """Hash every file of the snapshot, once for each load."""
        self._proven = None  # a proof that fails leaves none
        if self.config.verify:
            stamp = self._release.stamp()
            self._digests = self._release.proven()
            self._proven = stamp
            return
        self._digests = None
        warnings.warn(
            f"rows of {self._release.release_id} are loaded with verify=False: nothing shows that they are the "
            "released ones",
            stacklevel=2,
        )

    def _prove_once(self) -> None:
        """Prove, unless that was just done and no file was touched since; a proof serves one load."""
        proven, self._proven = self._proven, None
        if proven is None or proven != self._release.stamp():
            self._prove()
            self._proven = None

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_proven": None}

    def download_and_prepare(self, *args: Any, **kwargs: Any) -> None:
        """Verify the snapshot, then prepare the cache entry that its manifest names."""
        self._prove()
        with cache_errors(lambda: self._cache_dir):
            super().download_and_prepare(*args, **kwargs)

    def as_dataset(self, *args: Any, **kwargs: Any) -> Any:
        """Verify the snapshot unless `download_and_prepare` just did, then give the prepared rows."""
        self._prove_once()
        self.info.description = self._description()
        with cache_errors(lambda: self._cache_dir):
            return super().as_dataset(*args, **kwargs)

    def _as_dataset(self, split: Any = "test", in_memory: bool = False) -> Dataset:
        if sum(info.num_examples for info in self.info.splits.values()):
            return super()._as_dataset(split=split, in_memory=in_memory)
        # datasets takes a split with no rows for a missing one.
        table = self.info.features.arrow_schema.empty_table()
        return datasets.Dataset(datasets.table.InMemoryTable(table), info=self.info.copy(), split=datasets.Split.TEST)

    def as_streaming_dataset(self, *args: Any, **kwargs: Any) -> IterableDataset:
        """Verify the snapshot, then stream it; each block is proven again before its rows are given."""
        self._prove()
        self._proven = None
        self.info.description = self._description()
        return super().as_streaming_dataset(*args, **kwargs)

    # --- rows -------------------------------------------------------------------------------------------------

    def _split_generators(self, dl_manager: Any) -> list[datasets.SplitGenerator]:
        return [datasets.SplitGenerator("test", {"digests": self._digests})]

    def _generate_tables(self, digests: Digests | None) -> Iterator[tuple[int, pa.Table]]:
        columns = self._schema().names
        for index, table in enumerate(self._release.tables(self._spec, digests=digests)):
            if self._video_root is not None:
                urls = [self._video_root.url(path) for path in table["video_path"].to_pylist()]
                table = table.append_column("video_url", pa.array(urls, pa.string()))
            table = table.select(columns)
            if self.config.video:
                table = table.append_column("video", self._videos(table["video_url"].to_pylist()))
            yield index, self._cast(table)

    def _videos(self, urls: list[str]) -> pa.Array:
        for url in urls if self.config.video == "decode" else ():
            if not is_local(url) and not url.startswith(_DECODABLE):
                raise VideoNotFoundError(
                    f"datasets cannot open {shown(url)} to decode it",
                    why="it opens local paths, http(s):// and hf:// URLs by itself, and no others",
                    do='copy the videos with `trace-hf videos fetch` and name that folder, or say video="path"',
                )
        return pa.array([{"bytes": None, "path": url} for url in urls], datasets.Video().pa_type)

    def _cast(self, table: pa.Table) -> pa.Table:
        schema = self.info.features.arrow_schema
        return table if table.schema.equals(schema) else datasets.table.table_cast(table, schema)


# By what a dataset's `info` says of it. A release is its manifest and a path, so that keeping it costs nothing.
_SOURCES: dict[tuple[str, str, str], tuple[Release, VideoRoot | None]] = {}


def source_of(dataset: Dataset | IterableDataset) -> tuple[Release, VideoRoot | None] | None:
    """Return the release and the video root that this process last loaded a dataset of this kind from.

    None when it was not loaded by this package, or not in this process.
    """
    from .loading import provenance

    facts = provenance(dataset)
    return None if facts is None else _SOURCES.get((facts.manifest_sha256, str(dataset.info.config_name), facts.view))


def _check_options(config: TraceConfig) -> None:
    if config.view not in VIEWS:
        raise UnknownConfigError(
            f"there is no view {config.view!r}; the views are {', '.join(VIEWS)}",
            do='view="model_input" is what a model may see',
        )
    if config.view == "model_input" and not CONFIGS[config.name].inputs:
        raise UnknownConfigError(
            f"config {config.name!r} is for audit and has no model_input view", do='load it with view="full"'
        )
    if config.video is not None:
        _check_video(config)
    if config.release and config.data_dir and os.fspath(config.release) != os.fspath(config.data_dir):
        raise ReleaseNotFoundError(
            f"release={config.release!r} and data_dir={config.data_dir!r} name two releases",
            do="give one of them; they mean the same",
        )


def _check_video(config: TraceConfig) -> None:
    if config.video not in ("path", "decode"):
        raise UnknownConfigError(f'video={config.video!r} is neither "path" nor "decode"', do='use video="path"')
    if not CONFIGS[config.name].inputs:
        raise UnknownConfigError(f"config {config.name!r} is for audit and has no videos", do="leave video= out")
    if not hasattr(datasets, "Video"):
        raise UnknownConfigError(
            f"datasets {datasets.__version__} has no Video feature",
            do="install datasets 3.2 or newer, or leave video= out and use the column video_url",
        )
    VideoRoot.need(config.video_root)


def _video_feature(mode: str) -> Any:
    return datasets.Video(decode=mode == "decode")
