"""The data terms: one table of sources, with its date and the published reasons.

The table is a file, ``data_terms.json`` beside this module, so that what is decided and why can be read, compared and
replaced without touching code. A source that it does not name has open terms.
"""

from __future__ import annotations

import hashlib
import os
from functools import cache
from pathlib import Path

from msgspec import Struct

from ..decode import decode
from ..errors import DataTermsError

BUILT_IN = Path(__file__).with_name("data_terms.json")
"""The table as published."""


class SourceTerms(Struct, frozen=True, forbid_unknown_fields=True):
    """The terms of one source benchmark.

    Attributes
    ----------
    name : str
        What records name as their source.
    title, homepage : str
    annotations : str
        The state of the annotations' terms, in a few words.
    public : bool
        Whether its records may stand where everybody can get them.
    licence : str or None
        Under which licence, if any is published.
    reasons : list of str
        The published reasons, one sentence each.
    citation : list of str
        BibTeX, line by line.
    """

    name: str
    title: str
    homepage: str
    annotations: str
    public: bool
    licence: str | None
    reasons: list[str]
    citation: list[str]


class Terms(Struct, frozen=True, forbid_unknown_fields=True):
    """The table.

    Attributes
    ----------
    date : str
        When the table was last compared with what is published, as ``YYYY-MM-DD``.
    published_with : str
        The release that the facts were published with.
    statement : str
        What holds for every source.
    sources : list of SourceTerms
    """

    date: str
    published_with: str
    statement: str
    sources: list[SourceTerms]

    def of(self, source: str) -> SourceTerms:
        """Return the terms of a source; those of one that the table does not name are open."""
        for terms in self.sources:
            if terms.name == source:
                return terms
        return SourceTerms(
            name=source,
            title=source,
            homepage="",
            annotations="unknown",
            public=False,
            licence=None,
            reasons=["The table of terms does not name this source."],
            citation=[],
        )


def load_terms(path: str | os.PathLike[str] | None = None) -> tuple[Terms, str]:
    """Read a table of terms.

    Parameters
    ----------
    path
        A file of the form of `BUILT_IN`; None for that one itself.

    Returns
    -------
    tuple
        The table, and the SHA-256 of its file, for reports.

    Raises
    ------
    DataTermsError
        When it cannot be read, or is not of that form.
    """
    place = Path(path) if path is not None else BUILT_IN
    try:
        data = place.read_bytes()
    except OSError as problem:
        raise DataTermsError(
            f"cannot be read: {problem.strerror}", file=str(place), do="name a file of data terms"
        ) from None
    terms = decode(data, Terms, file=str(place), error=DataTermsError)
    return terms, hashlib.sha256(data).hexdigest()


@cache
def built_in_terms() -> Terms:
    """Return the table as published."""
    return load_terms()[0]
