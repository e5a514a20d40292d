"""The verb `validate`."""

from __future__ import annotations

from typing import Any

import click

from ..checks import CheckResult, ValidationReport
from ..checks import validate as run_checks
from ..release import Release
from .common import EXIT_CHECK_FAILED, emit_json, emit_table, json_option, progress, release_argument


@click.command()
@release_argument
@json_option
@click.pass_context
def validate(ctx: click.Context, release: str | None, storage_options: dict[str, Any] | None, as_json: bool) -> None:
    """Check what RELEASE says: every rule of a release, computed again from its files.

    Example: trace-hf validate /data/trace/v1.1.0
    """
    opened = Release.open(release, storage_options, unknown="keep")
    total = sum((opened.root / name).stat().st_size for name in opened.manifest.files if (opened.root / name).is_file())
    with progress("hashing", total) as advance:
        report = run_checks(opened, unknown="error", advance=advance)
    if as_json:
        emit_json(report.to_json())
    else:
        _show(report)
    if not report.ok:
        ctx.exit(EXIT_CHECK_FAILED)


def _show(report: ValidationReport) -> None:
    rows = [(_state(check), check.name, check.meaning, check.detail) for check in report.checks]
    emit_table(["state", "check", "what it means", "found"], rows, title=f"TRACE {report.release_id}")
    if not report.verification.ok:
        click.echo(
            "The files do not verify: this is about what they say, not about the released bytes (trace-hf verify)."
        )
    shown = sum(check.ok and check.kind == "recomputed" for check in report.checks)
    if report.ok:
        click.echo(
            f"valid: {shown} rules shown from the data, {len(report.checks) - shown} stated only or not applicable"
        )
    else:
        click.echo(f"NOT valid: {len(report.failed)} of {len(report.checks)} checks failed")


def _state(check: CheckResult) -> str:
    if not check.ok:
        return "FAILED"
    return {"recomputed": "ok", "stated only": "stated", "not applicable": "n/a"}[check.kind]
