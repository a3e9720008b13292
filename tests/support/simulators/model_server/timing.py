"""How long a node takes to answer, and what a request looks like: from the ledger's published rows, or as arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from facts import ledger
from facts.figures import published

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

    def __post_init__(self) -> None:
        if self.ttft_seconds < 0 or self.tpot_seconds < 0:
            raise ValueError(f"times are zero or more, got {self.ttft_seconds} s and {self.tpot_seconds} s")

    def due_seconds(self, tokens: int) -> float:
        """When that many tokens are out, counted from when the request is taken up."""
        return self.ttft_seconds + max(0, tokens - 1) * self.tpot_seconds

    def request_seconds(self, request: Request) -> float:
        """The whole answer."""
        return self.due_seconds(request.output_tokens)


def published_timing() -> ServerTiming:
    """A node with the median times of the published record. Raises LedgerError where the ledger lacks it."""
    figure = published(RECORD_FIGURE)
    assert figure.ttft_median_ms is not None
    assert figure.tpot_median_ms is not None
    return ServerTiming(ttft_seconds=figure.ttft_median_ms / 1000, tpot_seconds=figure.tpot_median_ms / 1000)


def published_request() -> Request:
    """The mean request of the article's workload. Raises LedgerError where the ledger lacks it."""
    fields = ledger.entry("workloads", "workloads", ARTICLE_WORKLOAD)
    return Request(input_tokens=fields["input_tokens"]["mean"], output_tokens=fields["output_tokens"]["mean"])
