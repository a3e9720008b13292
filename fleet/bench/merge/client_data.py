"""One client's result as arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Floats32 = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]


@dataclass(slots=True, kw_only=True)
class ClientData:
    """Successful requests in the order they were sent; times in seconds of the node's monotonic clock."""

    number: int
    connections: int
    """Requests in flight that were intended."""
    requests: int
    """Failed ones included."""
    own_rates: tuple[float, float]
    """Total tokens and output tokens a second, as the client itself printed them."""
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
    gaps: Floats32
    """Between chunks, all requests."""

    @property
    def ended_after(self) -> Floats:
        """From a request's start to its last chunk, as the chunks have it: with their 32 bits."""
        return self.chunk_offset[np.cumsum(self.chunks) - 1].astype(np.float64)

    @property
    def end(self) -> Floats:
        """Last chunk of each request."""
        return self.start + self.ended_after

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
