"""Write docs/api.md from the docstrings and docs/verbs.md from the command line's own help.

python scripts/docs.py            writes both
python scripts/docs.py --check    says which is out of date, and exits 1 if one is
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ForwardRef

import click

from trace_hf import errors
from trace_hf.cli import main as command_line
from trace_hf.schema import CONFIGS, Field, fields_of

DOCS = Path(__file__).resolve().parents[1] / "docs"

# What people use, by what they come to do: a module, and its names.
PARTS: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    ("Load", (("trace_hf", "load"), ("trace_hf", "provenance"), ("trace_hf", "register"))),
    (
        "Releases",
        (
            ("trace_hf", "Release"),
            ("trace_hf", "verify"),
            ("trace_hf", "VerificationReport"),
            ("trace_hf.checks", "validate"),
            ("trace_hf.checks", "ValidationReport"),
            ("trace_hf.checks", "CheckResult"),
        ),
    ),
    ("Proof", (("trace_hf", "attest"), ("trace_hf", "Attestation"))),
    (
        "Windows and spans",
        (
            ("trace_hf", "effective_windows"),
            ("trace_hf", "evidence_span"),
            ("trace_hf.windows", "EvaluationWindow"),
            ("trace_hf.windows", "Span"),
            ("trace_hf.windows", "sampling_times"),
            ("trace_hf.windows", "media_end"),
        ),
    ),
    (
        "Videos",
        (
            ("trace_hf", "VideoRoot"),
            ("trace_hf.videos.inventory", "check_videos"),
            ("trace_hf.videos.inventory", "Inventory"),
            ("trace_hf.videos.probe", "probe_videos"),
            ("trace_hf.videos.clips", "frames"),
            ("trace_hf.videos.clips", "clip"),
        ),
    ),
    (
        "Look at a release",
        (
            ("trace_hf.report", "write_report"),
            ("trace_hf.report", "WrittenReport"),
            ("trace_hf.lookup", "find_record"),
        ),
    ),
    ("Synthetic releases", (("trace_hf", "write_sample"),)),
    ("Errors", tuple(("trace_hf.errors", name) for name in errors.__all__)),
)

_SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}$", re.MULTILINE)
_ENTRY_SECTIONS = {"Parameters", "Returns", "Yields", "Raises", "Attributes"}


# --- Python ----------------------------------------------------------------------------------------------------


def api() -> str:
    """Return the API reference."""
    lines = [
        "# API reference",
        "",
        "<!-- Written by scripts/docs.py from the docstrings: change those, and call it again. -->",
        "",
        "Times are seconds of the original video. Names under `trace_hf` load their module on first use.",
        "",
    ]
    for title, names in PARTS:
        lines += [f"## {title}", ""]
        for module, name in names:
            lines += _entry(module, name)
    lines += ["## Configs and their fields", ""]
    lines += ["| config | record | what it is |", "| --- | --- | --- |"]
    lines += [
        f"| `{config.name}` | [`{config.record.__name__}`](#{config.record.__name__.lower()}) | {config.description} |"
        for config in CONFIGS.values()
    ]
    for record in dict.fromkeys(config.record for config in CONFIGS.values()):
        lines += ["", f"### {record.__name__}", "", _inline(inspect.getdoc(record) or ""), ""]
        lines += ["| field | type | unit | description |", "| --- | --- | --- | --- |"]
        lines += [row for field in fields_of(record) for row in _field_rows(field)]
    return "\n".join(lines) + "\n"


def _entry(module: str, name: str) -> Iterator[str]:
    value = getattr(importlib.import_module(module), name)
    yield from (f"### `{module}.{name}`", "", "```py", f"{name}{_signature(value)}", "```", "")
    yield from _docstring(inspect.getdoc(value) or "")
    if inspect.isclass(value):
        for member, described in vars(value).items():
            if member.startswith("_") or not _is_own(described):
                continue
            function = getattr(described, "__func__", described)
            call = "" if isinstance(described, property) else _signature(function)
            yield from (f"#### `{name}.{member}{call}`", "")
            yield from _docstring(inspect.getdoc(described) or "")


def _is_own(member: Any) -> bool:
    return isinstance(member, (property, classmethod, staticmethod)) or inspect.isfunction(member)


def _signature(value: Any) -> str:
    if inspect.isclass(value) and issubclass(value, Exception):
        return ""
    shown, starred = [], False
    for parameter in inspect.signature(value).parameters.values():
        if parameter.name in ("self", "cls"):
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            shown.append("*")
        starred = starred or parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
        shown.append(_parameter(parameter))
    return f"({', '.join(shown)})"


def _parameter(parameter: inspect.Parameter) -> str:
    note = parameter.annotation
    if isinstance(note, ForwardRef):
        note = note.__forward_arg__
    elif isinstance(note, type):
        note = note.__name__
    stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    text = f"{stars}{parameter.name}" + ("" if note is parameter.empty else f": {note}")
    if parameter.default is parameter.empty:
        return text
    default = "…" if callable(parameter.default) or " at 0x" in repr(parameter.default) else repr(parameter.default)
    return f"{text} = {default}"


def _docstring(text: str) -> Iterator[str]:
    """A NumPy docstring as Markdown."""
    parts = _SECTION.split(text)
    yield from (_inline(parts[0].strip()), "")
    for title, body in zip(parts[1::2], parts[2::2], strict=True):
        yield from (f"**{title}**", "")
        body = textwrap.dedent(body.strip("\n"))
        if title in _ENTRY_SECTIONS:
            yield from _entries(body)
        elif ">>>" in body:
            yield from ("```pycon", body, "```")
        else:
            yield _inline(body)
        yield ""


def _entries(body: str) -> Iterator[str]:
    """`name : type` and an indented text become an item of a list."""
    for block in re.split(r"\n(?=\S)", body):
        head, _, rest = block.partition("\n")
        names, _, kind = (part.strip() for part in head.partition(" : "))
        title = ", ".join(f"`{name.strip()}`" for name in names.split(","))
        about = _inline(" ".join(rest.split()))
        yield f"- {title}" + (f" ({_inline(kind)})" if kind else "") + (f": {about}" if about else "")


def _inline(text: str) -> str:
    return text.replace("``", "`")


def _field_rows(field: Field, prefix: str = "") -> Iterator[str]:
    name = f"{prefix}{field.name}"
    kind = field.kind
    inner = field.item if kind in ("list", "map") else field
    if kind in ("list", "map"):
        kind_text = f"{kind} of {inner.kind}"
        name += "[]" if kind == "list" else "{}"
    else:
        kind_text = str(kind)
    state = ", optional" if field.optional else ", nullable" if field.nullable else ""
    yield f"| `{name}` | {kind_text}{state} | {field.unit or inner.unit} | {field.description} |"
    if inner.kind == "struct":
        for child in inner.children:
            yield from _field_rows(child, f"{name}.")


# --- the command line ------------------------------------------------------------------------------------------


def verbs() -> str:
    """Return the reference of the command line."""
    context = click.Context(command_line, info_name="trace-hf", terminal_width=100)
    lines = [
        "# Verbs",
        "",
        "<!-- Written by scripts/docs.py from `trace-hf --help`: change that, and call it again. -->",
        "",
        "Exit code 0: all well; 1: a check failed; 2: wrong use or not found.",
        "",
        *_verbs(command_line, context),
    ]
    return "\n".join(lines)


def _verbs(group: click.Group, context: click.Context) -> Iterator[str]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        inner = click.Context(command, info_name=name, parent=context, terminal_width=100)
        if isinstance(command, click.Group):
            yield from _verbs(command, inner)
            continue
        usage = command.get_usage(inner).removeprefix("Usage: ")
        yield from (f"## {inner.command_path}", "", "```text", usage, "```", "")
        about, _, example = inspect.cleandoc(command.help or "").partition("\n\nExample: ")
        assert example, f"{inner.command_path} has no example in a paragraph of its own"
        yield from (about, "", "```sh", example.strip(), "```", "")
        yield from (line for parameter in command.params if (line := _option(parameter)))
        yield ""


def _option(parameter: click.Parameter) -> str:
    if not isinstance(parameter, click.Option) or parameter.hidden:
        return ""
    kind = "" if parameter.is_flag else f" {parameter.metavar or parameter.type.name.upper()}"
    if isinstance(parameter.type, click.Choice) and not parameter.metavar:
        kind = f" {'|'.join(map(str, parameter.type.choices))}"
    default = f" Default: `{parameter.default}`." if parameter.show_default else ""
    return f"- `{', '.join(parameter.opts)}{kind}`: {parameter.help or ''}{default}"


PAGES = {"api.md": api, "verbs.md": verbs}


def main(arguments: list[str]) -> int:
    """Write the pages, or compare them."""
    if arguments not in ([], ["--check"]):
        print((__doc__ or "").strip(), file=sys.stderr)
        return 2
    stale = []
    for name, page in PAGES.items():
        path, text = DOCS / name, page()
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if not arguments:
            path.write_text(text, encoding="utf-8")
    verb = "out of date" if arguments else "written"
    print("\n".join(f"docs/{name}: {verb}" for name in stale) or "up to date")
    return int(bool(arguments and stale))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
