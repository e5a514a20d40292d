"""What `validate` is measured against: a loader with pydantic models that checks the same.

It runs the same checks, but as a loader with models would: pydantic decodes every row of every record file, the
partition's too, with each record check as a validator of its model, and the standard library judges keys and encoding.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, Struct
from pydantic import BaseModel, ConfigDict, create_model, model_validator

from trace_hf.checks import CHECKS, Check
from trace_hf.checks import _result as result_of
from trace_hf.checks.facts import Facts
from trace_hf.checks.table import FILE_OF
from trace_hf.release import Release
from trace_hf.schema import ChangeRecord, ExclusionRecord, Field, ProactiveRecord, QARecord, fields_of


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


_SCALARS: dict[str, Any] = {"string": str, "float": float, "int": int, "bool": bool, "json": Any}


def _annotation(field: Field, name: str) -> Any:
    if field.kind == "struct":
        return _model(f"{name}_{field.name}", field.children)
    if field.kind == "list":
        return list[_annotation(field.item, f"{name}_{field.name}")]  # type: ignore[misc]
    return _SCALARS[field.kind]


def _model(name: str, fields: tuple[Field, ...], rules: tuple[Check, ...] = ()) -> type[BaseModel]:
    columns: dict[str, Any] = {}
    for field in fields:
        kind = _annotation(field, name)
        columns[field.name] = (kind | None if field.nullable else kind, UNSET if field.optional else ...)
    validators = {rule.name + "_rule": model_validator(mode="after")(_as_validator(rule)) for rule in rules}
    return create_model(name, __base__=_Model, __validators__=validators, **columns)


def _as_validator(rule: Check) -> Callable[[Any], Any]:
    def validator(record: Any) -> Any:
        fault = rule.judge(record) if rule.judge else None
        if fault is not None:
            raise ValueError(f"{rule.name}: {fault}")
        return record

    return validator


MODELS: dict[type[Struct], type[BaseModel]] = {
    kind: _model(kind.__name__, fields_of(kind), tuple(rule for rule in CHECKS.values() if kind in rule.records))
    for kind in (QARecord, ProactiveRecord, ChangeRecord, ExclusionRecord)
}
# The checks ask for a record's file by its class.
FILE_OF.update({model: FILE_OF[kind] for kind, model in MODELS.items()})


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError("a key comes twice")
    return value


class _PydanticFacts(Facts):
    _encode = staticmethod(msgspec.json.Encoder(enc_hook=BaseModel.model_dump).encode)

    def _read_records(self, need: str, kind: type[Struct]) -> None:
        model = MODELS[kind]
        keep: Any = {"qa": self._keep_qa, "proactive": self._keep_proactive}.get(need, self._keep_audit)
        for number, line in self._lines(need):
            record: Any = model.model_validate_json(line)
            value = json.loads(line, object_pairs_hook=_no_duplicates)
            if json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode() != line:
                self.faults["canonical_encoding"].add(record.record_id, f"line {number}")
            keep(need, record, line)

    def _read_part(self, subset: str) -> None:
        for _number, line in self._lines(subset):
            MODELS[ProactiveRecord].model_validate_json(line)
        super()._read_part(subset)


def validate_with_pydantic(path: Path) -> bool:
    """Hash, decode and check a release; return whether every check is ok."""
    release = Release.open(path, unknown="keep")
    facts = _PydanticFacts(release, release.verify().digests, keep_unknown=False)
    return all(result_of(check, facts).ok for check in CHECKS.values())
