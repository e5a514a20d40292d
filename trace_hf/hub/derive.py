"""The derived release: the records that may be public, as a release of its own.

Kept records keep their bytes. Every subset file, tally, count and hash is computed again from them; what cannot be is
copied, and the lineage names it. A release that was derived twice from the same files is the same, byte for byte.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from ..decode import decode
from ..errors import DataTermsError, SchemaError
from ..integrity import FileDigest, read_line_blocks
from ..release import Release
from ..schema import (
    CONFIGS,
    MANIFEST_FILE,
    REVIEW_SUMMARY_FILE,
    SUBSETS_FILE,
    VALIDATION_REPORT_FILE,
    Lineage,
    Manifest,
)
from .decide import PUBLIC_STATUS, TermsInUse, file_kinds, named_sources, permitted, sources_of
from .terms import Terms

SYNTHETIC_STATUS = "synthetic"
"""Invented data stays marked as such: a release that is derived from it is not called public."""

_RECORDS = {config.source: config.record for config in CONFIGS.values()}
_SCREENED = re.compile(r"\d+(?= records passed model-assisted)")

Digests = Mapping[str, FileDigest]


@dataclass
class _Kept:
    """What was kept of one record file."""

    ids: list[str] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    sources: Counter[str] = field(default_factory=Counter)
    task_types: Counter[str] = field(default_factory=Counter)
    tiers: Counter[str] = field(default_factory=Counter)
    dispositions: Counter[str] = field(default_factory=Counter)
    duplicates: int = 0
    windows: int = 0
    short_windows: int = 0

    @property
    def rows(self) -> int:
        return len(self.ids)


def derive(release: Release, out: str | os.PathLike[str], in_use: TermsInUse) -> Release:
    """Write the redistributable part of a release as a release of its own.

    Parameters
    ----------
    release
        The parent; it is verified first.
    out
        The folder to make.
    in_use
        The table of terms that says which sources may be public.

    Returns
    -------
    Release
        The derived release, opened. Its ID is the parent's with the kept sources: ``v1.1.0+streambench``.

    Raises
    ------
    IntegrityError
        When the parent does not verify.
    DataTermsError
        When nothing, or everything, may be public; or when a part of the release cannot be told apart by source.
    """
    folder = Path(out)
    digests = release.proven()
    maker = _Maker(release, digests, in_use.terms, folder)
    maker.check_files()
    folder.mkdir(parents=True)
    maker.write_records()
    maker.check_kept()
    maker.write_ids()
    maker.write_sidecars()
    maker.write_manifest()
    derived = Release.open(folder)
    named = list(named_sources(derived, derived.proven(), in_use.terms))
    if named:
        raise DataTermsError(
            "what would be kept names a source whose records may not be public: "
            + "; ".join(f"{file} names {source}" for file, source in named),
            why="the text of a kept record or of a sidecar mentions it",
            do="look at these files; a release that mentions it cannot be derived automatically",
        )
    return derived


class _Maker:
    """Writes the files of one derived release."""

    def __init__(self, release: Release, digests: Digests, terms: Terms, folder: Path) -> None:
        self.release, self.digests, self.terms, self.folder = release, digests, terms, folder
        self.manifest = release.manifest
        self.kinds = file_kinds(release, digests)
        self.kept: dict[str, _Kept] = {}
        self.inherited: list[str] = []

    def check_files(self) -> None:
        if self.release.unknown != "error":
            raise SchemaError("a release of a newer schema cannot be derived from", do="update trace-hf")
        if self.manifest.lineage:
            raise DataTermsError("is a derived release already", file=self.release.url, do="push it as it is")
        unknown = sorted(set(self.manifest.files) - set(self.kinds))
        if unknown:
            raise DataTermsError(
                f"holds files of which the source is not known: {', '.join(unknown)}", file=self.release.url
            )

    # --- records ----------------------------------------------------------------------------------------------------

    def write_records(self) -> None:
        threshold, inclusive = 0.0, True
        if SUBSETS_FILE in self.kinds:
            rule = self.release.subsets(self.digests).criterion
            threshold, inclusive = rule.threshold_s, rule.inclusive
        for name, kind in self.kinds.items():
            if kind not in _RECORDS:
                continue
            kept = self.kept[kind] = _Kept()
            with self._create(name) as sink:
                for line, record in self._records(name, kind):
                    if permitted(record, self.terms):
                        sink.write(line + b"\n")
                        _count(kept, record, threshold, inclusive)
                    else:
                        kept.left_out.update(s for s in sources_of(record) if not self.terms.of(s).public)

    def _create(self, name: str) -> Any:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("xb")

    def _records(self, name: str, kind: str) -> Iterator[tuple[bytes, Any]]:
        target = _RECORDS[kind]  # type: ignore[index]
        for first, block in read_line_blocks(self.release.root / name, self.digests[name]):
            for number, line in enumerate(block.split(b"\n"), first):
                if line.strip():
                    yield line, decode(line, target, file=name, line=number)

    def check_kept(self) -> None:
        whole = [self.kept["qa"], self.kept["proactive"]]
        if not sum(part.rows for part in whole):
            raise DataTermsError(
                "no record may be public", file=self.release.url, do="keep a private mirror of the whole release"
            )
        if not any(part.left_out for part in self.kept.values()):
            raise DataTermsError(
                "nothing would be left out: every record's source permits publication",
                file=self.release.url,
                why="whether such a release is public is for its maintainers to say, in the manifest's status",
                do="push the release itself",
            )

    # --- ID files and sidecars --------------------------------------------------------------------------------------

    def write_ids(self) -> None:
        for name, kind in self.kinds.items():
            if not kind.endswith("_ids"):
                continue
            known = set(self.kept[kind.removesuffix("_ids")].ids)
            ids = decode(self.release.read_file(name, self.digests), list[str], file=name)
            self._write_json(name, [record_id for record_id in ids if record_id in known])

    def _write_json(self, name: str, value: Any) -> None:
        text = json.dumps(value, ensure_ascii=False, indent=2, sort_keys=True, allow_nan=False) + "\n"
        with self._create(name) as sink:
            sink.write(text.encode("utf-8"))

    def write_sidecars(self) -> None:
        for name, rewrite in (
            (SUBSETS_FILE, self._subsets),
            (REVIEW_SUMMARY_FILE, self._review),
            (VALIDATION_REPORT_FILE, self._report),
        ):
            if name in self.kinds:
                value = json.loads(self.release.read_file(name, self.digests))
                rewrite(value)
                self._write_json(name, value)

    def _inherit(self, name: str, *fields: str) -> None:
        self.inherited += [f"{name}:{field}" for field in fields]

    def _hash(self, name: str) -> str:
        return hashlib.sha256((self.folder / name).read_bytes()).hexdigest()

    def _subsets(self, value: dict[str, Any]) -> None:
        source = self.kept["proactive"]
        value["source"] = {"record_count": source.rows, "window_count": source.windows}
        value["hashes"] = {"source_file": self._hash(self.manifest.proactive_file)}
        for side in ("standard", "high_frequency"):
            part, kept = value["subsets"][side], self.kept[side]
            part |= {
                "record_count": kept.rows,
                "window_count": kept.windows,
                "qualifying_window_count": kept.short_windows,
            }
            value["hashes"] |= {
                f"{side}_ids_file": self._hash(part["ids_file"]),
                f"{side}_record_file": self._hash(part["record_file"]),
            }
        self._inherit(SUBSETS_FILE, "checks", "criterion")

    def _review(self, value: dict[str, Any]) -> None:
        parts = {"qa": self.kept["qa"], "proactive": self.kept["proactive"]}
        changes, excluded = self.kept.get("changes", _Kept()), self.kept.get("exclusions", _Kept())
        tiers = sum((part.tiers for part in parts.values()), Counter())
        included = sum(part.rows for part in parts.values())
        edits, removals = changes.dispositions["edit"], changes.dispositions["remove"]
        valid = tiers["human_reviewed"] - edits
        value |= {
            "release_id": self.release_id,
            "source_record_count": included + excluded.rows,
            "included_record_count": included,
            "excluded_record_count": excluded.rows,
            "included_by_dataset_mode": {
                f"{source}:{mode}": count for mode, part in parts.items() for source, count in part.sources.items()
            },
            "included_by_task_type": dict(sum((part.task_types for part in parts.values()), Counter())),
            "validation_tiers": dict(tiers),
            "review_dispositions": {"edit": edits, "remove": removals, "valid": valid},
            "saved_review_count": edits + removals + valid,
            "pending_machine_screened_count": tiers["machine_screened"],
            "duplicate_upper_id_removals": excluded.duplicates,
        }
        self._inherit(REVIEW_SUMMARY_FILE, "duplicate_policy", "unresolved_saved_reviews")

    def _report(self, value: dict[str, Any]) -> None:
        found = {name: self.kept[name].rows for name in ("qa", "proactive")}
        found["included"] = sum(found.values())
        if "exclusions" in self.kept:
            found["excluded"] = self.kept["exclusions"].rows
        if "changes" in self.kept:
            found["changes"] = self.kept["changes"].rows
        hidden = [source.name for source in self.terms.sources if not source.public]
        for part in ("counts", "checks"):  # what is said of records that are not here is not repeated
            value[part] = {name: item for name, item in value[part].items() if not any(h in name for h in hidden)}
        others = [name for name in value["counts"] if name not in found]
        value["counts"] |= {name: count for name, count in found.items() if name in value["counts"]}
        value["release_id"] = self.release_id
        self._inherit(VALIDATION_REPORT_FILE, "checks", "status", *(f"counts.{name}" for name in others))

    # --- the manifest -----------------------------------------------------------------------------------------------

    @property
    def sources(self) -> Counter[str]:
        return self.kept["qa"].sources + self.kept["proactive"].sources

    @property
    def release_id(self) -> str:
        return f"{self.manifest.release_id}+{'.'.join(sorted(self.sources))}"

    def write_manifest(self) -> None:
        parent = self.manifest
        limitations = self._limitations()
        self._inherit(MANIFEST_FILE, "source_files", "video_root_notes")
        derived = Manifest(
            release_id=self.release_id,
            schema_version=parent.schema_version,
            status=SYNTHETIC_STATUS if parent.status == SYNTHETIC_STATUS else PUBLIC_STATUS,
            counts=msgspec.structs.replace(
                parent.counts, qa=self.kept["qa"].rows, proactive=self.kept["proactive"].rows
            ),
            files={name: self._hash(name) for name in sorted(self.kinds)},
            qa_file=parent.qa_file,
            proactive_file=parent.proactive_file,
            tiny_qa_ids_file=parent.tiny_qa_ids_file,
            tiny_proactive_ids_file=parent.tiny_proactive_ids_file,
            limitations=limitations,
            source_files=parent.source_files,
            video_root_notes=parent.video_root_notes,
            lineage=Lineage(
                parent_release_id=parent.release_id,
                parent_files={name: self.digests[name].sha256 for name in sorted(parent.files)},
                rule=self._rule(),
                counts=self._counts(),
                inherited=sorted(self.inherited),
            ),
        )
        self._write_json(MANIFEST_FILE, msgspec.to_builtins(derived))

    def _rule(self) -> str:
        kept = ", ".join(sorted(self.sources))
        left_out = sorted({source for part in self.kept.values() for source in part.left_out})
        reasons = " ".join(f"{source}: {' '.join(self.terms.of(source).reasons)}" for source in left_out)
        return (
            f"Kept: every record whose source permits redistribution ({kept}), its bytes unchanged, with the audit "
            f"rows about it. Left out, with every audit row about them: the records of "
            f"{', '.join(left_out)}. Why: {reasons}"
        )

    def _counts(self) -> dict[str, int]:
        counts = {}
        for kind, part in sorted(self.kept.items()):
            counts[f"{kind}, kept"] = part.rows
            for source, rows in sorted(part.left_out.items()):
                counts[f"{kind}, left out of {source}"] = rows
        return counts

    def _limitations(self) -> list[str]:
        qa, proactive = self.kept["qa"], self.kept["proactive"]
        screened = (qa.tiers + proactive.tiers)["machine_screened"]
        parent = self.manifest
        limitations = []
        first = (
            f"A derived release: it holds {qa.rows} of the {parent.counts.qa} QA records and {proactive.rows} of the "
            f"{parent.counts.proactive} Proactive records of {parent.release_id}, those whose source permits "
            f"redistribution. Results on it are not results on {parent.release_id}."
        )
        limitations.append(first)
        for index, text in enumerate(parent.limitations):
            rewritten, found = _SCREENED.subn(str(screened), text)
            limitations.append(rewritten)
            if not found:
                self._inherit(MANIFEST_FILE, f"limitations[{index + 1}]")
        return limitations


def _count(kept: _Kept, record: Any, threshold_s: float, inclusive: bool) -> None:
    kept.ids.append(record.record_id)
    kept.task_types[record.task_type] += 1
    if not hasattr(record, "metadata"):
        kept.sources[record.dataset] += 1
        kept.dispositions[getattr(record, "disposition", "")] += 1
        kept.duplicates += "DUPLICATE_RECORD" in getattr(record, "reason_codes", ())
        return
    kept.sources[record.metadata.dataset] += 1
    kept.tiers[record.metadata.validation_tier] += 1
    for window in getattr(record, "windows", ()):
        length = window.end_s - window.start_s
        kept.windows += 1
        kept.short_windows += length <= threshold_s if inclusive else length < threshold_s
