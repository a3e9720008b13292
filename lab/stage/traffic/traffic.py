"""Servers for every pod and a steady client, in one thread: client requests during a drill."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from facts.machines import DEFAULT
from fleet.plan.modelled import modelled
from lab.results.result import RehearsalError
from lab.simulators.model_server.timing import (
    Request,
    ServerTiming,
    published_in_flight_per_node,
    published_request,
    published_timing,
)
from lab.stage.traffic.driver import Driver, sample_rate
from lab.stage.traffic.entrance import Entrance, RouteEntrance, ServiceEntrance
from lab.stage.traffic.fleet import Fleet, Objects, PodEnding
from lab.stage.traffic.outcomes import LoadName, TrafficReport
from lab.stage.traffic.steady_loop import SteadyLoop

if TYPE_CHECKING:
    from lab.cloud.gateway_split import Backend
    from lab.results.clock import Clock
    from settings.stack import Settings

T = TypeVar("T")
ENDPOINTS_WALL_SECONDS: Final = 10.0
"""Timeout of starting a Ready pod's server. Measured: milliseconds."""
_CLOSE_WALL_SECONDS: Final = 10.0
_CLOSING_WALL_SECONDS: Final = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Requests and the servers' latencies. Default: the article's mean request and record."""

    request: Request
    timing: ServerTiming
    in_flight_per_server: int
    """For comparison with the sample."""
    name: LoadName = "published"

    @property
    def request_seconds(self) -> float:
        """Duration of an undisturbed request."""
        return self.timing.request_seconds(self.request)


def published_load() -> Load:
    """The article's mean request, and its record's median latencies."""
    return Load(
        request=published_request(), timing=published_timing(), in_flight_per_server=published_in_flight_per_node()
    )


def load_of(settings: Settings) -> Load:
    """The published load for the article's machine type; otherwise the stack's load, with latencies predicted by the planner's
    model, or the record's if the model cannot predict them.
    """
    load = published_load()
    if settings.machine.type == DEFAULT:
        return load
    load = replace(load, in_flight_per_server=settings.serving.concurrency_per_replica, name="declared")
    answer = modelled(settings)
    if answer is None:
        return load
    workload, performance = answer.requests, answer.performance
    return replace(
        load,
        request=Request(
            input_tokens=round(workload.input_tokens.mean), output_tokens=round(workload.output_tokens.mean)
        ),
        timing=ServerTiming(
            ttft_seconds=performance.ttft_ms.value / 1000, tpot_seconds=performance.tpot_ms.value / 1000
        ),
    )


class Traffic:
    """A context manager in which every Ready pod has a server. `start` sends requests, `finish` returns their outcomes."""

    def __init__(
        self,
        *,
        clock: Clock,
        pods: Objects,
        nodes: Objects,
        server: str,
        namespace: str,
        model: str,
        load: Load | None = None,
        route: Callable[[], Sequence[Backend]] | None = None,
    ) -> None:
        """`server`: value of the server pods' label `app`. `model`: requested model name. `route`: backends through which a
        gateway sends the requests; None: they go to the Service.
        """
        self._route = route
        self.load = load or published_load()
        self._clock, self._model = clock, model
        self._pods, self._nodes = pods, nodes
        self._loop = SteadyLoop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="traffic", daemon=True)
        self.fleet = Fleet(
            loop=self._loop,
            clock=clock,
            timing=self.load.timing,
            model=model,
            server=server,
            namespace=namespace,
        )
        self._driver: Driver | None = None
        self._running: concurrent.futures.Future[None] | None = None
        self._endings_before = 0
        self._skipped_before = 0.0
        self._retried = False

    def __enter__(self) -> Traffic:
        self._thread.start()
        self.fleet.follow(self._pods, self._nodes)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(concurrent.futures.TimeoutError):
            self._do(self._end(), _CLOSE_WALL_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CLOSE_WALL_SECONDS)
        self._loop.close()

    def wait_for_endpoints(self, number: int, wall_seconds: float = ENDPOINTS_WALL_SECONDS) -> None:
        """Wait until the Service has that many endpoints. Raises RehearsalError after that much wall time."""
        waited = threading.Event()
        delay = self._clock.wall_seconds(1.0)
        for _ in range(max(1, int(wall_seconds / 0.02))):
            if len(self.endpoints()) >= number:
                return
            waited.wait(min(0.02, max(0.002, delay)))
        raise RehearsalError(
            f"{len(self.endpoints())} of {number} server pods have a stub server after {wall_seconds:g} s: are they Ready?"
        )

    def endpoints(self) -> list[str]:
        """The servers' Service's current URLs."""
        return self._do(_call(self.fleet.endpoints), ENDPOINTS_WALL_SECONDS)

    def accepted(self, app: str) -> int:
        """Requests that have reached the present servers of this `app`."""
        return self._do(_call(lambda: self.fleet.accepted(app)), ENDPOINTS_WALL_SECONDS)

    def fail(self, app: str) -> None:
        """Make the present servers of this `app` answer every request with 500."""
        self._do(_call(lambda: self.fleet.fail(app)), ENDPOINTS_WALL_SECONDS)

    def start(self, *, rate_per_second: float | None = None, retry: bool = False) -> None:
        """Start sending at a rate in simulated time, by default one that this machine can sustain. With `retry`, the report has the
        losses with and without it.
        """
        rate = rate_per_second or sample_rate(len(self.endpoints()), self._clock)
        self._endings_before = len(self.fleet.endings)
        self._skipped_before = self._loop.skipped_wall_seconds
        self._retried = retry
        driver = self._do(self._make_driver(rate, retry), ENDPOINTS_WALL_SECONDS)
        self._driver = driver
        self._running = asyncio.run_coroutine_threadsafe(driver.run(), self._loop)

    def run_for(self, simulated_seconds: float) -> None:
        """Wait that long in the traffic's time, which excludes pauses of a busy machine."""
        asyncio.run_coroutine_threadsafe(
            asyncio.sleep(self._clock.wall_seconds(simulated_seconds)), self._loop
        ).result()

    def settle(self) -> None:
        """Wait until the number of requests in flight is steady: a little longer than a request."""
        self.run_for(1.2 * self.load.request_seconds)

    def finish(self) -> TrafficReport:
        """Stop sending, wait for the answers, and report. Raises RehearsalError if nothing was started."""
        driver, running = self._driver, self._running
        if driver is None or running is None:
            raise RehearsalError("no requests were started, so there is nothing to report")
        self._loop.call_soon_threadsafe(driver.stop)
        running.result()
        self._driver = self._running = None
        return TrafficReport(
            rate_per_second=driver.rate_per_second,
            late_seconds=driver.late_seconds,
            skipped_seconds=(self._loop.skipped_wall_seconds - self._skipped_before) * self._clock.speed,
            request_seconds=self.load.request_seconds,
            in_flight_per_server=self.load.in_flight_per_server,
            load=self.load.name,
            retried=self._retried,
            outcomes=tuple(driver.outcomes),
            endings=self._endings(),
        )

    def _endings(self) -> tuple[PodEnding, ...]:
        return tuple(self.fleet.endings[self._endings_before :])

    async def _end(self) -> None:
        """Close clients, then servers, with pauses for their sockets to close."""
        if self._driver is not None:
            await self._driver.abort()
            await asyncio.sleep(_CLOSING_WALL_SECONDS)
        await self.fleet.close()
        await asyncio.sleep(_CLOSING_WALL_SECONDS)
        left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await asyncio.sleep(_CLOSING_WALL_SECONDS)

    async def _make_driver(self, rate: float, retry: bool) -> Driver:
        fleet, route = self.fleet, self._route
        entrance: Entrance = (
            ServiceEntrance(fleet.endpoints) if route is None else RouteEntrance(route, fleet.endpoints)
        )
        return Driver(
            clock=self._clock,
            entrance=entrance,
            model=self._model,
            request=self.load.request,
            request_seconds=self.load.request_seconds,
            rate_per_second=rate,
            retry=retry,
        )

    def _do(self, work: Coroutine[Any, Any, T], wall_seconds: float) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(wall_seconds)


async def _call(function: Callable[[], T]) -> T:
    return function()
