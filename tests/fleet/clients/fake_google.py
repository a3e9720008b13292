"""The simulated bucket as the one fake Google of all tests: it remembers what it was asked, and has troubles on demand."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, quote, urlencode

from fleet.clients.google_api import RETRY
from tests.support.simulators.bucket import TOKEN, LocalBucket, Stored, of_error
from tests.support.simulators.local_server import Answer, Request

HASTY = RETRY.with_delay(initial=0.01, maximum=0.02).with_timeout(0.5)
"""For clients of this server: no long pauses."""


class FakeGoogle(LocalBucket):
    """Cloud Storage, the metadata server, the token endpoint and managed Prometheus."""

    def __init__(self, **how: Any) -> None:
        super().__init__("results")
        self.asked: list[str] = []
        """Method, path and query, and the Range header, of every request but those for a token."""
        self.uploaded: list[str] = []
        """Names of the objects in the order they were stored; one that was stored twice is there twice."""
        self.forms: list[dict[str, str]] = []
        self.tokens_handed_out = 0
        self.token_answers: list[tuple[int, str]] = []
        """What the metadata server answers before it hands out tokens: status and body."""
        self.accepted = {TOKEN}
        """Tokens that are good."""
        self.statuses: list[int] = []
        """Statuses that the next requests are answered with, whatever they ask."""
        self.break_after: list[int] = []
        """The next downloads break off after so many bytes."""
        self.broken_names: dict[str, list[int]] = {}
        """The same for downloads of objects whose name ends so."""
        self.cut: list[bool] = []
        """Whether the next answers in JSON break off in the middle."""
        self.spoil: list[bool] = []
        """Whether the next downloads are wrong by one byte."""
        self.upload_seconds = 0.0
        """How long an upload takes."""
        self.uploads_lost = 0
        """Uploads that are stored and answered with 503 all the same."""
        self.series: dict[str, list[dict[str, Any]]] = {}
        """Prometheus results by metric."""
        for name, value in how.items():
            setattr(self, name, value)

    @property
    def contents(self) -> dict[str, bytes]:
        """What is stored, by name."""
        with self.lock:
            return {name: stored.content for name, stored in self.objects.items()}

    def reads(self, name: str) -> int:
        """How often the content of an object whose name ends so was asked for."""
        with self.lock:
            return sum(f"{quote(name, safe='')}?alt=media" in line for line in self.asked)

    def put(self, name: str, content: bytes) -> Stored:
        with self.lock:
            self.uploaded.append(name)
            return super().put(name, content)

    def answer(self, request: Request) -> Answer:
        answer = self._answer(request)
        if answer.headers.get("Content-Type") == "application/json" and self._next(self.cut):
            return _broken(answer, len(answer.content) // 2)
        return answer

    def _answer(self, request: Request) -> Answer:
        if request.path == "/token":
            return self._oauth_token(request)
        if request.path.startswith("/computeMetadata/"):
            return super().answer(request)
        with self.lock:
            self.asked.append(f"{request.method} {request.url} {request.headers.get('Range') or ''}".strip())
        if (status := self._next(self.statuses) or 200) != 200:
            return of_error(status, f"made to say {status}")
        if request.path.endswith("/query_range"):
            return self._query(request)
        return super().answer(request)

    def knows(self, token: str) -> bool:
        return token in self.accepted

    def token(self, request: Request) -> Answer:
        if self.token_answers:
            status, body = self.token_answers.pop(0)
            return Answer.of_json(status, body)
        self.tokens_handed_out += 1
        return super().token(request)

    def _oauth_token(self, request: Request) -> Answer:
        """For a service account's signed word, as oauth2.googleapis.com."""
        assert "assertion=" in request.content.decode()
        self.tokens_handed_out += 1
        return Answer.of_json(200, {"access_token": TOKEN, "expires_in": 3600, "token_type": "Bearer"})

    def called(self, request: Request) -> Answer:
        # What Google's client library sends, a body with the name in a first part, or one after its announcement, as a pod would.
        kind = request.query.get("uploadType")
        if request.method == "POST" and kind == "multipart":
            _, _, rest = request.content.partition(b"\r\n\r\n")
            about, _, rest = rest.partition(b"\r\n--")
            content = rest.partition(b"\r\n\r\n")[2].rpartition(b"\r\n--")[0]
            return super().called(_as_media(request, json.loads(about)["name"], content))
        if request.method == "POST" and kind == "resumable" and "upload_id" not in request.query:
            name = quote(json.loads(request.content)["name"], safe="")
            return Answer(200, b"", {"Location": f"{self.url}{request.url}&upload_id=1&name={name}"})
        if request.method == "PUT" and kind == "resumable":
            return super().called(_as_media(request, request.query["name"], request.content))
        return super().called(request)

    def upload(self, request: Request) -> Answer:
        time.sleep(self.upload_seconds)
        answer = super().upload(request)
        if answer.status == 200 and self.uploads_lost > 0:
            self.uploads_lost -= 1
            return of_error(503, "stored, and nobody told")
        return answer

    def content(self, name: str, request: Request) -> Answer:
        answer = super().content(name, request)
        if answer.status not in (200, 206):
            return answer
        content = answer.content
        if content and self._next(self.spoil):
            content = bytes([content[0] ^ 1]) + content[1:]
        of_this = next((cuts for end, cuts in self.broken_names.items() if name.endswith(end)), None)
        broken = self._next(self.break_after if of_this is None else of_this)
        return replace(answer, content=content) if broken is None else _broken(answer, broken)

    def _query(self, request: Request) -> Answer:
        form = {key: values[0] for key, values in parse_qs(request.content.decode()).items()}
        self.forms.append(form)
        found = self.series.get(form["query"].partition("{")[0], [])
        return Answer.of_json(200, {"status": "success", "data": {"resultType": "matrix", "result": found}})

    def _next(self, queue: list[Any]) -> Any:
        with self.lock:
            return queue.pop(0) if queue else None


def _broken(answer: Answer, after: int) -> Answer:
    """The beginning of an answer that was announced whole."""
    headers = {**answer.headers, "Content-Length": str(len(answer.content))}
    return replace(answer, content=answer.content[:after], headers=headers)


def _as_media(request: Request, name: str, content: bytes) -> Request:
    only = request.query.get("ifGenerationMatch")
    query = {"uploadType": "media", "name": name} | ({} if only is None else {"ifGenerationMatch": only})
    return replace(request, method="POST", url=f"{request.path}?{urlencode(query)}", content=content)


@contextmanager
def fake_google(**how: Any) -> Iterator[FakeGoogle]:
    """One such server, for as long as the block runs; its fields can be given."""
    with FakeGoogle(**how) as google:
        yield google
