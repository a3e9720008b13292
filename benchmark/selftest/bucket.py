"""A bucket on loopback: as much of Cloud Storage and of the metadata server as the pods and a laptop use.

Uploads and listings for the pods, listings and downloads for the laptop, and the token with which a pod shows who it is.
Objects live in memory, and a real HTTP server answers.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

TOKEN: Final = "token-of-the-selftest"  # noqa: S105 - opens nothing but this process's own bucket
TOKEN_PATH: Final = "/computeMetadata/v1/instance/service-accounts/default/token"  # noqa: S105 - a path
PAGE: Final = 1000
"""Objects of one listing. Source: Cloud Storage JSON API, objects.list: maxResults is 1,000 unless told otherwise."""
_RANGE: Final = re.compile(r"bytes=(\d+)-")


@dataclass(frozen=True)
class Stored:
    """One object."""

    content: bytes
    generation: int
    at: str
    """ISO 8601, by this bucket's clock."""

    def described(self, name: str) -> dict[str, str]:
        """As the JSON API describes it."""
        return {
            "name": name,
            "size": str(len(self.content)),
            "md5Hash": base64.b64encode(hashlib.md5(self.content, usedforsecurity=False).digest()).decode(),
            "generation": str(self.generation),
            "timeCreated": self.at,
            "updated": self.at,
        }


class LocalBucket:
    """A context manager: inside, `url` serves as storage and as metadata URL."""

    def __init__(self, name: str = "selftest", *, page: int = PAGE) -> None:
        self.name, self.page = name, page
        self.objects: dict[str, Stored] = {}
        self.url = ""
        self._lock = threading.Lock()
        self._generation = 0
        self._server: ThreadingHTTPServer | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> LocalBucket:
        server = self._server = _Server(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{server.server_address[1]}"
        self._thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()

    def put(self, name: str, content: bytes) -> Stored:
        """Store an object in the place of one of that name."""
        with self._lock:
            self._generation += 1
            at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            stored = self.objects[name] = Stored(content, self._generation, at)
        return stored

    def listing(self, prefix: str, delimiter: str, token: str) -> dict[str, Any]:
        """One page of objects, and the folders below the prefix where a delimiter says what a folder is."""
        with self._lock:
            names = sorted(name for name in self.objects if name.startswith(prefix))
            folders = sorted(
                {
                    f"{prefix}{name[len(prefix) :].split(delimiter)[0]}{delimiter}"
                    for name in names
                    if delimiter in name[len(prefix) :]
                }
                if delimiter
                else ()
            )
            if delimiter:
                names = [name for name in names if delimiter not in name[len(prefix) :]]
            begin = int(token or 0)
            page = names[begin : begin + self.page]
            answer: dict[str, Any] = {"items": [self.objects[name].described(name) for name in page]}
        if folders and not begin:
            answer["prefixes"] = folders
        if begin + self.page < len(names):
            answer["nextPageToken"] = str(begin + self.page)
        return answer


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # All pods of a self-test may come at once.
    request_queue_size = 128


def _handler(bucket: LocalBucket) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            """Say nothing."""

        def do_GET(self) -> None:
            address = urlsplit(self.path)
            query = {key: values[0] for key, values in parse_qs(address.query).items()}
            objects = f"/storage/v1/b/{bucket.name}/o"
            if address.path == TOKEN_PATH:
                if self.headers["Metadata-Flavor"] != "Google":
                    self._json(403, {"error": "Metadata-Flavor: Google is missing"})
                else:
                    self._json(200, {"access_token": TOKEN, "expires_in": 3600, "token_type": "Bearer"})
            elif not self._allowed():
                pass
            elif address.path == objects:
                self._json(
                    200, bucket.listing(query.get("prefix", ""), query.get("delimiter", ""), query.get("pageToken", ""))
                )
            elif address.path.startswith(f"{objects}/"):
                self._object(unquote(address.path.removeprefix(f"{objects}/")), query)
            else:
                self._json(404, {"error": {"message": f"no such bucket or call: {address.path}"}})

        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            address = urlsplit(self.path)
            if not self._allowed():
                return
            if address.path != f"/upload/storage/v1/b/{bucket.name}/o":
                self._json(404, {"error": {"message": f"no such bucket or call: {address.path}"}})
                return
            name = parse_qs(address.query)["name"][0]
            self._json(200, bucket.put(name, content).described(name))

        def _allowed(self) -> bool:
            if self.headers["Authorization"] == f"Bearer {TOKEN}":
                return True
            self._json(401, {"error": {"message": "the token is not this bucket's"}})
            return False

        def _object(self, name: str, query: dict[str, str]) -> None:
            stored = bucket.objects.get(name)
            if stored is None or query.get("generation", str(stored.generation)) != str(stored.generation):
                self._json(404, {"error": {"message": f"no object {name}"}})
            elif query.get("alt") != "media":
                self._json(200, stored.described(name))
            else:
                wanted = _RANGE.fullmatch(self.headers.get("Range", ""))
                begin = int(wanted[1]) if wanted else 0
                self._answer(206 if wanted else 200, stored.content[begin:], "application/octet-stream")

        def _json(self, status: int, body: Any) -> None:
            self._answer(status, json.dumps(body).encode(), "application/json")

        def _answer(self, status: int, content: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    return Handler
