"""What every test gets: caches of its own, the real rows where they are, and a synthetic release."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import sys
import tempfile
from pathlib import Path

import pytest

# Both libraries read these when they are first imported, so a fixture would be too late. Under xdist the workers
# inherit the first process's folder and share it, as two programs of one user do.
if "TRACE_TEST_HOME" not in os.environ:
    os.environ["TRACE_TEST_HOME"] = tempfile.mkdtemp(prefix="trace-hf-tests-")
    _OWN_HOME = os.environ["TRACE_TEST_HOME"]
else:
    _OWN_HOME = None
_HOME = Path(os.environ["TRACE_TEST_HOME"])
os.environ["HF_HOME"] = str(_HOME / "hf")
os.environ["HF_DATASETS_CACHE"] = str(_HOME / "hf" / "datasets")
os.environ["HF_MODULES_CACHE"] = str(_HOME / "hf" / "modules")
os.environ["TRACE_CACHE"] = str(_HOME / "trace")
# A test must not find the caller's release, nor act on the Hub in the caller's name.
for _name in (
    "TRACE_RELEASE",
    "TRACE_VIDEO_ROOT",
    "TRACE_VLM_JUDGE_API_KEY",
    "TRACE_VLM_JUDGE_BASE_URL",
    "TRACE_VLM_JUDGE_MODEL",
    "HF_TOKEN",
    "HUGGING_FACE_HUB_TOKEN",
    "HF_HUB_CACHE",
    "HF_TOKEN_PATH",
):
    os.environ.pop(_name, None)


def pytest_unconfigure() -> None:
    if _OWN_HOME is not None:
        shutil.rmtree(_OWN_HOME, ignore_errors=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if {"real", "real_release"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.real)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("real"):
        _real_folder()


def _real_folder() -> Path:
    place = os.environ.get("TRACE_TEST_REAL")
    if not place:
        pytest.skip("set TRACE_TEST_REAL to the folder with official/ and sample_release/")
    folder = Path(place).resolve()
    # Skipping here would let a misspelt path pass for a green run.
    absent = [name for name in ("official", "sample_release") if not (folder / name).is_dir()]
    if absent:
        pytest.fail(f"TRACE_TEST_REAL={place} has no {' and no '.join(absent)}", pytrace=False)
    return folder


@pytest.fixture(autouse=True)
def isolated_caches(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give each test empty caches, in this process and in those it starts; returns the folder that holds them."""
    # Not tmp_path: a test counts what it finds there.
    home = tmp_path_factory.mktemp("caches")
    monkeypatch.setenv("TRACE_CACHE", str(home / "trace"))
    monkeypatch.setenv("HF_DATASETS_CACHE", str(home / "datasets"))
    config = sys.modules.get("datasets.config")
    if config is not None:
        monkeypatch.setattr(config, "HF_DATASETS_CACHE", home / "datasets")
        monkeypatch.setattr(config, "DOWNLOADED_DATASETS_PATH", home / "datasets" / "downloads")
        monkeypatch.setattr(config, "EXTRACTED_DATASETS_PATH", home / "datasets" / "downloads" / "extracted")
    return home


@pytest.fixture(scope="session")
def real() -> Path:
    """Return the folder with the real rows, `official/` and `sample_release/`; it is read only."""
    return _real_folder()


@pytest.fixture
def real_release(real: Path, tmp_path: Path) -> Path:
    """Return a writable copy of the complete small real release."""
    return writable_copy(real / "sample_release", tmp_path / "real_release")


@pytest.fixture(scope="session")
def sample_release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a synthetic release with the official counts. Tests share it; `sample_copy` may be changed."""
    import trace_hf

    folder = tmp_path_factory.mktemp("sample") / "release"
    trace_hf.write_sample(folder)
    return folder


@pytest.fixture
def sample_copy(sample_release: Path, tmp_path: Path) -> Path:
    """Return a writable copy of `sample_release`."""
    return writable_copy(sample_release, tmp_path / "sample_release")


@pytest.fixture(scope="session")
def _small_sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import trace_hf

    folder = tmp_path_factory.mktemp("small") / "release"
    trace_hf.write_sample(folder, scale=0.05)
    return folder


@pytest.fixture
def small_sample(_small_sample: Path, tmp_path: Path) -> Path:
    """Return a writable synthetic release of a twentieth of the official size."""
    return writable_copy(_small_sample, tmp_path / "small_sample")


def writable_copy(source: Path, target: Path) -> Path:
    """Copy a folder of which the source may be write-protected."""
    shutil.copytree(source, target)
    for path in (target, *target.rglob("*")):
        path.chmod(path.stat().st_mode | stat.S_IWUSR)
    return target


def rewrite_manifest(folder: Path, **changes: object) -> None:
    """Make a snapshot's manifest agree with its files again, as somebody would who edits both.

    Files that the manifest lists are hashed again, and those that are gone leave the list; other keys become what
    `changes` says.
    """
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    present = [name for name in manifest["files"] if (folder / name).is_file()]
    manifest["files"] = {name: sha256(folder / name) for name in present}
    manifest.update(changes)
    path.write_text(json.dumps(manifest, indent=2, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8")


def sha256(path: Path) -> str:
    """Return a file's SHA-256 as 64 lower-case hex digits."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
