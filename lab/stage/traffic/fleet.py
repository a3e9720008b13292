"""A loopback server for every server pod and every pod of a canary, which ends as the pod ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from facts.names import CANARY_ENDING
from lab.cloud.node_objects import shutdown_seconds
from lab.cloud.world import has_ended, is_ready, restarts_of
from lab.control_plane.api import Manifest
from lab.simulators.model_server.server import Ending, ModelServer
from lab.stage.traffic.pod_end import grace_left
from workloads.server.pod_end import PodEnd, pod_end

if TYPE_CHECKING:
    from lab.control_plane.mirror import Change, Listener
    from lab.results.clock import Clock
    from lab.simulators.model_server.timing import ServerTiming

LOG = logging.getLogger(__name__)

NOTICE: Final = "Spot notice"
DEFAULT_NOTICE_SECONDS: Final = shutdown_seconds(None)[0]
ENDPOINT_DELAY_SECONDS: Final = 1.0
"""From a pod's change to updated routes on every node, simulated. Assumed: EndpointSlices follow within tenths of a second, and
kube-proxy writes its rules at most once a second (minSyncPeriod). The real controllers' delay would count sixty times."""
NOTICE_DELAY_SECONDS: Final = ENDPOINT_DELAY_SECONDS + 2.5
"""The same after a Spot notice. The pod is not deleted and stays Ready until the node controller, every 5 s, finds its node
unready. Source: kube-controller-manager, --node-monitor-period; half of it on average."""


class Objects(Protocol):
    """A `Mirror`, or a fake with its interface."""

    def listen(self, listener: Listener) -> None:
        """Add a listener."""

    def all(self) -> list[Manifest]:
        """All objects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodEnding:
    """The end of one pod's server."""

    pod: str
    reason: str
    """"deleted", "Spot notice", "container died", "Failed", "node gone"."""
    stream_seconds: float
    """How long open streams may continue."""
    ending: Ending


@dataclass(eq=False)
class _Served:
    """One pod and its server."""

    name: str
    labels: Mapping[str, str]
    uid: str
    node: str
    restarts: int
    server: ModelServer
    wanted: bool = True
    """Whether the Service includes it; routes follow with a delay."""
    ends: bool = False


class Fleet:
    """Follows pods and nodes. Everything but `pod_changed` and `node_changed` runs in one event loop."""

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        timing: ServerTiming,
        model: str,
        server: str,
        namespace: str,
    ) -> None:
        """`server`: value of the pods' label `app`; a canary's has its ending."""
        self._loop, self._clock = loop, clock
        self._timing, self._model = timing, model
        self._app, self._apps, self._namespace = server, (server, server + CANARY_ENDING), namespace
        self._served: dict[str, _Served] = {}
        self._notices: dict[str, float] = {}
        """What a Spot notice leaves pods, by node."""
        self._routes: dict[str, Mapping[str, str]] = {}
        """URLs to which nodes route, with the labels of their pods; removed with a delay after a server's end."""
        self._servers: set[ModelServer] = set()
        """Servers that listen or still have a connection."""
        self._over: set[str] = set()
        """UIDs of ended pods, whose later changes are ignored."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        self.endings: list[PodEnding] = []

    def follow(self, pods: Objects, nodes: Objects) -> None:
        """Start listening and add existing pods. From any thread."""
        pods.listen(self.pod_changed)
        nodes.listen(self.node_changed)
        for node in nodes.all():
            self.node_changed("added", node, None)
        for pod in pods.all():
            self.pod_changed("added", pod, None)

    def endpoints(self, selector: Mapping[str, str] | None = None) -> list[str]:
        """URLs of pods with these labels, by default the Service's, to which nodes route now."""
        wanted = (selector or {"app": self._app}).items()
        return [url for url, labels in self._routes.items() if wanted <= labels.items()]

    def accepted(self, app: str) -> int:
        """Requests that have reached the present servers of this `app`."""
        return sum(one.server.accepted for one in self._of(app))

    def fail(self, app: str) -> None:
        """Make the present servers of this `app` answer every request with 500."""
        for one in self._of(app):
            one.server.failing = True

    def _of(self, app: str) -> list[_Served]:
        return [one for one in self._served.values() if one.labels["app"] == app]

    @property
    def in_flight(self) -> int:
        """Open requests on all servers."""
        return sum(server.in_flight for server in self._servers)

    async def close(self) -> None:
        """Close all connections without counting losses."""
        self._closed = True
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for server in list(self._servers):
            await server.cut()
        self._servers.clear()
        self._served.clear()
        self._routes.clear()

    # What the cluster says; from the mirrors' threads

    def pod_changed(self, change: Change, pod: Manifest, _: Manifest | None) -> None:
        """A listener for pods."""
        metadata = pod["metadata"]
        if (metadata.get("labels") or {}).get("app") not in self._apps or metadata.get("namespace") != self._namespace:
            return
        self._hand_over(lambda: self._take_pod(change, pod))

    def node_changed(self, change: Change, node: Manifest, _: Manifest | None) -> None:
        """A listener for nodes."""
        name: str = node["metadata"]["name"]
        if change == "deleted":
            self._hand_over(lambda: self._take_node_away(name))
        else:
            self._notices[name] = shutdown_seconds(node)[0]

    def _hand_over(self, work: Callable[[], None]) -> None:
        # A mirror keeps its listeners, so a fleet of an earlier drill is still told.
        if not self._closed and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(work)

    # In the loop

    def _take_pod(self, change: Change, pod: Manifest) -> None:
        uid: str = pod["metadata"]["uid"]
        if self._closed or uid in self._over:
            return
        served = self._served.get(uid)
        grace = grace_left(pod, self._notices.get(pod["spec"].get("nodeName", ""), DEFAULT_NOTICE_SECONDS))
        if change == "deleted":
            self._end(uid, "deleted", None)
        elif has_ended(pod):
            self._end(uid, pod["status"]["phase"], None)
        elif grace is not None:
            reason = "deleted" if pod["metadata"].get("deletionTimestamp") else NOTICE
            self._end(uid, reason, pod_end(pod["spec"], grace_seconds=grace))
        elif served is not None and restarts_of(pod) > served.restarts:
            self._cut(served, "container died")
            self._take_pod(change, pod)
        elif is_ready(pod):
            if served is None:
                self._start(pod)
            else:
                self._route(served, True)
        elif served is not None:
            self._route(served, False)

    def _take_node_away(self, node: str) -> None:
        for one in [one for one in self._served.values() if one.node == node]:
            self._over.add(one.uid)
            if one.ends:
                self._spawn(one.server.cut())  # its drain goes on to count what was lost
            else:
                self._cut(one, "node gone")

    def _start(self, pod: Manifest) -> None:
        metadata = pod["metadata"]
        one = _Served(
            name=metadata["name"],
            labels=metadata["labels"],
            uid=metadata["uid"],
            node=pod["spec"].get("nodeName", ""),
            restarts=restarts_of(pod),
            server=ModelServer(model=self._model, timing=self._timing, clock=self._clock),
        )
        self._served[one.uid] = one
        self._servers.add(one.server)
        self._spawn(self._serve(one))

    async def _serve(self, one: _Served) -> None:
        await one.server.start()
        one.server.ready = True
        await self._route_later(one, True, ENDPOINT_DELAY_SECONDS)

    def _route(self, one: _Served, wanted: bool) -> None:
        if one.wanted != wanted and not one.ends:
            one.wanted = wanted
            self._spawn(self._route_later(one, wanted, ENDPOINT_DELAY_SECONDS))

    async def _route_later(self, one: _Served, wanted: bool, delay_seconds: float) -> None:
        await asyncio.sleep(self._clock.wall_seconds(delay_seconds))
        if one.wanted != wanted:
            return
        if wanted:
            self._routes[one.server.url] = one.labels
        else:
            self._routes.pop(one.server.url, None)

    def _end(self, uid: str, reason: str, end: PodEnd | None) -> None:
        """End a pod's server: gracefully as in `end`, otherwise immediately."""
        self._over.add(uid)
        one = self._served.get(uid)
        if one is None:
            return
        if end is None:
            self._cut(one, reason)
        else:
            self._unroute(one, NOTICE_DELAY_SECONDS if reason == NOTICE else ENDPOINT_DELAY_SECONDS)
            self._spawn(self._drain(one, reason, end))

    def _cut(self, one: _Served, reason: str) -> None:
        # Off the list at once: a container that died may be back under the same pod before this one is gone.
        del self._served[one.uid]
        self._unroute(one, ENDPOINT_DELAY_SECONDS)
        self._spawn(self._drain(one, reason, PodEnd(accept_seconds=0.0, finish_seconds=0.0)))

    def _unroute(self, one: _Served, delay_seconds: float) -> None:
        one.ends, one.wanted = True, False
        self._spawn(self._route_later(one, False, delay_seconds))

    async def _drain(self, one: _Served, reason: str, end: PodEnd) -> None:
        ending = await one.server.drain(accept_seconds=end.accept_seconds, finish_seconds=end.finish_seconds)
        self._servers.discard(one.server)
        if self._served.get(one.uid) is one:
            del self._served[one.uid]
        self.endings.append(PodEnding(pod=one.name, reason=reason, stream_seconds=end.stream_seconds, ending=ending))

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            LOG.error("a simulated server: %s", error, exc_info=error)
