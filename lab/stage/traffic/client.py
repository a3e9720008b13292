"""Single requests of a drill, each with what the client sees of its answer; many at once, in threads."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from lab.simulators.model_server.answers import END_OF_STREAM
from lab.stage.traffic.driver import PATH

STREAM_WALL_SECONDS: Final = 4.0
"""Length of a drill's stream that is open while something happens: longer than a busy machine takes to play it."""
WALL_SECONDS: Final = 60.0
"""Longest silence of an answer. Assumed: far longer than a drill's requests take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a client sees of one answer."""

    status: int = 0
    """0: no answer."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Names in lower case."""
    body: str = ""
    whole: bool = False
    """Whether the answer came to its end."""

    @property
    def answered(self) -> bool:
        """Whether it is a complete answer of a model server."""
        return self.status == 200 and self.whole

    def tells(self, words: Sequence[str]) -> list[str]:
        """Those of the words that are in its headers or body."""
        text = f"{dict(self.headers)} {self.body}"
        return [word for word in words if word in text]


def ask(url: str, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Seen:
    """Send one completion and read its answer to the end."""
    at = urlsplit(url)
    connection = http.client.HTTPConnection(at.hostname or "", at.port, timeout=WALL_SECONDS)
    try:
        connection.request("POST", PATH, json.dumps(body), {"Content-Type": "application/json", **(headers or {})})
        answer = connection.getresponse()
    except (OSError, http.client.HTTPException):
        connection.close()
        return Seen()
    found = {name.lower(): value for name, value in answer.getheaders()}
    try:
        text, whole = answer.read(), True
    except http.client.IncompleteRead as cut:
        text, whole = cut.partial, False
    except OSError:
        text, whole = b"", False
    finally:
        connection.close()
    whole = whole and (answer.status != 200 or not body.get("stream") or text.endswith(END_OF_STREAM))
    return Seen(status=answer.status, headers=found, body=text.decode(errors="replace"), whole=whole)


def format_statuses(seen: Sequence[Seen]) -> str:
    """Answers by HTTP status."""
    statuses = sorted({one.status for one in seen})
    return ", ".join(f"{sum(one.status == status for one in seen)} x {status or 'no answer'}" for status in statuses)


def results(sent: Sequence[Future[Seen]]) -> list[Seen]:
    """The answers, when all have come."""
    return [one.result() for one in sent]


def in_turn(urls: Sequence[str], number: int) -> list[str]:
    """That many URLs, one after the other and again."""
    return [urls[place % len(urls)] for place in range(number)]


class Asking:
    """A context manager in which requests are sent at once; leaving it waits for their answers."""

    def __init__(self, model: str, most: int = 200) -> None:
        """`most`: requests at the same time."""
        self._model, self._pool = model, ThreadPoolExecutor(most, thread_name_prefix="client")

    def __enter__(self) -> Asking:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def send(
        self,
        urls: Sequence[str],
        *,
        tokens: int,
        stream: bool = True,
        prompt: Sequence[int] = (1, 2, 3),
        headers: Mapping[str, str] | None = None,
    ) -> list[Future[Seen]]:
        """One request to each of these URLs, with answers of that many tokens."""
        body = {"model": self._model, "prompt": list(prompt), "max_tokens": tokens, "ignore_eos": True}
        # Whole answers name their tokens.
        body |= {"stream": True} if stream else {"logprobs": 1}
        return [self._pool.submit(ask, url, body, headers) for url in urls]
