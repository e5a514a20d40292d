"""The verbs `videos check|probe|index|fetch|clip`: thin functions over the videos room."""

from __future__ import annotations

import click

from .common import TraceGroup
from .videos_look import check, probe
from .videos_make import clip, fetch, index

__all__ = ["videos"]


@click.group(cls=TraceGroup)
def videos() -> None:
    """Find, check, fetch and cut the videos that records name."""


for _command in (check, probe, index, fetch, clip):
    videos.add_command(_command)
