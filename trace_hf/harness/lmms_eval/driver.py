"""The driver of a run within lmms-eval: it knows the full records, and hands out no more than a request may see.

lmms-eval calls plain functions with a row of the ``model_input`` view. What else they need is kept here, by process:
each rank loads its own. A process runs one release.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ... import builder
from ...errors import IntegrityError, ReleaseNotFoundError, TraceError, VideoNotFoundError
from ...loading import provenance
from ...release import Release
from ...schema import CONFIGS
from ...videos.extras import need
from ...videos.inventory import check_videos
from ...videos.root import VideoRoot
from ..evidence import STEP_S
from ..population import Population, open_population

if TYPE_CHECKING:
    import datasets

__all__ = ["Request", "Settings", "forget", "population", "records_of", "register", "request", "settings_of"]

_SHOWN = 20


@dataclass(frozen=True)
class Settings:
    """What ``lmms_eval_specific_kwargs`` of a task may say.

    Attributes
    ----------
    visual : {"clip", "frames"}
        A clip that ends with the frame of the request's time, or the 1 FPS frames as images.
    step_s : float
        How often a Proactive run asks, in seconds.
    silence : {"prompted", "native"}
        Whether the model is told how to stay silent, or has its own way.
    video_root : str or mapping, optional
        Where videos lie; else what `dataset_kwargs` or TRACE_VIDEO_ROOT says.
    """

    visual: str = "clip"
    step_s: float = STEP_S
    silence: str = "prompted"
    video_root: Any = None

    @classmethod
    def of(cls, given: Mapping[str, Any] | None) -> Settings:
        """Read them; what is not there has its default.

        Raises
        ------
        TraceError
            If a key or value is not known.
        """
        # lmms-eval leaves the sections of other models in beside the values.
        values = {k: v for k, v in (given or {}).items() if k == "video_root" or not isinstance(v, Mapping)}
        unknown = values.keys() - cls.__dataclass_fields__.keys()
        if unknown:
            raise TraceError(
                f"lmms_eval_specific_kwargs has {', '.join(sorted(unknown))}",
                why="Prompts and evidence follow the protocol, so that results can be compared.",
                do=f"The keys are {', '.join(cls.__dataclass_fields__)}.",
            )
        made = cls(**dict(values))
        for name, known in (("visual", ("clip", "frames")), ("silence", ("prompted", "native"))):
            if getattr(made, name) not in known:
                raise TraceError(
                    f"lmms_eval_specific_kwargs: {name} is {getattr(made, name)!r}", do=f"It is one of {known}."
                )
        step: Any = made.step_s
        if isinstance(step, bool) or not isinstance(step, (int, float)) or not step > 0:
            raise TraceError(f"lmms_eval_specific_kwargs: step_s is {made.step_s!r}", do="Give a number of seconds.")
        return made


@dataclass
class _Source:
    """A loaded config."""

    population: Population
    root: VideoRoot | None
    missing: dict[str, dict[str, list[str]]] = field(default_factory=dict)


@dataclass(frozen=True)
class Request:
    """What belongs to one row.

    Attributes
    ----------
    record : dict
        The full record; for the driver only.
    root : VideoRoot
    settings : Settings
    """

    record: dict[str, Any]
    root: VideoRoot
    settings: Settings


_sources: dict[str, _Source] = {}
_asked: dict[str, Settings] = {}
_lock = threading.RLock()


def forget() -> None:
    """Forget every loaded config, so that another release can be run in this process."""
    with _lock:
        _sources.clear()
        _asked.clear()


def register(dataset: datasets.Dataset) -> datasets.Dataset:
    """Take a config that lmms-eval loaded, and give back the rows that may reach a model.

    Raises
    ------
    TraceError
        If it is not a verified ``model_input`` view of a release that can be opened again, or of another release than
        this process runs.
    """
    facts, config = provenance(dataset), dataset.info.config_name
    if facts is None or config not in CONFIGS:
        raise TraceError("the dataset was not loaded by trace-hf", do='Keep "dataset_path: trace" in the task.')
    if not facts.verified:
        raise IntegrityError("the release was not verified", do="Leave verify: false out of dataset_kwargs.")
    inputs = CONFIGS[config].inputs
    if facts.view != "model_input" or set(dataset.column_names) - {*inputs, "video_url", "video"}:
        raise TraceError(
            f"the rows hold {', '.join(sorted(set(dataset.column_names) - set(inputs)))}",
            why="What is in a row reaches prompts and logs, so rows must hold nothing but model inputs.",
            do='Keep "view: model_input" in dataset_kwargs.',
        )
    release, root = _origin(dataset, facts.manifest_sha256)
    with _lock:
        for name, other in _sources.items():
            if other.population.release.manifest_sha256 != facts.manifest_sha256:
                raise TraceError(
                    f"{name} was loaded from {other.population.release.url}, {config} from {release.url}",
                    why="Rows are looked up by record_id, and two releases may say different things of one record.",
                    do="Run two releases in two processes.",
                )
        records = open_population(config, release)
        _sources[config] = _Source(records, root)
        for record_id in records.records:
            _asked.pop(record_id, None)
    return dataset.select_columns(list(inputs))


def _origin(dataset: datasets.Dataset, manifest_sha256: str) -> tuple[Release, VideoRoot | None]:
    """The release and the video root that a dataset was loaded from."""
    release, root = builder.source_of(dataset) or (Release.open(), VideoRoot.coerce())
    if release.manifest_sha256 != manifest_sha256:
        raise ReleaseNotFoundError(
            "the rows come from another release than the one that TRACE_RELEASE names",
            do="Let TRACE_RELEASE name the release of dataset_kwargs, or leave it out there.",
        )
    return release, root


def population(config: str) -> Population:
    """Return the loaded records of a config."""
    with _lock:
        return _sources[config].population


def records_of(config: str) -> int:
    """Return how many records of a config are loaded; 0 if it is not."""
    with _lock:
        return len(_sources[config].population.records) if config in _sources else 0


def settings_of(record_id: str) -> Settings:
    """Return the settings that a record was asked with."""
    with _lock:
        return _asked.get(record_id) or next(reversed(_asked.values()), Settings())


def request(row: Mapping[str, Any], given: Mapping[str, Any] | None) -> Request:
    """Return what belongs to a row, once its video is known to be there.

    Raises
    ------
    VideoNotFoundError
        If its video is missing; all missing ones of its config are listed.
    TraceError
        If the record is unknown, its settings are, or it was asked with others in this run.
    """
    settings, record_id = Settings.of(given), row["record_id"]
    with _lock:
        source = next((s for s in _sources.values() if record_id in s.population.records), None)
        if source is None:
            raise TraceError("no task of this process loaded it", record_id=record_id, do="Run the task as it is.")
        if _asked.setdefault(record_id, settings) != settings:
            raise TraceError(
                f"it is asked with {settings} and with {_asked[record_id]} in one run",
                record_id=record_id,
                why="Two tasks share it, and a score must say how its records were asked.",
                do="Run the two tasks one after the other.",
            )
        root = VideoRoot.need(source.root if settings.video_root is None else settings.video_root)
        record = source.population.records[record_id]
        _need_video(source, root, record["video_path"])
    return Request(record, root, settings)


def _need_video(source: _Source, root: VideoRoot, path: str) -> None:
    key = root.key()
    if key not in source.missing:
        need("av", "video")
        found = check_videos(source.population.records.values(), root)
        source.missing[key] = {video.path: video.records for video in found.missing}
        source.missing[key] |= {video.path: video.records for video in (*found.empty, *found.pointers)}
    missing = source.missing[key]
    if path in missing:
        lines = [f"{video} ({', '.join(records)})" for video, records in missing.items()]
        more = [f"and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
        listed = "\n    ".join([*lines[:_SHOWN], *more])
        raise VideoNotFoundError(
            f"{len(missing)} videos of {source.population.config} are not under {root.name}:\n    {listed}",
            do="`trace-hf videos check` names the nearest files that are really there; "
            "trace_qa_tiny and trace_proactive_tiny need the fewest.",
        )
