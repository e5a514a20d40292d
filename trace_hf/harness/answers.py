"""Answer files: JSONL that any harness can write.

QA: ``{"record_id", "text"}`` a line. Proactive: ``{"record_id", "responses": [{"time_s", "text"}]}`` a line. The
samples files of lmms-eval are read, too. Further keys are left alone.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from ..errors import SchemaError

__all__ = ["read_proactive", "read_qa"]

_Read = TypeVar("_Read")


def read_qa(lines: Iterable[str | bytes], name: str = "answers") -> dict[str, str]:
    """Read QA answers: record ID -> raw text.

    Parameters
    ----------
    lines : iterable of str or bytes
        An open file.
    name : str
        For messages.

    Raises
    ------
    SchemaError
        With the line, if one is not JSON, lacks a key, has a wrong type, or repeats a record.
    """
    return _read(lines, name, _text)


def read_proactive(lines: Iterable[str | bytes], name: str = "answers") -> dict[str, list[dict[str, Any]]]:
    """Read Proactive answers: record ID -> ``[{"time_s", "text"}]``.

    Parameters
    ----------
    lines, name
        As for `read_qa`.

    Raises
    ------
    SchemaError
        As for `read_qa`.
    """
    return _read(lines, name, _responses)


class _LineError(Exception):
    """What is wrong within a line: the words, and the JSON path."""


def _read(lines: Iterable[str | bytes], name: str, take: Callable[[Mapping[str, Any]], _Read]) -> dict[str, _Read]:
    found: dict[str, _Read] = {}
    for number, value in _objects(lines, name):
        record_id = value.get("record_id")
        try:
            if not isinstance(record_id, str):
                raise _LineError("is not a string", "$.record_id")
            if record_id in found:
                raise _LineError("this record was answered on an earlier line", "$.record_id")
            found[record_id] = take(value)
        except _LineError as fault:
            what, path = fault.args
            raise SchemaError(
                what,
                file=name,
                line=number,
                record_id=record_id if isinstance(record_id, str) else None,
                json_path=path,
                do='A line is {"record_id", "text"} for QA, '
                'and {"record_id", "responses": [{"time_s", "text"}]} for Proactive.',
            ) from None
    return found


def _objects(lines: Iterable[str | bytes], name: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except ValueError as error:
            raise SchemaError(f"is not JSON: {error}", file=name, line=number) from None
        if not isinstance(value, dict):
            raise SchemaError("is not a JSON object", file=name, line=number)
        yield number, value


def _text(value: Mapping[str, Any]) -> str:
    if "text" in value:
        return _string(value["text"], "$.text")
    if "filtered_resps" in value:  # a line of lmms-eval's samples file
        said = value["filtered_resps"]
        return _string(said[0] if isinstance(said, list) and said else said, "$.filtered_resps")
    raise _LineError("is not there", "$.text")


def _responses(value: Mapping[str, Any]) -> list[dict[str, Any]]:
    path = "$.responses"
    said = value.get("responses")
    if said is None and isinstance(value.get("report"), dict):  # a line of lmms-eval's samples file
        path, said = "$.report.responses", value["report"].get("responses")
    if not isinstance(said, list):
        raise _LineError("is not a list", path)
    return [_response(item, f"{path}[{number}]") for number, item in enumerate(said)]


def _response(item: Any, path: str) -> dict[str, Any]:
    if not isinstance(item, dict):
        raise _LineError("is not an object", path)
    time = item.get("time_s")
    if isinstance(time, bool) or not isinstance(time, (int, float)) or not math.isfinite(time):
        raise _LineError("is not a number of seconds", f"{path}.time_s")
    return {"time_s": float(time), "text": _string(item.get("text"), f"{path}.text")}


def _string(value: Any, path: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _LineError("is not a string", path)
    return value
