"""Whether servers are idle, by their own metrics through a tunnel; a tunnel that breaks is a remark and no failure."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import pytest

from fleet.bench.errors import BenchmarkError
from fleet.bench.run import servers
from fleet.bench.run.servers import ServerPod, require_idle
from fleet.clients.kubectl import Kubectl
from tests.support.simulators.local_server import Answer, Request, served

PODS = (ServerPod("server-a", "n", True),)


@contextmanager
def answering(*answers: str, cut: bool = False) -> Iterator[Kubectl]:
    """A kubectl whose tunnels lead to a server that gives these answers, one after another; `cut`: a byte less than announced."""
    left = [one.encode() for one in answers]

    def answer(_: Request) -> Answer:
        content = left.pop(0)
        return Answer(200, content, {"Content-Length": str(len(content) + cut)})

    class Tunnels:
        @contextmanager
        def port_forward(self, _target: str, _port: int) -> Iterator[int]:
            yield port

    with served(answer) as port:
        yield cast(Kubectl, Tunnels())


@pytest.fixture(autouse=True)
def _no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "WATCH_SECONDS", 0.0)


def metrics(running: int, tokens: int) -> str:
    return f"vllm:num_requests_running {running}\nvllm:generation_tokens_total {tokens}\n"


def test_a_tunnel_that_breaks_within_an_answer_is_a_remark() -> None:
    with answering(metrics(0, 5), cut=True) as kubectl:
        assert (require_idle(kubectl, PODS, 8000) or "").startswith("server-a: IncompleteRead")


@pytest.mark.parametrize(
    ("second", "words"),
    [(metrics(0, 7), "server-a had 2 tokens in 0 s"), (metrics(3, 5), "server-a has 3 requests in flight")],
)
def test_somebody_elses_requests_are_told(second: str, words: str) -> None:
    with answering(metrics(0, 5), second) as kubectl, pytest.raises(BenchmarkError, match=words):
        require_idle(kubectl, PODS, 8000)


@pytest.mark.parametrize("second", [metrics(0, 5), metrics(0, 0)])
def test_idle_servers_pass_also_where_one_has_begun_to_count_anew(second: str) -> None:
    with answering(metrics(0, 5), second) as kubectl:
        assert require_idle(kubectl, PODS, 8000) is None
