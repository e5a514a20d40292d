"""What videos on a web server cost in requests and bytes; both are counted by the server."""

from __future__ import annotations

import os
import sys
import tarfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from servers import web_server

from trace_hf.videos import build_index, check_videos, fetch_videos

VIDEOS, FOLDERS = 522, 6
ARCHIVE_BYTES, VIDEO_BYTES = 9 * 2**30, 2**20


def inventory_requests(folder: Path) -> float:
    """Count the requests of an inventory of 522 videos in 6 folders."""
    paths = [f"folder-{number % FOLDERS}/sample_{number}.mp4" for number in range(VIDEOS)]
    for path in paths:
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(b"video")
    with web_server(folder) as server:
        inventory = check_videos(paths, server.url)
        assert inventory.ok
        return float(len(server.requests))


def archive_bytes(folder: Path) -> tuple[float, float]:
    """Fetch one video out of a remote 9 GB tar; gives the bytes moved, and those that may be."""
    archive, video = folder / "big.tar", os.urandom(VIDEO_BYTES)
    with archive.open("wb") as file:  # sparse: only headers and the video take room
        for name, content, size in (
            ("src_videos/before.mp4", b"", ARCHIVE_BYTES // 2),
            ("src_videos/wanted.mp4", video, VIDEO_BYTES),
            ("src_videos/after.mp4", b"", ARCHIVE_BYTES // 2),
        ):
            header = tarfile.TarInfo(name)
            header.size = size
            file.write(header.tobuf(tarfile.GNU_FORMAT))
            end = file.tell() + -(-size // 512) * 512
            file.write(content)
            file.seek(end)
        file.write(bytes(1024))
    with web_server(folder) as server:
        index = folder / "index.json"
        build_index([f"{server.url}/{archive.name}"]).save(index)
        report = fetch_videos(["src_videos/wanted.mp4"], index, folder / "here")
        assert report.ok, report.failed
        return float(server.bytes), VIDEO_BYTES + archive.stat().st_size / 100
