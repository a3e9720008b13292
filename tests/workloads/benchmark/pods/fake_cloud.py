"""The fake Google of a benchmark's pod, at whose address a model server and a server of files answer as well."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tests.fleet.clients.fake_google import FakeGoogle
from tests.support.simulators.local_server import Answer, Request


class FakeCloud(FakeGoogle):
    """What the server knows, and how it shall misbehave."""

    def __init__(self, *, objects: Mapping[str, bytes] | None = None, **how: Any) -> None:
        self.models = ["the/model"]
        self.api_key: str | None = None
        self.not_ready_for = 0
        """Answers of 503 before the model server answers."""
        self.in_flight = [0]
        """Running requests that /metrics tells, reading by reading; the last one stays."""
        self.files: dict[str, bytes] = {}
        """What the server of files has, by path."""
        self.etag: str | None = '"1"'
        self.ranges: list[str | None] = []
        """The Range of every file that was asked for."""
        super().__init__(**how)
        for name, content in (objects or {}).items():
            self.put(name, content)

    def _answer(self, request: Request) -> Answer:
        if request.path == "/v1/models":
            return self._models(request)
        if request.path == "/metrics":
            return self._metrics()
        if request.path.startswith("/files/"):
            return self._file(request)
        return super()._answer(request)

    def _models(self, request: Request) -> Answer:
        if self.not_ready_for > 0:
            self.not_ready_for -= 1
            return Answer.of_json(503, "loading")
        if self.api_key is not None and request.headers.get("Authorization") != f"Bearer {self.api_key}":
            return Answer.of_json(401, "who are you")
        return Answer.of_json(200, {"data": [{"id": model} for model in self.models]})

    def _metrics(self) -> Answer:
        running = self.in_flight.pop(0) if len(self.in_flight) > 1 else self.in_flight[0]
        text = (
            f'vllm:num_requests_running{{engine="0",model_name="the/model"}} {running}.0\n'
            'vllm:num_requests_waiting{engine="0",model_name="the/model"} 0.0\n'
            'vllm:cache_config_info{block_size="16",engine="0"} 1.0\n'
        )
        return Answer(200, text.encode())

    def _file(self, request: Request) -> Answer:
        """A file, from where it is asked for if it is still the same, and broken off if that is due."""
        wanted = request.headers.get("Range")
        self.ranges.append(wanted)
        content, begin = self.files[request.path.removeprefix("/files/")], 0
        if wanted is not None and self.etag is not None and request.headers.get("If-Range") == self.etag:
            begin = int(wanted.removeprefix("bytes=").removesuffix("-"))
        headers = {"Content-Length": str(len(content) - begin)}
        if begin:
            headers["Content-Range"] = f"bytes {begin}-{len(content) - 1}/{len(content)}"
        if self.etag is not None:
            headers["ETag"] = self.etag
        after = self._next(self.break_after)
        end = len(content) if after is None else begin + after
        return Answer(206 if begin else 200, content[begin:end], headers)


@contextmanager
def fake_cloud(**how: Any) -> Iterator[FakeCloud]:
    """The server, running; its `url` serves as endpoint, storage and metadata URL."""
    with FakeCloud(**how) as cloud:
        yield cloud
