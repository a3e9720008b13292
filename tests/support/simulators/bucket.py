"""A simulated bucket on loopback: the parts of Cloud Storage and the metadata server that pods and a laptop use.

Uploads, downloads and listings, preconditions on generations, deletions, and the token with which a pod shows who it is. Every answer
has the bucket's clock in `Date`. Objects live in memory, and a real HTTP server answers.

Source: Cloud Storage JSON API, request preconditions: `ifGenerationMatch` is 0 where no object may exist; a request whose precondition
does not hold changes nothing and gets 412. An upload is an object as a whole or not at all.
"""

from __future__ import annotations

import base64
import hashlib
import re
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import formatdate
from typing import Any, Final, Self
from urllib.parse import unquote

from tests.support.simulators.local_server import Answer, Request, served

TOKEN: Final = "token-of-the-bucket"
TOKEN_PATH: Final = "/computeMetadata/v1/instance/service-accounts/default/token"
PAGE: Final = 1000
"""Objects of one listing. Source: Cloud Storage JSON API, objects.list: maxResults defaults to 1,000."""
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


def is_progress(name: str) -> bool:
    """Whether a benchmark's pods may overwrite an object. Source: infra/workload_access.py."""
    return "/.progress/" in name


def is_state_of_a_batch(name: str) -> bool:
    """Whether a batch's pods may overwrite and delete an object. Source: the conditions of their grants."""
    return "/checkpoints/" in name


def of_error(status: int, message: str) -> Answer:
    """An error as Google's APIs describe it."""
    return Answer.of_json(status, {"error": {"code": status, "message": message}})


class LocalBucket:
    """A context manager. `url` is both storage and metadata URL."""

    def __init__(
        self, name: str = "benchmark", *, page: int = PAGE, overwritable: Callable[[str], bool] = is_progress
    ) -> None:
        """`overwritable`: which names pods may overwrite and delete."""
        self.name, self.page, self.overwritable = name, page, overwritable
        self.objects: dict[str, Stored] = {}
        self.url = ""
        self.lock = threading.RLock()
        self._generation = 0
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self.url = f"http://127.0.0.1:{self._stack.enter_context(served(self.answer))}"
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def put(self, name: str, content: bytes) -> Stored:
        """Store an object, replacing one of the same name."""
        with self.lock:
            self._generation += 1
            at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            stored = self.objects[name] = Stored(content, self._generation, at)
        return stored

    def answer(self, request: Request) -> Answer:
        """The answer to a request."""
        said = self.called(request)
        return replace(said, headers={"Date": formatdate(usegmt=True), **said.headers})

    def called(self, request: Request) -> Answer:
        """The same without the bucket's clock."""
        if request.path == TOKEN_PATH:
            return self.token(request)
        if not self.knows((request.headers.get("Authorization") or "").removeprefix("Bearer ")):
            return of_error(401, "the token is not this bucket's")
        objects = f"/storage/v1/b/{self.name}/o"
        if (request.method, request.path) == ("POST", f"/upload{objects}"):
            return self.upload(request)
        if (request.method, request.path) == ("GET", objects):
            return Answer.of_json(200, self.listing(request.query))
        # The JSON API has two addresses for an object's content.
        path = request.path.removeprefix("/download")
        if path.startswith(f"{objects}/"):
            name = unquote(path.removeprefix(f"{objects}/"))
            if request.method == "GET":
                return self.content(name, request)
            if request.method == "DELETE":
                return self.delete(name, request.query)
        return of_error(404, f"no such bucket or call: {request.path}")

    def knows(self, token: str) -> bool:
        """Whether a token is accepted."""
        return token == TOKEN

    def token(self, request: Request) -> Answer:
        """The metadata server's answer to a pod."""
        if request.headers.get("Metadata-Flavor") != "Google":
            return of_error(403, "Metadata-Flavor: Google is missing")
        return Answer.of_json(200, {"access_token": TOKEN, "expires_in": 3600, "token_type": "Bearer"})

    def upload(self, request: Request) -> Answer:
        """Store an object, unless a precondition fails or it would be overwritten."""
        name = request.query["name"]
        with self.lock:
            if not self.holds(name, request.query):
                return of_error(412, "at least one of the pre-conditions did not hold")
            if name in self.objects and not self.overwritable(name):
                return of_error(403, f"no storage.objects.delete access to {name}")
            return Answer.of_json(200, self.put(name, request.content).described(name))

    def delete(self, name: str, query: Mapping[str, str]) -> Answer:
        """Delete an object, unless a precondition fails or it may not be deleted."""
        with self.lock:
            if name not in self.objects:
                return of_error(404, f"no object {name}")
            if not self.holds(name, query):
                return of_error(412, "at least one of the pre-conditions did not hold")
            if not self.overwritable(name):
                return of_error(403, f"no storage.objects.delete access to {name}")
            del self.objects[name]
        return Answer(204, b"")

    def holds(self, name: str, query: Mapping[str, str]) -> bool:
        """Whether the object's generation is the one that the request asks for; 0: there is none."""
        stored = self.objects.get(name)
        generation = str(stored.generation if stored else 0)
        return query.get("ifGenerationMatch", generation) == generation

    def listing(self, query: Mapping[str, str]) -> dict[str, Any]:
        """One page of objects; with a delimiter, also the folders below the prefix."""
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
        """An object's content or description; honours Range."""
        stored = self.objects.get(name)
        if stored is None or request.query.get("generation", str(stored.generation)) != str(stored.generation):
            return of_error(404, f"no object {name}")
        if request.query.get("alt") != "media":
            return Answer.of_json(200, stored.described(name))
        headers = {"x-goog-generation": str(stored.generation)}
        wanted = _RANGE.fullmatch(request.headers.get("Range") or "")
        if wanted:
            return Answer(206, stored.content[int(wanted[1]) :], headers)
        return Answer(200, stored.content, headers)
