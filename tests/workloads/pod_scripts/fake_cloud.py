"""A server on loopback that plays the model server, the metadata server and Cloud Storage."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

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
    page_size: int = 1000
    objects: dict[str, bytes] = field(default_factory=dict)
    created: dict[str, str] = field(default_factory=dict)
    tokens_handed_out: int = 0


@contextmanager
def fake_cloud(**how: Any) -> Iterator[FakeCloud]:
    """The server, running; its `url` serves as endpoint, storage and metadata URL."""
    cloud = FakeCloud(**how)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(cloud))
    cloud.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield cloud
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _handler(cloud: FakeCloud) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def answer(self, code: int, body: Any) -> None:
            content = json.dumps(body).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def do_GET(self) -> None:
            address = urlsplit(self.path)
            if address.path == "/v1/models":
                return self.models()
            if address.path == "/computeMetadata/v1/instance/service-accounts/default/token":
                if self.headers["Metadata-Flavor"] != "Google":
                    return self.answer(403, "no flavor")
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
            name = parse_qs(address.query)["name"][0]
            cloud.objects[name] = content
            cloud.created[name] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            return self.answer(200, {"name": name, "size": str(len(content))})

    return Handler
