#!/usr/bin/env python3
"""The project's commands. They need Python 3.10 or newer and nothing else.

    python3 scripts/dev.py demo [ARGS]    see what trace-hf does (ARGS go to `trace-hf demo`)
    python3 scripts/dev.py test           everything that has to hold
    python3 scripts/dev.py lint [--fix]   ruff and mypy only

`test` lints, checks types, runs the tests, and runs them again with the oldest dependencies that the project
supports, datasets 2.21.0 among them. `test --quick` leaves out that second run and the slow tests, `test --old`
does only the second run. Other arguments go to pytest, and then nothing but pytest runs:
`test tests/test_schema.py -k absent`.

The first call makes `.venv` here (and `.venv-old` for the second run), which takes about a minute; later calls use
them as they are. One that is stale, broken or half made is made anew.
"""

from __future__ import annotations

import sys

if sys.version_info < (3, 10):  # noqa: UP036 - this is where whoever has an older one learns of it
    sys.exit(f"trace-hf needs Python 3.10 or newer; this is {sys.version.split()[0]}. Try: python3.12 scripts/dev.py …")

import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
OLD_DATASETS = "2.21.0"

# The last Python that datasets 2.21.0 works on: the dill that it needs cannot pickle on newer ones.
OLD_PYTHON = (3, 13)
# The last Python that the lowest versions of the other dependencies have wheels for.
LOWEST_PYTHON = (3, 12)

# What the oldest s3fs goes with. pip finds it by itself, but only after some two hundred other versions of boto3.
OLD_HINTS = {"aiobotocore": "2.26.0", "boto3": "1.41.5"}

# Raise it when environments made by an earlier dev.py must not be used any more.
RECIPE = 1

# The extras that an environment is made with. Each takes in the ones before it.
LEVELS = ("video", "test", "dev")

# Run by an environment's own Python. It looks where things are and imports none of them, so that a fault in the code
# being worked on is never taken for a fault of the environment.
INSPECT = """
import importlib.util, json, pathlib, sysconfig
spec = importlib.util.find_spec("trace_hf")
found = pathlib.Path(sysconfig.get_path("purelib")).glob("*.dist-info")
print(json.dumps({"origin": spec and spec.origin, "packages": sorted(path.name.split("-")[0] for path in found)}))
"""


class DevError(Exception):
    """Something that the reader can put right; shown without a traceback."""


def say(text: str) -> None:
    """Print one line at once, also into a pipe."""
    print(text, flush=True)


# --- environments ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Environment:
    """A virtual environment in the project's folder, with the stamp that says what it is good for."""

    name: str
    constraints: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        """Where it lies."""
        return PROJECT / self.name

    @property
    def bin(self) -> Path:
        """Where its programs lie."""
        return self.folder / ("Scripts" if os.name == "nt" else "bin")

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.bin / ("python.exe" if os.name == "nt" else "python")

    @property
    def stamp(self) -> Path:
        """Written last, so that an environment without it was never finished."""
        return self.folder / "trace-hf-dev.json"

    def variables(self) -> dict[str, str]:
        """Return a job's environment variables: the caller's, without those that would mix two Pythons."""
        mixing = {"PYTHONHOME", "PYTHONPATH", "PIP_PREFIX", "PIP_TARGET", "PIP_USER", "__PYVENV_LAUNCHER__"}
        kept = {name: value for name, value in os.environ.items() if name not in mixing}
        path = os.pathsep.join(filter(None, [str(self.bin), kept.get("PATH", "")]))
        return {**kept, "PATH": path, "VIRTUAL_ENV": str(self.folder), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}

    def recipe(self) -> str:
        """Return a hash of everything that this environment follows from."""
        version = f"{sys.implementation.name} {sys.version_info.major}.{sys.version_info.minor}"
        parts = [RECIPE, LEVELS, version, str(PROJECT), self.constraints, packaging_part(pyproject())]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def ready(self, level: str) -> bool:
        """Say whether it was made by this recipe, to this level, and is still whole."""
        try:
            stamp = json.loads(self.stamp.read_text(encoding="utf-8"))
            if stamp["recipe"] != self.recipe() or level not in stamp["levels"]:
                return False
            packages = set(stamp["packages"])
        except (OSError, ValueError, KeyError, TypeError):
            return False
        seen = self._inspect()
        # More packages than at first are fine: they are what somebody added for themselves.
        return seen is not None and packages <= set(seen)

    def _inspect(self) -> list[str] | None:
        """Return the names of the installed packages; None when it does not run or lacks this project."""
        try:
            answer = call([self.python, "-I", "-c", INSPECT], self.variables(), capture=True)
            seen = json.loads(answer.stdout) if answer.returncode == 0 else {}
        except (OSError, ValueError):
            return None
        origin = seen.get("origin")
        if not origin or Path(origin).resolve() != PROJECT / "trace_hf" / "__init__.py":
            return None
        return list(seen["packages"])

    def prepare(self, level: str) -> None:
        """Make it ready for a level; returns at once when it is."""
        if self.ready(level):
            return
        with locked(PROJECT / f"{self.name}.lock"):
            if self.ready(level):  # another call made it while this one waited
                return
            done = next((step for step in LEVELS if self.ready(step)), None)
            started = time.monotonic()
            say(f"{'completing' if done else 'making'} {self.name} (once, about a minute) …")
            if done:
                self._install(level)
            else:
                self._make(level)
            say(f"{self.name} is ready ({time.monotonic() - started:.0f} s)")

    def _make(self, level: str) -> None:
        """Make it from nothing, in its own place, since a virtual environment cannot be moved: its scripts name it."""
        require_venv()
        aside = PROJECT / f"{self.name}.aside"
        remove(aside)  # left by a call that was killed
        if self.folder.exists() or self.folder.is_symlink():
            if not self.stamp.exists():
                self._keep_foreign()
            else:
                self.folder.rename(aside)
        try:
            # First of all a stamp that is good for nothing yet: should this be killed, the folder is known as ours.
            self.folder.mkdir()
            self._write_stamp((), ())
            if call([sys.executable, "-m", "venv", self.folder], self.variables()).returncode:
                raise DevError(f"Python could not make {self.name}; the lines above say why.")
            self._install(level)
        except BaseException:
            if aside.exists():
                # Stale is better than none for an editor that looks here; its stamp keeps it from being used for a job.
                remove(self.folder)
                aside.rename(self.folder)
            raise
        remove(aside)

    def _keep_foreign(self) -> None:
        number = 1
        while (kept := PROJECT / f"{self.name}.kept-{number}").exists():
            number += 1
        self.folder.rename(kept)
        say(f"{self.name} was not made by dev.py; it is kept as {kept.name}")

    def _install(self, level: str) -> None:
        self._write_stamp((), ())  # until all is there, it is good for nothing
        # Editable installs need it; where it is there already, this asks nothing of the network.
        self._pip("pip>=21.3")
        pins = [f"--constraint={self._constraint_file()}"] if self.constraints else []
        self._pip(*pins, "--editable", f"{PROJECT}[{level}]")
        packages = self._inspect()
        if packages is None:
            raise DevError(f"{self.name} was made, but trace_hf is not found in it. Remove the folder and try again.")
        self._write_stamp(LEVELS[: LEVELS.index(level) + 1], packages)

    def _constraint_file(self) -> Path:
        path = self.folder / "constraints.txt"
        path.write_text("\n".join(self.constraints) + "\n", encoding="utf-8")
        return path

    def _pip(self, *arguments: str) -> None:
        if call([self.python, "-m", "pip", "install", "--quiet", *arguments], self.variables()).returncode:
            raise DevError(
                f"pip could not install {arguments[-1]} into {self.name}; the lines above say why. "
                "It needs the network, or a package index that PIP_INDEX_URL names. The next call starts again."
            )

    def _write_stamp(self, levels: Sequence[str], packages: Sequence[str]) -> None:
        content = {"recipe": self.recipe(), "levels": list(levels), "packages": list(packages)}
        fresh = self.stamp.with_suffix(".part")
        fresh.write_text(json.dumps(content, indent=1), encoding="utf-8")
        fresh.replace(self.stamp)


def call(
    command: Sequence[str | Path], variables: dict[str, str], *, capture: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run one program in the project's folder."""
    stream = subprocess.PIPE if capture else None
    return subprocess.run(
        [str(part) for part in command],
        cwd=PROJECT,
        env=variables,
        stdout=stream,
        stderr=stream,
        text=True,
        check=False,
    )


def remove(path: Path) -> None:
    """Remove a folder, or only the link where it is one."""
    if path.is_symlink():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)


def require_venv() -> None:
    """Say what to install where Python comes without the means to make an environment (Debian takes them out)."""
    if importlib.util.find_spec("venv") is None or importlib.util.find_spec("ensurepip") is None:
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        raise DevError(
            "This Python cannot make virtual environments: its modules venv and ensurepip are not installed.\n"
            f"On Debian and Ubuntu: sudo apt install python3-venv (or python{version}-venv), then call this again."
        )


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Let one process in at a time. The system drops the lock of a process that dies."""
    with path.open("a", encoding="utf-8") as file:
        if sys.platform == "win32":
            import msvcrt

            while True:
                try:
                    msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
                    break
                except OSError:  # it gives up after ten seconds
                    continue
        else:
            import fcntl

            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                say("waiting for another dev.py, which is making the environment …")
                fcntl.flock(file, fcntl.LOCK_EX)
        yield


def pyproject() -> str:
    """Return the text of pyproject.toml."""
    return (PROJECT / "pyproject.toml").read_text(encoding="utf-8")


def packaging_part(text: str) -> str:
    """Return what an install depends on: pyproject.toml without the sections that only configure linters and tests.

    Python 3.10 has no TOML parser, and a table's header at the start of a line is all that is needed here.
    """
    sections = re.split(r"^(?=\[)", text, flags=re.MULTILINE)
    kept = [part for part in sections if not part.startswith(("[tool.", "[[tool.")) or part.startswith("[tool.hatch")]
    # Comments and blank lines change nothing that is installed.
    lines = (line.strip() for line in "".join(kept).splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("#"))


def lowest_bounds(text: str) -> dict[str, str]:
    """Return the lower bounds of what the package itself depends on, extras too: name -> version.

    The tools of the groups `test` and `dev` are left out: nobody who uses the package has them.
    """
    groups = re.findall(r"^([\w-]+) = \[(.*?)\]$", packaging_part(text), flags=re.MULTILINE | re.DOTALL)
    own = (body for name, body in groups if name not in {"requires", "test", "dev"})
    return dict(re.findall(r'"([\w.-]+)(?:\[[\w,]+\])?>=([\w.]+)"', "\n".join(own)))


def old_constraints() -> tuple[str, ...]:
    """Return the pins of the second environment."""
    lowest = lowest_bounds(pyproject())
    if sys.version_info[:2] > LOWEST_PYTHON:
        lowest = {}
    return tuple(f"{name}=={version}" for name, version in {**lowest, **OLD_HINTS, "datasets": OLD_DATASETS}.items())


def main_environment() -> Environment:
    """Return the one for daily work, with the newest dependencies."""
    return Environment(".venv")


def old_environment() -> Environment:
    """Return the one with the oldest dependencies that the project supports."""
    return Environment(".venv-old", old_constraints())


# --- jobs -----------------------------------------------------------------------------------------------------


class Stages:
    """Runs one stage after the other, whatever became of those before, and says at the end which failed."""

    def __init__(self) -> None:
        self._done: list[tuple[str, str, float]] = []

    def run(self, title: str, environment: Environment, level: str, *command: str) -> None:
        """Run ``python -m command`` in an environment."""
        say(f"\n== {title}")
        started = time.monotonic()
        try:
            environment.prepare(level)
            started = time.monotonic()
            code = call([environment.python, "-m", *command], environment.variables()).returncode
            state = "ok" if code == 0 else f"failed (exit {code})"
        except DevError as problem:
            say(str(problem))
            state = "failed (no environment)"
        self._done.append((title, state, time.monotonic() - started))

    def skip(self, title: str, reason: str) -> None:
        """Note a stage that cannot run here."""
        say(f"\n== {title}\nskipped: {reason}")
        self._done.append((title, f"skipped: {reason}", 0.0))

    def finish(self) -> int:
        """Print what became of each stage and return the exit code."""
        say("\n== summary")
        for title, state, seconds in self._done:
            say(f"{title}: {state}" + (f", {seconds:.0f} s" if seconds else ""))
        return int(any(state.startswith("failed") for _, state, _ in self._done))


def demo(arguments: list[str]) -> int:
    """Show what trace-hf does, on synthetic data."""
    environment = main_environment()
    environment.prepare("video")
    return call([environment.bin / "trace-hf", "demo", *arguments], environment.variables()).returncode


def lint(arguments: list[str]) -> int:
    """Run the linters; with --fix, let them put right what they can."""
    if arguments not in ([], ["--fix"]):
        return usage(f"lint takes nothing but --fix, not {' '.join(arguments)}")
    stages = Stages()
    lint_stages(stages, fix=bool(arguments))
    return stages.finish()


def lint_stages(stages: Stages, *, fix: bool = False) -> None:
    """Add ruff and mypy."""
    environment = main_environment()
    stages.run("ruff check", environment, "dev", "ruff", "check", *(["--fix"] if fix else []), ".")
    stages.run("ruff format", environment, "dev", "ruff", "format", *([] if fix else ["--check"]), ".")
    stages.run("mypy", environment, "dev", "mypy")


def test(arguments: list[str]) -> int:
    """Run everything that has to hold, or the part of it that the arguments name."""
    quick, old = "--quick" in arguments, "--old" in arguments
    chosen = [argument for argument in arguments if argument not in {"--quick", "--old"}]
    stages = Stages()
    if not chosen and not old:
        lint_stages(stages)
    if not old:
        marks = ["-m", "not slow"] if quick else []
        stages.run("tests", main_environment(), "dev", "pytest", *marks, *(chosen or workers()))
    if old or not (quick or chosen):
        old_stage(stages, chosen)
    return stages.finish()


def old_stage(stages: Stages, chosen: list[str]) -> None:
    """Add the tests with the oldest dependencies; the slow ones make their own environments, so once is enough."""
    title = f"tests with datasets {OLD_DATASETS}"
    if sys.version_info[:2] > OLD_PYTHON:
        newest = ".".join(map(str, OLD_PYTHON))
        stages.skip(
            title, f"datasets {OLD_DATASETS} does not work on this Python; call with {newest} or older to run it"
        )
        return
    stages.run(title, old_environment(), "test", "pytest", "-m", "not slow", *(chosen or workers()))


def workers() -> list[str]:
    """Return pytest's arguments for several processes; none where there is one processor."""
    count = min(os.cpu_count() or 1, 4)
    return ["-n", str(count), "--dist", "worksteal"] if count > 1 else []


VERBS = {"demo": demo, "test": test, "lint": lint}


def usage(problem: str = "") -> int:
    """Print how to call this, and return the exit code for a wrong call."""
    print("\n\n".join(filter(None, [problem, (__doc__ or "").strip()])), file=sys.stderr)
    return 2


def main(arguments: list[str]) -> int:
    """Run the verb that the command line names."""
    if arguments and arguments[0] in {"-h", "--help", "help"}:
        print((__doc__ or "").strip())
        return 0
    if not arguments or arguments[0] not in VERBS:
        return usage(f"unknown: {arguments[0]}" if arguments else "")
    try:
        return VERBS[arguments[0]](arguments[1:])
    except DevError as problem:
        print(problem, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
