"""Real servers on the loopback device, with faults that a test chooses. A test starts them and ends them."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, *args: Any) -> None:
        self.connections: set[socket.socket] = set()
        super().__init__(*args)

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections.add(request)
        super().process_request(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: clients that hang up are what is tested."""

    def server_close(self) -> None:
        super().server_close()
        # A stopped server answers on no connection that a client has kept open either.
        for connection in self.connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class WebServer:
    """Serves a folder over HTTP.

    Attributes
    ----------
    folder : Path
        What is served.
    faults : dict
        By path: ``"stall"`` sends half a body and falls silent; ``"cut"`` sends half of the promised body and
        closes; ``"short"`` promises half a body and sends that; ``"wrong"`` changes a byte; ``"endless"`` never
        ends; a number is a status to answer with. The path ``"*"`` is for all.
    failures : dict
        By path: how many requests answer 503 before the file is given.
    requests : list of str
        The paths that were asked for, in order.
    headers : list of dict
        Their headers.
    ranges : bool
        Whether ranges are given.
    gather : int
        A file other than a manifest is held back until so many were asked for at the same time.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.faults: dict[str, str | int] = {}
        self.failures: dict[str, int] = {}
        self.requests: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.ranges = False
        self.gather = 0
        self._open = 0
        self._gathering = threading.Condition()
        self.released = threading.Event()
        self._http = _Listener(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        host, port = self._http.server_address[:2]
        return f"http://{host}:{port}"

    def wait_for_others(self) -> None:
        with self._gathering:
            self._open += 1
            self._gathering.notify_all()
            if self._gathering.wait_for(lambda: self._open >= self.gather, timeout=20):
                self.gather = 0
                return
        raise TimeoutError("files are fetched one after the other")

    def stop(self) -> None:
        self.released.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


def _handler(server: WebServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_HEAD(self) -> None:
            self._answer(body=False)

        def do_GET(self) -> None:
            self._answer(body=True)

        def _answer(self, body: bool) -> None:
            path = unquote(urlsplit(self.path).path).lstrip("/")
            server.requests.append(path)
            server.headers.append(dict(self.headers))
            fault = server.faults.get(path, server.faults.get("*"))
            if server.failures.get(path, 0) > 0:
                server.failures[path] -= 1
                fault = 503
            file = server.folder / path
            if isinstance(fault, int) or not file.is_file():
                self._send(fault if isinstance(fault, int) else 404, b"sorry\n", body)
                return
            if not path.endswith("manifest.json"):
                server.wait_for_others()
            data = file.read_bytes()
            if fault is None:
                self._send_file(data, body)
            elif body:
                self._send_fault(data, str(fault))

        def _send(self, status: int, data: bytes, body: bool, **headers: str) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if body:
                self.wfile.write(data)

        def _send_file(self, data: bytes, body: bool) -> None:
            wanted = self.headers.get("Range")
            if not (server.ranges and wanted):
                self._send(200, data, body)
                return
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            start, end = int(first), min(int(last or len(data) - 1), len(data) - 1)
            part = data[start : end + 1]
            self._send(206, part, body, Content_Range=f"bytes {start}-{end}/{len(data)}")

        def _send_fault(self, data: bytes, fault: str) -> None:
            half = data[: len(data) // 2]
            if fault == "wrong":
                self._send(200, half + bytes([data[len(half)] ^ 1]) + data[len(half) + 1 :], True)
            elif fault == "short":
                self._send(200, half, True)
            else:
                self.send_response(200)
                self.send_header("Content-Length", str(2**50 if fault == "endless" else len(data)))
                self.end_headers()
                self.wfile.write(half)
                self.close_connection = True
                if fault == "stall":
                    self.wfile.flush()
                    server.released.wait(timeout=30)
                if fault == "endless":
                    self._send_without_end()

        def _send_without_end(self) -> None:
            block = b" " * 2**20
            try:
                while not server.released.is_set():
                    self.wfile.write(block)
            except OSError:
                return  # the client has had enough

    return Handler


@contextmanager
def web_server(folder: Path) -> Iterator[WebServer]:
    """Serve a folder for the length of a `with` statement."""
    server = WebServer(folder)
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def s3_server() -> Iterator[dict[str, object]]:
    """Start moto's S3 and yield the storage options for it."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield {"endpoint_url": f"http://{host}:{port}", "key": "test-key-id", "secret": "test-secret-key"}
    finally:
        server.stop()
