"""vLLM's rule for assigning requests to engines of one server."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tests.support.simulators.model_server.answers import bad_request

if TYPE_CHECKING:
    from tests.support.simulators.model_server.engine import Engine

REFRESH_SECONDS: Final = 0.1
"""Maximum age of the front end's counts. Source: vLLM 0.18.1, v1/engine/core_client.py and coordinator.py."""
_WAITING_WEIGHS: Final = 4


class Router:
    """Least 4 x waiting + running, by counts that are up to 100 ms old; what was sent since then counts as waiting.

    Source: vLLM 0.18.1, v1/engine/core_client.py, DPLBAsyncMPClient.get_core_engine_for_request.
    """

    def __init__(self, engines: Sequence[Engine], *, starving: Sequence[int] = ()) -> None:
        self._engines = engines
        self._counts = [[0, 0] for _ in engines]
        self._counted_at = float("-inf")
        self._chosen_from = [engine.rank for engine in engines if engine.rank not in starving]

    def choose(self, rank: int | None) -> Engine:
        """The engine of the rank that a request names, or the least loaded. Raises BadRequestError for an unknown rank."""
        if rank is not None:
            if not 0 <= rank < len(self._engines):
                raise bad_request(f"X-data-parallel-rank: {rank} is not one of 0 to {len(self._engines) - 1}")
            return self._engines[rank]
        now = asyncio.get_running_loop().time()
        if now - self._counted_at >= REFRESH_SECONDS:
            self._counts = [[len(engine.waiting), len(engine.running)] for engine in self._engines]
            self._counted_at = now
        counts = self._counts
        best = min(self._chosen_from, key=lambda one: counts[one][0] * _WAITING_WEIGHS + counts[one][1])
        counts[best][0] += 1
        return self._engines[best]
