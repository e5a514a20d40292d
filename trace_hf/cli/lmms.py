"""The verb `lmms-eval`."""

from __future__ import annotations

import click

from ..harness.lmms_eval import GROUP, TASKS, command_line, include_path
from .common import EXIT_CHECK_FAILED, TraceGroup, emit_json, emit_table, json_option


@click.group("lmms-eval", cls=TraceGroup, invoke_without_command=True)
@json_option
@click.pass_context
def lmms_eval(ctx: click.Context, as_json: bool) -> None:
    """Say how lmms-eval runs TRACE, or check that it can.

    Example: trace-hf lmms-eval check --task trace_qa_tiny
    """
    if ctx.invoked_subcommand is not None:
        return
    if as_json:
        emit_json({"include_path": include_path(), "tasks": list(TASKS), "group": GROUP, "command": command_line()})
        return
    click.echo(f"include path: {include_path()}")
    click.echo(f"tasks:        {', '.join(TASKS)}; {GROUP} is trace_qa and trace_proactive_standard")
    click.echo(
        "\nexport TRACE_RELEASE=/path/to/snapshot TRACE_VIDEO_ROOT=/path/to/videos\n"
        "trace-hf lmms-eval check --task trace_qa --task trace_proactive_standard && \\\n"
        f"  {command_line()}"
    )


@lmms_eval.command()
@click.option("--task", "tasks", multiple=True, metavar="TASK", help="Only this task; may be given again.")
@json_option
@click.pass_context
def check(ctx: click.Context, tasks: tuple[str, ...], as_json: bool) -> None:
    """Load every task the way lmms-eval does, and look for every video; no model is asked.

    Example: trace-hf lmms-eval check --task trace_qa_tiny
    """
    from ..harness.lmms_eval.checking import check_tasks

    checks = check_tasks(tasks)
    ok = all(check.ok for check in checks)
    if as_json:
        emit_json({"ok": ok, "tasks": [check.to_json() for check in checks]})
    else:
        emit_table(
            ["task", "state", "records", "detail"],
            [(check.task, "ok" if check.ok else "FAILED", check.records, check.detail) for check in checks],
        )
    if not ok:
        ctx.exit(EXIT_CHECK_FAILED)
