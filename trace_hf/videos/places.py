"""What a video root is made of: one place for each path prefix."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import TraceError, VideoNotFoundError
from ..paths import check_relative, is_local, join_url, local_path, shown
from .access import filesystem

if TYPE_CHECKING:
    from .archive import ArchiveIndex

__all__ = ["Place", "display", "places_of"]


@dataclass(frozen=True, eq=False)
class Place:
    """One place that a prefix leads to.

    Attributes
    ----------
    prefix : str
        The beginning of the video paths that are looked up here, without a slash at its end; empty for all.
    url : str
        An absolute local path or an fsspec URL.
    options : mapping
        The fsspec options for it.
    index : ArchiveIndex or None
        The archive index that the URL holds, if it does. Its entries are whole video paths.
    """

    prefix: str
    url: str
    options: Mapping[str, Any] = field(default_factory=dict)
    index: ArchiveIndex | None = None

    @property
    def local(self) -> bool:
        """Whether it is a plain local folder."""
        return self.index is None and is_local(self.url)

    def below(self, video_path: str) -> str | None:
        """The part of a video path below the prefix, or None if the path does not begin with it."""
        if not self.prefix:
            return video_path
        if video_path == self.prefix:
            return ""
        head = self.prefix + "/"
        return video_path[len(head) :] if video_path.startswith(head) else None

    def join(self, video_path: str) -> str:
        """The URL of a video path that begins with the prefix."""
        return join_url(self.url, self.below(video_path) or "")


def places_of(value: str | os.PathLike[str] | Mapping[str, Any], options: Mapping[str, Any]) -> tuple[Place, ...]:
    """Return the places of a root, those with the longest prefix first.

    Raises
    ------
    TraceError
        If a mapping or JSON file is not understood.
    UnsafePathError
        If a prefix is not a plain relative path.
    """
    if isinstance(value, Mapping):
        places = _places(value, options, base=None)
    else:
        url = os.fspath(value)
        if not url:
            raise TraceError("the video root is empty", do="Name a folder, a URL or a mapping of path prefixes.")
        if url.lstrip().startswith("{"):
            places = _places(_parse(url, "the video root"), options, base=None)
        elif _is_json(url):
            places = _read_json_root("", url, options)
        else:
            places = [_place("", url, options)]
    return tuple(sorted(places, key=lambda place: -len(place.prefix)))


def _absolute(url: str) -> str:
    return local_path(url) if is_local(url) else url


def _is_json(url: str) -> bool:
    head = url.split("::", 1)[0].split("?", 1)[0]
    return head.endswith(".json") and not (is_local(url) and Path(local_path(url)).is_dir())


def display(value: Any) -> str:
    """Return a root, or a place of it, as text for messages, without credentials."""
    if isinstance(value, Mapping):
        if isinstance(value.get("url"), (str, os.PathLike)):
            return display(value["url"])
        return json.dumps({str(name): display(place) for name, place in value.items()}, ensure_ascii=False)
    if hasattr(value, "places"):
        return str(value.name)
    return shown(os.fspath(value)) if isinstance(value, (str, os.PathLike)) else repr(value)


def _places(mapping: Mapping[str, Any], options: Mapping[str, Any], base: Path | None) -> list[Place]:
    prefixes = {_prefix(name) for name in mapping}
    own = {_prefix(name): value for name, value in options.items() if _names(name, prefixes)}
    shared = {name: value for name, value in options.items() if not _names(name, prefixes)}
    places: list[Place] = []
    for name, value in mapping.items():
        prefix = _prefix(name)
        if hasattr(value, "places"):
            places += _under(prefix, value.places)
            continue
        chosen = {**shared, **own.get(prefix, {})}
        if isinstance(value, Mapping):
            chosen.update(value.get("storage_options") or {})
            value = value.get("url")
        if not isinstance(value, (str, os.PathLike)) or not os.fspath(value):
            raise TraceError(
                f"the video root's prefix {name!r} leads to {value!r}",
                do="Give a path, a URL, or an object with `url` and `storage_options`.",
            )
        url = os.fspath(value)
        if base is not None and is_local(url) and "://" not in url:
            url = str(base / Path(url).expanduser())
        places += _read_json_root(prefix, url, chosen) if _is_json(url) else [_place(prefix, url, chosen)]
    if not places:
        raise TraceError("the video root's mapping is empty", do='Map at least "" to a folder or URL.')
    return places


def _place(prefix: str, url: str, options: Mapping[str, Any]) -> Place:
    return Place(prefix, _absolute(url), {} if is_local(url) else options)


def _under(prefix: str, places: Iterable[Place]) -> list[Place]:
    """Places of a root that itself stands under a prefix; an archive index always names whole video paths."""
    return [
        place if place.index else replace(place, prefix="/".join(part for part in (prefix, place.prefix) if part))
        for place in places
    ]


def _names(name: str, prefixes: set[str]) -> bool:
    return name.rstrip("/") in prefixes


def _prefix(name: object) -> str:
    if not isinstance(name, str):
        raise TraceError(f"a prefix of the video root is {name!r}", do="Prefixes are text, such as `videos/`.")
    stripped = name.rstrip("/")
    return check_relative(stripped, what="prefix of the video root") if name else ""


def _read_json_root(prefix: str, url: str, options: Mapping[str, Any]) -> list[Place]:
    """The places of a JSON file: those of a mapping, or the one of an archive index."""
    from .archive import ArchiveIndex

    value = _parse(_read_text(url, options), display(url))
    if isinstance(value.get("refs"), Mapping):
        return [Place(prefix, _absolute(url), options, ArchiveIndex.from_json(value, url, options))]
    base = Path(local_path(url)).parent if is_local(url) else None
    return _under(prefix, _places(value, options, base))


def _read_text(url: str, options: Mapping[str, Any]) -> str:
    try:
        if is_local(url):
            return Path(local_path(url)).read_text(encoding="utf-8")
        fs, path = filesystem(url, options)
        return bytes(fs.cat_file(path)).decode("utf-8")
    except FileNotFoundError:
        raise VideoNotFoundError(
            f"the video root's file {display(url)} is not there",
            do="Check the path; `trace-hf videos index` makes an archive index.",
        ) from None
    except UnicodeDecodeError as error:
        raise TraceError("the video root's file is not UTF-8 text", file=display(url), why=str(error)) from None


def _parse(text: str, name: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise TraceError(
            f"the video root is not JSON: {error}", file=name, do="It must hold a mapping or an archive index."
        ) from None
    if not isinstance(value, dict):
        raise TraceError(
            f"the video root is a JSON {type(value).__name__}",
            file=name,
            do='It must be an object: {"videos/": "s3://…"} or an archive index.',
        )
    return value
