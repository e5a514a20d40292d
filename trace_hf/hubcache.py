"""Where the local Hub cache has a release: what there is of a repo when the Hub cannot be asked."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from .schema import MANIFEST_FILE

_URL = re.compile(r"hf://datasets/(?P<repo>[^/@]+/[^/@]+)(?:@(?P<revision>[^/]+))?(?:/(?P<inner>.*))?")
_SNAPSHOT = "snapshot"


def cached_snapshot(url: str) -> Path | None:
    """Return the release's folder that the local Hub cache has for an ``hf://`` URL, or None.

    The copy is as good as whoever put it there: whoever reads it has to verify it.

    Parameters
    ----------
    url
        For example ``hf://datasets/org/name/snapshot`` or ``hf://datasets/org/name@v1.1.0``.
    """
    found = _URL.fullmatch(url.rstrip("/"))
    if found is None:
        return None
    from huggingface_hub import constants

    folder = Path(constants.HF_HUB_CACHE) / f"datasets--{found['repo'].replace('/', '--')}"
    revision = found["revision"] or "main"
    with suppress(OSError):
        reference = folder / "refs" / revision
        if reference.is_file() and reference.resolve().is_relative_to(folder.resolve()):
            revision = reference.read_text(encoding="ascii").strip()
    inner = found["inner"] or ""
    if ".." in (revision, *inner.split("/")) or "/" in revision:
        return None
    root = folder / "snapshots" / revision / inner
    return next((path for path in (root, root / _SNAPSHOT) if (path / MANIFEST_FILE).is_file()), None)
