"""A simulated bucket on loopback: the parts of Cloud Storage and the metadata server that pods and a laptop use.

Uploads and listings for the pods, listings and downloads for the laptop, and the token with which a pod shows who it is.
Objects live in memory, and a real HTTP server answers.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Final, Self
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


@dataclass(frozen=True, kw_only=True)
class Request:
    """One request."""

    method: str
    url: str
    """Path and query, as they came."""
    headers: Message[str, str]
    content: bytes

    @property
    def path(self) -> str:
        """Without the query; a name in it is still quoted."""
        return urlsplit(self.url).path

    @property
    def query(self) -> dict[str, str]:
        """The first value of each."""
        return {key: values[0] for key, values in parse_qs(urlsplit(self.url).query).items()}


@dataclass(frozen=True)
class Answer:
    """One answer."""

    status: int
    content: bytes
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_json(cls, status: int, body: Any) -> Answer:
        """A JSON document."""
        return cls(status, json.dumps(body).encode(), {"Content-Type": "application/json"})

    @classmethod
    def of_error(cls, status: int, message: str) -> Answer:
        """As Google's APIs describe what went wrong."""
        return cls.of_json(status, {"error": {"code": status, "message": message}})


class LocalBucket:
    """A context manager: inside, `url` serves as storage and as metadata URL."""

    def __init__(self, name: str = "selftest", *, page: int = PAGE) -> None:
        self.name, self.page = name, page
        self.objects: dict[str, Stored] = {}
        self.url = ""
        self.lock = threading.RLock()
        self._generation = 0
        self._server: ThreadingHTTPServer | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
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
        with self.lock:
            self._generation += 1
            at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            stored = self.objects[name] = Stored(content, self._generation, at)
        return stored

    def answer(self, request: Request) -> Answer:
        """What this server says."""
        if request.path == TOKEN_PATH:
            return self.token(request)
        if not self.knows((request.headers.get("Authorization") or "").removeprefix("Bearer ")):
            return Answer.of_error(401, "the token is not this bucket's")
        objects = f"/storage/v1/b/{self.name}/o"
        if (request.method, request.path) == ("POST", f"/upload{objects}"):
            return self.upload(request)
        if (request.method, request.path) == ("GET", objects):
            return Answer.of_json(200, self.listing(request.query))
        # The JSON API has two addresses for an object's content.
        path = request.path.removeprefix("/download")
        if request.method == "GET" and path.startswith(f"{objects}/"):
            return self.content(unquote(path.removeprefix(f"{objects}/")), request)
        return Answer.of_error(404, f"no such bucket or call: {request.path}")

    def knows(self, token: str) -> bool:
        """Whether a token is good."""
        return token == TOKEN

    def token(self, request: Request) -> Answer:
        """The metadata server's answer to a pod."""
        if request.headers.get("Metadata-Flavor") != "Google":
            return Answer.of_error(403, "Metadata-Flavor: Google is missing")
        return Answer.of_json(200, {"access_token": TOKEN, "expires_in": 3600, "token_type": "Bearer"})

    def upload(self, request: Request) -> Answer:
        """Store what came, unless it should be the first of its name and is not."""
        name = request.query["name"]
        with self.lock:
            if request.query.get("ifGenerationMatch") == "0" and name in self.objects:
                return Answer.of_error(412, "at least one of the pre-conditions did not hold")
            if name in self.objects and "/.progress/" not in name:
                return Answer.of_error(403, f"no storage.objects.delete access to {name}")  # infra/workload_access.py
            return Answer.of_json(200, self.put(name, request.content).described(name))

    def listing(self, query: Mapping[str, str]) -> dict[str, Any]:
        """One page of objects, and the folders below the prefix where a delimiter says what a folder is."""
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        with self.lock:
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
            begin = int(query.get("pageToken", 0))
            page = names[begin : begin + self.page]
            answer: dict[str, Any] = {"items": [self.objects[name].described(name) for name in page]}
        if folders and not begin:
            answer["prefixes"] = folders
        if begin + self.page < len(names):
            answer["nextPageToken"] = str(begin + self.page)
        return answer

    def content(self, name: str, request: Request) -> Answer:
        """An object, from where it is asked for."""
        stored = self.objects.get(name)
        if stored is None or request.query.get("generation", str(stored.generation)) != str(stored.generation):
            return Answer.of_error(404, f"no object {name}")
        if request.query.get("alt") != "media":
            return Answer.of_json(200, stored.described(name))
        wanted = _RANGE.fullmatch(request.headers.get("Range") or "")
        return Answer(206, stored.content[int(wanted[1]) :]) if wanted else Answer(200, stored.content)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # All pods of a self-test may come at once.
    request_queue_size = 128


def _handler(bucket: LocalBucket) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            """Say nothing."""

        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def _answer(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            answer = bucket.answer(Request(method=self.command, url=self.path, headers=self.headers, content=content))
            self.send_response(answer.status)
            for name, value in {"Content-Length": str(len(answer.content)), **answer.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer.content)

    return Handler
