"""Which file that is really there may be the missing one. Candidates are shown to a person, never chosen."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable
from pathlib import PurePosixPath

__all__ = ["VIDEO_SUFFIXES", "Candidates"]

VIDEO_SUFFIXES = frozenset({".mp4", ".mkv", ".webm", ".mov", ".avi", ".m4v", ".mpg", ".mpeg", ".ts", ".flv"})
MOST = 5


class Candidates:
    """Files of a root, ready to be searched for the nearest to a missing path.

    Parameters
    ----------
    files : iterable of str
        What is really there, as relative paths.
    """

    def __init__(self, files: Iterable[str]) -> None:
        self._by_path: dict[str, list[str]] = defaultdict(list)
        self._by_name: dict[str, list[str]] = defaultdict(list)
        self._by_stem: dict[str, list[str]] = defaultdict(list)
        self._by_number: dict[str, set[str]] = defaultdict(set)
        for file in sorted(set(files)):
            path = PurePosixPath(_fold(file))
            self._by_path[str(path)].append(file)
            self._by_name[path.name].append(file)
            if path.suffix in VIDEO_SUFFIXES:
                self._by_stem[path.stem].append(file)
                for token in _tokens(_stem(file)):
                    if token.isdigit():
                        self._by_number[token].add(file)

    def same_name(self, path: str) -> list[str]:
        """Return the files of the same name in whatever folder, case aside."""
        return self._by_name.get(PurePosixPath(_fold(path)).name, [])

    def nearest(self, path: str) -> list[str]:
        """Return at most five files that may be the missing one, the likeliest first.

        The same path in other case; the same name in another folder; the same stem with another extension; a
        path that has all words and numbers of the missing name, such as ``real/sample_361/video.mp4`` for
        ``videos/sample_361_real.mp4``; the same numbers in a name that is spelt almost so.
        """
        folded = PurePosixPath(_fold(path))
        found = [
            *self._by_path.get(str(folded), []),
            *self.same_name(path),
            *self._by_stem.get(folded.stem, []),
            *self._by_words(folded.stem),
            *self._by_spelling(folded.stem),
        ]
        return [file for file in dict.fromkeys(found) if file != path][:MOST]

    def _by_words(self, stem: str) -> list[str]:
        wanted = _tokens(stem)
        return sorted(file for file in self._with_numbers(wanted) if wanted <= _tokens(_stem(file)))

    def _by_spelling(self, stem: str) -> list[str]:
        numbers = sorted(token for token in _tokens(stem) if token.isdigit())
        near = {}
        for file in self._with_numbers(_tokens(stem)):
            other = PurePosixPath(_fold(file)).stem
            # Another number is another video, however alike the names are.
            if sorted(token for token in _tokens(other) if token.isdigit()) == numbers:
                ratio = difflib.SequenceMatcher(None, stem, other).ratio()
                if ratio >= 0.8:
                    near[file] = ratio
        return sorted(near, key=lambda file: (-near[file], file))

    def _with_numbers(self, tokens: set[str]) -> set[str]:
        sets = [self._by_number.get(token, set()) for token in tokens if token.isdigit()]
        return set.intersection(*sets) if sets else set()


def _fold(text: str) -> str:
    # macOS writes é as two characters; such names are the same to a person.
    return unicodedata.normalize("NFC", text).casefold()


def _stem(file: str) -> str:
    # The 4 of .mp4 is no number of the video.
    return str(PurePosixPath(file).with_suffix(""))


def _tokens(text: str) -> set[str]:
    return set(re.findall(r"\d+|[^\W\d_]+", _fold(text)))
