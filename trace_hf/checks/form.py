"""How a record is written: canonical encoding and duplicate keys, told apart."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct

from ..decode import canonical_json, decode_keeping, encode_canonical
from ..errors import TraceError
from ..schema import ChangeRecord

__all__ = ["FormJudge", "duplicate_key"]

_encoder = msgspec.json.Encoder(order="sorted")

# What msgspec writes otherwise than `repr` does: see `trace_hf.decode`. Few lines have the first sign, and a search
# for a literal is an order of magnitude faster than for the exact pattern.
_MAYBE_EXPONENT = re.compile(rb"e[0-9-]")
_ODD_NUMBER = re.compile(rb"[:\[,]-?[0-9.]+e|[:\[,]-?0\.0000")


class _Pairs(list[tuple[str, Any]]):
    """A JSON object with every key that its text has, in the text's order."""


class FormJudge:
    """Judges how the records of one kind are written.

    Parameters
    ----------
    kind
        The record kind.
    """

    def __init__(self, kind: type[Struct]) -> None:
        self._kind = kind
        # Its values may be of any type and keep their bytes, which would always agree with themselves.
        self._untyped = kind is ChangeRecord
        self._buffer = bytearray()

    def is_canonical(self, record: Struct, line: bytes) -> bool:
        """Tell fast whether a line is what `encode_canonical` writes; False may need `faults` to say why not."""
        try:
            _encoder.encode_into(msgspec.json.decode(line) if self._untyped else record, self._buffer)
        except (msgspec.MsgspecError, RecursionError):
            return False
        if self._buffer != line:
            return False
        maybe_odd = b"0.0000" in line or _MAYBE_EXPONENT.search(line)
        return not maybe_odd or _ODD_NUMBER.search(line) is None

    def faults(self, line: bytes) -> tuple[str | None, str | None]:
        """Return a key that one object has twice, and what else is not canonical about a line; None for each not so."""
        try:
            pairs = json.loads(line, object_pairs_hook=_Pairs)
            twice = _repeated(pairs)
            if _with_pairs(pairs).encode("utf-8") != line:
                return twice, "is not written canonically: keys sorted, no spaces, UTF-8 not escaped"
            return twice, None if self._numbers_are_floats(line) else "has a number that is not written as a float"
        except (ValueError, RecursionError, TraceError):
            return None, "is not written canonically"

    def _numbers_are_floats(self, line: bytes) -> bool:
        if self._untyped:
            return True
        record, extra = decode_keeping(line, self._kind, file="")
        value = json.loads(line)
        for pointer, _ in extra:
            _drop(value, pointer)
        return encode_canonical(record) == canonical_json(value)


def _drop(value: Any, pointer: str) -> None:
    *parents, name = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]
    for part in parents:
        value = value[int(part)] if isinstance(value, list) else value[part]
    value.pop(name, None)


def _repeated(value: Any) -> str | None:
    """Return a key that comes twice in one object."""
    items: Iterable[Any] = ()
    if isinstance(value, _Pairs):
        names = [name for name, _ in value]
        if len(set(names)) < len(names):
            return next(name for index, name in enumerate(names) if name in names[:index])
        items = (item for _, item in value)
    elif isinstance(value, list):
        items = value
    return next((found for item in items if (found := _repeated(item)) is not None), None)


def _with_pairs(value: Any) -> str:
    """Write JSON canonically, but with every key that the text had."""
    if isinstance(value, _Pairs):
        pairs = sorted(value, key=lambda pair: pair[0])
        return "{" + ",".join(f"{_with_pairs(name)}:{_with_pairs(item)}" for name, item in pairs) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_with_pairs, value)) + "]"
    return canonical_json(value).decode("utf-8")


def duplicate_key(data: bytes) -> str | None:
    """Return a key that comes twice in one object of a JSON text; None if none does, or it is not JSON."""
    try:
        return _repeated(json.loads(data, object_pairs_hook=_Pairs))
    except (ValueError, RecursionError):
        return None
