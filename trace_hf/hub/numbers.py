"""What a release's rows add up to, counted from the rows themselves."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..decode import decode
from ..integrity import FileDigest, read_line_blocks
from ..release import Release
from ..schema import CONFIGS, REVIEW_SUMMARY_FILE, Config, ReviewSummary

# The UTF-8 bytes of U+4000 to U+9FFF, where all but rare Chinese characters lie.
_CHINESE = re.compile(rb"[\xe4-\xe9][\x80-\xbf]{2}")


@dataclass
class ConfigNumbers:
    """The counts of one config.

    Attributes
    ----------
    records, windows, short_windows, videos : int
    sources, tiers, task_types : Counter
        Records by source benchmark, validation tier and task type.
    """

    records: int = 0
    windows: int = 0
    short_windows: int = 0
    videos: int = 0
    sources: Counter[str] = field(default_factory=Counter)
    tiers: Counter[str] = field(default_factory=Counter)
    task_types: Counter[str] = field(default_factory=Counter)


@dataclass
class Numbers:
    """The counts of a release.

    Attributes
    ----------
    configs : dict
        `ConfigNumbers` by config.
    sources, tiers : Counter
        Of the QA and Proactive records together.
    disagreements : list of str
        What the release's own files state otherwise.
    languages : list of str
        Language codes of the texts.
    """

    configs: dict[str, ConfigNumbers]
    sources: Counter[str]
    tiers: Counter[str]
    disagreements: list[str]
    languages: list[str]


def count_release(release: Release, digests: Mapping[str, FileDigest]) -> Numbers:
    """Count the records of every config of a verified release, and compare with what its files state.

    Parameters
    ----------
    release
        The release.
    digests
        What `Release.proven` gave.
    """
    threshold = release.subsets(digests).criterion.threshold_s
    configs = {name: _count(release, spec, digests, threshold) for name, spec in CONFIGS.items()}
    whole = [configs[name] for name in ("qa", "proactive")]
    numbers = Numbers(
        configs,
        sum((part.sources for part in whole), Counter()),
        sum((part.tiers for part in whole), Counter()),
        [],
        ["en", "zh"] if _has_chinese(release, digests) else ["en"],
    )
    numbers.disagreements += _disagreements(release, numbers, digests)
    return numbers


def _count(release: Release, spec: Config, digests: Mapping[str, FileDigest], threshold_s: float) -> ConfigNumbers:
    numbers = ConfigNumbers()
    videos: set[str] = set()
    for record in release.records(spec, digests=digests):
        numbers.records += 1
        numbers.task_types[record.task_type] += 1
        if not spec.inputs:  # an audit record has no metadata, its source stands at the top
            numbers.sources[record.dataset] += 1
            continue
        numbers.sources[record.metadata.dataset] += 1
        numbers.tiers[record.metadata.validation_tier] += 1
        videos.add(record.video_path)
        lengths = [window.end_s - window.start_s for window in getattr(record, "windows", ())]
        numbers.windows += len(lengths)
        numbers.short_windows += sum(length <= threshold_s for length in lengths)
    numbers.videos = len(videos)
    return numbers


def _has_chinese(release: Release, digests: Mapping[str, FileDigest]) -> bool:
    names = {release.record_file(spec, digests) for spec in CONFIGS.values() if spec.inputs}
    return any(
        _CHINESE.search(block) for name in names for _, block in read_line_blocks(release.root / name, digests[name])
    )


def _disagreements(release: Release, numbers: Numbers, digests: Mapping[str, FileDigest]) -> list[str]:
    if REVIEW_SUMMARY_FILE not in release.manifest.files:
        return []
    data = release.read_file(REVIEW_SUMMARY_FILE, digests)
    summary = decode(data, ReviewSummary, file=REVIEW_SUMMARY_FILE, unknown=release.unknown)
    pairs = [("records", summary.included_record_count, sum(numbers.tiers.values()))]
    pairs += [(f"{tier} records", stated, numbers.tiers[tier]) for tier, stated in summary.validation_tiers.items()]
    return [
        f"{REVIEW_SUMMARY_FILE} states {stated} {what}, the rows are {counted}"
        for what, stated, counted in pairs
        if stated != counted
    ]
