"""Clients of a batch in this process, before servers that a function plays."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from lab.simulators.bucket import LocalBucket, is_state_of_a_batch
from lab.simulators.local_server import Answer, Request, served
from tests.workloads.batch.stored import ID
from workloads.batch.pods.client import Client, Options

SPEED = 60.0
"""Seconds of a client's durations in one of the wall."""
Said = Callable[[str], Answer | None]


def answered(prompt: str, tokens: int = 5) -> Answer:
    """A good answer."""
    usage = {"prompt_tokens": len(prompt.split()), "completion_tokens": tokens}
    return Answer.of_json(200, {"id": "cmpl-1", "choices": [{"text": f"of {prompt}"}], "usage": usage})


def said(status: int, message: str = "no") -> Answer:
    """An error as vLLM says it."""
    return Answer.of_json(status, {"error": {"message": message, "type": "Error", "code": status}})


@dataclass
class Server:
    """A server that a function plays, and what it was asked."""

    answer: Said = answered
    waiting: float = 0.0
    prompts: list[str] = field(default_factory=list)
    headers: list[str] = field(default_factory=list)
    address: str = ""
    in_flight: int = 0
    most_in_flight: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, request: Request) -> Answer | None:
        if request.path == "/metrics":
            page = "".join(
                f'vllm:num_requests_{name}{{engine="0",model_name="m"}} {value}\n'
                for name, value in (("running", self.in_flight), ("waiting", self.waiting))
            )
            return Answer(200, page.encode())
        prompt = json.loads(request.content)["prompt"]
        with self.lock:
            self.prompts.append(prompt)
            self.headers.append(request.headers.get("Authorization") or "")
            self.in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            return self.answer(prompt)
        finally:
            with self.lock:
                self.in_flight -= 1


@contextlib.contextmanager
def serving(**how: Any) -> Iterator[Server]:
    """A server, for as long as the block runs."""
    server = Server(**how)
    with served(server) as port:
        server.address = f"127.0.0.1:{port}"
        yield server


@contextlib.contextmanager
def batches() -> Iterator[LocalBucket]:
    """A bucket of batches."""
    with LocalBucket("batches", overwritable=is_state_of_a_batch) as bucket:
        yield bucket


def client(bucket: LocalBucket, server: Server, *, index: int = 0, speed: float = SPEED, **options: Any) -> Client:
    """A client that has not begun."""
    host, port = server.address.split(":")
    return Client(
        Options(
            **{
                "bucket": bucket.name,
                "batch": ID,
                "endpoint": f"http://{server.address}",
                "server_pods": [(host, int(port))],
                "index": index,
                "storage_url": bucket.url,
                "metadata_url": bucket.url,
                "speed": speed,
                **options,
            }
        )
    )


def run_all(*clients: Client) -> list[str]:
    """Run clients beside each other to their ends; returns why each ended."""
    ends = [""] * len(clients)

    def run(number: int) -> None:
        ends[number] = clients[number].run()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(clients))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return ends
