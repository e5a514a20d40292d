"""The card: README.md of a Hub repo, filled from the release.

Text that comes from a release is somebody else's: whatever a template prints is escaped unless it was made here. The
templates are in ``dataset_card/`` of a checkout, and inside the package in a wheel.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
import msgspec
import pyarrow as pa
import yaml

from ..errors import TraceError
from ..release import Release
from ..schema import CONFIGS, Config, Field, fields_of
from .features import yaml_features
from .numbers import Numbers
from .terms import Terms

CARD_FILE = "README.md"
TERMS_FILE = "DATA_TERMS.md"
LICENCE_NAME = "trace-data-terms"

_PACKAGED = Path(__file__).parents[1] / "_dataset_card"
_CHECKOUT = Path(__file__).parents[2] / "dataset_card"
_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"), (10**7, "1M<n<10M"))

_GATED_PROMPT = (
    "TRACE holds annotations for research. Videos are not part of it. The annotation terms of some sources are not "
    "settled; DATA_TERMS.md says which. By asking for access you agree to use the data for non-commercial purposes "
    "only and not to hand it on."
)
_GATED_FIELDS = {
    "Name": "text",
    "Affiliation": "text",
    "Purpose": "text",
    "I will use this data for non-commercial purposes only": "checkbox",
    "I will not redistribute the records, and I will get videos from their own publishers": "checkbox",
}


class Table(msgspec.Struct, frozen=True):
    """What the card says of one config's Parquet file.

    Attributes
    ----------
    config : str
    path : str
        Below the export's folder.
    rows : int
    num_bytes : int
        Bytes of the rows as Arrow, as `datasets` counts them.
    size : int
        Bytes of the file.
    sha256 : str
        Of the file.
    content_sha256 : str
        Of the canonical bytes of the rows.
    """

    config: str
    path: str
    rows: int
    num_bytes: int
    size: int
    sha256: str
    content_sha256: str


# --- metadata ---------------------------------------------------------------------------------------------------


def card_metadata(
    release: Release, tables: Mapping[str, Table], numbers: Numbers, schemas: Mapping[str, pa.Schema]
) -> dict[str, Any]:
    """Return the card's YAML block as plain values."""
    total = sum(part.records for name, part in numbers.configs.items() if name in ("qa", "proactive"))
    size = next((label for bound, label in _SIZES if total < bound), "n>1T")
    tags = ["benchmark", "video", "streaming-video", "video-understanding", "trace"]
    if release.manifest.status == "synthetic":
        tags.append("synthetic")
    metadata: dict[str, Any] = {
        "pretty_name": f"TRACE {one_line(release.release_id)}",
        "language": numbers.languages,
        "license": "other",
        "license_name": LICENCE_NAME,
        "license_link": TERMS_FILE,
        "task_categories": ["visual-question-answering", "video-text-to-text"],
        "size_categories": [size],
        "tags": tags,
        "extra_gated_prompt": _GATED_PROMPT,
        "extra_gated_fields": _GATED_FIELDS,
    }
    if tables:
        metadata["configs"] = [
            {"config_name": name, "data_files": [{"split": "test", "path": table.path}]}
            for name, table in tables.items()
        ]
        metadata["dataset_info"] = [_dataset_info(table, schemas[name]) for name, table in tables.items()]
    return metadata


def _dataset_info(table: Table, schema: pa.Schema) -> dict[str, Any]:
    return {
        "config_name": table.config,
        "features": yaml_features(schema),
        "splits": [{"name": "test", "num_bytes": table.num_bytes, "num_examples": table.rows}],
        "download_size": table.size,
        "dataset_size": table.num_bytes,
    }


def front_matter(metadata: Mapping[str, Any]) -> str:
    """Write a card's YAML block, exactly as `huggingface_hub` writes it when it saves the card."""

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    dumped: str = yaml.dump(dict(metadata), Dumper=Dumper, sort_keys=False, allow_unicode=True)
    return f"---\n{dumped.strip()}\n---\n"


# --- text -------------------------------------------------------------------------------------------------------

# Control characters, line and paragraph separators, and characters that turn the writing direction or show nothing.
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]+")
_SPECIAL = re.compile(r"([\\`*_\[\]|~$#])")
_LEADING = re.compile(r"^(\d*)([-+=.)])")


class Ready(str):
    """Markdown that is printed as it is."""

    __slots__ = ()


def one_line(text: str) -> str:
    """Return text on one line, with nothing in it that cannot be seen."""
    return " ".join(_UNSEEN.sub(" ", text).split())


def md(text: object) -> Ready:
    """Escape text so that Markdown and HTML show it as it is, in a paragraph, list or table."""
    line = one_line(str(text)).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    line = _SPECIAL.sub(r"\\\1", line)
    return Ready(_LEADING.sub(r"\1\\\2", line))


def code(text: object) -> Ready:
    """Show an identifier as code; one that would break out of it is shown as text."""
    line = one_line(str(text))
    return md(line) if not line or set(line) & set("`|") else Ready(f"`{line}`")


def cell(text: object) -> Ready:
    """Put Markdown of our own into a table cell."""
    return Ready(str(text).replace("|", "\\|"))


def fenced(lines: object) -> Ready:
    """Show lines as a code block that they cannot end."""
    body = "\n".join(str(line) for line in lines) if isinstance(lines, (list, tuple)) else str(lines)
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", body)), default=0))
    return Ready(f"{fence}\n{body}\n{fence}")


def safe_url(text: object) -> Ready:
    """Let a web address through as it is, and nothing else."""
    url = str(text)
    return Ready(url) if re.fullmatch(r"https?://[\w./~%+:-]+", url) else md(url)


def _finalize(value: Any) -> Any:
    if isinstance(value, Ready):
        return str(value)
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else md(value)


@cache
def _templates() -> jinja2.Environment:
    folder = next((path for path in (_PACKAGED, _CHECKOUT) if path.is_dir()), None)
    if folder is None:
        raise TraceError("the card's templates are not there", do="install trace-hf again")
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        undefined=jinja2.StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - the escapes are Markdown's, and `finalize` makes them the default
    )
    environment.filters.update(md=md, code=code, cell=cell, fenced=fenced, safe_url=safe_url)
    return environment


def field_rows(record: type[msgspec.Struct]) -> list[dict[str, str]]:
    """Return the rows of a field table: every field at every depth, in the order of the field reference."""
    return list(_field_rows(fields_of(record), ""))


def _field_rows(fields: tuple[Field, ...], prefix: str) -> Iterator[dict[str, str]]:
    for field in fields:
        item = field.item if field.kind == "list" else field
        path = f"{prefix}{field.name}{'[]' if field.kind == 'list' else ''}"
        kind = {"json": "string", "struct": "struct", "float": "float64", "int": "int64"}.get(item.kind, item.kind)
        presence = "absent or there" if field.optional else "null or a value" if field.nullable else "always"
        yield {
            "path": path,
            "type": f"list of {kind}" if field.kind == "list" else kind,
            "unit": field.unit,
            "presence": presence,
            "description": field.description,
        }
        if item.kind == "struct":
            yield from _field_rows(item.children, f"{path}.")


def _trace_citation(release: Release) -> list[str]:
    name = re.sub(r"[^\w.+-]", "", one_line(release.release_id))
    return [
        "@misc{trace,",
        f"  title = {{TRACE: a benchmark for streaming video models, release {name}}},",
        f"  note  = {{SHA-256 of manifest.json: {release.manifest_sha256}}}",
        "}",
    ]


def _context(release: Release, tables: Mapping[str, Table], numbers: Numbers, terms: Terms) -> dict[str, Any]:
    records: dict[type[msgspec.Struct], list[Config]] = {}
    for spec in CONFIGS.values():
        records.setdefault(spec.record, []).append(spec)
    return {
        "release": release,
        "manifest": release.manifest,
        "lineage": getattr(release.manifest, "lineage", None) or None,
        "configs": CONFIGS,
        "tables": tables,
        "left_out": [name for name in CONFIGS if name not in tables],
        "numbers": numbers,
        "tasks": [name for name, spec in CONFIGS.items() if spec.inputs],
        "records": [
            {"name": kind.__name__, "about": kind.__doc__, "configs": specs, "fields": field_rows(kind)}
            for kind, specs in records.items()
        ],
        "terms": terms,
        "trace_citation": _trace_citation(release),
        "sources": [(terms.of(source), count) for source, count in sorted(numbers.sources.items())],
        "example": Ready("proactive_standard" if "proactive_standard" in tables else next(iter(tables), "qa")),
    }


def render_card(
    release: Release,
    tables: Mapping[str, Table],
    numbers: Numbers,
    schemas: Mapping[str, pa.Schema],
    terms: Terms,
) -> str:
    """Return the text of README.md.

    Parameters
    ----------
    release
        The verified release.
    tables
        The Parquet file of each config that has rows.
    numbers
        What the rows add up to.
    schemas
        The Arrow schema of each config.
    terms
        The table of data terms.
    """
    body = _templates().get_template("README.md.j2").render(_context(release, tables, numbers, terms))
    return front_matter(card_metadata(release, tables, numbers, schemas)) + body


def render_terms(release: Release, tables: Mapping[str, Table], numbers: Numbers, terms: Terms) -> str:
    """Return the text of DATA_TERMS.md."""
    return _templates().get_template("DATA_TERMS.md.j2").render(_context(release, tables, numbers, terms))
