"""Open-loop requests, as from clients of a Service or a gateway: a new connection each."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Final

from lab.simulators.model_server.answers import END_OF_STREAM
from lab.stage.traffic.outcomes import Cause, Outcome

if TYPE_CHECKING:
    # Not at the top: `fleet rehearse --list` needs no package of a rehearsal.
    import aiohttp

    from lab.results.clock import Clock
    from lab.simulators.model_server.timing import Request
    from lab.stage.traffic.entrance import Chosen, Entrance

PATH: Final = "/v1/completions"
SAMPLE_PER_POD: Final = 2.0
"""Requests per simulated second and server. A node serves 83; a sample shows the same shares."""
WALL_LIMIT_PER_SECOND: Final = 150.0
"""Maximum rate in wall time, beside a control plane on two cores. Measured: a third of a core, servers included."""
LEAST_TIMEOUT_WALL_SECONDS: Final = 15.0
"""Minimum of a timeout, so that a busy machine does not cause timeouts at high speeds."""
RETRY_PAUSE_SECONDS: Final = 1.0
"""Simulated pause before the retry, so that endpoints can be updated."""
TIMEOUT_REQUESTS: Final = 5.0
"""Client timeout, in undisturbed answers. Assumed: about two minutes."""


def sample_rate(pods: int, clock: Clock) -> float:
    """Requests per simulated second for that many servers, within the wall-time limit."""
    return min(SAMPLE_PER_POD * max(1, pods), WALL_LIMIT_PER_SECOND / clock.speed)


class Driver:
    """Sends requests until stopped. Used in one event loop."""

    def __init__(
        self,
        *,
        clock: Clock,
        entrance: Entrance,
        model: str,
        request: Request,
        request_seconds: float,
        rate_per_second: float,
        retry: bool,
    ) -> None:
        """`entrance`: chooses each request's server. `request_seconds`: an undisturbed answer, for timeouts. `rate_per_second` is
        simulated. `retry`: repeat a request once when it got no complete answer.

        Raises ValueError for a rate of zero or less.
        """
        if rate_per_second <= 0:
            raise ValueError(f"rate_per_second must be above zero, got {rate_per_second}")
        self._clock, self._entrance = clock, entrance
        self.rate_per_second, self._retry = rate_per_second, retry
        self._timeout_wall = max(LEAST_TIMEOUT_WALL_SECONDS, clock.wall_seconds(TIMEOUT_REQUESTS * request_seconds))
        self._body = _body(model, request)
        self._stop = asyncio.Event()
        self._open: set[asyncio.Task[None]] = set()
        self.outcomes: list[Outcome] = []
        self.late_seconds = 0.0
        """Maximum delay of a request after its scheduled time, simulated."""

    async def run(self) -> None:
        """Send at the rate until `stop`, then wait for open requests. Late requests are still sent (open loop)."""
        import aiohttp

        connector = aiohttp.TCPConnector(limit=0, force_close=True)
        timeout = aiohttp.ClientTimeout(total=self._timeout_wall)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            loop = asyncio.get_running_loop()
            between = self._clock.wall_seconds(1 / self.rate_per_second)
            began = loop.time()
            number = 0
            while not self._stop.is_set():
                early = began + number * between - loop.time()
                if early > 0:
                    await self._pause(early)
                    continue
                self.late_seconds = max(self.late_seconds, -early * self._clock.speed)
                task = loop.create_task(self._one(session))
                self._open.add(task)
                task.add_done_callback(self._open.discard)
                number += 1
                if number % 16 == 0:
                    await asyncio.sleep(0)
            while self._open:
                await asyncio.wait(list(self._open))

    def stop(self) -> None:
        """Stop sending."""
        self._stop.set()

    async def abort(self) -> None:
        """Stop sending and cancel open requests; `run` ends."""
        self._stop.set()
        for task in list(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _pause(self, wall_seconds: float) -> None:
        try:
            async with asyncio.timeout(wall_seconds):
                await self._stop.wait()
        except TimeoutError:
            return

    async def _one(self, session: aiohttp.ClientSession) -> None:
        chosen = self._entrance.choose()
        first = loss = await self._attempt(session, chosen)
        if first is not None and self._retry:
            await asyncio.sleep(self._clock.wall_seconds(RETRY_PAUSE_SECONDS))
            loss = await self._attempt(session, self._entrance.choose(other_than=chosen.url))
        self.outcomes.append(Outcome(first_loss=first, loss=loss, backend=chosen.backend))

    async def _attempt(self, session: aiohttp.ClientSession, chosen: Chosen) -> Cause | None:
        """One attempt; None if the answer was complete."""
        import aiohttp

        if chosen.url is None:
            return chosen.loss
        received = False
        tail = b""
        try:
            async with session.post(f"{chosen.url}{PATH}", data=self._body, headers=_HEADERS) as response:
                if response.status != 200:
                    return "not ready" if response.status == 503 else "server error"
                async for chunk in response.content.iter_any():
                    received = True
                    tail = (tail + chunk)[-len(END_OF_STREAM) :]
        except aiohttp.ClientConnectorError:
            return "refused"
        except TimeoutError:
            return "timed out"
        except aiohttp.ClientError:
            return "cut mid-stream" if received else "cut before the first token"
        if tail == END_OF_STREAM:
            return None
        return "cut mid-stream" if received else "cut before the first token"


_HEADERS: Final = {"Content-Type": "application/json"}


def _body(model: str, request: Request) -> bytes:
    fields = {
        "model": model,
        "prompt": [0] * request.input_tokens,
        "max_tokens": request.output_tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
        "ignore_eos": True,
    }
    return json.dumps(fields, separators=(",", ":")).encode()
