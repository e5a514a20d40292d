"""``croissant.json``: every file with its hash, every config as a record set, every field with its description.

Written from the schema, in Croissant 1.0, which all readers take. Nothing of it needs mlcroissant.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ..schema import CONFIGS, Field, Manifest, fields_of
from .terms import Terms

CROISSANT_FILE = "croissant.json"
CONFORMS_TO = "http://mlcommons.org/croissant/1.0"

_CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}

_TYPES = {"string": "sc:Text", "json": "sc:Text", "float": "sc:Float", "int": "sc:Integer", "bool": "sc:Boolean"}
_FORMATS = {
    ".jsonl": "application/jsonlines",
    ".json": "application/json",
    ".parquet": "application/x-parquet",
}
_SEMANTIC = re.compile(r"v?(\d+\.\d+\.\d+)")


@dataclass(frozen=True)
class ListedFile:
    """A file of an export.

    Attributes
    ----------
    path : str
        Below the export's folder.
    size : int
        Bytes.
    sha256 : str
    """

    path: str
    size: int
    sha256: str


def croissant(
    manifest: Manifest,
    files: Sequence[ListedFile],
    tables: dict[str, str],
    terms: Terms,
    sources: Iterable[str],
    licence: str,
) -> bytes:
    """Return the bytes of ``croissant.json``.

    Parameters
    ----------
    manifest
        The release's.
    files
        Every file to list.
    tables
        The Parquet file of each config that has rows.
    terms, sources
        The table of terms, and the names of the sources that the release has records of.
    licence
        What to name as the licence.
    """
    used = [terms.of(source) for source in sources]
    value: dict[str, Any] = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "name": "trace",
        "description": (
            f"TRACE {manifest.release_id}, a benchmark for streaming video models: timestamped QA and Proactive "
            f"records. Annotations only. {terms.statement}"
        ),
        "conformsTo": CONFORMS_TO,
        "license": licence,
        "citeAs": "\n".join(line for source in used for line in source.citation),
        "keywords": ["benchmark", "streaming video", "video understanding"],
        "isAccessibleForFree": True,
    }
    if version := _SEMANTIC.fullmatch(manifest.release_id):
        value["version"] = version[1]
    value["distribution"] = [_file_object(file) for file in files]
    value["recordSet"] = [_record_set(config, path) for config, path in tables.items()]
    return (json.dumps(value, ensure_ascii=False, indent=1) + "\n").encode("utf-8")


def _file_object(file: ListedFile) -> dict[str, Any]:
    suffix = "." + file.path.rsplit(".", 1)[-1]
    return {
        "@type": "cr:FileObject",
        "@id": file.path,
        "name": file.path,
        "contentUrl": file.path,
        "contentSize": f"{file.size} B",
        "encodingFormat": _FORMATS.get(suffix, "application/octet-stream"),
        "sha256": file.sha256,
    }


def _record_set(config: str, path: str) -> dict[str, Any]:
    spec = CONFIGS[config]
    fields = fields_of(spec.record)
    key = next(field.name for field in fields if field.name.endswith("_id"))
    return {
        "@type": "cr:RecordSet",
        "@id": config,
        "name": config,
        "description": spec.description,
        "key": {"@id": f"{config}/{key}"},
        "field": [_field(field, f"{config}/{field.name}", path, field.name, ()) for field in fields],
    }


def _field(field: Field, name: str, file: str, column: str, way: tuple[str, ...]) -> dict[str, Any]:
    """Describe a field; `way` leads from the column's value to it, one name a level, through lists as well."""
    kind = field.item if field.kind == "list" else field
    value: dict[str, Any] = {
        "@type": "cr:Field",
        "@id": name,
        "name": name,
        "description": _description(field),
    }
    if field.kind == "list":
        value["repeated"] = True
    if kind.kind == "struct":
        value["subField"] = [
            _field(child, f"{name}/{child.name}", file, column, (*way, child.name)) for child in kind.children
        ]
        return value
    value["dataType"] = _TYPES[kind.kind]
    source: dict[str, Any] = {"fileObject": {"@id": file}, "extract": {"column": column}}
    if way:
        source["transform"] = [{"jsonPath": part} for part in way]
    value["source"] = source
    return value


def _description(field: Field) -> str:
    notes = [field.description]
    if field.unit == "s":
        notes.append("In seconds of the original video.")
    if field.optional:
        notes.append("May be absent, which a null stands for.")
    if field.nullable:
        notes.append("May be null.")
    return " ".join(notes)
