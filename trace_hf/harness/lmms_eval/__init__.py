"""TRACE's tasks for lmms-eval: YAML files in this folder, and the functions that they name in `utils`.

Nothing here imports lmms-eval before it is asked to.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["GROUP", "TASKS", "command_line", "include_path"]

TASKS = {
    "trace_qa": "qa",
    "trace_qa_tiny": "qa_tiny",
    "trace_proactive": "proactive",
    "trace_proactive_standard": "proactive_standard",
    "trace_proactive_high_frequency": "proactive_high_frequency",
    "trace_proactive_tiny": "proactive_tiny",
}
"""The config of each task."""

GROUP = "trace"
"""The group of the two populations that results are reported on: QA and standard Proactive."""


def include_path() -> str:
    """Return the folder that lmms-eval's ``--include_path`` takes."""
    return str(Path(__file__).parent)


def command_line(tasks: str = GROUP) -> str:
    """Return a command that runs tasks, once TRACE_RELEASE and TRACE_VIDEO_ROOT are set."""
    return (
        f"python -m lmms_eval --model MODEL --model_args ARGS --include_path {include_path()} --tasks {tasks} "
        "--batch_size 1 --log_samples --output_path results"
    )
