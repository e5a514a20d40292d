"""The exceptions of trace-hf.

Every message says what is wrong, where, why it is likely so, and what to do next. The parts are also
attributes, so that a caller can act on them without parsing text.
"""

from __future__ import annotations

from typing import Any

from .terminal import visible

__all__ = [
    "DataTermsError",
    "IntegrityError",
    "ManifestError",
    "OutputExistsError",
    "ReleaseNotFoundError",
    "SchemaError",
    "TraceError",
    "UnknownConfigError",
    "UnknownRecordError",
    "UnsafePathError",
    "VideoNotFoundError",
    "printable",
]

_LONGEST = 2000

_ON_ONE_LINE = str.maketrans({"\n": "\\n", "\t": "\\t", "\u2028": "\\u2028", "\u2029": "\\u2029"})


def printable(text: str) -> str:
    """Return text on one line of bearable length that cannot act on a terminal.

    What a file holds gets into messages: a field's name, a record ID, a path. Whatever in it is not to be seen is
    written as an escape.
    """
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]}… ({len(text)} characters)"
    return visible(text).translate(_ON_ONE_LINE)


class TraceError(Exception):
    """Base of everything that trace-hf raises on purpose.

    Parameters
    ----------
    what
        What is wrong, in one sentence. This, `why` and `do` are made `printable`; the place is kept as it is.
    file, line, record_id, json_path
        Where: the file, the 1-based line, the record, and the place inside it (``$.windows[4].end_s``).
    why
        Why it is likely so.
    do
        What to do next.
    """

    def __init__(
        self,
        what: str,
        *,
        file: str | None = None,
        line: int | None = None,
        record_id: str | None = None,
        json_path: str | None = None,
        why: str | None = None,
        do: str | None = None,
    ) -> None:
        what = printable(what)
        super().__init__(what)
        self.what = what
        self.file = file
        self.line = line
        self.record_id = record_id
        self.json_path = json_path
        self.why = printable(why) if why else why
        self.do = printable(do) if do else do

    @property
    def where(self) -> str:
        """The place as text, for example ``qa.jsonl, line 3, record ovo_bench_qa:10, at $.answer``."""
        parts = [
            self.file,
            None if self.line is None else f"line {self.line}",
            None if self.record_id is None else f"record {self.record_id}",
            None if self.json_path is None else f"at {self.json_path}",
        ]
        return ", ".join(printable(part) for part in parts if part)

    def __str__(self) -> str:
        lines = [f"{self.where}: {self.what}" if self.where else self.what]
        lines += [f"  {label}: {text}" for label, text in (("Why", self.why), ("Do", self.do)) if text]
        return "\n".join(lines)

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions cross process borders in datasets' workers, where keyword-only arguments would be lost.
        return (_rebuild, (type(self), self.__dict__.copy()))


def _rebuild(cls: type[TraceError], state: dict[str, Any]) -> TraceError:
    error = cls(state["what"])
    error.__dict__.update(state)
    return error


class ReleaseNotFoundError(TraceError, FileNotFoundError):
    """No release was named, or there is none at the place that was named."""

    __str__ = TraceError.__str__


class ManifestError(TraceError):
    """A manifest is missing a part, has a wrong type, names something unsafe, or is of an unknown schema."""


class IntegrityError(TraceError):
    """Bytes are not those that the manifest, or the pins of a known release, state."""


class SchemaError(TraceError):
    """A row is not of the release's schema."""


class VideoNotFoundError(TraceError, FileNotFoundError):
    """A record's video is not under the video root."""

    __str__ = TraceError.__str__


class UnsafePathError(TraceError):
    """A path from a release would leave its root."""


class DataTermsError(TraceError):
    """The data terms do not allow what was asked."""


class UnknownConfigError(TraceError, ValueError):
    """A config, view or split of that name does not exist."""


class OutputExistsError(TraceError, FileExistsError):
    """Something stands where a result should be written; nothing is replaced."""

    __str__ = TraceError.__str__


class UnknownRecordError(TraceError, LookupError):
    """A release has no record of that ID."""

    __str__ = TraceError.__str__
