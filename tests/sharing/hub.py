"""A stand-in for a hub on this machine: as much of its protocol as an upload of small files and a download need.

The hub's own library talks to it, so what is pushed and what is loaded go through the real client.
"""

from __future__ import annotations

import base64
import hashlib
import http.server
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

COMMIT = "a" * 40


class Hub:
    """The files of one repository, and what was asked."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.url = ""

    def environment(self, home: Path) -> dict[str, str]:
        """For a process that shall take this for the hub."""
        own = {
            **{"HF_ENDPOINT": self.url, "HF_HOME": str(home), "HF_TOKEN": "hf_of_a_test"},
            **{"HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_XET": "1", "NO_PROXY": "127.0.0.1"},
        }
        return {**os.environ, **own}

    def post(self, path: str, body: bytes) -> dict[str, Any]:
        if path == "/api/repos/create":
            return {"url": f"{self.url}/somebody/agent"}
        if "/preupload/" in path:
            names = [entry["path"] for entry in json.loads(body)["files"]]
            return {"files": [{"path": n, "uploadMode": "regular", "shouldIgnore": False} for n in names]}
        if "/commit/" in path:
            for line in body.splitlines():
                entry = json.loads(line)
                if entry["key"] == "file":
                    self.files[entry["value"]["path"]] = base64.b64decode(entry["value"]["content"])
            return {"commitUrl": f"{self.url}/somebody/agent/commit/{COMMIT}", "commitOid": COMMIT}
        return {}

    def listing(self) -> dict[str, Any]:
        names = [{"rfilename": name} for name in self.files]
        return {"id": "somebody/agent", "sha": COMMIT, "siblings": names, "private": False, "tags": []}

    def tree(self) -> list[dict[str, Any]]:
        return [
            {"type": "file", "path": name, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}
            for name, data in self.files.items()
        ]


@contextmanager
def stand_in() -> Iterator[Hub]:
    """A hub that listens while this lasts."""
    hub = Hub()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            hub.asked.append(f"POST {self.path}")
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.answer(json.dumps(hub.post(self.path, body)).encode())

        def do_GET(self) -> None:
            hub.asked.append(f"{self.command} {self.path}")
            if self.path.startswith("/api/models/somebody/agent/tree/"):
                return self.answer(json.dumps(hub.tree()).encode())
            if self.path.startswith("/api/models/somebody/agent"):
                return self.answer(json.dumps(hub.listing()).encode())
            name = self.path.rpartition("/")[2]
            if not self.path.startswith("/somebody/agent/resolve/") or name not in hub.files:
                return self.answer(b'{"error": "Repository not found"}', status=404)
            return self.answer(hub.files[name], etag=hashlib.sha1(hub.files[name]).hexdigest())

        do_HEAD = do_GET

        def answer(self, body: bytes, *, status: int = 200, etag: str | None = None) -> None:
            self.send_response(status)
            headers = {"Content-Length": str(len(body)), "Content-Type": "application/json"}
            if etag is not None:
                headers |= {"ETag": f'"{etag}"', "X-Repo-Commit": COMMIT}
            if status == 404:
                headers["X-Error-Code"] = "RepoNotFound"
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing is printed."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
