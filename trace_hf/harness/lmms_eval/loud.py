"""Making failures end a run.

lmms-eval prints a traceback for an exception and ends with exit code 0, and tries to load a dataset five times. A
release that does not verify, or a video that is not there, is not mended by that; so what this package raises on
purpose leaves lmms-eval as `SystemExit`, with its message and exit code 1.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import Any, TypeVar, cast

from ...errors import TraceError

__all__ = ["loading_ends_loudly", "loud"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def loud(function: _Function) -> _Function:
    """Let a function that lmms-eval calls end the run with a message when it fails on purpose."""

    @wraps(function)
    def ending(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except TraceError as error:
            raise SystemExit(f"Error: {error}") from error

    return cast("_Function", ending)


def loading_ends_loudly() -> None:
    """Let a task's loading end the run at once when it fails on purpose; all else is tried again as ever.

    The dataset is loaded before any function of the task is called, so this is the one place that lmms-eval itself has
    to be told. Where its retry is made otherwise, it keeps its ways.
    """
    with suppress(ImportError, AttributeError):
        from lmms_eval.api.task import ConfigurableTask

        retry = ConfigurableTask.download.retry
        again = retry.retry
        if getattr(again, "__trace_hf__", False):
            return

        def predicate(state: Any) -> Any:
            error = state.outcome.exception()
            if isinstance(error, TraceError):
                raise SystemExit(f"Error: {error}") from error
            return again(state)

        predicate.__trace_hf__ = True  # type: ignore[attr-defined]
        retry.retry = predicate
