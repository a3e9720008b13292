"""A batch's objects in its bucket: created once, replaced by generation, read, listed, deleted.

Every rule of the batch rests on two promises of Cloud Storage: an object of a name is created once (`ifGenerationMatch=0`), and replaced
only where its generation is the one that was seen. Times are the bucket's own, so that no pod's clock matters.
"""

from __future__ import annotations

import io
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

from workloads.benchmark.pods.results_bucket import Bucket, BucketError

__all__ = ["BucketError", "Found", "Read", "Store"]

T = TypeVar("T")


@dataclass(frozen=True)
class Found:
    """A listed object."""

    name: str
    """Without the batch's prefix."""
    generation: int
    updated: float
    """Epoch seconds of the bucket's clock."""
    now: float
    """The bucket's clock at the listing, rounded down to a second."""


@dataclass(frozen=True)
class Read:
    """An object's content."""

    content: bytes
    generation: int


@dataclass
class Store(Bucket):
    """The objects below a prefix. Every method may be called from any thread, and raises BucketError after its last attempt."""

    prefix: str = ""
    """With a slash at its end."""
    _clock: tuple[float, float] = field(default=(0.0, 0.0), repr=False)

    def brief(self) -> Store:
        """The same objects with one attempt of ten seconds, for what is tried again soon anyway."""
        return replace(self, attempts=1, timeout_seconds=10.0)

    @property
    def now(self) -> float:
        """The bucket's clock, epoch seconds; 0 before the first answer."""
        date, at = self._clock
        return date + time.monotonic() - at if date else 0.0

    def create(self, name: str, content: bytes) -> int | None:
        """The new object's generation; None where one of that name exists, which may be an earlier attempt of this call."""
        return self.write(name, content, 0)

    def write(self, name: str, content: bytes, generation: int | None = None) -> int | None:
        """Replace an object, where `generation` is given only that one; 0: there is none. Returns the new generation; None if it is
        another one, which may be that of an earlier attempt of this call.
        """
        query = {"uploadType": "media", "name": f"{self.prefix}{name}"}
        if generation is not None:
            query["ifGenerationMatch"] = str(generation)
        url = f"{self.storage_url}/upload/storage/v1/b/{self.name}/o?{urllib.parse.urlencode(query)}"

        def ask() -> int | None:
            try:
                answer = json.loads(self._ask("POST", url, content)[0])
            except urllib.error.HTTPError as error:
                # 403: pods may not overwrite results (unverified which of the two comes first).
                if generation is not None and (error.code == 412 or (error.code == 403 and self.has(name))):
                    return None
                raise
            if int(answer["size"]) != len(content):
                raise BucketError(f"{name}: sent {len(content)} bytes, the bucket has {answer['size']}")
            return int(answer["generation"])

        return self._until_answered(f"put {self._place(name)}", ask)

    def read(self, name: str) -> Read | None:
        """An object; None if there is none."""

        def ask() -> Read | None:
            try:
                content, headers = self._ask("GET", f"{self._object(name)}?alt=media")
            except urllib.error.HTTPError as error:
                if error.code != 404:
                    raise
                return None
            return Read(content, int(headers["x-goog-generation"]))

        return self._until_answered(f"get {self._place(name)}", ask)

    def has(self, name: str) -> bool:
        """Whether an object exists."""
        return any(found.name == name for found in self.list(name))

    def list(self, prefix: str) -> list[Found]:
        """The objects whose names begin so, in their order."""

        def ask() -> list[Found]:
            found = []
            query = {"prefix": f"{self.prefix}{prefix}", "fields": "items(name,generation,updated),nextPageToken"}
            while True:
                url = f"{self.storage_url}/storage/v1/b/{self.name}/o?{urllib.parse.urlencode(query)}"
                content, headers = self._ask("GET", url)
                page, now = json.loads(content), parsedate_to_datetime(headers["date"]).timestamp()
                for item in page.get("items", ()):
                    updated = datetime.fromisoformat(item["updated"].replace("Z", "+00:00")).timestamp()
                    name = str(item["name"]).removeprefix(self.prefix)
                    found.append(Found(name, int(item["generation"]), updated, now))
                if "nextPageToken" not in page:
                    return found
                query["pageToken"] = page["nextPageToken"]

        return self._until_answered(f"list {self._place(prefix)}", ask)

    def delete(self, name: str, generation: int | None = None) -> None:
        """Delete an object, where `generation` is given only that one; another one, or none, is no error."""

        def ask() -> None:
            only = "" if generation is None else f"?ifGenerationMatch={generation}"
            try:
                self._ask("DELETE", f"{self._object(name)}{only}")
            except urllib.error.HTTPError as error:
                if error.code not in (404, 412):
                    raise

        self._persist(f"delete {self._place(name)}", ask)

    def _object(self, name: str) -> str:
        return f"{self.storage_url}/storage/v1/b/{self.name}/o/{urllib.parse.quote(self.prefix + name, safe='')}"

    def _place(self, name: str) -> str:
        return f"gs://{self.name}/{self.prefix}{name}"

    def _ask(self, method: str, url: str, content: bytes | None = None) -> tuple[bytes, Mapping[str, str]]:
        headers = {"Authorization": f"Bearer {self._bearer()}"}
        if content is not None:
            headers["Content-Type"] = "application/octet-stream"
        request = urllib.request.Request(url, data=content, headers=headers, method=method)  # noqa: S310 - http(s) by construction
        try:
            with urllib.request.urlopen(request, timeout=self.timeout_seconds) as response:  # noqa: S310
                if date := response.headers["date"]:
                    self._clock = (parsedate_to_datetime(date).timestamp(), time.monotonic())
                return response.read(), {name.lower(): value for name, value in response.headers.items()}
        except urllib.error.HTTPError as error:
            with error:  # it holds a connection
                said = io.BytesIO(error.read(1_000))
            raise urllib.error.HTTPError(url, error.code, error.msg, error.hdrs, said) from None

    def _until_answered(self, what: str, ask: Callable[[], T]) -> T:
        answers: list[Any] = []
        self._persist(what, lambda: answers.append(ask()))
        answer: T = answers[0]
        return answer
