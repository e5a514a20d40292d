"""A slow reader of snapshots that shares nothing with the package but the schema as data.

It reads with the `json` module, one value at a time, and says of a snapshot what its rows are or that it has none to
give. What the package gives has to be the same; it may refuse more than this does.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from trace_hf.manifest import PINS
from trace_hf.schema import CONFIGS, Field, Manifest, ProactiveSubsets, fields_of

LINE = 16 * 2**20


class Refused(Exception):  # noqa: N818
    """The snapshot, or a file of it, is not one of a release."""


class Unjudged(Exception):  # noqa: N818
    """The reader cannot tell: the text is beyond what the `json` module reads."""


class Number(str):
    """A number's text."""

    __slots__ = ()


def sha256_of(stream: IO[bytes]) -> str:
    """Hash what a stream gives."""
    whole = hashlib.sha256()
    while block := stream.read(LINE):
        whole.update(block)
    return whole.hexdigest()


def parse(data: bytes) -> Any:
    """Parse JSON text, keeping the text of numbers."""

    def constant(name: str) -> Any:
        raise Refused(name)

    try:
        text = data.decode("utf-8")
        value = json.loads(text, parse_float=Number, parse_int=Number, parse_constant=constant)
    except ValueError as problem:
        raise Refused(str(problem)) from None
    except RecursionError:
        raise Unjudged("nested too deeply for json") from None
    return value


def typed(value: Any, fields: Sequence[Field]) -> dict[str, Any]:
    """Check an object by the schema and return its row: None for null and for what is absent."""
    if not isinstance(value, dict):
        raise Refused("no object")
    unknown = set(value) - {field.name for field in fields}
    if unknown:
        raise Refused(f"unknown {sorted(unknown)}")
    row: dict[str, Any] = {}
    for field in fields:
        if field.name not in value:
            if not field.optional:
                raise Refused(f"no {field.name}")
            row[field.name] = None
        elif value[field.name] is None and field.kind != "json":
            if not field.nullable:
                raise Refused(f"null {field.name}")
            row[field.name] = None
        else:
            row[field.name] = _item(value[field.name], field)
    return row


def _item(value: Any, field: Field) -> Any:
    if field.kind == "json":
        _check_text(value)
        return value
    if field.kind == "struct":
        return typed(value, field.children)
    if field.kind == "list" and isinstance(value, list):
        return [_item(part, field.item) for part in value]
    if field.kind == "map" and isinstance(value, dict):
        _check_text(value)
        return {name: _item(part, field.item) for name, part in value.items()}
    return _scalar(value, field)


def _scalar(value: Any, field: Field) -> Any:
    if field.kind == "float" and isinstance(value, Number):
        number = float(value)
        if number in (float("inf"), float("-inf")):
            raise Refused("not finite")
        return number
    if field.kind == "int" and isinstance(value, Number):
        if len(value) > 4000:
            raise Unjudged("a huge integer")
        if float(value) % 1:
            raise Refused("no integer")
        return int(value) if value.lstrip("-").isdigit() else int(float(value))
    if field.kind == "string" and isinstance(value, str) and not isinstance(value, Number):
        _check_text(value)
        return value
    if field.kind == "bool" and isinstance(value, bool):
        return value
    raise Refused(f"wrong type of {field.name}")


def _check_text(value: Any) -> None:
    """Refuse text that is not Unicode: half a surrogate pair."""
    if isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise Refused("a lone surrogate") from None
    elif isinstance(value, dict):
        for name, part in value.items():
            _check_text(name)
            _check_text(part)
    elif isinstance(value, list):
        for part in value:
            _check_text(part)


def written(value: Any, fields: Sequence[Field]) -> str:
    """Write an object canonically: keys sorted, no spaces, floats as `repr`."""
    known = {field.name: field for field in fields}
    items = (f"{json.dumps(k, ensure_ascii=False)}:{_written(value[k], known.get(k))}" for k in sorted(value))
    return "{" + ",".join(items) + "}"


def _written(value: Any, field: Field | None) -> str:
    if isinstance(value, Number):
        return repr(float(value)) if field is not None and field.kind == "float" else str(value)
    if isinstance(value, list):
        item = field.item if field is not None and field.kind == "list" else None
        return "[" + ",".join(_written(part, item) for part in value) + "]"
    if isinstance(value, dict):
        return written(value, field.children if field is not None and field.kind == "struct" else ())
    return json.dumps(value, ensure_ascii=False)


# --- a snapshot ---------------------------------------------------------------------------------------------------


class Snapshot:
    """A folder, read anew for every question; the memory that it takes does not count."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def manifest(self) -> dict[str, Any]:
        """Return the manifest, checked."""
        data = self._bytes("manifest.json")
        if len(data) > LINE:
            raise Refused("a large manifest")
        value = typed(parse(data), fields_of(Manifest))
        if value["schema_version"] != "osb-canonical-v0":
            raise Refused("unknown schema")
        for name, digest in value["files"].items():
            bad = name.startswith(("/", "~")) or set(name.split("/")) & {"", ".", ".."} or name == "manifest.json"
            if bad or any(c in name for c in "\\\0") or len(digest) != 64 or set(digest) - set("0123456789abcdef"):
                raise Refused(f"file {name!r}")
        for role in ("qa_file", "proactive_file", "tiny_qa_ids_file", "tiny_proactive_ids_file"):
            if value[role] not in value["files"]:
                raise Refused(f"{role} is not listed")
        return value

    def verified(self) -> bool:
        """Whether every listed file has its hash, and a known release its pinned facts."""
        manifest = self.manifest()
        pin = PINS.get(manifest["release_id"])
        if pin is not None and (manifest["files"] != pin.files or manifest["counts"] != pin.counts):
            return False
        if pin is not None and any(manifest[role] != name for role, name in pin.roles.items()):
            return False
        try:
            return all(self._sha256(name) == digest for name, digest in manifest["files"].items())
        except Refused:
            return False

    def rows(self, config: str, *, verified: bool = True) -> list[dict[str, Any]]:
        """Return the rows of a config."""
        manifest = self.manifest()
        if verified and not self.verified():
            raise Refused("not verified")
        spec = CONFIGS[config]
        file, count = self._file(manifest, spec.source)
        rows = self._records(file, fields_of(spec.record))
        if spec.ids_role is None:
            if count is not None and len(rows) != count:
                raise Refused("count")
            return rows
        ids = parse(self._bytes(manifest[spec.ids_role]))
        if not isinstance(ids, list) or not all(type(i) is str for i in ids) or len(set(ids)) != len(ids):
            raise Refused("ID file")
        by_id = {row["record_id"]: row for row in rows}
        if not set(ids) <= set(by_id):
            raise Refused("unknown ID")
        return [by_id[i] for i in ids]

    def is_canonical(self, config: str) -> bool:
        """Whether the record file of a config has the bytes that its rows are written as."""
        spec = CONFIGS[config]
        data = self._bytes(self._file(self.manifest(), spec.source)[0])
        fields = fields_of(spec.record)
        return b"".join(written(parse(line), fields).encode() + b"\n" for line in data.split(b"\n")[:-1]) == data

    def _file(self, manifest: Mapping[str, Any], source: str) -> tuple[str, int | None]:
        if source in ("qa", "proactive"):
            return manifest[f"{source}_file"], manifest["counts"][source]
        name, count = f"{source}.jsonl", None
        if source in ("standard", "high_frequency"):
            if "proactive_subsets.json" not in manifest["files"]:
                raise Refused("no subsets")
            side = typed(parse(self._bytes("proactive_subsets.json")), fields_of(ProactiveSubsets))["subsets"][source]
            name, count = side["record_file"], side["record_count"]
        if name not in manifest["files"]:
            raise Refused(f"{name} is not listed")
        return name, count

    def _records(self, file: str, fields: Sequence[Field]) -> list[dict[str, Any]]:
        rows, seen = [], set()
        for line in self._bytes(file).split(b"\n"):
            if len(line) > LINE:
                raise Refused("a long line")
            if not line.strip(b" \t\r\n\f\v"):
                continue
            row = typed(parse(line), fields)
            if row["record_id"] in seen:
                raise Refused("an ID twice")
            seen.add(row["record_id"])
            rows.append(row)
        return rows

    def _bytes(self, name: str) -> bytes:
        path = self.folder / name
        try:
            if path.is_file() and path.stat().st_size > 4 * LINE:
                raise Unjudged(f"{name} is large")
            if path.is_file():
                return path.read_bytes()
        except OSError:
            pass
        raise Refused(f"{name} cannot be read")

    def _sha256(self, name: str) -> str:
        path = self.folder / name
        try:
            if path.is_file():
                with path.open("rb") as stream:
                    return sha256_of(stream)
        except OSError:
            pass
        raise Refused(f"{name} cannot be read")


def same(row: Any, due: Any, fields: Iterable[Field]) -> bool:
    """Whether a row of the package is the one that this reader gives."""
    return all(_same(row.get(field.name), due[field.name], field) for field in fields)


def _same(found: Any, due: Any, field: Field) -> bool:
    if field.kind == "json":
        try:
            return bool(parse(found.encode("utf-8")) == due)
        except (Refused, AttributeError):
            return False
    if found is None or due is None:
        return found is None and due is None
    if field.kind == "struct":
        return same(found, due, field.children)
    if field.kind == "list":
        return len(found) == len(due) and all(_same(a, b, field.item) for a, b in zip(found, due, strict=True))
    if field.kind == "float":
        # An integer `-0` is 0 to some and -0.0 to others; no release has one.
        return type(found) is float and (repr(found) == repr(due) or found == due == 0)
    return type(found) is type(due) and found == due
