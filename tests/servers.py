"""Real servers on the loopback: HTTP with and without ranges, and S3 by moto, each ended with its test."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

_RANGE = re.compile(r"bytes=(\d+)-(\d*)")
_BLOCK = 64 * 1024


@dataclass
class WebServer:
    """A web server over a folder, with a count of what it did.

    `ranges`: "yes"; "no", which ignores a Range header and says nothing of ranges; or "none", which says so.
    """

    url: str
    requests: list[tuple[str, str, str | None]] = field(default_factory=list)
    bytes: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def reset(self) -> None:
        self.requests.clear()
        self.bytes = 0


@contextmanager
def web_server(folder: Path, *, ranges: str = "yes", listing: bool = True, pause_s: float = 0.0) -> Iterator[WebServer]:
    """Serve a folder at a free port; `pause_s` seconds pass after each block of 64 KiB."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(folder, ranges, listing, pause_s))
    server.daemon_threads = True
    server.record = WebServer(f"http://127.0.0.1:{server.server_address[1]}")  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.record  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(folder: Path, ranges: str, listing: bool, pause_s: float) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            pass

        def do_HEAD(self) -> None:
            self._answer(body=False)

        def do_GET(self) -> None:
            self._answer(body=True)

        def _answer(self, *, body: bool) -> None:
            record: WebServer = self.server.record  # type: ignore[attr-defined]
            name = unquote(urlsplit(self.path).path)
            with record.lock:
                record.requests.append((self.command, name, self.headers.get("Range")))
            path = folder / name.strip("/")
            if path.is_dir():
                self._list(path, name, body=body) if listing else self._plain(403, b"no listing", body=body)
            elif path.is_file():
                self._file(path, body=body)
            else:
                self._plain(404, b"not found", body=body)

        def _list(self, path: Path, name: str, *, body: bool) -> None:
            if not name.endswith("/"):
                self.send_response(301)
                self.send_header("Location", quote(name) + "/")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            links = [f"{item.name}/" if item.is_dir() else item.name for item in sorted(path.iterdir())]
            rows = "".join(f'<li><a href="{quote(link)}">{escape(link)}</a></li>' for link in links)
            page = f'<html><body><ul><li><a href="../">up</a></li>{rows}</ul></body></html>'.encode()
            self._plain(200, page, "text/html", body=body)

        def _plain(self, status: int, page: bytes, kind: str = "text/plain", *, body: bool) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            if body:
                self.wfile.write(page)

        def _file(self, path: Path, *, body: bool) -> None:
            size = path.stat().st_size
            start, stop = 0, size
            asked = _RANGE.fullmatch(self.headers.get("Range") or "") if ranges == "yes" else None
            if asked:
                start = int(asked[1])
                stop = min(int(asked[2]) + 1 if asked[2] else size, size)
            self.send_response(206 if asked else 200)
            self.send_header("Content-Type", "video/mp4")
            self.send_header("Content-Length", str(stop - start))
            self.send_header("ETag", f'"{size}-{path.stat().st_mtime_ns}"')
            if asked:
                self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{size}")
            if ranges in ("yes", "none"):
                self.send_header("Accept-Ranges", "bytes" if ranges == "yes" else "none")
            self.end_headers()
            if body:
                self._send(path, start, stop)

        def _send(self, path: Path, start: int, stop: int) -> None:
            record: WebServer = self.server.record  # type: ignore[attr-defined]
            with path.open("rb") as file:
                file.seek(start)
                while start < stop:
                    block = file.read(min(_BLOCK, stop - start))
                    start += len(block)
                    try:
                        self.wfile.write(block)
                    except (BrokenPipeError, ConnectionResetError):
                        self.close_connection = True
                        return
                    with record.lock:
                        record.bytes += len(block)
                    if pause_s:
                        time.sleep(pause_s)

    return Handler


@dataclass(frozen=True)
class Bucket:
    """A bucket of moto's S3."""

    url: str
    options: dict[str, Any]

    def upload(self, folder: Path) -> None:
        import s3fs

        fs = s3fs.S3FileSystem(**self.options, skip_instance_cache=True)
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                fs.put_file(str(file), f"{self.url}/{file.relative_to(folder)}")


@contextmanager
def s3_bucket(name: str = "videos") -> Iterator[Bucket]:
    """Start moto's S3 in a process of its own, with one bucket."""
    port = _free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"},
    )
    endpoint = f"http://127.0.0.1:{port}"
    try:
        _wait(endpoint, process)
        client = {"endpoint_url": endpoint, "region_name": "eu-west-1"}
        options = {"key": "test", "secret": "test", "client_kwargs": client}
        import s3fs

        s3fs.S3FileSystem(**options, skip_instance_cache=True).mkdir(name)
        yield Bucket(f"s3://{name}", options)
    finally:
        process.terminate()
        process.wait(10)


def _wait(url: str, process: subprocess.Popen[bytes]) -> None:
    for _ in range(300):
        if process.poll() is not None:
            raise RuntimeError(f"moto's server ended with {process.returncode}")
        try:
            with urllib.request.urlopen(url, timeout=1):
                return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError("moto's server did not start")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
