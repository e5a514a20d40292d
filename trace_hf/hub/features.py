"""Arrow schema -> the features of a card's ``dataset_info``, in words that every `datasets` from 2.21 on reads.

A list of structs is ``list:`` (with ``sequence:``, versions before 4 make a struct of lists of it), a list of scalars
``sequence:``, which 4 and later read as a list, and which earlier ones read as what they make of an Arrow list.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

_DTYPES = {pa.string(): "string", pa.float64(): "float64", pa.int64(): "int64", pa.bool_(): "bool"}


def yaml_features(schema: pa.Schema) -> list[dict[str, Any]]:
    """Return the ``features`` entry of ``dataset_info``.

    Raises
    ------
    KeyError
        For an Arrow type that no record kind has.
    """
    return [{"name": field.name, **_feature(field.type)} for field in schema]


def _feature(kind: pa.DataType) -> dict[str, Any]:
    if pa.types.is_struct(kind):
        fields = [kind.field(index) for index in range(kind.num_fields)]
        return {"struct": [{"name": field.name, **_feature(field.type)} for field in fields]}
    if pa.types.is_list(kind):
        inner = _feature(kind.value_type)
        if "struct" in inner:
            return {"list": inner["struct"]}
        return {"sequence": inner.get("dtype", inner)}
    return {"dtype": _DTYPES[kind]}


def same_features(found: Any, due: Any) -> bool:
    """Whether features mean the same columns: newer versions write ``list:`` where older ones write ``sequence:``.

    `found` is walked no further than `due` goes, whatever somebody's YAML makes of it.
    """
    if isinstance(due, list):
        return isinstance(found, list) and len(found) == len(due) and all(map(same_features, found, due))
    if isinstance(due, dict):
        if not isinstance(found, dict) or len(found) != len(due):
            return False
        other = {"sequence": "list"} if isinstance(due.get("sequence"), str) else {}
        return all(same_features(found.get(key, found.get(other.get(key, key))), item) for key, item in due.items())
    return isinstance(found, str) and bool(found == due)
