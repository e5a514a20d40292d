"""What the tests of mirrors share."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from click.testing import CliRunner
from hub_double import HubDouble

from trace_hf.cli.mirror import mirror as mirror_command
from trace_hf.hub.content import Content

REPO = "org/trace"
TARGET = f"hf://datasets/{REPO}"
RESTRICTED = b"ovo_bench"


def leaks(hub: HubDouble) -> list[str]:
    """Name the rows of restricted sources that a stranger can read; a manifest may name where a release comes from."""
    return [
        f"{repo}: {path}"
        for repo, path, data in hub.public_bytes()
        if path.startswith("snapshot/") and path != "snapshot/manifest.json" and RESTRICTED in data
    ]


def is_complete(hub: HubDouble, content: Content, repo: str = REPO) -> bool:
    """Whether a repo holds exactly a content, tagged."""
    files = {path: data for path, data in hub.files(repo).items() if path != ".gitattributes"}
    same = files.keys() == content.items.keys() and all(
        data == (content.folder / path).read_bytes() for path, data in files.items()
    )
    return same and hub.repos[repo].tags.get(content.release.release_id) is not None


@dataclass(frozen=True)
class Done:
    """What a command did."""

    returncode: int
    stdout: str
    stderr: str


def cli(*args: str) -> Done:
    """Run `trace-hf mirror` in this process."""
    found = CliRunner().invoke(mirror_command, args)
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    return Done(found.exit_code, found.stdout, found.stderr)


def cli_process(*args: str, **env: str) -> Done:
    """Run `trace-hf mirror` in a process of its own, which reads the environment as a user's does."""
    code = "from trace_hf.cli.mirror import mirror; mirror(prog_name='trace-hf mirror')"
    done = subprocess.run(
        [sys.executable, "-c", code, *args],
        capture_output=True,
        text=True,
        env={**os.environ, **env},
        timeout=120,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def json_of(done: Done) -> Any:
    return json.loads(done.stdout)
