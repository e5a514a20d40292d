"""`validate`: prove that a release is sound in meaning, not only in bytes.

`verify` proves that the files are the released ones. `validate` proves that what they say holds together: each row
of `CHECKS` is one rule of a release, computed again from the data.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from ..decode import Unknown
from ..integrity import VerificationReport
from ..release import Release
from . import identity as _identity  # noqa: F401 - each module fills the table, in this order
from . import records as _records  # noqa: F401
from . import release as _release  # noqa: F401
from . import statements as _statements  # noqa: F401
from .facts import Facts
from .population import MAX_NAMED, Faults
from .table import CHECKS, Check, Kind

__all__ = ["CHECKS", "Check", "CheckResult", "ValidationReport", "validate"]


@dataclass(frozen=True)
class CheckResult:
    """What one check found.

    Attributes
    ----------
    name : str
    ok : bool
    detail : str
        What is wrong, or why there was nothing to check; empty when the rule was shown to hold.
    records : tuple of str
        Up to five records that break the rule.
    meaning : str
        The rule.
    kind : {"recomputed", "stated only", "not applicable"}
        Whether the rule was shown from the data, rests on a statement that nothing in the release can show, or has
        nothing that it could apply to.
    """

    name: str
    ok: bool
    detail: str
    records: tuple[str, ...]
    meaning: str
    kind: Kind


@dataclass(frozen=True)
class ValidationReport:
    """What validation found of a release.

    Attributes
    ----------
    release_id : str
    ok : bool
        Whether every check is. The files' bytes are no part of it.
    checks : tuple of CheckResult
        In the order of the table.
    verification : VerificationReport
        Whether the files that were read are those of the manifest.
    """

    release_id: str
    ok: bool
    checks: tuple[CheckResult, ...]
    verification: VerificationReport

    @property
    def failed(self) -> tuple[CheckResult, ...]:
        """The checks that are not ok."""
        return tuple(check for check in self.checks if not check.ok)

    def to_json(self) -> dict[str, Any]:
        """Return the report with the stable keys of ``trace-hf validate --json``."""
        return {
            "release_id": self.release_id,
            "ok": self.ok,
            "verified": self.verification.ok,
            "pinned": self.verification.pinned,
            "checks": [
                {
                    "name": check.name,
                    "ok": check.ok,
                    "detail": check.detail,
                    "records": list(check.records),
                    "meaning": check.meaning,
                    "kind": check.kind,
                }
                for check in self.checks
            ],
        }


def validate(
    release: str | os.PathLike[str] | Release | None = None,
    storage_options: Mapping[str, Any] | None = None,
    token: str | bool | None = None,
    *,
    unknown: Unknown | None = None,
    advance: Callable[[int], None] | None = None,
) -> ValidationReport:
    """Validate a release: compute every rule of it again from its files.

    Parameters
    ----------
    release, storage_options, token
        As `Release.open` takes them.
    unknown
        Whether fields that the schema does not name fail the check `schema` (``"error"``) or are accepted
        (``"keep"``). By default as a given `Release` was opened, else ``"error"``.
    advance
        Called with the number of bytes hashed, for a progress bar.

    Returns
    -------
    ValidationReport
        A file that cannot be read fails the checks that need it. The release need not verify; the report says
        whether it does.

    Raises
    ------
    ReleaseNotFoundError, ManifestError, UnsafePathError
        When there is nothing to validate.
    """
    if unknown is None:
        unknown = release.unknown if isinstance(release, Release) else "error"
    opened = Release.open(release, storage_options, token, unknown="keep")
    verification = opened.verify(advance)
    facts = Facts(opened, verification.digests, keep_unknown=unknown == "keep")
    results = tuple(_result(check, facts) for check in CHECKS.values())
    return ValidationReport(opened.release_id, all(result.ok for result in results), results, verification)


def _result(check: Check, facts: Facts) -> CheckResult:
    absent = [need for need in check.needs if need not in facts.names]
    if absent:
        return _outcome(check, True, f"the release has no {' and no '.join(absent)}", "not applicable")
    lineage = facts.manifest.lineage
    if check.statement and lineage and {check.statement, check.statement.partition(":")[0]} & set(lineage.inherited):
        return _outcome(check, True, f"copied from {lineage.parent_release_id}, not recomputed", "stated only")
    faults = facts.faults[check.name]
    unread = [facts.problems[need] for need in check.needs if need in facts.problems]
    if check.run and not unread:
        faults = _collect(check, facts)
    if not faults.count and not unread:
        return _outcome(check, True, "", check.kind)
    texts = [f"{record_id} {text}" if record_id else text for record_id, text in faults.first]
    if faults.count > len(texts):
        texts.append(f"and {faults.count - len(texts)} more")
    if unread:
        texts.append(f"not shown for all records, since {' and '.join(unread)}")
    records = tuple(record_id for record_id, _ in faults.first if record_id)
    return CheckResult(check.name, False, "; ".join(texts), records, check.meaning, check.kind)


def _outcome(check: Check, ok: bool, detail: str, kind: Kind) -> CheckResult:
    return CheckResult(check.name, ok, detail, (), check.meaning, kind)


def _collect(check: Check, facts: Facts) -> Faults:
    faults = Faults()
    found = iter(check.run(facts) if check.run else ())
    for record_id, text in islice(found, MAX_NAMED):
        faults.add(record_id, text)
    faults.count += sum(1 for _ in found)
    return faults
