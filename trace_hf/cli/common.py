"""What every verb shares: exit codes, JSON, tables, progress and the way errors are shown."""

from __future__ import annotations

import difflib
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from ..errors import (
    OutputExistsError,
    ReleaseNotFoundError,
    TraceError,
    UnknownConfigError,
    UnknownRecordError,
    VideoNotFoundError,
)
from ..terminal import visible

EXIT_OK, EXIT_CHECK_FAILED, EXIT_USAGE = 0, 1, 2

_WRONG_USE = (OutputExistsError, ReleaseNotFoundError, UnknownConfigError, UnknownRecordError, VideoNotFoundError)

_Command = TypeVar("_Command", bound=Callable[..., Any])


class TraceGroup(click.Group):
    """A group that turns expected failures into exit codes and guesses what a mistyped verb meant."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb; name the nearest one when there is none of that name."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            close = difflib.get_close_matches(args[0], self.list_commands(ctx), n=1) if args else []
            if not close or "Did you mean" in error.message:
                raise
            raise click.UsageError(f"{error.message} Did you mean {close[0]!r}?", error.ctx) from None

    def invoke(self, ctx: click.Context) -> Any:
        """Run the verb; an expected failure is a message and an exit code, never a traceback."""
        try:
            return super().invoke(ctx)
        except TraceError as error:
            click.echo(f"Error: {error}", err=True)
            ctx.exit(EXIT_USAGE if isinstance(error, _WRONG_USE) else EXIT_CHECK_FAILED)


def json_option(command: _Command) -> _Command:
    """Add ``--json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON with stable keys.")(command)


def release_argument(command: _Command) -> _Command:
    """Add the RELEASE argument and what it takes to open one."""
    return click.argument("release", required=False)(storage_options_option(command))


def storage_options_option(command: _Command) -> _Command:
    """Add ``--storage-options``."""
    return click.option(
        "--storage-options",
        callback=parse_storage_options,
        metavar="JSON",
        help="fsspec options for a remote release, for example '{\"anon\": true}'.",
    )(command)


def parse_storage_options(_ctx: click.Context, _param: click.Parameter, value: str | None) -> dict[str, Any] | None:
    """Read the JSON of ``--storage-options``; for click."""
    if value is None:
        return None
    try:
        parsed = json.loads(value)
    except ValueError as error:
        raise click.BadParameter(f"not JSON: {error}") from None
    if not isinstance(parsed, dict):
        raise click.BadParameter("a JSON object is needed")
    return parsed


def emit_json(value: Any) -> None:
    """Print a value as JSON on standard output."""
    click.echo(json.dumps(value, ensure_ascii=False, indent=2))


def interactive() -> bool:
    """Whether a person looks at standard output."""
    return sys.stdout.isatty()


def emit_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None) -> None:
    """Print a table on a terminal and tab-separated lines when piped; no cell can act on the terminal."""
    if not interactive():
        for row in rows:
            click.echo("\t".join(visible(str(cell)).replace("\n", " ").replace("\t", " ") for cell in row))
        return
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(str(cell).replace("[", r"\[") for cell in row))
    Console().print(table)


@contextmanager
def progress(description: str, total: float | None) -> Iterator[Callable[[float], None]]:
    """Show progress on standard error when it is a terminal; yields a function that advances it."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _steps: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(description, total=total)
        yield lambda steps: bar.advance(task, steps)
