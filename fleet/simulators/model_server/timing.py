"""How long a node takes to answer, and what a request looks like: from the ledger's published rows, or as arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

RECORD_FIGURE: Final = "cluster_ip.nodes-12"
"""Row of the ledger whose medians a node is given: twelve nodes, 2,000 requests in flight each."""
ARTICLE_WORKLOAD: Final = "article"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The size of one request. The prompt's words do not matter to a server that only keeps time."""

    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTiming:
    """When the tokens of an answer come, in simulated seconds."""

    ttft_seconds: float
    """From the moment a request is taken up to its first token. A published median includes the queue at its own load."""
    tpot_seconds: float
    """Between two tokens of one answer after the first."""
    running_limit: int | None = None
    """Requests answered at once; later ones wait their turn, first come first served. None: nobody waits, because the
    published time to the first token already has the wait in it."""
    tokens_per_chunk: int = 1
    """Tokens that arrive together. With speculative decoding a step brings more than one."""

    def __post_init__(self) -> None:
        if self.ttft_seconds < 0 or self.tpot_seconds < 0:
            raise ValueError(f"times are zero or more, got {self.ttft_seconds} s and {self.tpot_seconds} s")
        if self.running_limit is not None and self.running_limit < 1:
            raise ValueError(f"running_limit is 1 or more, or None for no limit; got {self.running_limit}")
        if self.tokens_per_chunk < 1:
            raise ValueError(f"tokens_per_chunk is 1 or more, got {self.tokens_per_chunk}")

    def due_seconds(self, tokens: int) -> float:
        """When that many tokens are out, counted from when the request is taken up."""
        return self.ttft_seconds + max(0, tokens - 1) * self.tpot_seconds

    def request_seconds(self, request: Request) -> float:
        """The whole answer, without a wait for its turn."""
        return self.due_seconds(request.output_tokens)


def published_timing(figure_id: str = RECORD_FIGURE) -> ServerTiming:
    """A node as a published row has it: its median times. Raises LedgerError for a row that is not there, ValueError for one
    that published no times.
    """
    from facts.figures import published

    figure = published(figure_id)
    if figure.ttft_median_ms is None or figure.tpot_median_ms is None:
        raise ValueError(f"{figure_id} published no time to first token or per output token")
    return ServerTiming(ttft_seconds=figure.ttft_median_ms / 1000, tpot_seconds=figure.tpot_median_ms / 1000)


def published_request(workload: str = ARTICLE_WORKLOAD) -> Request:
    """The mean request of a named workload. Raises LedgerError for one that is not there."""
    from facts import ledger

    fields = ledger.entry("workloads", "workloads", workload)
    return Request(input_tokens=fields["input_tokens"]["mean"], output_tokens=fields["output_tokens"]["mean"])


def published_in_flight_per_node() -> int:
    """Requests in flight on a node of the published runs."""
    from facts import ledger

    number: int = ledger.load("cluster_ip")["concurrency_per_node"]
    return number
