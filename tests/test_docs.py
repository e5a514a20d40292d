"""The pages say what is so: commands and Python blocks run as written, links lead somewhere, references are fresh."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from doc_pages import Block, blocks_of

import trace_hf

PROJECT = Path(__file__).resolve().parents[1]
PAGES = [PROJECT / "README.md", *sorted((PROJECT / "docs").glob("*.md"))]
MARK = "@@trace-docs"


def names(page: Path) -> str:
    return str(page.relative_to(PROJECT))


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which `data` stands for the pages' `/data`: a synthetic release, and videos of its tiny configs."""
    root = tmp_path_factory.mktemp("pages")
    release = trace_hf.write_sample(root / "made", videos=True)
    (root / "data" / "trace").mkdir(parents=True)
    (release / "video_root").rename(root / "data" / "trace" / "videos")
    release.rename(root / "data" / "trace" / "v1.1.0")
    trace_hf.write_sample(root / "data" / "trace" / "v1.0.0", seed=1)
    (root / "data" / "videos").symlink_to(root / "data" / "trace" / "videos")
    return root


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=names)
def test_every_command_runs_as_written(page: Path, sandbox: Path, tmp_path: Path) -> None:
    wanted = [block for block in blocks_of(page) if not block.not_run]
    if not wanted:
        pytest.skip("nothing in it is a command")
    for name in ("examples", "loading_script", "scripts"):
        if (PROJECT / name).is_dir():
            (tmp_path / name).symlink_to(PROJECT / name)
    (tmp_path / "videos").symlink_to(sandbox / "data" / "trace" / "videos")
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "HF_HUB_OFFLINE": "1",
        "PYTHONIOENCODING": "utf-8",
    }
    done = subprocess.run(
        ["bash", "-c", _script(wanted, sandbox, tmp_path)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    codes = {int(line): int(code) for line, code in re.findall(rf"^{MARK} (\d+) (\d+)$", done.stdout, re.MULTILINE)}
    faults = [
        f"{page.name}:{block.line}: exit {codes.get(block.line)}, not {block.exit_code}: {block.text.strip()[:200]}"
        for block in wanted
        if codes.get(block.line) != block.exit_code
    ]
    assert not faults, "\n".join([*faults, done.stdout[-4000:], done.stderr[-4000:]])


def _script(blocks: list[Block], sandbox: Path, folder: Path) -> str:
    """One shell for the page, so that an `export` holds; a Python block knows what the ones before it made."""
    lines, before = [], ""
    for block in blocks:
        # `/data` of the pages is a folder of this test.
        text = re.sub(r"(?<![\w/.])/data/", f"{sandbox}/data/", block.text)
        if block.kind == "python":
            file = folder / f".block-{block.line}.py"
            file.write_text(f"{before}{text}", encoding="utf-8")
            before += text
            text = f"{shlex.quote(sys.executable)} {shlex.quote(str(file))}"
        lines += [text, f'printf "\\n{MARK} {block.line} %d\\n" $?']
    return "\n".join(lines)


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_what_is_not_run_says_why(page: Path) -> None:
    for block in blocks_of(page):
        if block.not_run:
            assert len(block.not_run.split()) > 2 or (PROJECT / block.not_run).exists(), f"{page}:{block.line}"


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_links_lead_to_files_of_the_project(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_pictures_are_small() -> None:
    pictures = list((PROJECT / "docs" / "images").glob("*.png"))
    assert len(pictures) >= 4
    assert max(picture.stat().st_size for picture in pictures) < 200_000


def test_references_are_those_of_the_code() -> None:
    """Call `python scripts/docs.py` when this fails."""
    if tuple(map(int, version("click").split(".")[:2])) < (8, 3):
        pytest.skip("the pages are written with a newer click")
    done = subprocess.run(
        [sys.executable, PROJECT / "scripts" / "docs.py", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_blocks_are_taken_as_they_stand(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```console\n$ one \\\n    --more    # exit 1: because\noutput\n$ export X=1\n```\n\n"
        "<!-- not run: needs a token of the Hub -->\n```console\n$ two\n```\n\n```python\nx = 1\n```\n"
        "```console\n$ pip install .\n```\n",
        encoding="utf-8",
    )
    assert blocks_of(page) == [
        Block(2, "console", "one --more    # exit 1: because", 1),
        Block(5, "console", "export X=1"),
        Block(10, "console", "two", 0, "needs a token of the Hub"),
        Block(13, "python", "x = 1\n"),
        Block(17, "console", "pip install .", 0, "scripts/dev.py, whenever it makes an environment"),
    ]
