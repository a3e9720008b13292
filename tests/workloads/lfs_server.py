"""A model hub in miniature: one Git repository over smart HTTP and its Git LFS objects, with the faults a download meets."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import re
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

TOKEN = "hf_thetokenofthetest"


@dataclass
class Hub:
    """What the server holds and how it behaves."""

    root: Path
    model_id: str = "Org/Model-FP8"
    objects: dict[str, bytes] = field(default_factory=dict)
    revision: str = ""
    url: str = ""
    needs_token: bool = False
    cut_transfers: int = 0
    """Transfers that still end in the middle."""
    corrupt: set[str] = field(default_factory=set)
    """Objects answered with other bytes than their name says."""
    sent: list[str] = field(default_factory=list)
    """Objects that were sent whole, in order."""
    ranges: list[str] = field(default_factory=list)
    """Range headers of transfers that continued an earlier one."""

    @property
    def repository(self) -> Path:
        return self.root / self.model_id

    def commit(self, files: dict[str, bytes], large: dict[str, bytes]) -> str:
        """Commit the files, the large ones as LFS pointers, and return the revision."""
        work = self.root / "work"
        fresh = not work.exists()
        work.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (work / name).parent.mkdir(parents=True, exist_ok=True)
            (work / name).write_bytes(content)
        for name, content in large.items():
            oid = hashlib.sha256(content).hexdigest()
            self.objects[oid] = content
            pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize {len(content)}\n"
            (work / name).parent.mkdir(parents=True, exist_ok=True)
            (work / name).write_text(pointer)
        if fresh:
            _git(work, "init", "-q", "-b", "main")
            _git(self.root, "init", "-q", "--bare", "-b", "main", str(self.repository))
            _git(self.repository, "config", "http.receivepack", "false")
        _git(work, "add", "--all")
        _git(work, "-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-q", "-m", "weights")
        _git(work, "push", "-q", str(self.repository), "HEAD:main")
        self.revision = _git(work, "rev-parse", "HEAD").strip()
        return self.revision


def _git(folder: Path, *args: str) -> str:
    environment = {**os.environ, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
    done = subprocess.run(["git", *args], cwd=folder, env=environment, check=True, capture_output=True, text=True)
    return done.stdout


@contextlib.contextmanager
def serving(hub: Hub) -> Iterator[Hub]:
    """Serve the hub on loopback for the duration of the block."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: object) -> None:
            """Say nothing: the output belongs to the test."""

        def do_GET(self) -> None:
            match = re.match(r"/objects/([0-9a-f]{64})$", self.path)
            self._object(match.group(1)) if match else self._git_backend()

        def do_POST(self) -> None:
            if self.path.endswith("/info/lfs/objects/batch"):
                self._batch()
            else:
                self._git_backend()

        def _refused(self) -> bool:
            want = "Basic " + base64.b64encode(f"token:{TOKEN}".encode()).decode()
            if not hub.needs_token or self.headers.get("Authorization") == want:
                return False
            self._body()
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="hub"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return True

        def _body(self) -> bytes:
            if self.headers.get("Transfer-Encoding") == "chunked":
                body = b""
                while size := int(self.rfile.readline(), 16):
                    body += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
                return body
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))

        def _batch(self) -> None:
            if self._refused():
                return
            asked = json.loads(self._body())["objects"]
            answer = [
                {**one, "authenticated": True, "actions": {"download": {"href": f"{hub.url}/objects/{one['oid']}"}}}
                for one in asked
            ]
            body = json.dumps({"transfer": "basic", "objects": answer}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/vnd.git-lfs+json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _object(self, oid: str) -> None:
            content = hub.objects[oid]
            if oid in hub.corrupt:
                content = bytes(len(content))
            begin = 0
            if asked := re.match(r"bytes=(\d+)-", self.headers.get("Range") or ""):
                begin = int(asked.group(1))
                hub.ranges.append(asked.group(0))
            self.send_response(206 if begin else 200)
            if begin:
                self.send_header("Content-Range", f"bytes {begin}-{len(content) - 1}/{len(content)}")
            self.send_header("Content-Length", str(len(content) - begin))
            self.end_headers()
            if hub.cut_transfers > 0:
                hub.cut_transfers -= 1
                self.wfile.write(content[begin : begin + (len(content) - begin) // 2])
                self.close_connection = True
                return
            self.wfile.write(content[begin:])
            hub.sent.append(oid)

        def _git_backend(self) -> None:
            if self._refused():
                return
            path, _, query = self.path.partition("?")
            environment = {
                "PATH": os.environ["PATH"],
                "GIT_PROJECT_ROOT": str(hub.root),
                "GIT_HTTP_EXPORT_ALL": "1",
                "GIT_CONFIG_NOSYSTEM": "1",
                "REQUEST_METHOD": self.command,
                "PATH_INFO": path,
                "QUERY_STRING": query,
                "CONTENT_TYPE": self.headers.get("Content-Type") or "",
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding") or "",
                "GIT_PROTOCOL": self.headers.get("Git-Protocol") or "",
            }
            done = subprocess.run(
                ["git", "http-backend"], env=environment, input=self._body(), capture_output=True, check=False
            )
            head, _, body = done.stdout.partition(b"\r\n\r\n")
            fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
            self.send_response(int(fields.pop("Status", "200").split()[0]))
            for name, value in fields.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
