"""Bytes -> typed values by the schema, with errors that name the place.

The decoder is msgspec's; this module turns its errors into ours, and keeps fields that the schema does not know
when it is asked to.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct

from .errors import SchemaError, TraceError
from .schema import Field, fields_of

Unknown = Literal["error", "keep"]
"""What to do about a field that the schema does not name."""

MAX_DEPTH = 100
"""JSON that is nested more deeply is refused where the schema does not bound its depth itself."""

BAD_JSON = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)
"""What decoding raises, for `explained`."""

T = TypeVar("T")
StructT = TypeVar("StructT", bound=Struct)

_AT = re.compile(r" - at `(.*)`$")
_NON_FINITE = re.compile(rb"[:\[,]\s*-?(?:NaN|Infinity|nan|inf)")
_RECORD_ID = re.compile(rb'"record_id"\s*:\s*"([^"\\]{1,200})"')
_BRACKETS = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[{\]}]', re.DOTALL)
_TYPE = re.compile(r"\w+|`")
_TYPE_NAMES = {
    "float": "a number",
    "int": "an integer",
    "str": "a string",
    "object": "an object",
    "array": "an array",
    "bool": "true or false",
    "`": "",
}


def decoder_of(target: type[T]) -> msgspec.json.Decoder[T]:
    """Return the (cached) decoder of a type."""
    key: Any = target  # mypy takes the metaclass of a type variable's type for unhashable
    return _decoder_of(key)


@cache
def _decoder_of(target: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(target)


@cache
def takes_raw(target: Any) -> bool:
    """Whether a record kind has a field that may be of any JSON type."""

    def has(fields: Iterable[Field]) -> bool:
        return any(field.kind == "json" or has(field.children) for field in fields)

    return isinstance(target, type) and issubclass(target, Struct) and has(fields_of(target))


def check_raw(data: bytes) -> None:
    """Judge what `msgspec.Raw` lets through unseen: text that is no UTF-8, depth, numbers that no float can hold.

    Raises
    ------
    UnicodeDecodeError, RecursionError, msgspec.DecodeError
        See `explained`.
    """
    data.decode("utf-8")
    depth = 0
    for match in _BRACKETS.finditer(data) if data.count(b"[") + data.count(b"{") > MAX_DEPTH else ():
        depth += {b"[": 1, b"{": 1, b"]": -1, b"}": -1}.get(match[0], 0)
        if depth > MAX_DEPTH:
            raise RecursionError
    msgspec.json.decode(data)


def decode(
    data: bytes,
    target: type[T],
    *,
    file: str,
    line: int | None = None,
    unknown: Unknown = "error",
    error: type[TraceError] = SchemaError,
) -> T:
    """Decode one JSON value.

    Parameters
    ----------
    data
        The bytes.
    target
        A type of `trace_hf.schema`, or any type that msgspec takes.
    file, line
        Where the bytes come from, for messages.
    unknown
        ``"keep"`` drops fields that the schema does not name instead of refusing them; use
        `decode_keeping` to have them.
    error
        The class to raise.

    Raises
    ------
    TraceError
        Of class `error`, with the record and the JSON path.
    """
    try:
        key: Any = target
        if takes_raw(key):
            check_raw(data)
        return decoder_of(target).decode(data)
    except BAD_JSON as problem:
        if unknown == "keep" and "unknown field" in str(problem) and issubclass(target, Struct):
            return decode_keeping(data, target, file=file, line=line, error=error)[0]
        raise explained(problem, data, file=file, line=line, error=error) from None


def decode_keeping(
    data: bytes,
    target: type[StructT],
    *,
    file: str,
    line: int | None = None,
    error: type[TraceError] = SchemaError,
) -> tuple[StructT, list[tuple[str, Any]]]:
    """Decode one JSON object and return it with the fields that the schema does not name.

    Returns
    -------
    tuple
        The typed value, and ``(JSON pointer, value)`` pairs in the order of the pointers' fields.
    """
    try:
        check_raw(data)
        value = msgspec.json.decode(data)
        extra = split_unknown(value, fields_of(target))
        return msgspec.convert(value, target, dec_hook=_raw_hook), extra
    except BAD_JSON as problem:
        raise explained(problem, data, file=file, line=line, error=error) from None


def _raw_hook(_target: type[Any], value: Any) -> Any:
    return msgspec.Raw(canonical_json(value))


def split_unknown(value: Any, fields: Sequence[Field], pointer: str = "") -> list[tuple[str, Any]]:
    """Take the fields that `fields` does not name out of `value`, in place, and return them with their pointers."""
    if not isinstance(value, dict):
        return []
    known = {field.name: field for field in fields}
    extra = [(f"{pointer}/{_escape(name)}", value.pop(name)) for name in [n for n in value if n not in known]]
    for name, field in known.items():
        if field.kind == "struct":
            extra += split_unknown(value.get(name), field.children, f"{pointer}/{name}")
        elif field.kind == "list" and field.item.kind == "struct" and isinstance(value.get(name), list):
            for index, item in enumerate(value[name]):
                extra += split_unknown(item, field.item.children, f"{pointer}/{name}/{index}")
        elif field.kind == "json" and name in value:
            value[name] = msgspec.Raw(canonical_json(value[name]))
    return extra


def merge_unknown(value: dict[str, Any], extra: Iterable[tuple[str, Any]]) -> None:
    """Put what `split_unknown` took out back into its places."""
    for pointer, item in extra:
        *parents, name = [_unescape(part) for part in pointer.split("/")[1:]]
        place: Any = value
        for part in parents:
            place = place[int(part)] if isinstance(place, list) else place[part]
        place[name] = item


def _escape(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _unescape(part: str) -> str:
    return part.replace("~1", "/").replace("~0", "~")


def explained(
    problem: Exception,
    data: bytes,
    *,
    file: str,
    line: int | None = None,
    error: type[TraceError] = SchemaError,
) -> TraceError:
    """Turn msgspec's error into ours: what, where, why and what to do."""
    found = _RECORD_ID.search(data)
    place: dict[str, Any] = {
        "file": file,
        "line": line,
        "record_id": found[1].decode("utf-8", "replace") if found else None,
    }
    text = str(problem)
    at = _AT.search(text)
    if at:
        place["json_path"] = at[1]
        text = text[: at.start()]
    if not isinstance(problem, msgspec.ValidationError) and _NON_FINITE.search(data):
        return error(
            "a non-finite number (NaN or Infinity), which JSON does not have",
            why="the file was written by a tool whose JSON is not standard",
            do="get the file again; verify names a likely cause",
            **place,
        )
    if isinstance(problem, RecursionError):
        return error("JSON that is nested too deeply", do="get the file again", **place)
    if not isinstance(problem, msgspec.ValidationError):
        bad_text = isinstance(problem, UnicodeDecodeError) or "UTF-8" in text
        what = "invalid UTF-8" if bad_text else f"not JSON ({text.removeprefix('JSON is malformed: ')})"
        return error(what, why="the file was damaged or edited", do="get the file again", **place)
    return error(_wording(text), **_advice(text), **place)


def _wording(text: str) -> str:
    if "`float` >=" in text or "`float` <=" in text or "out of range" in text:
        return "a number that is not finite"
    match = re.fullmatch(r"Expected (.+), got (`\w+`)", text)
    if match:
        wanted, found = (_TYPE.sub(lambda name: _TYPE_NAMES.get(name[0], name[0]), part) for part in match.groups())
        return f"wrong type: expected {wanted.replace(' | ', ' or ')}, found {found}"
    return text.replace("Object contains unknown", "unknown").replace("Object missing required", "missing")


def _advice(text: str) -> dict[str, Any]:
    if "unknown field" in text:
        return {
            "why": "the release is newer than this version of trace-hf, or the file was edited",
            "do": 'update trace-hf, or accept and keep such fields with unknown="keep"',
        }
    return {
        "why": "the file is not of the schema that the manifest states, or was edited",
        "do": "get the release again, or tell its maintainers",
    }


_encoder = msgspec.json.Encoder(order="sorted")

# msgspec writes a float as `repr` does but for magnitudes outside 1e-4 ... 1e16, where it shows an exponent or 0.0000.
# The first pattern is quick to exclude both; text in strings may match it.
_MAYBE_UNLIKE_REPR = re.compile(rb"e[0-9-]|0\.0000")
_UNLIKE_REPR = re.compile(rb"[0-9]e-?[0-9]|0\.0000")


def encode_canonical(value: Struct) -> bytes:
    """Write a typed record as a release writes it, with no line end.

    One JSON object: keys sorted, no spaces, UTF-8 not escaped, floats as Python's `repr`. A `msgspec.Raw` keeps
    its bytes.
    """
    encoded = _encoder.encode(value)
    if _MAYBE_UNLIKE_REPR.search(encoded) and _UNLIKE_REPR.search(encoded):
        return canonical_json(plain(value))
    return encoded


def plain(value: Any) -> Any:
    """Turn structs into dictionaries, without the fields that are absent; raw JSON stays as it is."""
    if isinstance(value, Struct):
        items = ((name, getattr(value, name)) for name in value.__struct_fields__)
        return {name: plain(item) for name, item in items if item is not msgspec.UNSET}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


def canonical_json(value: Any) -> bytes:
    """Write plain JSON values canonically; see `encode_canonical`.

    Raises
    ------
    ValueError
        For NaN and the infinities.
    """
    return _canonical(value).encode("utf-8")


def _canonical(value: Any) -> str:
    if isinstance(value, msgspec.Raw):
        return bytes(value).decode("utf-8")
    if isinstance(value, dict):
        return "{" + ",".join(f"{_text(key)}:{_canonical(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(_canonical, value)) + "]"
    return _text(value)


# The standard library's encoder writes floats as repr by definition, and refuses what JSON does not have.
_text = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
