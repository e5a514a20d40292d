"""`trace-hf`: one thin function a verb.

A verb's module is imported when the verb is used, so that `trace-hf verify` does not wait for what it does not need.
"""

from __future__ import annotations

import importlib
import warnings

import click

from .. import __version__
from .common import TraceGroup

_VERBS = {
    "demo": ("demo", "Verify, load and look at a synthetic release."),
    "info": ("release", "Say what a release is."),
    "verify": ("release", "Check every file of a release by its hash."),
    "validate": ("validate", "Check what a release means, rule by rule."),
    "attest": ("attest", "Prove that rows are a release's rows."),
    "diff": ("diff", "Compare two releases or exports."),
    "export": ("export", "Write a Hub repository that needs no code."),
    "show": ("show", "Show one record, with a text timeline."),
    "report": ("report", "Write a release as one HTML file to look at."),
    "mirror": ("mirror", "Make, check and repair private copies of a release, within the data terms."),
    "videos": ("videos", "Find, check, fetch and cut videos."),
    "score": ("score", "Score answers that any harness wrote."),
    "lmms-eval": ("lmms", "Run TRACE inside lmms-eval, or check that it can."),
    "sample": ("release", "Write a synthetic release of any size."),
    "completion": ("completion", "Print what makes a shell complete."),
}


class _LazyGroup(TraceGroup):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _VERBS:
            return None
        module = importlib.import_module(f".{_VERBS[cmd_name][0]}", __name__)
        command: click.Command = getattr(module, cmd_name.replace("-", "_"))
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl([(verb, about) for verb, (_, about) in _VERBS.items()])


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="trace-hf")
def main() -> None:
    """TRACE, verified: from a folder of files to typed rows, mirrors and runs.

    A RELEASE is a folder, any fsspec URL, or the word "sample"; without one, TRACE_RELEASE is used.
    Exit code 0: all well; 1: a check failed; 2: wrong use or not found.
    """
    warnings.showwarning = _show_warning  # type: ignore[assignment]


def _show_warning(message: Warning | str, *_: object) -> None:
    click.echo(f"Warning: {message}", err=True)
