"""The fixtures of the tests of mirrors, as a plugin: a test module names it in `pytest_plugins`."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import rewrite_manifest
from hub_double import OWNER_TOKEN, HubDouble

import trace_hf
from trace_hf.hub import hub_client, mirror_hub
from trace_hf.hub.content import Content, content_of
from trace_hf.hub.decide import terms_in_use
from trace_hf.hub.derive import derive
from trace_hf.hub.export import export
from trace_hf.release import Release


@pytest.fixture(scope="session")
def _double() -> Iterator[HubDouble]:
    hub = HubDouble()
    yield hub
    hub.stop()


@pytest.fixture
def hub(_double: HubDouble, monkeypatch: pytest.MonkeyPatch) -> HubDouble:
    """Return the double, empty, with the real client pointed at it as `HF_ENDPOINT` does, and short waits."""
    from huggingface_hub import constants

    _double.reset()
    monkeypatch.setenv("HF_ENDPOINT", _double.url)
    monkeypatch.setenv("HF_TOKEN", OWNER_TOKEN)
    # huggingface_hub has read HF_ENDPOINT already, when it was imported.
    monkeypatch.setattr(constants, "ENDPOINT", _double.url)
    template = _double.url + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    shorten_waits(monkeypatch)
    return _double


def shorten_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make back-off take no time, here and in huggingface_hub, and silence last a moment only."""
    from huggingface_hub.utils import _http

    impatient = SimpleNamespace(sleep=lambda _s: None, time=time.time, monotonic=time.monotonic)
    monkeypatch.setattr(_http, "time", impatient)
    for module in (hub_client, mirror_hub):
        monkeypatch.setattr(module, "sleep", lambda _s: None)
    monkeypatch.setenv("TRACE_TIMEOUT", "0.4")
    monkeypatch.setenv("HF_HUB_DISABLE_PROGRESS_BARS", "1")


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a small synthetic release that calls itself private and provisional, as the real one does."""
    folder = tmp_path_factory.mktemp("whole") / "release"
    trace_hf.write_sample(folder, scale=0.05)
    rewrite_manifest(folder, status="private_provisional", release_id="v9.9.9")
    return folder


@pytest.fixture(scope="session")
def forged(whole: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the same release with a manifest that calls it public, as an earlier manifest of v1.1.0 does."""
    folder = tmp_path_factory.mktemp("forged") / "release"
    shutil.copytree(whole, folder)
    rewrite_manifest(folder, status="public")
    return folder


@pytest.fixture(scope="session")
def derived(whole: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return what may be public of it, as a release of its own."""
    folder = tmp_path_factory.mktemp("derived") / "release"
    derive(Release.open(whole), folder, terms_in_use())
    return folder


@pytest.fixture(scope="session")
def whole_export(whole: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export(whole, tmp_path_factory.mktemp("exports") / "whole").path


@pytest.fixture(scope="session")
def derived_export(derived: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export(derived, tmp_path_factory.mktemp("exports") / "derived").path


@pytest.fixture(scope="session")
def content(whole_export: Path) -> Content:
    """Return the whole release as what a private mirror holds."""
    return content_of(whole_export, "private", terms_in_use())


@pytest.fixture(scope="session")
def public_content(derived_export: Path) -> Content:
    """Return the derived release as what a public mirror holds."""
    return content_of(derived_export, "public", terms_in_use())
