"""Mirrors in folders and object stores: written aside, read back, manifest last."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from conftest import rewrite_manifest, writable_copy
from mirror_kit import cli, json_of
from remote_servers import s3_server

import trace_hf
from trace_hf.errors import DataTermsError, IntegrityError, ReleaseNotFoundError, TraceError
from trace_hf.hub import mirror
from trace_hf.hub.content import Content
from trace_hf.hub.mirror_files import ASIDE, FileMirror

pytest_plugins = ["mirror_fixtures"]


@pytest.fixture(scope="session")
def _s3() -> Iterator[dict[str, Any]]:
    with s3_server() as options:
        yield options


@pytest.fixture(params=["disk", "memory", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, dict[str, Any] | None]:
    """Return an empty place for a mirror, and its storage options."""
    if request.param == "disk":
        return str(tmp_path / "deep" / "mirror"), None
    if request.param == "memory":
        return f"memory://{tmp_path.name}/mirror", None
    return s3_place(request, tmp_path.name)


def s3_place(request: pytest.FixtureRequest, name: str) -> tuple[str, dict[str, Any]]:
    options: dict[str, Any] = dict(request.getfixturevalue("_s3"))
    bucket = name.replace("_", "-").lower()[:60].strip("-.")
    fsspec.filesystem("s3", **options).mkdir(bucket)
    return f"s3://{bucket}/trace/mirror", options


def files_at(url: str, options: dict[str, Any] | None) -> dict[str, bytes]:
    fs, root = fsspec.core.url_to_fs(url, **(options or {}))
    fs.invalidate_cache()
    return {path[len(root.rstrip("/")) + 1 :]: fs.cat_file(path) for path in fs.find(root)}


def write(url: str, options: dict[str, Any] | None, path: str, data: bytes | None) -> None:
    fs, root = fsspec.core.url_to_fs(url, **(options or {}))
    if data is None:
        fs.rm_file(f"{root}/{path}")
    else:
        fs.pipe_file(f"{root}/{path}", data)


def test_a_mirror_is_made_checked_loaded_and_brought_back(
    place: tuple[str, dict[str, Any] | None], content: Content, whole: Path, tmp_path: Path
) -> None:
    url, options = place
    report = mirror.push(whole, url, storage_options=options, deep=True)
    assert report is not None
    assert report.attested
    wanted = {path: (content.folder / path).read_bytes() for path in content.items}
    assert files_at(url, options) == wanted  # and nothing is left aside
    assert mirror.check(url, storage_options=options).ok
    assert mirror.check(url, storage_options=options, release=whole).ok
    assert len(trace_hf.load("qa", release=url, storage_options=options)) > 0
    mirror.pull(url, tmp_path / "back", storage_options=options)
    assert files_at(str(tmp_path / "back"), None) == wanted


def test_a_second_push_writes_nothing(
    place: tuple[str, dict[str, Any] | None], content: Content, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, options = place
    FileMirror(url, options).push(content)
    again = FileMirror(url, options)
    for name in ("put_file", "cp_file", "rm", "rm_file", "pipe_file", "makedirs", "mkdir"):
        monkeypatch.setattr(again._fs, name, lambda *_a, name=name, **_k: pytest.fail(f"{name} was called"))
    assert again.push(content).plan.steps == ()


def test_drift_is_named_and_repaired(
    place: tuple[str, dict[str, Any] | None], content: Content, tmp_path: Path
) -> None:
    url, options = place
    FileMirror(url, options).push(content)
    write(url, options, "snapshot/qa.jsonl", b"{}\n")
    write(url, options, "DATA_TERMS.md", None)
    write(url, options, "notes.txt", b"ours")
    write(url, options, "qa/test-00000-of-00001-000000000000.parquet", b"old")
    found = {(drift.kind, drift.name) for drift in mirror.check(url, storage_options=options).drift}
    assert found == {
        ("changed", "snapshot/qa.jsonl"),
        ("missing", "DATA_TERMS.md"),
        ("foreign", "notes.txt"),
        ("foreign", "qa/test-00000-of-00001-000000000000.parquet"),
    }
    with pytest.raises(IntegrityError, match=r"snapshot/qa\.jsonl"):
        mirror.pull(url, tmp_path / "never", storage_options=options)
    actions = {(step.action, step.name) for step in FileMirror(url, options).push(content).plan.steps}
    assert actions == {
        ("replace", "snapshot/qa.jsonl"),
        ("upload", "DATA_TERMS.md"),
        ("delete", "qa/test-00000-of-00001-000000000000.parquet"),
    }
    assert files_at(url, options)["notes.txt"] == b"ours"


@pytest.mark.parametrize("dies_at", [12, 30])
def test_a_push_that_dies_leaves_no_manifest_and_the_next_one_completes_it(
    place: tuple[str, dict[str, Any] | None], content: Content, monkeypatch: pytest.MonkeyPatch, dies_at: int
) -> None:
    url, options = place
    dying = FileMirror(url, options)
    calls = 0

    def count(what: Any) -> Any:
        def counted(*args: Any, **kw: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == dies_at:
                raise OSError("the line is cut")
            return what(*args, **kw)

        return counted

    with monkeypatch.context() as patch:
        patch.setattr(dying, "_settle", count(dying._settle))
        patch.setattr(dying._fs, "put_file", count(dying._fs.put_file))
        with pytest.raises((TraceError, OSError), match="the line is cut"):
            dying.push(content)
    left = files_at(url, options)
    assert "snapshot/manifest.json" not in left
    assert not any(path.startswith(ASIDE) for path in left)
    FileMirror(url, options).push(content)
    assert mirror.check(url, storage_options=options).ok


def test_a_store_that_keeps_other_bytes_is_found_before_anything_is_in_place(
    place: tuple[str, dict[str, Any] | None], content: Content, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, options = place
    bad = FileMirror(url, options)
    put = bad._fs.put_file

    def put_wrongly(source: str, target: str, **kw: Any) -> None:
        put(source, target, **kw)
        if target.endswith("snapshot/qa.jsonl"):
            bad._fs.pipe_file(target, b"x" + Path(source).read_bytes()[1:])

    monkeypatch.setattr(bad._fs, "put_file", put_wrongly)
    with pytest.raises(IntegrityError, match=r"what was read back of snapshot/qa\.jsonl is not what was written"):
        bad.push(content)
    assert files_at(url, options) == {}


def test_another_release_replaces_the_mirror_and_its_tables(
    place: tuple[str, dict[str, Any] | None], whole: Path, derived: Path
) -> None:
    url, options = place
    mirror.push(whole, url, storage_options=options)
    report = mirror.push(derived, url, storage_options=options)
    assert report is not None
    assert {"replace", "delete"} <= {step.action for step in report.plan.steps}
    assert mirror.check(url, storage_options=options, release=derived).ok


# --- readers ----------------------------------------------------------------------------------------------------------


def _dying_require() -> Any:
    """Let a push die between its last file and the manifest."""
    real = FileMirror._require

    def require(self: FileMirror, content: Content, paths: Any, *, aside: bool = False) -> None:
        if not aside:
            raise OSError("the line is cut")
        real(self, content, paths, aside=aside)

    return require


def test_a_reader_that_polls_an_s3_target_never_sees_a_mirror_that_fails_verification(
    request: pytest.FixtureRequest, tmp_path: Path, content: Content, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, options = s3_place(request, tmp_path.name)
    seen: list[str] = []
    stop = threading.Event()

    def poll(number: int) -> None:
        fs, root = fsspec.core.url_to_fs(url, **options, skip_instance_cache=True, use_listings_cache=False)
        while not stop.wait(0.03):
            try:
                manifest = json.loads(fs.cat_file(f"{root}/snapshot/manifest.json"))
            except FileNotFoundError:
                seen.append("none")
                continue
            folder = tmp_path / f"read-{number}-{len(seen)}"
            for name in (*manifest["files"], "manifest.json"):
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(fs.cat_file(f"{root}/snapshot/{name}"))
            seen.append("verified" if trace_hf.verify(folder).ok else "BROKEN")

    threads = [threading.Thread(target=poll, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    try:
        with monkeypatch.context() as patch:
            patch.setattr(FileMirror, "_require", _dying_require())
            with pytest.raises(OSError, match="the line is cut"):
                FileMirror(url, options).push(content)
        FileMirror(url, options).push(content)
        until = time.monotonic() + 20
        while "verified" not in seen and time.monotonic() < until:
            time.sleep(0.05)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert {"none", "verified"} == set(seen)
    assert seen.count("none") >= 5  # the push was watched, not only its end


# --- the terms --------------------------------------------------------------------------------------------------------


def test_a_place_that_is_said_to_be_public_gets_only_what_may_be(whole: Path, forged: Path, tmp_path: Path) -> None:
    for source in (whole, forged):
        with pytest.raises(DataTermsError, match="may not go to a public place"):
            mirror.push(source, tmp_path / "open", visibility="public")
    assert not (tmp_path / "open").exists()
    mirror.push(whole, tmp_path / "open", visibility="public", only_redistributable=True)
    assert b"ovo_bench" not in (tmp_path / "open" / "snapshot" / "qa.jsonl").read_bytes()
    with pytest.raises(DataTermsError, match="only a repo on the Hub can be gated"):
        mirror.push(whole, tmp_path / "open", visibility="gated", only_redistributable=True)


def test_storage_options_that_publish_are_refused(whole: Path, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    url, options = s3_place(request, tmp_path.name)
    options["s3_additional_kwargs"] = {"ACL": "public-read"}
    with pytest.raises(DataTermsError, match="make every file readable for all"):
        mirror.push(whole, url, storage_options=options)


def test_secrets_in_options_and_urls_are_never_shown(whole: Path) -> None:
    options = {"key": "the-key-id", "secret": "the-secret-key", "endpoint_url": "http://127.0.0.1:9"}
    options["config_kwargs"] = {"retries": {"max_attempts": 0}, "connect_timeout": 1}  # type: ignore[assignment]
    with pytest.raises(TraceError) as caught:
        mirror.plan(whole, "s3://bucket/trace", storage_options=options)
    assert "the-secret-key" not in str(caught.value)
    assert "cannot" in str(caught.value)


# --- odds and ends ----------------------------------------------------------------------------------------------------


def test_a_place_without_a_mirror_is_told(tmp_path: Path) -> None:
    with pytest.raises(ReleaseNotFoundError, match="there is no mirror"):
        mirror.check(tmp_path / "none")
    assert cli("check", str(tmp_path / "none")).returncode == 2


def test_the_root_of_a_store_is_no_place_for_a_mirror(whole: Path) -> None:
    for url in ("/", "memory://"):
        with pytest.raises(TraceError, match="names no folder"):
            mirror.push(whole, url)


def test_a_release_is_no_mirror_and_is_left_as_it_is(whole: Path, derived: Path, tmp_path: Path) -> None:
    folder = writable_copy(whole, tmp_path / "release")
    before = files_at(str(folder), None)
    with pytest.raises(ReleaseNotFoundError, match=r"is a release, not a mirror[\s\S]*trace-hf verify"):
        mirror.check(folder)
    assert cli("check", str(folder)).returncode == 2
    for verb in (mirror.plan, mirror.push):
        with pytest.raises(TraceError, match="is a release, not a mirror"):
            verb(derived, folder)
        with pytest.raises(TraceError, match="is the release itself"):
            verb(folder, f"{folder}/")
    assert files_at(str(folder), None) == before


def test_a_mirror_is_not_pushed_to_itself(whole: Path, tmp_path: Path) -> None:
    mirror.push(whole, tmp_path / "m")
    with pytest.raises(TraceError, match="is the release itself"):
        mirror.push(tmp_path / "m", tmp_path / "m")
    mirror.push(tmp_path / "m" / "snapshot", tmp_path / "m")  # a mirror can be repaired from what it holds


def test_a_folder_whose_name_reads_as_a_repo_is_told(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    note = "our-lab/trace is a folder here; for the Hub write hf://datasets/our-lab/trace\n"
    assert cli("plan", str(whole), "our-lab/trace").stderr == note
    assert cli("plan", str(whole), "./trace").stderr == ""
    assert cli("push", str(whole), "our-lab/trace", "--yes").stderr == note
    assert cli("check", "our-lab/trace").stderr == ""


def test_foreign_files_are_the_user_s_to_remove(whole: Path, tmp_path: Path) -> None:
    mirror.push(whole, tmp_path / "m")
    (tmp_path / "m" / "notes.txt").write_text("ours", encoding="utf-8")
    last = cli("check", str(tmp_path / "m")).stdout.splitlines()[-1]
    assert last.endswith("1 places; remove foreign files yourself: `trace-hf mirror push` leaves them alone")
    (tmp_path / "m" / "DATA_TERMS.md").unlink()
    last = cli("check", str(tmp_path / "m")).stdout.splitlines()[-1]
    assert "`trace-hf mirror push` repairs files, but remove foreign files yourself" in last


def test_a_bad_parquet_file_is_told_once_by_its_place_in_the_mirror(
    place: tuple[str, dict[str, Any] | None], content: Content
) -> None:
    url, options = place
    FileMirror(url, options).push(content)
    bad = next(path for path in content.items if path.startswith("qa/"))
    write(url, options, bad, b"no parquet")
    found = [(drift.kind, drift.name) for drift in mirror.check(url, storage_options=options).drift]
    assert found == [("changed", bad)]


def test_the_command_line_makes_checks_and_repairs_a_folder(whole: Path, tmp_path: Path) -> None:
    target = str(tmp_path / "m")
    assert cli("push", str(whole), target, "--yes", "--deep").returncode == 0
    done = cli("check", target)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    (tmp_path / "m" / "snapshot" / "changes.jsonl").unlink()
    done = cli("check", target, "--json")
    assert done.returncode == 1
    assert [(d["kind"], d["name"]) for d in json_of(done)["drift"]] == [("missing", "snapshot/changes.jsonl")]
    assert cli("check", target).stdout.startswith("missing\tsnapshot/changes.jsonl")
    assert cli("push", str(whole), target, "--yes").returncode == 0
    assert cli("check", target).returncode == 0


def test_a_pinned_release_that_was_edited_together_with_its_manifest_is_drift(whole: Path, tmp_path: Path) -> None:
    mirror.push(whole, tmp_path / "m")
    folder = tmp_path / "m" / "snapshot"
    rewrite_manifest(folder, release_id="v1.1.0")
    found = {drift.name for drift in mirror.check(tmp_path / "m").drift}
    assert "snapshot/qa.jsonl" in found
    assert "snapshot/manifest.json" in found


def test_a_mirror_with_a_path_that_leads_out_is_not_followed(whole: Path, tmp_path: Path) -> None:
    mirror.push(whole, tmp_path / "m")
    card = tmp_path / "m" / "croissant.json"
    value = json.loads(card.read_bytes())
    value["distribution"][0]["contentUrl"] = "../../etc/passwd"
    card.write_text(json.dumps(value), encoding="utf-8")
    report = mirror.check(tmp_path / "m", release=writable_copy(whole, tmp_path / "w"))
    assert ("changed", "croissant.json") in {(drift.kind, drift.name) for drift in report.drift}
