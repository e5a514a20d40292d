"""Remote releases: every way to reach one, every way in which that fails, and what is left in the cache."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path

import filelock
import fsspec
import pytest
from conftest import rewrite_manifest, sha256
from remote_servers import WebServer, s3_server, web_server

from trace_hf.cachedir import cache_dir
from trace_hf.errors import IntegrityError, ManifestError, ReleaseNotFoundError, TraceError, UnsafePathError
from trace_hf.paths import shown
from trace_hf.release import Release
from trace_hf.remote import fetch_release
from trace_hf.transfer import Place


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a small synthetic release that no test changes."""
    from trace_hf import write_sample

    return write_sample(tmp_path_factory.mktemp("master") / "release", scale=0.05)


@pytest.fixture
def served(master: Path, tmp_path: Path) -> Path:
    """Return a folder to be served, with a release in its sub-folder `v1`."""
    shutil.copytree(master, tmp_path / "served" / "v1")
    return tmp_path / "served"


@pytest.fixture
def web(served: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WebServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with web_server(served) as server:
        yield server


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, object]]:
    pytest.importorskip("s3fs")
    pytest.importorskip("moto.server")
    with s3_server() as options:
        yield options


@pytest.fixture
def memory(master: Path) -> Iterator[str]:
    fs = fsspec.filesystem("memory")
    fs.put(str(master), "/lab/release", recursive=True)
    yield "memory://lab/release"
    fs.rm("/lab", recursive=True)


def files_of(folder: Path) -> dict[str, str]:
    return {p.relative_to(folder).as_posix(): sha256(p) for p in folder.rglob("*") if p.is_file()}


def left_in_cache() -> list[str]:
    """Everything that is in the cache but its locks."""
    root = cache_dir() / "releases"
    paths = [p.relative_to(root) for p in root.rglob("*") if p.is_file()]
    return sorted(p.as_posix() for p in paths if p.parts[0] != ".locks")


def copies() -> list[Path]:
    return [p for p in (cache_dir() / "releases").glob("*") if not p.name.startswith(".")]


def zipped(folder: Path, target: Path, inside: str) -> Path:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            archive.write(path, f"{inside}{path.relative_to(folder).as_posix()}")
    return target


# --- every way to reach one ---------------------------------------------------------------------------------------


def test_release_on_a_web_server_is_copied_and_verifies(web: WebServer, master: Path) -> None:
    release = Release.open(f"{web.url}/v1")
    assert files_of(release.root) == files_of(master)
    assert release.verify().ok
    assert [r.record_id for r in release.records("qa_tiny")] == release.ids("qa_tiny")


@pytest.mark.parametrize("form", ["{}/v1/", "{}/v1/manifest.json", "{}/v1?sig=abc", "{}/v1/manifest.json?sig=abc"])
def test_forms_of_a_web_address_mean_the_same_snapshot(web: WebServer, master: Path, form: str) -> None:
    assert fetch_release(form.format(web.url)).name == sha256(master / "manifest.json")


def test_later_loads_ask_for_the_manifest_only(web: WebServer) -> None:
    first = fetch_release(f"{web.url}/v1")
    web.requests.clear()
    assert fetch_release(f"{web.url}/v1") == first
    assert web.requests == ["v1/manifest.json"]


def test_two_addresses_of_one_release_share_a_copy(web: WebServer, served: Path) -> None:
    shutil.copytree(served / "v1", served / "again")
    assert fetch_release(f"{web.url}/v1") == fetch_release(f"{web.url}/again")
    assert len(copies()) == 1


def test_files_are_fetched_at_the_same_time(web: WebServer) -> None:
    web.gather = 4
    fetch_release(f"{web.url}/v1")


def test_export_means_its_snapshot(web: WebServer, served: Path, master: Path) -> None:
    shutil.move(served / "v1", served / "export" / "snapshot")
    assert files_of(fetch_release(f"{web.url}/export")) == files_of(master)


def test_file_names_with_special_characters_arrive(web: WebServer, served: Path) -> None:
    (served / "v1" / "notes #1 100%?.json").write_bytes(b"{}")
    (served / "v1" / "deep").mkdir()
    (served / "v1" / "deep" / "é.json").write_bytes(b"[]")
    manifest = json.loads((served / "v1" / "manifest.json").read_bytes())
    manifest["files"] |= dict.fromkeys(["notes #1 100%?.json", "deep/é.json"], "0" * 64)
    rewrite_manifest(served / "v1", files=manifest["files"])  # keeps the names
    (served / "v1" / "manifest.json").write_text(json.dumps(manifest))
    rewrite_manifest(served / "v1")
    assert files_of(fetch_release(f"{web.url}/v1")) == files_of(served / "v1")


def test_release_on_s3(s3: dict[str, object], master: Path) -> None:
    fs = fsspec.filesystem("s3", **s3)
    fs.mkdir("lab-bucket")
    fs.put(str(master), "lab-bucket/trace/v1", recursive=True)
    release = Release.open("s3://lab-bucket/trace/v1", storage_options=s3)
    assert files_of(release.root) == files_of(master)
    # A change of the bucket is seen although the filesystem object lives on.
    fs.pipe_file("lab-bucket/trace/v1/qa.jsonl", b"")
    fs.pipe_file("lab-bucket/trace/v1/manifest.json", (master / "manifest.json").read_bytes() + b"\n")
    with pytest.raises(IntegrityError, match=r"qa\.jsonl differs"):
        Release.open("s3://lab-bucket/trace/v1", storage_options=s3)


def test_absent_bucket_and_absent_credentials_are_told_apart(
    s3: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ReleaseNotFoundError, match="there is no release here"):
        Release.open("s3://no-such-bucket/v1", storage_options=s3)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    with pytest.raises(ReleaseNotFoundError, match="credentials"):
        Release.open("s3://no-such-bucket/v1", storage_options={"endpoint_url": s3["endpoint_url"]})


def test_release_in_a_sub_folder_of_a_zip(master: Path, tmp_path: Path) -> None:
    archive = zipped(master, tmp_path / "a.zip", "data/trace/")
    assert files_of(fetch_release(f"zip://data/trace::{archive}")) == files_of(master)


def test_release_at_the_root_of_a_zip(master: Path, tmp_path: Path) -> None:
    archive = zipped(master, tmp_path / "a.zip", "")
    assert files_of(fetch_release(f"zip://::{archive}")) == files_of(master)


@pytest.mark.parametrize("ranges", [True, False], ids=["with ranges", "without ranges"])
def test_zip_on_a_web_server(web: WebServer, served: Path, master: Path, tmp_path: Path, ranges: bool) -> None:
    web.ranges = ranges
    # Larger than what fsspec reads at once, so that ranges matter.
    archive = zipped(master, served / "a.zip", "trace/")
    with zipfile.ZipFile(archive, "a") as more:
        more.writestr("video.bin", os.urandom(12 * 2**20))
    assert files_of(fetch_release(f"zip://trace::{web.url}/a.zip")) == files_of(master)


def test_tar_in_which_a_release_lies(master: Path, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as archive:
        archive.add(master, "trace")
    assert files_of(fetch_release(f"tar://trace::{tmp_path / 'a.tar.gz'}")) == files_of(master)


def test_release_in_memory(memory: str, master: Path) -> None:
    assert files_of(fetch_release(memory)) == files_of(master)


def test_release_behind_fsspecs_own_cache(web: WebServer, master: Path) -> None:
    assert files_of(fetch_release(f"simplecache::{web.url}/v1")) == files_of(master)


def test_load_dataset_takes_a_remote_release(web: WebServer) -> None:
    import trace_hf

    rows = trace_hf.load("qa_tiny", release=f"{web.url}/v1")
    assert rows["record_id"] == Release.open(f"{web.url}/v1").ids("qa_tiny")


# --- what changes -------------------------------------------------------------------------------------------------


def test_changed_remote_is_picked_up(web: WebServer, served: Path) -> None:
    old = fetch_release(f"{web.url}/v1")
    (served / "v1" / "review_summary.json").write_bytes(b"{}")
    rewrite_manifest(served / "v1", release_id="synthetic-2")
    new = fetch_release(f"{web.url}/v1")
    assert new != old
    assert (new / "review_summary.json").read_bytes() == b"{}"


def test_release_that_changes_in_the_middle_is_fetched_anew(
    web: WebServer, served: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch, seen = Place.fetch, []

    def fetch_and_publish(self: Place, name: str, *args: object, **kwargs: object) -> None:
        fetch(self, name, *args, **kwargs)  # type: ignore[arg-type]
        if name == "manifest.json" and not seen:
            seen.append(name)
            (served / "v1" / "qa.jsonl").write_bytes(b"")
            rewrite_manifest(served / "v1")

    monkeypatch.setattr(Place, "fetch", fetch_and_publish)
    assert files_of(fetch_release(f"{web.url}/v1")) == files_of(served / "v1")


@pytest.mark.parametrize("damage", ["byte", "gone", "directory", "manifest"])
def test_damaged_cached_copy_is_repaired_by_what_is_damaged(web: WebServer, master: Path, damage: str) -> None:
    copy = fetch_release(f"{web.url}/v1")
    victim = copy / ("manifest.json" if damage == "manifest" else "qa.jsonl")
    if damage in ("byte", "manifest"):
        victim.write_bytes(b"x" + victim.read_bytes()[1:])
    else:
        victim.unlink()
    if damage == "directory":
        victim.mkdir()
        (victim / "something").touch()
    web.requests.clear()
    assert fetch_release(f"{web.url}/v1") == copy
    assert files_of(copy) == files_of(master)
    assert web.requests == ["v1/manifest.json", *([] if damage == "manifest" else ["v1/qa.jsonl"])]


# --- no network ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["stopped", "500", "gone"])
def test_without_the_place_the_cached_copy_is_used_with_a_warning(web: WebServer, served: Path, how: str) -> None:
    copy = fetch_release(f"{web.url}/v1")
    if how == "stopped":
        web.stop()
    elif how == "500":
        web.faults["*"] = 500
    else:
        shutil.rmtree(served / "v1")
    with pytest.warns(UserWarning, match=r"cannot be read \(.*cached copy"):
        assert fetch_release(f"{web.url}/v1") == copy


def test_the_newest_intact_copy_is_the_one_that_is_used(web: WebServer, served: Path) -> None:
    first = fetch_release(f"{web.url}/v1")
    rewrite_manifest(served / "v1", release_id="synthetic-2")
    second = fetch_release(f"{web.url}/v1")
    web.faults["*"] = 503
    with pytest.warns(UserWarning, match="synthetic-2"):
        assert fetch_release(f"{web.url}/v1") == second
    (second / "qa.jsonl").write_bytes(b"")
    with pytest.warns(UserWarning, match="cached copy"):
        assert fetch_release(f"{web.url}/v1") == first
    (first / "qa.jsonl").unlink()
    with pytest.raises(ReleaseNotFoundError, match="no intact cached copy"):
        fetch_release(f"{web.url}/v1")


def test_copy_of_another_place_is_not_used(web: WebServer) -> None:
    fetch_release(f"{web.url}/v1")
    web.faults["*"] = 500
    with pytest.raises(ReleaseNotFoundError, match="the server answered 500"):
        fetch_release(f"{web.url}/v2")


@pytest.mark.parametrize("status", [401, 403])
def test_refusal_is_not_answered_from_the_cache(web: WebServer, status: int) -> None:
    fetch_release(f"{web.url}/v1")
    web.faults["*"] = status
    with pytest.raises(ReleaseNotFoundError, match=str(status)) as caught:
        fetch_release(f"{web.url}/v1")
    assert "credentials" in str(caught.value)


def test_cache_that_can_only_be_read_serves_its_copy(web: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = fetch_release(f"{web.url}/v1")
    for name in ("mkdir", "write_text", "write_bytes", "replace", "rename"):
        monkeypatch.setattr(Path, name, _refuse)
    assert fetch_release(f"{web.url}/v1") == copy


def _refuse(*_: object, **__: object) -> None:
    raise PermissionError(13, "Permission denied")


def test_cache_that_cannot_be_written_is_named(web: WebServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("TRACE_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(TraceError, match=r"cannot be written[\s\S]*TRACE_CACHE"):
        fetch_release(f"{web.url}/v1")


# --- servers that fail, stall or lie --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["v1/manifest.json", "v1/proactive.jsonl"])
def test_failing_server_is_named_and_leaves_nothing(web: WebServer, name: str) -> None:
    web.faults[name] = 500
    with pytest.raises(ReleaseNotFoundError, match="the server answered 500") as caught:
        Release.open(f"{web.url}/v1")
    assert name.rpartition("/")[0] in caught.value.where
    assert web.requests.count(name) == 3
    assert left_in_cache() == []


def test_server_that_fails_once_is_asked_again(web: WebServer) -> None:
    web.failures = {"v1/manifest.json": 1, "v1/qa.jsonl": 2}
    assert Release.open(f"{web.url}/v1").verify().ok


@pytest.mark.parametrize("name", ["v1/manifest.json", "v1/proactive.jsonl"])
def test_stalling_server_is_given_up_and_leaves_nothing(
    web: WebServer, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACE_TIMEOUT", "0.3")
    web.faults[name] = "stall"
    with pytest.raises(ReleaseNotFoundError, match=r"no answer for 0\.3 s[\s\S]*TRACE_TIMEOUT"):
        Release.open(f"{web.url}/v1")
    assert left_in_cache() == []


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("cut", r"proactive\.jsonl is cut short"),
        ("short", r"proactive\.jsonl differs"),
        ("wrong", r"proactive\.jsonl differs"),
        (404, r"proactive\.jsonl is missing"),
    ],
)
def test_lie_in_a_file_is_named_and_leaves_nothing(web: WebServer, fault: str | int, words: str) -> None:
    web.faults = {"v1/proactive.jsonl": fault, "v1/qa.jsonl": "wrong"}
    with pytest.raises(IntegrityError, match=words) as caught:
        Release.open(f"{web.url}/v1")
    assert "qa.jsonl differs" in str(caught.value)
    assert "trace-hf verify" in str(caught.value)
    assert left_in_cache() == []


def test_lie_in_a_repair_leaves_the_copy_as_it_was(web: WebServer) -> None:
    copy = fetch_release(f"{web.url}/v1")
    (copy / "qa.jsonl").write_bytes(b"")
    before = files_of(copy)
    web.faults["v1/qa.jsonl"] = "wrong"
    with pytest.raises(IntegrityError, match=r"qa\.jsonl differs"):
        fetch_release(f"{web.url}/v1")
    assert files_of(copy) == before
    assert not list((cache_dir() / "releases" / ".aside").glob("*"))


def test_manifest_without_end_is_refused(web: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trace_hf.remote.MAX_MANIFEST_BYTES", 2**20)
    web.faults["v1/manifest.json"] = "endless"
    with pytest.raises(ReleaseNotFoundError, match="larger than 1 MiB"):
        Release.open(f"{web.url}/v1")


def test_page_in_place_of_a_manifest_is_a_manifest_error(web: WebServer, served: Path) -> None:
    (served / "v1" / "manifest.json").write_text("<!doctype html><title>Sign in</title>")
    with pytest.raises(ManifestError, match="not JSON"):
        Release.open(f"{web.url}/v1")


def test_manifest_that_names_a_place_outside_is_refused(web: WebServer, served: Path) -> None:
    manifest = json.loads((served / "v1" / "manifest.json").read_bytes())
    manifest["files"]["../evil"] = "0" * 64
    (served / "v1" / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(UnsafePathError):
        Release.open(f"{web.url}/v1")
    assert left_in_cache() == []


def test_damaged_archive_is_no_bare_error(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(b"PK\x03\x04 not an archive")
    with pytest.raises(ReleaseNotFoundError, match="damaged"):
        Release.open(f"zip://trace::{tmp_path / 'a.zip'}")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://127.0.0.1:1/v1", "cannot be read"),
        ("nosuch://lab/v1", "nosuch"),
        ("zip://trace::/nonexistent/a.zip", "there is no release here"),
        ("memory://nowhere", "there is no release here"),
    ],
)
def test_address_that_leads_nowhere_is_not_found(url: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with pytest.raises(ReleaseNotFoundError, match=words):
        Release.open(url)


def test_missing_package_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "s3fs", None)
    # `fsspec.registry` is also the name of the mapping in it.
    monkeypatch.delitem(sys.modules["fsspec.registry"]._registry, "s3", raising=False)
    with pytest.raises(ReleaseNotFoundError, match=r"pip install 'trace-hf\[s3\]'"):
        Release.open("s3://bucket/v1")


def test_options_of_other_filesystems_are_left_out(web: WebServer) -> None:
    fetch_release(f"{web.url}/v1", storage_options={"hf": {"endpoint": "https://huggingface.co", "token": None}})


def test_wrong_options_are_no_bare_error(web: WebServer) -> None:
    with pytest.raises(ReleaseNotFoundError, match="storage_options"):
        Release.open(f"{web.url}/v1", storage_options={"client_kwargs": {"no_such_option": 1}})


def test_senseless_timeout_is_named(web: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACE_TIMEOUT", "soon")
    with pytest.raises(TraceError, match="TRACE_TIMEOUT is 'soon'"):
        Release.open(f"{web.url}/v1")


# --- secrets ------------------------------------------------------------------------------------------------------


def test_no_secret_is_shown_or_stored(web: WebServer) -> None:
    address = web.url.replace("http://", "http://user:hunter22@") + "/v1?token=s3cr3t-query"
    options = {"headers": {"X-Api-Key": "s3cr3t-header"}}
    secrets = ("hunter22", "s3cr3t-query", "s3cr3t-header", "s3cr3t-token")
    fetch_release(address, storage_options=options, token="s3cr3t-token")
    assert web.headers[-1]["X-Api-Key"] == "s3cr3t-header"
    assert "s3cr3t-token" not in str(web.headers)  # it is for the Hub only
    for path in (cache_dir() / "releases").rglob("*"):
        assert not any(s in str(path) or (path.is_file() and s.encode() in path.read_bytes()) for s in secrets)
    texts = []
    web.faults["*"] = 403
    with pytest.raises(ReleaseNotFoundError) as refused:
        fetch_release(address, storage_options=options, token="s3cr3t-token")
    web.stop()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fetch_release(address, storage_options=options, token="s3cr3t-token")
    texts = [str(refused.value), *(str(w.message) for w in caught)]
    assert len(texts) > 1
    assert not any(secret in text for text in texts for secret in secrets)


def test_token_goes_to_the_hub_and_to_nothing_else() -> None:
    pytest.importorskip("huggingface_hub")
    assert Place("hf://datasets/org/name", None, "hf_abc")._open("hf://datasets/org/name").token == "hf_abc"
    own = Place("hf://datasets/org/name", {"token": "hf_own"}, "hf_abc")
    assert own._open("hf://datasets/org/name").token == "hf_own"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://u:p@host/a/b?sig=1#x", "https://host/a/b"),
        ("zip://in::https://u:p@host/a.zip?sig=1", "zip://in::https://host/a.zip"),
        ("hf://datasets/org/name@rev/snapshot", "hf://datasets/org/name@rev/snapshot"),
        ("github://org:repo@sha/path", "github://org:repo@sha/path"),
        ("s3://bucket/a", "s3://bucket/a"),
        ("/plain/path", "/plain/path"),
    ],
)
def test_address_is_shown_without_credentials(url: str, expected: str) -> None:
    assert shown(url) == expected


def test_places_are_told_apart_without_their_credentials() -> None:
    def key(url: str, **options: object) -> str:
        return Place(url, options, None).key()

    assert key("https://u:p@host/a") == key("https://host/a/")
    assert key("s3://b/a", key="1", secret="2") == key("s3://b/a", key="3", secret="4")
    assert key("s3://b/a") != key("s3://b/a", endpoint_url="http://lab")
    assert key("github://org:one@sha/a") != key("github://org:two@sha/a")
    assert key("https://host/a?rev=1") != key("https://host/a?rev=2")


# --- a report on a broken place -----------------------------------------------------------------------------------


def test_broken_place_is_reported_file_by_file(web: WebServer, served: Path) -> None:
    fetch_release(f"{web.url}/v1")  # an intact cached copy must not answer for the place
    (served / "v1" / "qa.jsonl").write_bytes(b"<html>")
    (served / "v1" / "tiny_qa_ids.json").unlink()
    web.faults = {"v1/proactive.jsonl": "cut", "v1/changes.jsonl": 500}
    before = left_in_cache()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        folder = fetch_release(f"{web.url}/v1", for_report=True)
    report = Release.open(folder).verify()
    wrong = {file.name: file.state for file in report.files if file.state != "ok"}
    assert wrong == {
        "qa.jsonl": "differs",
        "tiny_qa_ids.json": "missing",
        "proactive.jsonl": "differs",
        "changes.jsonl": "missing",
    }
    assert sorted(str(w.message).partition(": ")[0].rpartition("/")[2] for w in warned) == [
        "changes.jsonl",
        "proactive.jsonl",
    ]
    shutil.rmtree(folder)
    assert left_in_cache() == before


def test_report_on_a_place_that_cannot_be_reached_is_an_error(web: WebServer) -> None:
    fetch_release(f"{web.url}/v1")
    web.stop()
    with pytest.raises(ReleaseNotFoundError):
        fetch_release(f"{web.url}/v1", for_report=True)


def test_folder_of_a_report_ends_with_its_process(web: WebServer) -> None:
    code = f"from trace_hf.remote import fetch_release; print(fetch_release('{web.url}/v1', for_report=True))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip()
    assert not Path(done.stdout.strip()).exists()
    assert left_in_cache() == []


# --- several processes, and killed ones ---------------------------------------------------------------------------

_LOAD = "import sys; from trace_hf.release import Release; r = Release.open(sys.argv[1]); r.proven(); print(r.root)"


def _start(url: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", _LOAD, url], stdout=subprocess.PIPE, text=True)


def test_two_processes_that_fetch_at_once_end_with_one_right_copy(web: WebServer, master: Path) -> None:
    loads = [_start(f"{web.url}/v1") for _ in range(2)]
    roots = {load.communicate(timeout=60)[0].strip() for load in loads}
    assert [load.returncode for load in loads] == [0, 0]
    assert roots == {str(copy) for copy in copies()}
    assert len(roots) == 1
    assert files_of(Path(roots.pop())) == files_of(master)
    assert web.requests.count("v1/qa.jsonl") == 1  # the second waited for the first


def test_what_a_killed_process_left_is_used_or_removed(web: WebServer, served: Path, master: Path) -> None:
    shutil.copytree(served / "v1", served / "v2")
    rewrite_manifest(served / "v2", release_id="synthetic-2")
    web.faults["v1/proactive.jsonl"] = "stall"
    load = _start(f"{web.url}/v1")
    aside = cache_dir() / "releases" / ".aside"
    # Only when every other file is there is it sure which ones the next load need not ask for.
    others = set(json.loads((master / "manifest.json").read_bytes())["files"]) - {"proactive.jsonl"}
    _wait_for(
        lambda: others <= {p.name for p in aside.glob("*/*") if p.stat().st_size == (master / p.name).stat().st_size}
    )
    load.kill()
    load.communicate()
    assert copies() == []
    leftover = next(aside.iterdir())
    web.faults.clear()
    web.requests.clear()
    assert files_of(fetch_release(f"{web.url}/v1")) == files_of(master)
    assert web.requests == ["v1/manifest.json", "v1/proactive.jsonl"]
    assert not leftover.exists()
    # What nobody asks for any more goes, too, unless its lock is held.
    for name in ("0" * 64, "1" * 64, "report-1-dead"):
        (aside / name).mkdir()
    with filelock.FileLock(str(aside.parent / ".locks" / f"{'1' * 64}.lock")):
        fetch_release(f"{web.url}/v2")
    assert [p.name for p in aside.iterdir()] == ["1" * 64]


def _wait_for(condition: object) -> None:
    deadline = time.monotonic() + 30
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.01)


# --- real rows ----------------------------------------------------------------------------------------------------


def test_real_rows_arrive_from_a_web_server(real: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with web_server(real) as server:
        release = Release.open(f"{server.url}/sample_release")
        assert files_of(release.root) == files_of(real / "sample_release")
        assert sum(1 for _ in release.records("qa")) == 21


def test_incomplete_official_copy_names_the_absent_files(real: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with web_server(real) as server, pytest.raises(IntegrityError, match=r"\.jsonl? is missing"):
        Release.open(f"{server.url}/official")


def test_verify_reports_on_a_broken_place(web: WebServer, served: Path) -> None:
    import trace_hf

    (served / "v1" / "qa.jsonl").unlink()
    report = trace_hf.verify(f"{web.url}/v1")
    assert not report.ok
    assert [f.name for f in report.files if f.state == "missing"] == ["qa.jsonl"]
