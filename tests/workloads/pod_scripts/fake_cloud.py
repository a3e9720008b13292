"""A server on loopback that plays the model server, the metadata server, Cloud Storage and a server of files."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

TOKEN = "token-of-the-pod"


@dataclass
class FakeCloud:
    """What the server knows, and how it shall misbehave."""

    url: str = ""
    models: list[str] = field(default_factory=lambda: ["the/model"])
    api_key: str | None = None
    not_ready_for: int = 0
    """Answers of 503 before the model server answers."""
    storage_failures: int = 0
    """Answers of 503 before Cloud Storage answers."""
    storage_forbidden: bool = False
    answers_cut: int = 0
    """Answers that break off in the middle."""
    upload_seconds: float = 0.0
    """How long an upload takes."""
    uploads_lost: int = 0
    """Uploads that are stored and answered with 503 all the same."""
    token_answers: list[tuple[int, str]] = field(default_factory=list)
    """What the metadata server answers before it hands out tokens: code and body."""
    page_size: int = 1000
    objects: dict[str, bytes] = field(default_factory=dict)
    created: dict[str, str] = field(default_factory=dict)
    uploaded: list[str] = field(default_factory=list)
    """Names of the objects in the order they were stored; one that was stored twice is there twice."""
    tokens_handed_out: int = 0
    in_flight: list[int] = field(default_factory=lambda: [0])
    """Running requests that /metrics tells, reading by reading; the last one stays."""
    metrics_seconds: float = 0.0
    """How long an answer of /metrics takes."""
    metrics_read: int = 0
    cut_after: list[int] = field(default_factory=list)
    """Bytes after which a download breaks off, one download after another."""
    etag: str | None = '"1"'
    ranges: list[str | None] = field(default_factory=list)
    """The Range of every download that was asked for."""


@contextmanager
def fake_cloud(**how: Any) -> Iterator[FakeCloud]:
    """The server, running; its `url` serves as endpoint, storage and metadata URL."""
    cloud = FakeCloud(**how)
    server = _Server(("127.0.0.1", 0), _handler(cloud))
    cloud.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield cloud
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Server(ThreadingHTTPServer):
    # A pod stores several files at once, and there are several pods.
    request_queue_size = 128


def _handler(cloud: FakeCloud) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def answer(self, code: int, body: Any) -> None:
            content = json.dumps(body).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if cloud.answers_cut > 0:
                cloud.answers_cut -= 1
                self.close_connection = True
                content = content[:-1]
            self.wfile.write(content)

        def do_GET(self) -> None:
            address = urlsplit(self.path)
            if address.path == "/v1/models":
                return self.models()
            if address.path == "/metrics":
                return self.metrics()
            if address.path.startswith("/files/"):
                return self.download(f"files/{address.path.removeprefix('/files/')}")
            if address.path.startswith("/storage/v1/b/results/o/"):
                if not self.refused():
                    self.download(unquote(address.path.removeprefix("/storage/v1/b/results/o/")))
                return None
            if address.path == "/computeMetadata/v1/instance/service-accounts/default/token":
                if self.headers["Metadata-Flavor"] != "Google":
                    return self.answer(403, "no flavor")
                if cloud.token_answers:
                    return self.answer(*cloud.token_answers.pop(0))
                cloud.tokens_handed_out += 1
                return self.answer(200, {"access_token": TOKEN, "expires_in": 3600})
            if address.path == "/storage/v1/b/results/o":
                return self.listing(parse_qs(address.query))
            return self.answer(404, "nothing here")

        def models(self) -> None:
            if cloud.not_ready_for > 0:
                cloud.not_ready_for -= 1
                return self.answer(503, "loading")
            if cloud.api_key is not None and self.headers["Authorization"] != f"Bearer {cloud.api_key}":
                return self.answer(401, "who are you")
            return self.answer(200, {"data": [{"id": model} for model in cloud.models]})

        def metrics(self) -> None:
            time.sleep(cloud.metrics_seconds)
            cloud.metrics_read += 1
            running = cloud.in_flight.pop(0) if len(cloud.in_flight) > 1 else cloud.in_flight[0]
            text = (
                f'vllm:num_requests_running{{engine="0",model_name="the/model"}} {running}.0\n'
                'vllm:num_requests_waiting{engine="0",model_name="the/model"} 0.0\n'
                'vllm:cache_config_info{block_size="16",engine="0"} 1.0\n'
            )
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def download(self, name: str) -> None:
            """A file, from where it is asked for if it is still the same, and broken off if that is due."""
            wanted = self.headers["Range"]
            cloud.ranges.append(wanted)
            if name not in cloud.objects:
                return self.answer(404, f"no {name}")
            content, begin = cloud.objects[name], 0
            if wanted is not None and cloud.etag is not None and self.headers["If-Range"] == cloud.etag:
                begin = int(wanted.removeprefix("bytes=").removesuffix("-"))
            self.send_response(206 if begin else 200)
            if begin:
                self.send_header("Content-Range", f"bytes {begin}-{len(content) - 1}/{len(content)}")
            if cloud.etag is not None:
                self.send_header("ETag", cloud.etag)
            self.send_header("Content-Length", str(len(content) - begin))
            self.end_headers()
            end = begin + cloud.cut_after.pop(0) if cloud.cut_after else len(content)
            self.wfile.write(content[begin:end])
            if end < len(content):
                self.close_connection = True
            return None

        def refused(self) -> bool:
            if self.headers["Authorization"] != f"Bearer {TOKEN}":
                self.answer(401, "no token")
            elif cloud.storage_forbidden:
                self.answer(403, "the account may not")
            elif cloud.storage_failures > 0:
                cloud.storage_failures -= 1
                self.answer(503, "busy")
            else:
                return False
            return True

        def listing(self, query: dict[str, list[str]]) -> None:
            if self.refused():
                return
            names = sorted(name for name in cloud.objects if name.startswith(query["prefix"][0]))
            begin = int(query.get("pageToken", ["0"])[0])
            page = names[begin : begin + cloud.page_size]
            body: dict[str, Any] = {"items": [{"name": name, "timeCreated": cloud.created[name]} for name in page]}
            if begin + cloud.page_size < len(names):
                body["nextPageToken"] = str(begin + cloud.page_size)
            self.answer(200, body)

        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            address = urlsplit(self.path)
            if address.path != "/upload/storage/v1/b/results/o":
                return self.answer(404, "no such bucket")
            if self.refused():
                return None
            time.sleep(cloud.upload_seconds)
            query = parse_qs(address.query)
            name = query["name"][0]
            if query.get("ifGenerationMatch") == ["0"] and name in cloud.objects:
                return self.answer(412, "At least one of the pre-conditions you specified did not hold.")
            cloud.objects[name] = content
            cloud.created[name] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            cloud.uploaded.append(name)
            if cloud.uploads_lost > 0:
                cloud.uploads_lost -= 1
                return self.answer(503, "stored, and nobody told")
            return self.answer(200, {"name": name, "size": str(len(content))})

    return Handler
