"""Cloud Storage, the metadata server and managed Prometheus on loopback, over real HTTP, with troubles on demand."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

TOKEN = "the-users-token"


@dataclass
class FakeGoogle:
    """What it holds, what it was asked, and what goes wrong next."""

    url: str = ""
    objects: dict[str, tuple[bytes, float]] = field(default_factory=dict)
    """Content, and when it came, by name."""
    asked: list[str] = field(default_factory=list)
    """Method, path and query, and the Range header, of every request."""
    forms: list[dict[str, str]] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    """Statuses that the next requests are answered with, whatever they ask."""
    break_after: list[int] = field(default_factory=list)
    """The next downloads break off after so many bytes."""
    broken_names: dict[str, list[int]] = field(default_factory=dict)
    """The same for downloads of objects whose name ends so."""
    cut: list[bool] = field(default_factory=list)
    """Whether the next answers in JSON break off in the middle."""
    spoil: list[bool] = field(default_factory=list)
    """Whether the next downloads are wrong by one byte."""
    no_ranges: bool = False
    page: int = 1000
    tokens: set[str] = field(default_factory=lambda: {TOKEN})
    series: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Prometheus results by metric."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def reads(self, name: str) -> int:
        """How often the content of an object whose name ends so was asked for."""
        with self.lock:
            return sum(f"{quote(name, safe='')}?alt=media" in line for line in self.asked)

    def put(self, name: str, content: bytes) -> None:
        """Store an object."""
        with self.lock:
            self.objects[name] = (content, time.time())


def _described(name: str, content: bytes, at: float) -> dict[str, str]:
    moment = datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")
    return {
        "name": name,
        "size": str(len(content)),
        "md5Hash": base64.b64encode(hashlib.md5(content).digest()).decode(),
        "generation": str(int(at * 1e6)),
        "updated": moment,
        "timeCreated": moment,
    }


def _take(queue: list[Any], default: Any) -> Any:
    return queue.pop(0) if queue else default


class _Handler(BaseHTTPRequestHandler):
    google: FakeGoogle
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass

    def do_GET(self) -> None:
        self._answer(b"")

    def do_POST(self) -> None:
        self._answer(self.rfile.read(int(self.headers.get("Content-Length", 0))))

    def _answer(self, body: bytes) -> None:
        google, parts = self.google, urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        if parts.path.startswith("/computeMetadata/"):
            return self._json({"access_token": TOKEN, "expires_in": 3600})
        with google.lock:
            google.asked.append(f"{self.command} {self.path} {self.headers.get('Range', '')}".strip())
            status = _take(google.statuses, 200)
        if status != 200:
            return self._json({"error": {"code": status, "message": f"made to say {status}"}}, status)
        if self.headers.get("Authorization", "").removeprefix("Bearer ") not in google.tokens:
            return self._json({"error": {"code": 401, "message": "Invalid Credentials"}}, 401)
        if parts.path.endswith("/query_range"):
            form = {key: values[0] for key, values in parse_qs(body.decode()).items()}
            google.forms.append(form)
            found = google.series.get(form["query"].partition("{")[0], [])
            return self._json({"status": "success", "data": {"resultType": "matrix", "result": found}})
        if parts.path.startswith("/upload/storage/v1/b/"):
            google.put(query["name"], body)
            return self._json(_described(query["name"], *google.objects[query["name"]]))
        _, _, name = parts.path.partition("/o/")
        return self._media(unquote(name)) if name else self._list(query)

    def _list(self, query: dict[str, str]) -> None:
        with self.google.lock:
            stored = dict(self.google.objects)
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter")
        names = sorted(name for name in stored if name.startswith(prefix))
        if delimiter:
            folders = {name[: name.index("/", len(prefix)) + 1] for name in names if "/" in name[len(prefix) :]}
            return self._json({"prefixes": sorted(folders)})
        first = int(query.get("pageToken", 0))
        chosen = names[first : first + self.google.page]
        page: dict[str, Any] = {"items": [_described(name, *stored[name]) for name in chosen]} if chosen else {}
        if first + self.google.page < len(names):
            page["nextPageToken"] = str(first + self.google.page)
        return self._json(page)

    def _media(self, name: str) -> None:
        google = self.google
        with google.lock:
            stored = google.objects.get(name)
        if stored is None:
            self._json({"error": {"code": 404, "message": f"No such object: {name}"}}, 404)
            return
        content = stored[0]
        with google.lock:
            of_this = next((cuts for end, cuts in google.broken_names.items() if name.endswith(end)), [])
            broken, spoilt = _take(of_this or google.break_after, None), _take(google.spoil, False)
        if spoilt:
            content = bytes([content[0] ^ 1]) + content[1:]
        begin = 0
        if (asked := self.headers.get("Range")) and not google.no_ranges:
            begin = int(asked.removeprefix("bytes=").rstrip("-"))
        self.send_response(206 if begin else 200)
        self.send_header("Content-Length", str(len(content) - begin))
        self.end_headers()
        rest = content[begin:]
        self.wfile.write(rest if broken is None else rest[:broken])
        if broken is not None:
            self.close_connection = True

    def _json(self, answer: Any, status: int = 200) -> None:
        text = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        with self.google.lock:
            cut = _take(self.google.cut, False)
        self.wfile.write(text[: len(text) // 2] if cut else text)
        self.close_connection = self.close_connection or cut


@contextlib.contextmanager
def fake_google() -> Iterator[FakeGoogle]:
    """One such server, for as long as the block runs."""
    google = FakeGoogle()
    handler = type("Handler", (_Handler,), {"google": google})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    google.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield google
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
