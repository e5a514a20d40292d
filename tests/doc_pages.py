"""Takes the commands and Python blocks out of a Markdown page.

In a block of ```console, each line that begins with `$ ` is a command; one that ends in a backslash goes on.
`# exit 1` behind a command says which exit code is due. A block after `<!-- not run: reason -->` is not run.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(r"^(?P<fence>`{3,})(?P<kind>[\w-]*)[^\n]*\n(?P<body>.*?)^(?P=fence)\s*$", re.MULTILINE | re.DOTALL)
_NOT_RUN = re.compile(r"<!--\s*not run:\s*(?P<reason>.+?)\s*-->\s*\Z", re.DOTALL)
_EXIT = re.compile(r"\s#\s*exit (\d+)\b")

# What these make or need is an environment of its own; the tests named here run them.
ELSEWHERE = {
    "python3 scripts/dev.py": "tests/test_dev_script.py",
    "python scripts/bench.py": "tests/test_bench.py",
    "python3 scripts/bench.py": "tests/test_bench.py",
    "pip install": "scripts/dev.py, whenever it makes an environment",
}


@dataclass(frozen=True)
class Block:
    """One command, or one Python block.

    Attributes
    ----------
    line : int
        Where it stands in the page.
    kind : {"console", "python"}
    text : str
    exit_code : int
        What is due.
    not_run : str
        Why it is not run; empty if it is.
    """

    line: int
    kind: str
    text: str
    exit_code: int = 0
    not_run: str = ""


def blocks_of(page: Path) -> list[Block]:
    """Return what a page wants to be run, in its order."""
    text = page.read_text(encoding="utf-8")
    found: list[Block] = []
    for match in _FENCE.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        reason = _NOT_RUN.search(text[: match.start()])
        why = " ".join(reason["reason"].split()) if reason else ""
        if match["kind"] == "python":
            found.append(Block(line, "python", match["body"], 0, why))
        elif match["kind"] == "console":
            found += _commands(match["body"], line + 1, why)
    return found


def _commands(body: str, first: int, why: str) -> list[Block]:
    found: list[Block] = []
    lines = iter(enumerate(body.splitlines(), first))
    for number, text in lines:
        if not text.startswith("$ "):
            continue
        command = text[2:]
        while command.endswith("\\"):
            command = command[:-1] + next(lines)[1].removeprefix("> ").strip()
        due = _EXIT.search(command)
        elsewhere = next((place for start, place in ELSEWHERE.items() if command.startswith(start)), "")
        found.append(Block(number, "console", command, int(due[1]) if due else 0, why or elsewhere))
    return found
