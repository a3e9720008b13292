"""One client's result as arrays."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Floats32 = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]


@dataclass(slots=True, kw_only=True)
class ClientData:
    """Successful requests in the order they were sent; times in seconds of the client's own monotonic clock."""

    file: str
    """Within the merged folder; with `:LINE` for a file of several results."""
    metadata: dict[str, str]
    model: str
    date: str | None
    duration: float
    requests: int
    """Failed ones included."""
    max_concurrency: int | None
    request_rate: float
    own_rates: tuple[float, float, float]
    """Total tokens, output tokens and requests a second, as the client itself printed them."""
    digest: bytes
    """Of all its times to first token: two files with the same are one, even if their starts were moved."""
    input_lens: Ints
    """Of all requests."""
    failures: dict[str, tuple[int, str]]
    """Count and example by kind."""
    index: Ints
    """Position of each successful request among all."""
    start: Floats
    ttft: Floats
    e2e: Floats
    input_tokens: Ints
    output_tokens: Ints
    chunks: Ints
    """1 + gaps of each request."""
    chunk_offset: Floats32
    """Of every chunk, from its request's start. 32 bits: within 10 us for answers of 100 s."""
    gaps: Floats
    """Between chunks, all requests, sorted."""
    remarks: tuple[str, ...] = field(default=())
    counts_speculation: bool = False
    """Whether the file holds spec_decode figures: the server's, with every client's traffic in them."""

    @property
    def connections(self) -> int:
        """Intended requests in flight."""
        return self.requests if self.max_concurrency is None else min(self.max_concurrency, self.requests)

    @property
    def failed(self) -> int:
        """Requests without an answer."""
        return self.requests - len(self.index)

    @property
    def first(self) -> float:
        """Start of its first successful request."""
        return float(self.start.min())

    @property
    def last(self) -> float:
        """Its last answer's end."""
        return float((self.start + self.ended_after).max())

    @property
    def ended_after(self) -> Floats:
        """From a request's start to its last chunk, as the chunks have it: with their 32 bits."""
        return self.chunk_offset[np.cumsum(self.chunks) - 1].astype(np.float64)

    @property
    def first_after(self) -> Floats:
        """From a request's start to its first chunk, with the same 32 bits: so that none lies behind the last."""
        offsets: Floats = self.chunk_offset[np.cumsum(self.chunks) - self.chunks].astype(np.float64)
        return offsets

    @property
    def tpot(self) -> Floats:
        """Seconds a token after the first, of requests with more than one."""
        more = self.output_tokens > 1
        each: Floats = (self.e2e[more] - self.ttft[more]) / (self.output_tokens[more] - 1)
        return each

    @property
    def limited_rate(self) -> bool:
        """Whether requests were sent at a limited rate."""
        return self.request_rate != inf
