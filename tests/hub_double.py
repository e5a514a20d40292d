"""A double of the Hugging Face Hub: a real HTTP server on loopback that speaks the endpoints `huggingface_hub` uses.

It keeps dataset repos in memory, enforces tokens and privacy, and answers with the hashes of what it has *stored*. A
test chooses faults by the number of the request, or lets it fail for good.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

OWNER_TOKEN = "hf_owner_0123456789abcdef"
OTHER_TOKEN = "hf_other_0123456789abcdef"
USERS = {OWNER_TOKEN: ("lab-admin", ["org"]), OTHER_TOKEN: ("stranger", [])}

STATUS_FAULTS = ("401", "403", "404", "409", "429", "500", "503")
FAULTS = (*STATUS_FAULTS, "timeout", "cut", "lost reply", "flip", "public")
"""`cut` drops the connection in the middle of the body; `lost reply` does what was asked and drops the answer; `flip`
changes a byte of whatever the request stores; `public` turns every repo public before the request is served."""

DEFAULT_FAULTS = ("500", "lost reply", "public")
_WRITES = ("POST", "PUT", "DELETE", "PATCH")
_READING_POSTS = ("/paths-info/", "/preupload/", "/objects/batch", "/validate-yaml")


@dataclass
class Repo:
    """A dataset repo: commits are whole trees of path -> blob, newest last."""

    private: bool
    gated: str | bool = False
    commits: list[tuple[str, dict[str, Blob]]] = field(default_factory=list)
    tags: dict[str, str] = field(default_factory=dict)

    @property
    def sha(self) -> str | None:
        return self.commits[-1][0] if self.commits else None

    def tree(self, revision: str) -> tuple[str, dict[str, Blob]] | None:
        revision = revision.removeprefix("refs/heads/").removeprefix("refs/tags/")
        wanted = self.sha if revision == "main" else self.tags.get(revision, revision)
        return next((commit for commit in self.commits if commit[0] == wanted), None)


@dataclass(frozen=True)
class Blob:
    """The bytes of a file as they are stored, and whether they lie in LFS."""

    data: bytes
    lfs: bool
    stated: str | None = None

    def entry(self, path: str, *, lies: bool = False) -> dict[str, Any]:
        entry: dict[str, Any] = {"type": "file", "path": path, "size": len(self.data)}
        if self.lfs:
            sha256 = self.stated if lies else hashlib.sha256(self.data).hexdigest()
            pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {len(self.data)}\n"
            entry["lfs"] = {"oid": sha256, "size": len(self.data), "pointerSize": len(pointer)}
            return entry | {"oid": git_blob(pointer.encode())}
        return entry | {"oid": self.stated if lies and self.stated else git_blob(self.data)}


def git_blob(data: bytes) -> str:
    """Return the ID that git gives a blob."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class RefusedError(Exception):
    """Ends a request with a status."""

    def __init__(self, status: int, code: str = "", message: str = "") -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


class HubDouble:
    """The server.

    Attributes
    ----------
    repos : dict
        By ``org/name``.
    faults : dict
        By request number, from 0: the kind of fault.
    always : callable or None
        Given method and path: the kind of fault for such a request, every time.
    requests : list of tuple
        Method and path of every request.
    injected : int
        How many faults were injected.
    lies : bool
        Whether it states the hashes that it was told instead of those of what it stores.
    page : int
        Entries on one page of a listing.
    before : callable or None
        Called with number, method and path before a request is served.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.hang_s = 2.0
        self._http = _Listener(("127.0.0.1", 0), _handler(self))
        self.reset()
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    def reset(self) -> None:
        """Forget everything."""
        self.repos: dict[str, Repo] = {}
        self.lfs: dict[str, bytes] = {}
        self.begin()

    def begin(self, faults: dict[int, str] | None = None) -> None:
        """Count requests anew, with other faults."""
        self.requests: list[tuple[str, str]] = []
        self.auth: list[str] = []
        self.faults = dict(faults or {})
        self.always: Callable[[str, str], str | None] | None = None
        self.before: Callable[[int, str, str], None] | None = None
        self.injected = 0
        self.lies = False
        self.page = 1000

    @property
    def url(self) -> str:
        host, port = self._http.server_address[:2]
        return f"http://{host}:{port}"

    @property
    def writes(self) -> list[tuple[str, str]]:
        """The requests that change something."""
        return [
            (method, path)
            for method, path in self.requests
            if method in _WRITES and not any(part in path for part in _READING_POSTS)
        ]

    def public_bytes(self) -> Iterator[tuple[str, str, bytes]]:
        """Give repo, path and bytes of every file of every revision that a stranger can read, gated repos included."""
        with self.lock:
            for name, repo in self.repos.items():
                if not repo.private:
                    for _, tree in repo.commits:
                        yield from ((name, path, blob.data) for path, blob in tree.items())

    def files(self, name: str, revision: str = "main") -> dict[str, bytes]:
        found = self.repos[name].tree(revision)
        return {path: blob.data for path, blob in found[1].items()} if found else {}

    def commit(self, name: str, changes: dict[str, bytes | None], *, lfs: bool = False) -> str:
        """Commit behind the client's back."""
        with self.lock:
            repo = self.repos[name]
            tree = dict(repo.commits[-1][1]) if repo.commits else {}
            for path, data in changes.items():
                tree.pop(path, None)
                if data is not None:
                    tree[path] = Blob(data, lfs)
            return self._append(repo, tree)

    def create(self, name: str, *, private: bool, gated: str | bool = False) -> Repo:
        """Create a repo as the Hub does: with one commit that holds its attributes file."""
        with self.lock:
            repo = self.repos[name] = Repo(private, gated)
            self._append(repo, {".gitattributes": Blob(b"*.parquet filter=lfs diff=lfs merge=lfs -text\n", False)})
            return repo

    def _append(self, repo: Repo, tree: dict[str, Blob]) -> str:
        text = json.dumps(
            [len(repo.commits), time.monotonic_ns(), sorted((p, git_blob(b.data)) for p, b in tree.items())]
        )
        sha = hashlib.sha1(text.encode()).hexdigest()
        repo.commits.append((sha, tree))
        return sha

    def stop(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    # --- what the handler asks ----------------------------------------------------------------------------------------

    def next_fault(self, method: str, path: str) -> str | None:
        with self.lock:
            number = len(self.requests)
            self.requests.append((method, path))
            if self.before:
                self.before(number, method, path)
            fault = self.faults.get(number) or (self.always(method, path) if self.always else None)
            if fault:
                self.injected += 1
            if fault == "public":
                for repo in self.repos.values():
                    repo.private = False
            return fault

    def repo_for(self, name: str, user: tuple[str, list[str]] | None, *, write: bool = False) -> Repo:
        repo = self.repos.get(name)
        mine = user is not None and name.split("/")[0] in (user[0], *user[1])
        if repo is None or (repo.private and not mine):
            if user is None:
                raise RefusedError(401, "RepoNotFound", "Invalid username or password.")
            raise RefusedError(404, "RepoNotFound", "Repository not found")
        if write and not mine:
            raise RefusedError(403 if user else 401, "", "You have no permission to write here")
        return repo


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: clients that hang up are what is tested."""


_ROUTES: list[tuple[str, re.Pattern[str], str]] = [
    (method, re.compile(pattern), name)
    for method, pattern, name in (
        ("GET", r"/api/whoami-v2", "whoami"),
        ("POST", r"/api/validate-yaml", "validate_yaml"),
        ("POST", r"/api/repos/create", "create_repo"),
        ("DELETE", r"/api/repos/delete", "delete_repo"),
        ("GET", r"/api/datasets/(?P<repo>[^/]+/[^/]+)", "info"),
        ("GET", r"/api/datasets/(?P<repo>[^/]+/[^/]+)/revision/(?P<rev>[^/]+)", "info"),
        ("PUT", r"/api/datasets/(?P<repo>[^/]+/[^/]+)/settings", "settings"),
        ("POST", r"/api/datasets/(?P<repo>[^/]+/[^/]+)/preupload/(?P<rev>[^/]+)", "preupload"),
        ("POST", r"/datasets/(?P<repo>[^/]+/[^/]+)\.git/info/lfs/objects/batch", "lfs_batch"),
        ("PUT", r"/lfs/(?P<repo>[^/]+/[^/]+)/(?P<oid>[0-9a-f]{64})", "lfs_put"),
        ("POST", r"/lfs/(?P<repo>[^/]+/[^/]+)/verify", "lfs_verify"),
        ("POST", r"/api/datasets/(?P<repo>[^/]+/[^/]+)/commit/(?P<rev>[^/]+)", "commit"),
        ("GET", r"/api/datasets/(?P<repo>[^/]+/[^/]+)/tree/(?P<rev>[^/]+)(?:/(?P<path>.*))?", "tree"),
        ("POST", r"/api/datasets/(?P<repo>[^/]+/[^/]+)/paths-info/(?P<rev>[^/]+)", "paths_info"),
        ("GET", r"/datasets/(?P<repo>[^/]+/[^/]+)/resolve/(?P<rev>[^/]+)/(?P<path>.+)", "resolve"),
        ("HEAD", r"/datasets/(?P<repo>[^/]+/[^/]+)/resolve/(?P<rev>[^/]+)/(?P<path>.+)", "resolve"),
        ("GET", r"/api/datasets/(?P<repo>[^/]+/[^/]+)/refs", "refs"),
        ("GET", r"/api/datasets/(?P<repo>[^/]+/[^/]+)/commits/(?P<rev>.+)", "commits"),
        ("POST", r"/api/datasets/(?P<repo>[^/]+/[^/]+)/tag/(?P<rev>[^/]+)", "tag"),
        ("DELETE", r"/api/datasets/(?P<repo>[^/]+/[^/]+)/tag/(?P<rev>[^/]+)", "delete_tag"),
    )
]


def _handler(hub: HubDouble) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # else each answer of two writes waits for an acknowledgement
        body = b""
        flip = False

        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            self._serve()

        def do_HEAD(self) -> None:
            self._serve()

        def do_POST(self) -> None:
            self._serve()

        def do_PUT(self) -> None:
            self._serve()

        def do_DELETE(self) -> None:
            self._serve()

        def _serve(self) -> None:
            url = urlsplit(self.path)
            fault = hub.next_fault(self.command, url.path)
            hub.auth.append(self.headers.get("Authorization", ""))
            if fault == "cut":
                self._cut()
                return
            self.body = self._read_body()
            if fault == "timeout":
                time.sleep(hub.hang_s)
                self._cut()
                return
            if fault in STATUS_FAULTS:
                self._fail(int(fault))
                return
            self.flip = fault == "flip"
            try:
                with hub.lock:
                    status, value, headers = self._route(url)
            except RefusedError as problem:
                status, headers = problem.status, {"X-Error-Message": problem.message}
                value = {"error": problem.message}
                if problem.code:
                    headers["X-Error-Code"] = problem.code
            if fault == "lost reply":
                self._cut()
                return
            self._send(status, value, headers)

        def _read_body(self) -> bytes:
            if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length") or 0))
            parts = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)

        def _cut(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            if length and not self.body:
                self.rfile.read(length // 2)
            self.close_connection = True
            with suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)

        def _fail(self, status: int) -> None:
            headers = {"Retry-After": "1"} if status == 429 else {}
            self._send(status, {"error": f"injected {status}"}, headers)

        def _send(self, status: int, value: Any, headers: dict[str, str]) -> None:
            data = value if isinstance(value, bytes) else json.dumps(value).encode()
            self.send_response(status)
            for name, text in headers.items():
                self.send_header(name, text)
            if not isinstance(value, bytes):
                self.send_header("Content-Type", "application/json")
            if "Content-Length" not in headers:
                self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                with suppress(OSError):
                    self.wfile.write(data)

        def _route(self, url: Any) -> tuple[int, Any, dict[str, str]]:
            token = self.headers.get("Authorization", "").removeprefix("Bearer ")
            if token and token not in USERS:
                raise RefusedError(401, "", "Invalid credentials in Authorization header")
            user = USERS.get(token)
            for method, pattern, name in _ROUTES:
                found = pattern.fullmatch(url.path)
                if found and method == self.command:
                    parts = {key: unquote(text or "") for key, text in found.groupdict().items()}
                    answer: tuple[int, Any, dict[str, str]] = getattr(self, "_" + name)(
                        user, parse_qs(url.query), **parts
                    )
                    return answer
            raise RefusedError(404, "", f"the double does not know {self.command} {url.path}")

        def _json(self) -> Any:
            return json.loads(self.body)

        # --- endpoints --------------------------------------------------------------------------------------------

        def _whoami(self, user: Any, _query: Any) -> Any:
            if user is None:
                raise RefusedError(401, "", "Invalid username or password.")
            return 200, {"type": "user", "name": user[0], "orgs": [{"name": org} for org in user[1]]}, {}

        def _validate_yaml(self, _user: Any, _query: Any) -> Any:
            wrong = [] if self._json()["content"].startswith("---") else [{"message": "no metadata"}]
            return (400 if wrong else 200), {"errors": wrong, "warnings": []}, {}

        def _create_repo(self, user: Any, _query: Any) -> Any:
            asked = self._json()
            if user is None:
                raise RefusedError(401, "", "Invalid username or password.")
            owner = asked.get("organization") or user[0]
            if owner not in (user[0], *user[1]) or asked.get("type") != "dataset":
                raise RefusedError(403, "", "You don't have the rights to create a dataset under this namespace")
            name = f"{owner}/{asked['name']}"
            answer = {"url": f"{hub.url}/datasets/{name}", "name": name, "id": "0"}
            if name in hub.repos:
                return 409, answer | {"error": "You already created this dataset repo"}, {}
            hub.create(name, private=asked.get("private") is True or asked.get("visibility") == "private")
            return 200, answer, {}

        def _delete_repo(self, user: Any, _query: Any) -> Any:
            asked = self._json()
            name = f"{asked.get('organization') or user[0]}/{asked['name']}"
            hub.repo_for(name, user, write=True)
            del hub.repos[name]
            return 200, {}, {}

        def _info(self, user: Any, _query: Any, repo: str, rev: str = "main") -> Any:
            found = hub.repo_for(repo, user)
            tree = found.tree(rev)
            if rev != "main" and tree is None:
                raise RefusedError(404, "RevisionNotFound", "Invalid rev id")
            sha, files = tree or (None, {})
            siblings = [{"rfilename": path} for path in sorted(files)]
            info = {"_id": "0", "id": repo, "author": repo.split("/")[0], "sha": sha, "private": found.private}
            info |= {
                "gated": found.gated,
                "disabled": False,
                "siblings": siblings,
                "tags": [],
                "downloads": 0,
                "likes": 0,
            }
            when = "2026-01-01T00:00:00.000Z"
            return 200, info | {"lastModified": when, "createdAt": when}, {}

        def _settings(self, user: Any, _query: Any, repo: str) -> Any:
            found = hub.repo_for(repo, user, write=True)
            asked = self._json()
            if "gated" in asked:
                found.gated = asked["gated"]
            if "private" in asked or "visibility" in asked:
                found.private = asked.get("private") is True or asked.get("visibility") == "private"
            return 200, {"private": found.private, "gated": found.gated}, {}

        def _preupload(self, user: Any, _query: Any, repo: str, rev: str) -> Any:
            found = hub.repo_for(repo, user, write=True)
            tree = (found.tree(rev) or (None, {}))[1]
            files = []
            for file in self._json()["files"]:
                lfs = file["path"].endswith(".parquet") or file["size"] > 2**20
                entry = {"path": file["path"], "uploadMode": "lfs" if lfs else "regular", "shouldIgnore": False}
                if file["path"] in tree:
                    there = tree[file["path"]].entry(file["path"], lies=hub.lies)
                    entry["oid"] = there["lfs"]["oid"] if "lfs" in there else there["oid"]
                files.append(entry)
            return 200, {"files": files}, {}

        def _lfs_batch(self, user: Any, _query: Any, repo: str) -> Any:
            hub.repo_for(repo, user, write=True)
            objects = []
            for item in self._json()["objects"]:
                answer: dict[str, Any] = {"oid": item["oid"], "size": item["size"]}
                if hashlib.sha256(hub.lfs.get(item["oid"], b"")).hexdigest() != item["oid"]:
                    answer["actions"] = {
                        "upload": {"href": f"{hub.url}/lfs/{repo}/{item['oid']}?X-Signature=presigned"},
                        "verify": {"href": f"{hub.url}/lfs/{repo}/verify"},
                    }
                objects.append(answer)
            return 200, {"transfer": "basic", "objects": objects}, {"Content-Type": "application/vnd.git-lfs+json"}

        def _lfs_put(self, _user: Any, _query: Any, repo: str, oid: str) -> Any:
            hub.lfs[oid] = self._stored(self.body)
            return 200, b"", {"ETag": f'"{oid}"'}

        def _stored(self, data: bytes) -> bytes:
            """Give the bytes as they are stored: with one bit turned when the disk is bad."""
            if not self.flip or not data:
                return data
            middle = len(data) // 2
            return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]

        def _lfs_verify(self, _user: Any, _query: Any, repo: str) -> Any:
            asked = self._json()
            if len(hub.lfs.get(asked["oid"], b"")) != asked["size"]:
                raise RefusedError(404, "", "no such object")
            return 200, {}, {}

        def _commit(self, user: Any, query: Any, repo: str, rev: str) -> Any:
            found = hub.repo_for(repo, user, write=True)
            items = [json.loads(line) for line in self.body.split(b"\n") if line]
            header = items[0]["value"]
            if rev != "main" or "create_pr" in query:
                raise RefusedError(400, "", "the double commits to main only")
            if header.get("parentCommit") not in (None, found.sha):
                raise RefusedError(412, "", "A commit has happened since. Please refresh and try again.")
            tree = dict(found.commits[-1][1]) if found.commits else {}
            for item in items[1:]:
                self._apply(tree, item["key"], item["value"])
            sha = hub._append(found, tree)
            url = f"{hub.url}/datasets/{repo}/commit/{sha}"
            return 200, {"success": True, "commitOid": sha, "commitUrl": url, "hookOutput": ""}, {}

        def _apply(self, tree: dict[str, Blob], key: str, value: dict[str, Any]) -> None:
            path = value["path"]
            if key == "file":
                data = base64.b64decode(value["content"])
                tree[path] = Blob(self._stored(data), False, git_blob(data))
            elif key == "lfsFile":
                if value["oid"] not in hub.lfs:
                    raise RefusedError(400, "", f"LFS object {value['oid']} was not uploaded")
                tree[path] = Blob(self._stored(hub.lfs[value["oid"]]), True, value["oid"])
            elif key == "deletedFile":
                if path not in tree:
                    raise RefusedError(404, "EntryNotFound", "A file with this name doesn't exist")
                del tree[path]
            else:
                raise RefusedError(400, "", f"the double does not know {key}")

        def _tree_of(self, user: Any, repo: str, rev: str) -> tuple[str, dict[str, Blob]]:
            found = hub.repo_for(repo, user).tree(rev)
            if found is None:
                raise RefusedError(404, "RevisionNotFound", f"Invalid rev id: {rev}")
            return found

        def _tree(self, user: Any, query: Any, repo: str, rev: str, path: str = "") -> Any:
            _, tree = self._tree_of(user, repo, rev)
            prefix = f"{path}/" if path else ""
            inside = {p: blob for p, blob in tree.items() if p.startswith(prefix)}
            if path and not inside:
                raise RefusedError(404, "EntryNotFound", f"{path} does not exist on {rev}")
            recursive = query.get("recursive", ["false"])[0].lower() in ("1", "true")
            entries = _entries(inside, prefix, recursive)
            start, limit = int(query.get("cursor", ["0"])[0]), hub.page
            headers = {}
            if start + limit < len(entries):
                rest = f"recursive={str(recursive).lower()}&expand=false&cursor={start + limit}"
                headers["Link"] = f'<{hub.url}{urlsplit(self.path).path}?{rest}>; rel="next"'
            return 200, entries[start : start + limit], headers

        def _paths_info(self, user: Any, _query: Any, repo: str, rev: str) -> Any:
            _, tree = self._tree_of(user, repo, rev)
            asked = self._json() if self.body.startswith(b"{") else parse_qs(self.body.decode())
            wanted = asked["paths"]
            found = []
            for path in [wanted] if isinstance(wanted, str) else wanted:
                if path in tree:
                    found.append(tree[path].entry(path, lies=hub.lies))
                elif any(other.startswith(f"{path}/") for other in tree):
                    found.append({"type": "directory", "path": path, "oid": "0" * 40, "size": 0})
            return 200, found, {}

        def _resolve(self, user: Any, _query: Any, repo: str, rev: str, path: str) -> Any:
            sha, tree = self._tree_of(user, repo, rev)
            if path not in tree:
                raise RefusedError(404, "EntryNotFound", "Entry not found")
            blob = tree[path]
            entry = blob.entry(path, lies=hub.lies)
            etag = entry["lfs"]["oid"] if "lfs" in entry else entry["oid"]
            headers = {"ETag": f'"{etag}"', "X-Repo-Commit": sha, "Accept-Ranges": "bytes"}
            if blob.lfs:
                headers |= {"X-Linked-Etag": f'"{etag}"', "X-Linked-Size": str(len(blob.data))}
            data, status = blob.data, 200
            if wanted := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "")):
                first, last = int(wanted[1]), min(int(wanted[2] or len(data) - 1), len(data) - 1)
                headers["Content-Range"] = f"bytes {first}-{last}/{len(data)}"
                data, status = data[first : last + 1], 206
            if self.command == "HEAD":
                headers["Content-Length"] = str(len(data))
            return status, data, headers

        def _refs(self, user: Any, _query: Any, repo: str) -> Any:
            found = hub.repo_for(repo, user)
            branches = [{"name": "main", "ref": "refs/heads/main", "targetCommit": found.sha}] if found.commits else []
            tags = [{"name": n, "ref": f"refs/tags/{n}", "targetCommit": sha} for n, sha in found.tags.items()]
            return 200, {"branches": branches, "tags": tags, "converts": [], "pullRequests": []}, {}

        def _commits(self, user: Any, _query: Any, repo: str, rev: str) -> Any:
            last, _ = self._tree_of(user, repo, rev)
            commits = hub.repos[repo].commits
            upto = next(number for number, commit in enumerate(commits) if commit[0] == last)
            authors = [{"user": "lab-admin"}]
            shown = {"authors": authors, "date": "2026-01-01T00:00:00.000Z", "title": "x", "message": ""}
            return 200, [{"id": sha, **shown} for sha, _ in reversed(commits[: upto + 1])], {}

        def _tag(self, user: Any, _query: Any, repo: str, rev: str) -> Any:
            found = hub.repo_for(repo, user, write=True)
            tag, tree = self._json()["tag"], found.tree(rev)
            if tree is None:
                raise RefusedError(404, "RevisionNotFound", "Invalid rev id")
            if tag in found.tags:
                raise RefusedError(409, "", "Tag reference exists already")
            found.tags[tag] = tree[0]
            return 200, {}, {}

        def _delete_tag(self, user: Any, _query: Any, repo: str, rev: str) -> Any:
            if hub.repo_for(repo, user, write=True).tags.pop(rev, None) is None:
                raise RefusedError(404, "RevisionNotFound", "no such tag")
            return 200, {}, {}

    def _entries(files: dict[str, Blob], prefix: str, recursive: bool) -> list[dict[str, Any]]:
        entries = []
        folders = set()
        for path, blob in sorted(files.items()):
            parts = path[len(prefix) :].split("/")
            for depth in range(1, len(parts) if recursive else min(2, len(parts))):
                folders.add(prefix + "/".join(parts[:depth]))
            if recursive or len(parts) == 1:
                entries.append(blob.entry(path, lies=hub.lies))
        entries += [{"type": "directory", "path": path, "oid": "0" * 40, "size": 0} for path in sorted(folders)]
        return sorted(entries, key=lambda entry: entry["path"])

    return Handler


@contextmanager
def hub_double() -> Iterator[HubDouble]:
    """Run the double for the length of a `with` statement."""
    hub = HubDouble()
    try:
        yield hub
    finally:
        hub.stop()
