"""`scripts/dev.py`: environments are made once, are made again when they must be, and stages are told apart."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SCRIPT = Path(__file__).resolve().parent.parent / "scripts" / "dev.py"
PYPROJECT = SCRIPT.parent.parent / "pyproject.toml"

STUB_PYPROJECT = """\
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]

[project]
name = "trace-hf"
version = "0"
dependencies = [
    "datasets>=2.21.0",
    "pyarrow>=16.1.0",
]

[project.optional-dependencies]
video = ["av>=12.0.0"]
test = ["pytest>=8.0", "moto[server]>=5.0"]

[project.scripts]
trace-hf = "trace_hf:main"

[tool.ruff]
line-length = 120
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project of the same shape with nothing in it."""
    folder = tmp_path / "a project"  # users have spaces in their paths
    (folder / "scripts").mkdir(parents=True)
    (folder / "trace_hf").mkdir()
    (folder / "trace_hf" / "__init__.py").write_text("raise RuntimeError('being worked on')\n")
    (folder / "pyproject.toml").write_text(STUB_PYPROJECT)
    shutil.copy(SCRIPT, folder / "scripts" / "dev.py")
    return folder


class FakePip:
    """Stands in for the programs that dev.py starts: environments are real but empty, installs only leave traces."""

    def __init__(self, dev: ModuleType) -> None:
        self.dev = dev
        self.real_call = dev.call
        self.venvs: list[str] = []
        self.installs: list[list[str]] = []
        self.jobs: list[list[str]] = []
        self.exit_codes: dict[str, int] = {}
        self.fails: BaseException | None = None

    def __call__(self, command: Any, variables: dict[str, str], *, capture: bool = False) -> Any:
        words = [str(word) for word in command]
        done = subprocess.CompletedProcess(words, 0)
        if capture:
            return self.real_call(command, variables, capture=True)
        if words[1:3] == ["-m", "venv"]:
            self.venvs.append(Path(words[3]).name)
            return self.real_call([*words, "--without-pip"], variables)
        if words[1:4] == ["-m", "pip", "install"]:
            self.installs.append(words[4:])
            if self.fails is not None:
                raise self.fails
            if "--editable" in words:
                self._leave_traces(Path(words[0]))
            done.returncode = self.exit_codes.get("pip", 0)
            return done
        self.jobs.append([Path(words[0]).name, *words[1:]])
        done.returncode = next((code for name, code in self.exit_codes.items() if name in words), 0)
        return done

    def _leave_traces(self, python: Path) -> None:
        site = site_packages(python.parent.parent)
        (site / "trace_hf.pth").write_text(f"{self.dev.PROJECT}\n")
        for name in ("trace_hf-0", "datasets-5.2.0", "pyarrow-26.0.1"):
            (site / f"{name}.dist-info").mkdir(exist_ok=True)

    def editable(self) -> list[str]:
        """Return what was installed: folder and extra, as pip was told."""
        return [words[-1].rpartition(os.sep)[2] for words in self.installs if "--editable" in words]


def site_packages(environment: Path) -> Path:
    [site] = environment.glob("lib/python3*/site-packages")
    return site


def load(project: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("dev_under_test", project / "scripts" / "dev.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def dev(project: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = load(project)
    monkeypatch.setattr(module, "call", FakePip(module))
    return module


@pytest.fixture
def pip(dev: ModuleType) -> FakePip:
    fake = dev.call
    assert isinstance(fake, FakePip)
    return fake


# --- made once ------------------------------------------------------------------------------------------------


def test_first_demo_makes_the_environment_and_second_starts_at_once(dev: ModuleType, pip: FakePip) -> None:
    assert dev.main(["demo"]) == 0
    assert pip.venvs == [".venv"]
    assert pip.editable() == ["a project[video]"]
    assert dev.main(["demo", "--json"]) == 0
    assert pip.venvs == [".venv"]
    assert pip.editable() == ["a project[video]"]
    assert pip.jobs == [["trace-hf", "demo"], ["trace-hf", "demo", "--json"]]


def test_the_package_itself_is_never_imported_to_judge_the_environment(dev: ModuleType, pip: FakePip) -> None:
    # The stub package raises on import, as one does in which somebody has just made a mistake.
    dev.main(["demo"])
    assert dev.main_environment().ready("video")


def test_test_after_demo_adds_to_the_same_environment(dev: ModuleType, pip: FakePip) -> None:
    dev.main(["demo"])
    dev.main(["lint"])
    assert pip.venvs == [".venv"]
    assert pip.editable() == ["a project[video]", "a project[dev]"]


def test_demo_after_test_installs_nothing(dev: ModuleType, pip: FakePip) -> None:
    dev.main(["lint"])
    dev.main(["demo"])
    assert pip.editable() == ["a project[dev]"]


def test_two_at_once_make_it_once(dev: ModuleType, pip: FakePip, capsys: pytest.CaptureFixture[str]) -> None:
    with dev.locked(dev.PROJECT / ".venv.lock"):
        second = threading.Thread(target=dev.main, args=(["demo"],), daemon=True)
        second.start()
        deadline = time.monotonic() + 60
        while "waiting for another dev.py" not in capsys.readouterr().out:
            assert second.is_alive()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        dev.main_environment()._make("video")
    second.join()
    assert pip.venvs == [".venv"]
    assert pip.editable() == ["a project[video]"]


# --- made again -----------------------------------------------------------------------------------------------


def edit_dependencies(project: Path) -> None:
    text = (project / "pyproject.toml").read_text()
    (project / "pyproject.toml").write_text(text.replace("av>=12.0.0", "av>=13.0.0"))


def vanish_interpreter(project: Path) -> None:
    for python in (project / ".venv" / "bin").glob("python*"):
        python.unlink()
        python.symlink_to("/nowhere/python3")


def lose_package(project: Path) -> None:
    shutil.rmtree(site_packages(project / ".venv") / "datasets-5.2.0.dist-info")


def lose_editable_link(project: Path) -> None:
    (site_packages(project / ".venv") / "trace_hf.pth").unlink()


def point_at_another_project(project: Path) -> None:
    other = project.parent / "other"
    (other / "trace_hf").mkdir(parents=True)
    (other / "trace_hf" / "__init__.py").touch()
    (site_packages(project / ".venv") / "trace_hf.pth").write_text(f"{other}\n")


def break_stamp(project: Path) -> None:
    (project / ".venv" / "trace-hf-dev.json").write_text('{"recipe": ')


def forget_levels(project: Path) -> None:
    stamp = project / ".venv" / "trace-hf-dev.json"
    stamp.write_text(json.dumps({**json.loads(stamp.read_text()), "levels": None}))


@pytest.mark.parametrize(
    "damage",
    [
        edit_dependencies,
        vanish_interpreter,
        lose_package,
        lose_editable_link,
        point_at_another_project,
        break_stamp,
        forget_levels,
    ],
)
def test_stale_or_broken_environment_is_remade(dev: ModuleType, pip: FakePip, project: Path, damage: Any) -> None:
    dev.main(["demo"])
    (project / ".venv" / "of the first").touch()
    damage(project)
    assert dev.main(["demo"]) == 0
    assert pip.venvs == [".venv", ".venv"]
    assert dev.main_environment().ready("video")
    assert not (project / ".venv" / "of the first").exists()
    assert sorted(path.name for path in project.glob(".venv*")) == [".venv", ".venv.lock"]


def test_moved_project_is_given_its_own_environment(dev: ModuleType, pip: FakePip, project: Path) -> None:
    dev.main(["demo"])
    moved = project.parent / "moved"
    shutil.copytree(project, moved, symlinks=True)
    assert not load(moved).main_environment().ready("video")


def test_linter_settings_and_comments_do_not_make_it_stale(dev: ModuleType, pip: FakePip, project: Path) -> None:
    dev.main(["demo"])
    text = (project / "pyproject.toml").read_text()
    (project / "pyproject.toml").write_text("# new\n" + text.replace("line-length = 120", "line-length = 100"))
    dev.main(["demo"])
    assert pip.venvs == [".venv"]


def test_packages_that_somebody_added_do_not_make_it_stale(dev: ModuleType, pip: FakePip, project: Path) -> None:
    dev.main(["demo"])
    (site_packages(project / ".venv") / "ipython-9.0.dist-info").mkdir()
    dev.main(["demo"])
    assert pip.venvs == [".venv"]


def test_interrupted_install_is_never_trusted(dev: ModuleType, pip: FakePip, project: Path) -> None:
    pip.fails = KeyboardInterrupt()
    assert dev.main(["demo"]) == 130
    assert not dev.main_environment().ready("video")
    pip.fails = None
    assert dev.main(["demo"]) == 0
    assert pip.venvs == [".venv", ".venv"]
    # It was ours, so nobody wants it back.
    assert not list(project.glob(".venv.kept*"))


def test_interrupted_addition_is_never_trusted(dev: ModuleType, pip: FakePip) -> None:
    dev.main(["demo"])
    pip.fails = KeyboardInterrupt()
    assert dev.main(["lint"]) == 130
    assert not dev.main_environment().ready("video")
    pip.fails = None
    dev.main(["demo"])
    assert pip.venvs == [".venv", ".venv"]


def test_failed_install_says_so_and_puts_the_stale_one_back(
    dev: ModuleType, pip: FakePip, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dev.main(["demo"])
    (project / ".venv" / "of the first").touch()
    edit_dependencies(project)
    pip.exit_codes["pip"] = 1
    assert dev.main(["demo"]) == 1
    assert "pip could not install" in capsys.readouterr().err
    assert (project / ".venv" / "of the first").exists()
    assert not dev.main_environment().ready("video")
    assert pip.jobs == [["trace-hf", "demo"]]  # the first one


def test_environment_of_somebody_else_is_kept(
    dev: ModuleType, pip: FakePip, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / ".venv").mkdir()
    (project / ".venv" / "theirs").write_text("precious")
    assert dev.main(["demo"]) == 0
    assert (project / ".venv.kept-1" / "theirs").read_text() == "precious"
    assert "kept as .venv.kept-1" in capsys.readouterr().out


def test_python_without_ensurepip_is_told_what_to_install(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], project: Path
) -> None:
    monkeypatch.setattr(dev.importlib.util, "find_spec", lambda name: None if name == "ensurepip" else object())
    assert dev.main(["demo"]) == 1
    assert "apt install python3-venv" in capsys.readouterr().err
    assert not (project / ".venv").exists()


def test_variables_that_mix_two_pythons_reach_no_job(dev: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYTHONPATH", "PYTHONHOME", "PIP_USER", "PIP_TARGET"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("TRACE_RELEASE", "/a/release")
    variables = dev.main_environment().variables()
    assert not {"PYTHONPATH", "PYTHONHOME", "PIP_USER", "PIP_TARGET"} & set(variables)
    assert variables["TRACE_RELEASE"] == "/a/release"
    assert variables["PATH"].split(os.pathsep)[0] == str(dev.PROJECT / ".venv" / "bin")


# --- verbs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [[], ["tset"], ["lint", "--quick"]])
def test_wrong_use_prints_the_usage_and_exits_2(
    dev: ModuleType, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert dev.main(arguments) == 2
    assert "scripts/dev.py test" in capsys.readouterr().err


def test_help_exits_0(dev: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert dev.main(["--help"]) == 0
    assert "scripts/dev.py demo" in capsys.readouterr().out


def test_demo_gives_on_the_exit_code(dev: ModuleType, pip: FakePip) -> None:
    pip.exit_codes["demo"] = 2
    assert dev.main(["demo"]) == 2


def tools(pip: FakePip) -> list[str]:
    return [words[2] for words in pip.jobs]


def test_whole_test_lints_and_tests_in_two_environments(
    dev: ModuleType, pip: FakePip, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dev.sys, "version_info", version(3, 11))
    monkeypatch.setattr(dev.os, "cpu_count", lambda: 2)
    assert dev.main(["test"]) == 0
    assert tools(pip) == ["ruff", "ruff", "mypy", "pytest", "pytest"]
    assert pip.jobs[3][3:] == ["-n", "2", "--dist", "worksteal"]
    assert pip.jobs[4][3:] == ["-m", "not slow", "-n", "2", "--dist", "worksteal"]
    assert pip.venvs == [".venv", ".venv-old"]
    assert pip.editable() == ["a project[dev]", "a project[test]"]
    pins = (dev.PROJECT / ".venv-old" / "constraints.txt").read_text().splitlines()
    assert pins[:3] == ["datasets==2.21.0", "pyarrow==16.1.0", "av==12.0.0"]


def test_quick_leaves_out_the_second_environment_and_slow_tests(dev: ModuleType, pip: FakePip) -> None:
    assert dev.main(["test", "--quick"]) == 0
    assert tools(pip) == ["ruff", "ruff", "mypy", "pytest"]
    assert pip.jobs[3][3:5] == ["-m", "not slow"]
    assert pip.venvs == [".venv"]


def test_arguments_go_to_pytest_alone(dev: ModuleType, pip: FakePip) -> None:
    assert dev.main(["test", "tests/test_schema.py", "-k", "absent"]) == 0
    assert pip.jobs == [["python", "-m", "pytest", "tests/test_schema.py", "-k", "absent"]]


def test_old_runs_only_in_the_second_environment(
    dev: ModuleType, pip: FakePip, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dev.sys, "version_info", version(3, 13))
    assert dev.main(["test", "--old", "-x"]) == 0
    assert pip.jobs == [["python", "-m", "pytest", "-m", "not slow", "-x"]]
    assert pip.venvs == [".venv-old"]
    # The lowest versions of the others have no wheels for this Python.
    pins = (dev.PROJECT / ".venv-old" / "constraints.txt").read_text().splitlines()
    assert "datasets==2.21.0" in pins
    assert not [pin for pin in pins if pin.startswith(("pyarrow=", "av="))]


def test_python_too_new_for_the_old_datasets_is_said_and_no_failure(
    dev: ModuleType, pip: FakePip, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(dev.sys, "version_info", version(3, 14))
    assert dev.main(["test", "--old"]) == 0
    assert "skipped: datasets 2.21.0 does not work on this Python" in capsys.readouterr().out
    assert pip.jobs == []


def test_every_stage_runs_and_the_failed_ones_are_named_at_the_end(
    dev: ModuleType, pip: FakePip, capsys: pytest.CaptureFixture[str]
) -> None:
    pip.exit_codes = {"mypy": 1}
    assert dev.main(["test", "--quick"]) == 1
    assert tools(pip) == ["ruff", "ruff", "mypy", "pytest"]
    summary = capsys.readouterr().out.split("== summary\n")[1].splitlines()
    assert [line.split(",")[0] for line in summary] == [
        "ruff check: ok",
        "ruff format: ok",
        "mypy: failed (exit 1)",
        "tests: ok",
    ]


def version(major: int, minor: int) -> Any:
    class Version(tuple):  # noqa: SLOT001 - as small as sys.version_info needs it
        major: int
        minor: int

    value = Version((major, minor, 0))
    value.major, value.minor = major, minor
    return value


def test_lowest_bounds_of_this_project_are_whole() -> None:
    bounds = load(SCRIPT.parent.parent).lowest_bounds(PYPROJECT.read_text(encoding="utf-8"))
    own, _, _ = PYPROJECT.read_text(encoding="utf-8").partition("\ntest = [")
    stated = set(re.findall(r'"([\w.-]+)(?:\[[^]]+\])?>=', own)) - {"hatchling"}
    assert set(bounds) == stated
    assert bounds["datasets"] == "2.21.0"
    assert "pytest" not in bounds


# --- with the real pip ----------------------------------------------------------------------------------------

# A build backend that needs no network: an editable wheel by hand.
BACKEND = """\
import pathlib, zipfile

def get_requires_for_build_editable(config_settings=None):
    return []

def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    info = "trace_hf-0.dist-info"
    files = {
        "trace_hf.pth": f"{pathlib.Path.cwd()}\\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\\nName: trace-hf\\nVersion: 0\\nProvides-Extra: video\\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
        f"{info}/entry_points.txt": "[console_scripts]\\ntrace-hf = trace_hf:main\\n",
    }
    record = "".join(f"{name},,\\n" for name in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(pathlib.Path(wheel_directory) / "trace_hf-0-py3-none-any.whl", "w") as wheel:
        for name, text in {**files, f"{info}/RECORD": record}.items():
            wheel.writestr(name, text)
    return "trace_hf-0-py3-none-any.whl"
"""


@pytest.fixture
def installable(project: Path) -> Path:
    (project / "backend.py").write_text(BACKEND)
    (project / "trace_hf" / "__init__.py").write_text(
        "import sys\n\ndef main():\n    print('demo ran with', sys.argv[1:])\n    return 3\n"
    )
    return project


def run_demo(project: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, project / "scripts" / "dev.py", "demo", "--json"],
        cwd=project.parent,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_demo_from_nothing_with_the_real_pip(installable: Path) -> None:
    first = run_demo(installable)
    assert "making .venv (once, about a minute) …" in first.stdout
    assert "demo ran with ['demo', '--json']" in first.stdout
    assert first.returncode == 3, first.stderr
    second = run_demo(installable)
    assert second.stdout == "demo ran with ['demo', '--json']\n"
    vanish_interpreter(installable)
    third = run_demo(installable)
    assert "making .venv" in third.stdout
    assert third.returncode == 3, third.stderr


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")
def test_killed_at_any_moment_the_next_call_works(installable: Path) -> None:
    for delay in (0.2, 1.0, 2.0, 3.0):
        process = subprocess.Popen(
            [sys.executable, installable / "scripts" / "dev.py", "demo"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        time.sleep(delay)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    after = run_demo(installable)
    assert after.returncode == 3, after.stderr
    assert sorted(path.name for path in installable.glob(".venv*")) == [".venv", ".venv.lock"]
