"""Where a release is looked for, and what it says of itself."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import trace_hf
from trace_hf.errors import ManifestError, ReleaseNotFoundError
from trace_hf.release import Release
from trace_hf.schema import CONFIGS


def test_the_word_sample_means_the_cached_synthetic_release(monkeypatch: pytest.MonkeyPatch) -> None:
    first = Release.open("sample")
    assert first.manifest.status == "synthetic"
    assert len(trace_hf.load("proactive_standard", release="sample")) == 407
    made = (first.root / "manifest.json").stat().st_mtime_ns
    monkeypatch.setenv("TRACE_RELEASE", "sample")
    assert (Release.open().root / "manifest.json").stat().st_mtime_ns == made


def test_export_means_its_snapshot(small_sample: Path, tmp_path: Path) -> None:
    shutil.move(small_sample, tmp_path / "export" / "snapshot")
    assert Release.open(tmp_path / "export").root == tmp_path / "export" / "snapshot"


def test_folder_may_be_named_in_several_ways(small_sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(small_sample.parent)
    monkeypatch.setenv("HOME", str(small_sample.parent))
    for place in (
        small_sample,
        str(small_sample),
        f"file://{small_sample}",
        small_sample / "manifest.json",
        small_sample.name,
        f"~/{small_sample.name}",
        Release.open(small_sample),
    ):
        assert Release.open(place).manifest.counts == Release.open(small_sample).manifest.counts
        assert len(trace_hf.load("qa", release=place)) == Release.open(small_sample).count("qa")


def test_counts_are_those_of_the_rows(sample_release: Path) -> None:
    release = Release.open(sample_release)
    for config in CONFIGS:
        count = release.count(config)
        assert count in (None, sum(1 for _ in release.records(config)))
        assert (count is None) == (config in ("changes", "exclusions"))


def test_release_without_subsets_still_has_its_other_configs(small_sample: Path) -> None:
    from conftest import rewrite_manifest

    (small_sample / "proactive_subsets.json").unlink()
    (small_sample / "exclusions.jsonl").unlink()
    rewrite_manifest(small_sample)
    assert len(trace_hf.load("proactive", release=small_sample))
    for config in ("proactive_standard", "exclusions"):
        with pytest.raises(ManifestError, match="lists no"):
            trace_hf.load(config, release=small_sample)


def test_place_that_cannot_be_understood_is_not_found() -> None:
    with pytest.raises(ReleaseNotFoundError):
        Release.open("nonsense://nowhere/at/all")


def test_places_that_are_nearly_right_are_guessed(small_sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ReleaseNotFoundError, match="is a file, not the folder of a release"):
        Release.open(small_sample / "qa.jsonl")
    with pytest.raises(ReleaseNotFoundError, match="write hf://datasets/our-lab/trace"):
        Release.open("our-lab/trace")
    with pytest.raises(ReleaseNotFoundError, match="did you mean 'sample'"):
        Release.open("smaple")
    monkeypatch.setenv("TRACE_RELEASE", "/nowhere")
    with pytest.raises(ReleaseNotFoundError, match=r"no such folder \(from TRACE_RELEASE\)"):
        Release.open()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 3\n", "git lfs pull"),
        (b"<!DOCTYPE html><html><body>404</body></html>", "web page"),
        (b"\x1f\x8b\x08\x00", "gzip"),
        (b"\xef\xbb\xbf{}", "byte-order mark"),
        (b"", "empty"),
    ],
)
def test_manifest_that_is_something_else_says_what(small_sample: Path, content: bytes, words: str) -> None:
    (small_sample / "manifest.json").write_bytes(content)
    with pytest.raises(ManifestError, match=words):
        Release.open(small_sample)
