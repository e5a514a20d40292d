"""The verbs `mirror plan|push|pull|check`: thin functions over `trace_hf.hub.mirror`."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from .common import (
    EXIT_CHECK_FAILED,
    TraceGroup,
    emit_json,
    emit_table,
    interactive,
    json_option,
    parse_storage_options,
)

if TYPE_CHECKING:
    from ..hub.reports import CheckReport, Plan, PushReport

# As `org/name` of the Hub is written; `./name` is plainly a folder.
_LIKE_A_REPO = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")

_Command = TypeVar("_Command", bound=Callable[..., Any])


def _options_option(name: str, what: str) -> Callable[[_Command], _Command]:
    return click.option(name, callback=parse_storage_options, metavar="JSON", help=f"fsspec options for {what}.")


def _target_options(command: _Command) -> _Command:
    command = _options_option("--storage-options", "the target")(command)
    return click.option(
        "--hf-home", metavar="DIR", help="The target is DIR, made as the HF_HOME of machines with no network."
    )(command)


def _push_options(command: _Command) -> _Command:
    for option in (
        _options_option("--source-options", "a remote RELEASE"),
        click.option("--terms", metavar="FILE", help="Decide by this table of data terms instead of the built-in one."),
        click.option("--public", is_flag=True, help="Everybody may read it; for releases whose terms allow that."),
        click.option("--gated", is_flag=True, help="Access by manual approval; for releases whose terms allow that."),
        click.option("--only-redistributable", is_flag=True, help="Mirror only the records that may be public."),
    ):
        command = option(command)
    return _target_options(command)


@click.group(cls=TraceGroup)
def mirror() -> None:
    """Make, check and repair private copies of a release, within the data terms.

    A TARGET is hf://datasets/org/name, a folder, or an fsspec URL such as s3://bucket/prefix. On the Hub, a mirror is
    private unless the terms of every record allow more.
    """
    if not sys.stderr.isatty():
        importlib.import_module("huggingface_hub.utils").disable_progress_bars()


def _arguments(public: bool, gated: bool, **options: Any) -> dict[str, Any]:
    if public and gated:
        raise click.UsageError("--public and --gated are two things; say one")
    return {**options, "visibility": "public" if public else "gated" if gated else "private"}


@mirror.command()
@click.argument("release")
@click.argument("target")
@_push_options
@json_option
def plan(release: str, target: str, as_json: bool, **options: Any) -> None:
    """Say what `push` would do. Nothing is written.

    Example: trace-hf mirror plan /data/trace/v1.1.0 hf://datasets/our-lab/trace
    """
    from ..hub.mirror import plan as make_plan

    _tell_folder(target)
    found = make_plan(release, target, **_arguments(**options))
    if as_json:
        emit_json(found.to_json())
    else:
        _show_plan(found)


@mirror.command()
@click.argument("release")
@click.argument("target")
@_push_options
@click.option("--deep", is_flag=True, help="Read the rows back and attest them, beside comparing hashes.")
@click.option("--yes", is_flag=True, help="Do not ask; needed where nobody can be asked.")
@json_option
@click.pass_context
def push(
    ctx: click.Context, /, release: str, target: str, deep: bool, yes: bool, as_json: bool, **options: Any
) -> None:
    """Make a mirror of RELEASE at TARGET, complete one, or repair one.

    A second push after any failure goes on where the first one stopped; one after a success writes nothing.

    Example: trace-hf mirror push /data/trace/v1.1.0 hf://datasets/our-lab/trace --yes
    """
    from ..hub.mirror import push as make

    _tell_folder(target)

    def confirm(planned: Plan) -> bool:
        if not as_json:
            _show_plan(planned)
        if yes:
            return True
        if not (interactive() and sys.stdin.isatty()):
            raise click.UsageError("nobody can be asked here: look at the plan, then say --yes")
        return click.confirm("Go on?", err=True)

    report = make(release, target, deep=deep, confirm=confirm, **_arguments(**options))
    if report is None:
        click.echo("nothing was written", err=True)
        ctx.exit(EXIT_CHECK_FAILED)
    if as_json:
        emit_json(report.to_json())
    else:
        _show_push(report)


@mirror.command()
@click.argument("target")
@click.argument("out")
@_target_options
@json_option
def pull(target: str, out: str, as_json: bool, **options: Any) -> None:
    """Bring the mirror at TARGET to the new folder OUT, which appears only when it is verified.

    Example: trace-hf mirror pull hf://datasets/our-lab/trace /data/trace/mirror
    """
    from ..hub.mirror import pull as bring

    _tell_folder(target)
    report = bring(target, out, **options)
    if as_json:
        emit_json({**report.to_json(), "path": out})
    else:
        click.echo(f"{out} is {report.release_id}, verified; {len(report.attested)} configs attested")


@mirror.command()
@click.argument("target")
@click.option("--release", metavar="RELEASE", help="What it should hold, instead of what it says itself.")
@click.option("--visibility", type=click.Choice(["private", "gated", "public"]), help="Who should be able to read it.")
@click.option("--terms", metavar="FILE", help="Decide by this table of data terms instead of the built-in one.")
@_options_option("--source-options", "a remote RELEASE")
@_target_options
@json_option
@click.pass_context
def check(ctx: click.Context, /, target: str, as_json: bool, **options: Any) -> None:
    """Verify the mirror at TARGET in place and say where it has drifted; quiet when all is well.

    Exit code 0: all well; 1: it has drifted; 2: there is no mirror.

    Example: trace-hf mirror check hf://datasets/our-lab/trace
    """
    from ..hub.mirror import check as look

    _tell_folder(target)
    report = look(target, **options)
    if as_json:
        emit_json(report.to_json())
    else:
        _show_check(report)
    if not report.ok:
        ctx.exit(EXIT_CHECK_FAILED)


def _tell_folder(target: str) -> None:
    """Say that a name which reads as a repo's is a folder's, while no folder of that name shows that it is meant."""
    if _LIKE_A_REPO.fullmatch(target) and not Path(target).exists():
        click.echo(f"{target} is a folder here; for the Hub write hf://datasets/{target}", err=True)


def _show_plan(found: Plan) -> None:
    pinned = "known to trace-hf" if found.pinned else "not known to trace-hf: consistent, origin not proven"
    click.echo(f"{found.release_id} ({pinned}) -> {found.target}, {found.visibility}")
    rows = [(step.action, step.name, _size(step.size) if step.size else "") for step in found.steps]
    emit_table(["what", "which", "size"], rows)
    foreign = f"; {len(found.foreign)} foreign files are left alone" if found.foreign else ""
    click.echo(f"{_size(found.size)} to upload, {found.unchanged} files are there already{foreign}")
    terms = found.decision.terms
    click.echo(f"terms: {' '.join(found.decision.reasons)} ({terms.file}, SHA-256 {terms.sha256})")


def _show_push(report: PushReport) -> None:
    done = "complete" if report.plan.steps else "complete already: nothing was written"
    proof = f"{report.verified} files verified by {report.verified_by}" + (", rows attested" if report.attested else "")
    click.echo(f"{report.plan.target} is {done}; {proof}")


def _show_check(report: CheckReport) -> None:
    if report.ok:
        if interactive():
            click.echo(f"{report.target} is {report.release_id}, as it should be")
        return
    emit_table(["drift", "which", "how"], [(drift.kind, drift.name, drift.detail) for drift in report.drift])
    click.echo(f"{report.target} has drifted in {len(report.drift)} places; {_remedy(report)}")


def _remedy(report: CheckReport) -> str:
    from ..hub.content import is_own

    # What an export of an earlier release left is foreign too, but a push deletes it.
    left = [drift for drift in report.drift if drift.kind == "foreign" and not is_own(drift.name)]
    if not left:
        return "`trace-hf mirror push` repairs files"
    yours = "remove foreign files yourself: `trace-hf mirror push` leaves them alone"
    return yours if len(left) == len(report.drift) else f"`trace-hf mirror push` repairs files, but {yours}"


def _size(size: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
