"""Rules that say which record path a member of an archive has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from string import Formatter

from ..errors import TraceError

__all__ = ["BUILT_IN_RULES", "Rule", "parse_rules", "record_path"]

_KINDS = {"": "[^/]+", "int": "[0-9]+", "path": ".+"}
_TOKEN = re.compile(r"\{(\w+)(?::(\w*))?\}|(\*\*/)|(\*\*)|(\*)")


@dataclass(frozen=True)
class Rule:
    """One rule: members of archives of a name have a record path.

    In the patterns, ``*`` stands for anything within a path segment, ``**/`` for any folders or none, ``{name}``
    for a whole segment's part that the path may use, ``{name:int}`` for digits, ``{name:path}`` for anything with
    slashes.

    Attributes
    ----------
    member : str
        Pattern of the member's name.
    path : str
        The record path, with ``{name}`` for what was found.
    archive : str
        Pattern of the archive's file name, without the suffix of a part; ``*`` for any.

    Examples
    --------
    >>> rule = Rule.parse("Proactive Output_*.zip | sample_{n:int}/video.mp4 => videos/sample_{n}_proactive.mp4")
    >>> rule.apply("Proactive Output_1-50.zip", "sample_48/video.mp4")
    'videos/sample_48_proactive.mp4'
    """

    member: str
    path: str
    archive: str = "*"

    @classmethod
    def parse(cls, text: str) -> Rule:
        """Read a rule from ``[ARCHIVE | ]MEMBER => PATH``.

        Raises
        ------
        TraceError
            If it has no ``=>``, a pattern is not understood, or the path uses a name that no pattern has.
        """
        left, arrow, path = text.partition("=>")
        archive, bar, member = left.rpartition("|")
        rule = cls(member.strip(), path.strip(), archive.strip() if bar else "*")
        if not (arrow and rule.member and rule.path and rule.archive):
            raise TraceError(
                f"the rule {text!r} is not understood", do="Write it as `ARCHIVE | MEMBER => PATH` or `MEMBER => PATH`."
            )
        known = set(rule._archive.groupindex) | set(rule._member.groupindex)
        used = {name for _, name, _, _ in Formatter().parse(rule.path) if name is not None}
        if not used <= known:
            raise TraceError(
                f"the rule {text!r} uses {', '.join(sorted(used - known)) or 'a nameless field'}, which no pattern has",
                do="Name it in the archive's or the member's pattern, as in {n:int}.",
            )
        return rule

    def apply(self, archive: str, member: str) -> str | None:
        """Return the record path of a member, or None if the rule is not about it."""
        in_archive, in_member = self._archive.fullmatch(archive), self._member.fullmatch(member)
        if not (in_archive and in_member):
            return None
        return self.path.format_map({**in_archive.groupdict(), **in_member.groupdict()})

    def __str__(self) -> str:
        return f"{self.archive} | {self.member} => {self.path}"

    @cached_property
    def _archive(self) -> re.Pattern[str]:
        return _compile(self.archive)

    @cached_property
    def _member(self) -> re.Pattern[str]:
        return _compile(self.member)


def _compile(pattern: str) -> re.Pattern[str]:
    pieces, at = [], 0
    for found in _TOKEN.finditer(pattern):
        pieces.append(re.escape(pattern[at : found.start()]))
        at = found.end()
        name, kind, folders, anything, _ = found.groups()
        if name is not None:
            if (kind or "") not in _KINDS:
                raise TraceError(f"the pattern {pattern!r} has the unknown kind {kind!r}", do="Use int or path.")
            pieces.append(f"(?P<{name}>{_KINDS[kind or '']})")
        else:
            pieces.append("(?:.+/)?" if folders else ".*" if anything else "[^/]*")
    pieces.append(re.escape(pattern[at:]))
    try:
        return re.compile("".join(pieces), re.DOTALL)
    except re.error as error:
        raise TraceError(f"the pattern {pattern!r} is not understood: {error}") from None


BUILT_IN_RULES: tuple[Rule, ...] = tuple(
    map(
        Rule.parse,
        (
            # StreamingBench: one archive for each fifty samples, one folder a sample.
            "Real-Time Visual Understanding*.zip | **/sample_{n:int}/video.mp4 => videos/sample_{n}_real.mp4",
            "Proactive Output*.zip | **/sample_{n:int}/video.mp4 => videos/sample_{n}_proactive.mp4",
            (
                "Anomaly Context Understanding*.zip | **/sample_{n:int}/video.mp4"
                " => videos/sample_{n}_Anomaly_Context_Understanding.mp4"
            ),
            # OVO-Bench, and archives that were made of record paths.
            "src_videos/{rest:path} => src_videos/{rest}",
            "videos/{rest:path} => videos/{rest}",
        ),
    )
)
"""The layouts in which the sources publish their videos."""


def record_path(rules: Sequence[Rule], archive: str, member: str) -> str | None:
    """Return the record path of a member by the first rule that is about it."""
    return next((path for rule in rules if (path := rule.apply(archive, member)) is not None), None)


def parse_rules(text: str) -> list[Rule]:
    """Read rules from a file's text: one a line with ``#`` for remarks, or a JSON list of such lines."""
    lines: Iterable[object] = text.splitlines()
    if text.lstrip().startswith("["):
        try:
            lines = json.loads(text)
        except ValueError as error:
            raise TraceError(f"the rules are not JSON: {error}") from None
    return [Rule.parse(str(line)) for line in lines if str(line).strip() and not str(line).lstrip().startswith("#")]
