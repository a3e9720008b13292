"""A model hub in miniature: one Git repository over smart HTTP and its Git LFS objects, with the faults a download meets."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.simulators.local_server import Answer, Request, served

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
    with served(lambda request: _answer(hub, request)) as port:
        hub.url = f"http://127.0.0.1:{port}"
        yield hub


def _answer(hub: Hub, request: Request) -> Answer:
    if match := re.match(r"/objects/([0-9a-f]{64})$", request.path):
        return _object(hub, match.group(1), request.headers.get("Range") or "")
    want = "Basic " + base64.b64encode(f"token:{TOKEN}".encode()).decode()
    if hub.needs_token and request.headers.get("Authorization") != want:
        return Answer(401, b"", {"WWW-Authenticate": 'Basic realm="hub"'})
    if request.path.endswith("/info/lfs/objects/batch"):
        return _batch(hub, request.content)
    return _git_backend(hub, request)


def _batch(hub: Hub, content: bytes) -> Answer:
    answer = [
        {**one, "authenticated": True, "actions": {"download": {"href": f"{hub.url}/objects/{one['oid']}"}}}
        for one in json.loads(content)["objects"]
    ]
    body = json.dumps({"transfer": "basic", "objects": answer}).encode()
    return Answer(200, body, {"Content-Type": "application/vnd.git-lfs+json"})


def _object(hub: Hub, oid: str, wanted: str) -> Answer:
    whole, begin = hub.objects[oid], 0
    if asked := re.match(r"bytes=(\d+)-", wanted):
        begin = int(asked.group(1))
        hub.ranges.append(asked.group(0))
    content = (bytes(len(whole)) if oid in hub.corrupt else whole)[begin:]
    headers = {"Content-Length": str(len(content))}
    if begin:
        headers["Content-Range"] = f"bytes {begin}-{len(whole) - 1}/{len(whole)}"
    if hub.cut_transfers > 0:
        hub.cut_transfers -= 1
        content = content[: len(content) // 2]
    else:
        hub.sent.append(oid)
    return Answer(206 if begin else 200, content, headers)


def _git_backend(hub: Hub, request: Request) -> Answer:
    path, _, query = request.url.partition("?")
    environment = {
        "PATH": os.environ["PATH"],
        "GIT_PROJECT_ROOT": str(hub.root),
        "GIT_HTTP_EXPORT_ALL": "1",
        "GIT_CONFIG_NOSYSTEM": "1",
        "REQUEST_METHOD": request.method,
        "PATH_INFO": path,
        "QUERY_STRING": query,
        "CONTENT_TYPE": request.headers.get("Content-Type") or "",
        "HTTP_CONTENT_ENCODING": request.headers.get("Content-Encoding") or "",
        "GIT_PROTOCOL": request.headers.get("Git-Protocol") or "",
    }
    done = subprocess.run(
        ["git", "http-backend"], env=environment, input=request.content, capture_output=True, check=False
    )
    head, _, body = done.stdout.partition(b"\r\n\r\n")
    fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
    return Answer(int(fields.pop("Status", "200").split()[0]), body, fields)
