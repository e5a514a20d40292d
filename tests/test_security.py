"""What somebody who writes a release, an archive or a server can make happen: nothing but an error."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import resource
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import rewrite_manifest
from helpers import edit_line, edit_manifest
from remote_servers import web_server

import trace_hf
from trace_hf.cli import main
from trace_hf.errors import (
    IntegrityError,
    ManifestError,
    ReleaseNotFoundError,
    SchemaError,
    TraceError,
    UnsafePathError,
)

PACKAGE = Path(trace_hf.__file__).parent

OUTSIDE = [
    "../x",
    "a/../../x",
    "/etc/passwd",
    "~/x",
    "a\\b",
    "C:x",
    "file:///etc/passwd",
    "s3://b/x",
    "a::b",
    "a//b",
    "./x",
    "",
]


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """Return a file that a release has no business with."""
    path = tmp_path / "secret.txt"
    path.write_text("hunter2, and nobody else's business\n")
    return path


def texts(error: pytest.ExceptionInfo[BaseException]) -> str:
    return f"{error.value}{error.value.__dict__}"


# --- paths --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OUTSIDE)
def test_manifest_names_nothing_outside(small_sample: Path, name: str) -> None:
    edit_manifest(small_sample, lambda manifest: manifest["files"].update({name: "0" * 64}))
    for way in (trace_hf.verify, trace_hf.Release.open, lambda place: trace_hf.load("qa", release=place)):
        with pytest.raises(UnsafePathError):
            way(small_sample)


@pytest.mark.parametrize("name", OUTSIDE)
def test_subset_descriptor_names_nothing_outside(small_sample: Path, name: str) -> None:

    path = small_sample / "proactive_subsets.json"
    value = json.loads(path.read_text())
    value["subsets"]["standard"]["record_file"] = name
    path.write_text(json.dumps(value))
    rewrite_manifest(small_sample)
    with pytest.raises(ManifestError, match="lists no "):
        trace_hf.load("proactive_standard", release=small_sample)


@pytest.mark.parametrize("path", OUTSIDE)
def test_video_path_leads_nowhere_outside(small_sample: Path, tmp_path: Path, path: str) -> None:
    edit_line(small_sample / "qa.jsonl", 0, lambda line: _with(line, video_path=path))
    rewrite_manifest(small_sample)
    for options in ({}, {"streaming": True}):
        with pytest.raises(UnsafePathError):
            list(trace_hf.load("qa", release=small_sample, video_root=tmp_path, **options))


def _with(line: bytes, **fields: Any) -> bytes:
    return json.dumps(
        {**json.loads(line), **fields}, ensure_ascii=False, sort_keys=True, separators=(",", ":")
    ).encode()


# --- links and things that are no files ---------------------------------------------------------------------------


def test_link_gives_only_what_has_the_stated_hash(small_sample: Path, tmp_path: Path, secret: Path) -> None:
    elsewhere = tmp_path / "blobs"
    elsewhere.mkdir()
    (small_sample / "qa.jsonl").rename(elsewhere / "blob")
    (small_sample / "qa.jsonl").symlink_to(elsewhere / "blob")  # as the Hub's cache does it
    assert len(trace_hf.load("qa", release=small_sample))
    (small_sample / "qa.jsonl").unlink()
    (small_sample / "qa.jsonl").symlink_to(secret)
    with pytest.raises(IntegrityError, match=r"qa\.jsonl differs") as error:
        trace_hf.load("qa", release=small_sample)
    assert "hunter2" not in texts(error)
    report = trace_hf.verify(small_sample)
    assert "hunter2" not in str(report)


def test_folder_that_is_a_link_gives_only_what_has_the_stated_hash(
    small_sample: Path, tmp_path: Path, secret: Path
) -> None:
    (small_sample / "sub").symlink_to(tmp_path)
    edit_manifest(small_sample, lambda manifest: manifest["files"].update({f"sub/{secret.name}": "0" * 64}))
    with pytest.raises(IntegrityError, match=r"sub/secret\.txt differs") as error:
        trace_hf.load("qa", release=small_sample)
    assert "hunter2" not in texts(error)


@pytest.mark.filterwarnings("ignore:rows of .* are loaded with verify=False")
@pytest.mark.parametrize("name", ["qa.jsonl", "tiny_qa_ids.json", "manifest.json"])
@pytest.mark.parametrize("kind", ["pipe", "device", "loop"])
def test_what_is_no_file_is_refused_at_once(small_sample: Path, name: str, kind: str) -> None:
    path = small_sample / name
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero" if kind == "device" else name)
    for options in ({}, {"verify": False}):
        with pytest.raises(TraceError) as error:
            trace_hf.load("qa_tiny", release=small_sample, **options)
        assert name in str(error.value)


# --- sizes --------------------------------------------------------------------------------------------------------


def test_large_id_file_is_refused_and_not_held_in_memory(small_sample: Path) -> None:
    with (small_sample / "tiny_qa_ids.json").open("r+b") as stream:
        stream.truncate(2**30)  # sparse
    rewrite_manifest(small_sample)
    with pytest.raises(SchemaError, match="larger than 32 MiB"):
        trace_hf.load("qa_tiny", release=small_sample)


def test_manifest_of_a_gibibyte_in_an_archive_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    place = tmp_path / "bomb.zip"
    kind = zipfile.ZIP_DEFLATED
    with zipfile.ZipFile(place, "w", kind, compresslevel=1) as archive, archive.open("manifest.json", "w") as stream:
        for _ in range(1024):
            stream.write(bytes(2**20))
    assert place.stat().st_size < 2**23
    with pytest.raises(ReleaseNotFoundError, match="larger than 16 MiB"):
        trace_hf.verify(f"zip://::file://{place}")


def test_gigabyte_that_an_archive_unpacks_to_is_refused_and_gone(small_sample: Path, tmp_path: Path) -> None:
    place = tmp_path / "bomb.zip"
    with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for path in small_sample.iterdir():
            if path.name != "qa.jsonl":
                archive.write(path, path.name)
        with archive.open("qa.jsonl", "w") as stream:
            for _ in range(1024):
                stream.write(bytes(2**20))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(TraceError, match=r"qa\.jsonl"):
        trace_hf.load("changes", release=f"zip://::file://{place}")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 * 1024
    assert sum(p.stat().st_size for p in Path(os.environ["TRACE_CACHE"]).rglob("*") if p.is_file()) < 2**20


# --- archives -----------------------------------------------------------------------------------------------------


def test_archive_members_with_dots_are_put_nowhere(small_sample: Path, tmp_path: Path) -> None:
    inside, place = tmp_path / "a" / "b", tmp_path / "a" / "release.zip"
    inside.mkdir(parents=True)
    with zipfile.ZipFile(place, "w") as archive:
        for name in ("../evil.txt", "../../evil.txt", "/evil.txt", "release/../../evil.txt", "release\\..\\evil.txt"):
            archive.writestr(name, "evil")
        for path in small_sample.iterdir():
            archive.write(path, f"release/{path.name}")
    assert len(trace_hf.load("qa", release=f"zip://release::file://{place}"))
    assert not [
        path for path in (*tmp_path.rglob("*"), *Path(os.environ["TRACE_CACHE"]).rglob("*")) if "evil" in path.name
    ]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_archive_member_that_is_a_link_or_a_device_gives_nothing_from_outside(
    small_sample: Path, tmp_path: Path, secret: Path, kind: bytes
) -> None:
    with tarfile.open(tmp_path / "release.tar", "w") as archive:
        for path in small_sample.iterdir():
            if path.name == "qa.jsonl":
                member = tarfile.TarInfo(f"release/{path.name}")
                member.type, member.linkname = kind, str(secret)
                archive.addfile(member)
            else:
                archive.add(path, f"release/{path.name}")
    with pytest.raises(TraceError) as error:
        trace_hf.load("qa", release=f"tar://release::file://{tmp_path / 'release.tar'}")
    assert "hunter2" not in texts(error)
    assert not [
        p for p in Path(os.environ["TRACE_CACHE"]).rglob("*") if p.is_file() and "hunter2" in p.read_text("utf-8")
    ]


# --- servers ------------------------------------------------------------------------------------------------------


@contextmanager
def redirecting(to: str) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """Serve redirections to another place, and note the headers of requests."""
    seen: list[dict[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            seen.append(dict(self.headers))
            self.send_response(302)
            self.send_header("Location", to + self.path)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_HEAD = do_GET  # noqa: N815

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", seen
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_redirection_gives_only_what_has_the_stated_hash_and_takes_no_credential_along(small_sample: Path) -> None:
    options = {"client_kwargs": {"headers": {"Authorization": "Bearer hunter2"}}}
    with web_server(small_sample) as server, redirecting(server.url) as (url, seen):
        server.faults["qa.jsonl"] = "wrong"
        with pytest.raises(IntegrityError, match=r"qa\.jsonl differs"):
            trace_hf.load("qa", release=f"{url}/", storage_options=options)
        server.faults.clear()
        assert len(trace_hf.load("qa", release=f"{url}/", storage_options=options))
        assert all(headers["Authorization"] == "Bearer hunter2" for headers in seen)
        assert not [headers for headers in server.headers if "Authorization" in headers]


@pytest.mark.parametrize("to", ["file://", "ftp://127.0.0.1"])
def test_redirection_to_a_place_that_is_no_web_server_is_refused(small_sample: Path, to: str) -> None:
    with redirecting(f"{to}{small_sample}") as (url, _), pytest.raises(ReleaseNotFoundError):
        trace_hf.load("qa", release=f"{url}/")


# --- text ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["release_id", "status"])
def test_manifest_cannot_claim_that_it_was_verified_or_pinned(small_sample: Path, key: str) -> None:
    edit_manifest(small_sample, lambda manifest: manifest.update({key: "x\npinned: true\nverified: true"}))
    with pytest.raises(ManifestError, match="control character") as error:
        trace_hf.load("qa", release=small_sample)
    assert error.value.json_path == f"$.{key}"


@pytest.mark.parametrize("unseen", ["\x1b]0;owned\x07", "\x9b2J", "\u202e", "\n  Do: rm -rf ~"])
def test_no_text_of_a_release_acts_on_a_terminal(small_sample: Path, unseen: str) -> None:
    edit_line(small_sample / "qa.jsonl", 0, lambda line: _with(line, **{f"x{unseen}": 1}))
    edit_manifest(small_sample, lambda manifest: manifest["limitations"].append(unseen))
    rewrite_manifest(small_sample)
    for verb in (["info"], ["verify"], ["validate"]):
        done = CliRunner().invoke(main, [*verb, str(small_sample)])
        assert unseen not in done.output
    with pytest.raises(SchemaError, match="unknown field") as error:
        trace_hf.load("qa", release=small_sample)
    assert unseen not in str(error.value)


def test_message_stays_short_whatever_a_release_holds(small_sample: Path) -> None:
    edit_line(small_sample / "qa.jsonl", 0, lambda line: _with(line, **{"x" * 1_000_000: 1}))
    rewrite_manifest(small_sample)
    with pytest.raises(SchemaError, match="unknown field") as error:
        trace_hf.load("qa", release=small_sample)
    assert len(str(error.value)) < 5000


# --- code ---------------------------------------------------------------------------------------------------------

_FORBIDDEN_CALLS = {
    "eval",
    "exec",
    "compile",
    "__import__",
    "system",
    "popen",
    "extractall",
    "unsafe_load",
    "full_load",
}
_FORBIDDEN_MODULES = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "subprocess", "runpy", "code"}


def test_package_runs_no_code_from_anywhere() -> None:
    found = []
    for path in [*PACKAGE.rglob("*.py"), PACKAGE.parent / "loading_script" / "trace.py"]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name.split(".")[0] for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [(node.module or "").split(".")[0]]
            found += [f"{path.name}:{node.lineno}: {name}" for name in names if name in _FORBIDDEN_MODULES]
            if isinstance(node, ast.Call):
                name = getattr(node.func, "attr", getattr(node.func, "id", ""))
                owner = getattr(getattr(node.func, "value", None), "id", "")
                if name in _FORBIDDEN_CALLS and owner not in ("re", "pc"):
                    found.append(f"{path.name}:{node.lineno}: {name}()")
    assert not found


def test_snapshot_with_code_in_it_runs_none(
    small_sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = tmp_path / "mark"
    for name in ("trace.py", "small_sample.py", "conftest.py", "__init__.py", "datasets.py", "dataset_infos.json"):
        (small_sample / name).write_text(f"open({str(mark)!r}, 'w')\n")
    monkeypatch.chdir(small_sample)
    assert len(trace_hf.load("qa", release="."))
    assert {f.name for f in trace_hf.verify(".").files if f.state == "unlisted"} >= {"trace.py", "datasets.py"}
    assert not mark.exists()


def test_pinned_hashes_are_those_of_the_published_files(real: Path) -> None:
    from trace_hf.manifest import PINS

    present = [path for path in (real / "official").iterdir() if path.name in PINS["v1.1.0"].files]
    assert len(present) >= 8
    for path in present:
        assert hashlib.sha256(path.read_bytes()).hexdigest() == PINS["v1.1.0"].files[path.name]
