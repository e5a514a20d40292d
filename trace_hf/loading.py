"""`load`: the rows of a config in one call."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from .decode import Unknown
from .register import NAME, register

if TYPE_CHECKING:
    import datasets

    from .release import Release
    from .videos.root import VideoRoot


def load(
    config: str,
    *,
    release: str | os.PathLike[str] | Release | None = None,
    video_root: str | os.PathLike[str] | Mapping[str, Any] | VideoRoot | None = None,
    video: Literal["path", "decode"] | None = None,
    view: Literal["full", "model_input"] = "full",
    verify: bool = True,
    unknown: Unknown = "error",
    streaming: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    token: str | bool | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    **kw: Any,
) -> datasets.Dataset | datasets.IterableDataset:
    """Load a config's `test` split, verified.

    Parameters
    ----------
    config
        ``qa``, ``qa_tiny``, ``proactive``, ``proactive_standard``, ``proactive_high_frequency``,
        ``proactive_tiny``, or for audit ``changes``, ``exclusions``.
    release
        A folder, any fsspec URL, or ``"sample"`` for the built-in synthetic release; else ``TRACE_RELEASE``.
    video_root
        Where videos lie; adds the column ``video_url``. Else ``TRACE_VIDEO_ROOT``.
    video
        With a video root, adds the column ``video``: as its path, or to be decoded when it is read (needs torchcodec,
        and a root whose URLs datasets opens by itself: local, HTTP or Hub).
    view
        ``"full"``: every canonical field. ``"model_input"``: only what a model may see.
    verify
        Prove before the first row that the files are the released ones.
    unknown
        ``"keep"`` accepts a newer schema and loses nothing of it.
    streaming
        Give an `IterableDataset`, with nothing prepared on disk.
    storage_options, token
        For a remote release.
    cache_dir
        Where `datasets` keeps what it prepares.
    **kw
        Handed to `datasets.load_dataset`.

    Raises
    ------
    TraceError
        `ReleaseNotFoundError`, `ManifestError`, `IntegrityError`, `SchemaError`, `UnsafePathError`,
        `VideoNotFoundError` or `UnknownConfigError`, with what is wrong, where, why it is likely so and what to do.
    """
    register()
    import datasets

    kw.setdefault("split", "test")
    return datasets.load_dataset(
        NAME,
        config,
        release=release,
        video_root=video_root,
        video=video,
        view=view,
        verify=verify,
        unknown=unknown,
        streaming=streaming,
        storage_options=dict(storage_options) if storage_options else None,
        token=token,
        cache_dir=os.fspath(cache_dir) if cache_dir else None,
        **kw,
    )


@dataclass(frozen=True)
class Provenance:
    """Where a loaded dataset comes from.

    Attributes
    ----------
    release_id : str
    manifest_sha256 : str
    pinned : bool
        Whether the files were compared with hashes built into the package.
    verified : bool
        Whether the files were hashed before the rows were given.
    status : str
        The manifest's status.
    view : str
    """

    release_id: str
    manifest_sha256: str
    pinned: bool
    verified: bool
    status: str
    view: str


def provenance(dataset: datasets.Dataset | datasets.IterableDataset) -> Provenance | None:
    """Read a loaded dataset's provenance from its ``info``; None when it was not loaded by this package.

    Of a `DatasetDict`, its one split is taken.
    """
    if isinstance(dataset, dict):
        (dataset,) = dataset.values()
    found = dict(re.findall(r"^(\w+): (.*)$", dataset.info.description or "", re.MULTILINE))
    if "manifest_sha256" not in found:
        return None
    return Provenance(
        found["release_id"],
        found["manifest_sha256"],
        found["pinned"] == "true",
        found["verified"] == "true",
        found["status"],
        found["view"],
    )
