"""Simulated cluster autoscaler: adds nodes for pending pods and removes empty nodes."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

from lab.cloud.agenda import BUSY, Agenda
from lab.cloud.autoscaler_events import Trouble, event_manifest, not_placed, unbound_volume
from lab.cloud.cluster_view import TO_BE_DELETED, ClusterView, Waiting
from lab.cloud.node_objects import node_manifest, node_name
from lab.cloud.offers import COMPUTE_CLASS_KIND, CONSOLIDATION_DELAY, Offer, offers
from lab.cloud.pod_needs import PodNeeds
from lab.cloud.scale_up import Market, Memory, PodKey, Room, Rooms, Wanted, decide
from lab.cloud.stock import Stock
from lab.cloud.timings import Timings
from lab.cloud.volume_zones import volume_zones
from lab.cloud.world import World, has_ended
from lab.control_plane.api import NODE, POD, STORAGE_CLASS, ApiRefusedError, ApiUnreachableError, Manifest

LOG = logging.getLogger(__name__)
EVENTS_PER_SCAN: Final = 50
"""Pods that get a scale-up event per scan; events of hundreds of pods would cost more than the nodes."""
SCHEDULER_SECONDS: Final = 15.0
"""Time for the scheduler to place a pod that fits, before it counts as refused; wall time, as the scheduler runs in it."""
SCAN_WALL_SECONDS: Final = 0.15
"""Minimum wall time between scans; with a thousand nodes one scan takes 20 ms."""
WANTED_WALL_SECONDS: Final = 2.0
"""Wall time until an empty node that a pending pod could use is checked again, as the scheduler runs in wall time."""
ROUNDING_SECONDS: Final = 0.01
"""Tolerance of due times; simulated."""
DEFAULT_CLUSTER: Final = "vllm-inference-cluster"
DEFAULT_PROJECT: Final = "offline-preview"


@dataclass(frozen=True, slots=True)
class _Order:
    """A node being created."""

    number: int
    name: str
    wanted: Wanted


class Provisioner:
    """Scales nodes. Construct it before the world is entered, then enter it inside."""

    def __init__(
        self,
        world: World,
        stock: Stock,
        timings: Timings,
        *,
        cluster: str = DEFAULT_CLUSTER,
        project: str = DEFAULT_PROJECT,
    ) -> None:
        self._world, self._stock, self._timings = world, stock, timings
        self._cluster, self._project = cluster, project
        self._memory = Memory()
        self._orders: dict[str, _Order] = {}
        self._troubles: dict[PodKey, Trouble] = {}
        self._room_since: dict[PodKey, float] = {}
        self._numbers, self._event_numbers = itertools.count(1), itertools.count(time.time_ns())
        self._view = ClusterView(world, self._someone_waits, self._plan_removal, self._arrived)
        self._agenda = Agenda(world.clock, "provisioner")
        self._look_due: float | None = None
        self._planning, self._looking = threading.Lock(), threading.Lock()

    def __enter__(self) -> Provisioner:
        return self

    def __exit__(self, *_: object) -> None:
        self._agenda.close()

    def why_pending(self, pod: Manifest) -> Trouble | None:
        """Why this pod has no node; None if it has one, or one is being created."""
        metadata = pod["metadata"]
        return self._troubles.get((metadata["namespace"], metadata["name"]))

    # Scans

    def _look_at(self, seconds: float) -> None:
        """Scan at that simulated moment, unless an earlier scan is planned."""
        with self._planning:
            if self._look_due is not None and self._look_due <= seconds:
                return
            self._look_due = seconds
        self._agenda.after(max(0.0, seconds - self._world.clock.now_seconds()), self._look_if_due)

    def _look_if_due(self) -> None:
        with self._looking:
            with self._planning:
                if self._look_due is None or self._look_due > self._world.clock.now_seconds() + ROUNDING_SECONDS:
                    return
                self._look_due = None
            try:
                self._look()
            except (ApiUnreachableError, ApiRefusedError) as error:
                # The API server is away or busy: retry with the next scan.
                LOG.info("looking for pods without a node: %s", error)
                self._someone_waits()

    def _someone_waits(self) -> None:
        clock = self._world.clock
        scan = max(self._timings.autoscaler_scan_seconds, SCAN_WALL_SECONDS * clock.speed)
        self._look_at(clock.now_seconds() + scan)

    # Up

    def _look(self) -> None:
        """One scan: decide, request nodes, write events."""
        now = self._world.clock.now_seconds()
        with self._view.lock:
            # An Autopilot cluster without user pods has no nodes: Google's own pods add none.
            # Source: cluster autoscaler, pkg/processors/scale_to_zero_processor.go.
            waiting = self._view.waiting() if self._view.has_work() else []
            rooms, orders = self._view.rooms(), list(self._orders.values())
            market = self._market()
        troubles = {one.key: unbound_volume(one.said) for one in waiting if _waits_for_volume(one.said)}
        decision = decide(
            [(one.key, self._with_zones(one)) for one in waiting if one.key not in troubles],
            Rooms(rooms),
            Rooms(Room(order.wanted.template, order.wanted.offer.machine.allocatable) for order in orders),
            market,
            self._offers,
            now,
        )
        for wanted in decision.wanted:
            self._order(wanted)
        troubles |= decision.troubles
        troubles |= self._not_scheduled(decision.placed, waiting)
        self._report_scale_up(decision.wanted)
        self._report_troubles(troubles)
        if decision.look_again_at is not None:
            self._look_at(decision.look_again_at)

    def _market(self) -> Market:
        """What can be had now, beside nodes that exist or are on their way. Called with the view's lock."""
        wanted = [order.wanted.offer for order in self._orders.values()]
        in_use = self._view.in_use()
        in_use.update(offer.pool for offer in wanted)
        return Market(
            self._stock,
            self._memory,
            in_use,
            retry_seconds=self._timings.scale_up_retry_seconds,
            ssd_gib=self._view.ssd_gib() + sum(offer.machine.ssd_gib for offer in wanted),
        )

    def _offers(self, needs: PodNeeds, pods: int) -> tuple[Offer, ...] | Trouble:
        wait = self._timings.flex_start_wait_seconds
        return offers(needs, pods, self._stock, self._read_class, flex_wait_seconds=wait)

    def _read_class(self, name: str) -> Manifest | None:
        return self._optional(lambda: self._world.api.get(COMPUTE_CLASS_KIND, name))

    def _optional(self, call: Callable[[], Manifest | None]) -> Manifest | None:
        try:
            return call()
        except ApiRefusedError as refusal:
            if refusal.status == 404:  # The kind does not exist.
                return None
            raise

    def _with_zones(self, waiting: Waiting) -> PodNeeds:
        zones = volume_zones(
            self._world,
            waiting.key[0],
            waiting.claims,
            lambda name: self._optional(lambda: self._world.api.get(STORAGE_CLASS, name)),
        )
        return waiting.needs if zones is None else replace(waiting.needs, volume_zones=zones)

    def _order(self, wanted: Wanted) -> None:
        number = next(self._numbers)
        order = _Order(number, node_name(wanted.offer, number, self._cluster), wanted)
        with self._view.lock:
            self._orders[order.name] = order
        start = self._timings.node_start(number, has_gpus=wanted.offer.machine.gpus > 0)
        self._agenda.after(start, self._create, order)

    def _create(self, order: _Order) -> None:
        offer = order.wanted.offer
        manifest = node_manifest(
            offer,
            order.wanted.template,
            number=order.number,
            cluster=self._cluster,
            project=self._project,
        )
        try:
            self._world.api.create(manifest)
        except ApiRefusedError as refusal:
            if refusal.status in BUSY:
                raise
            if refusal.status != 409:  # 409: an earlier attempt succeeded without an answer.
                with self._view.lock:
                    self._orders.pop(order.name, None)
                LOG.warning("node %s was refused: %s", order.name, refusal.message)
                self._look_at(self._world.clock.now_seconds() + self._timings.scale_up_retry_seconds)

    def _arrived(self, name: str) -> None:
        self._orders.pop(name, None)

    # Reports

    def _not_scheduled(self, placed: set[PodKey], waiting: list[Waiting]) -> dict[PodKey, Trouble]:
        """Pods that fit a node but stay unscheduled, for a reason that the simulation does not model."""
        wall = time.monotonic()
        self._room_since = {key: self._room_since.get(key, wall) for key in placed}
        if placed:
            self._look_at(self._world.clock.now_seconds() + SCHEDULER_SECONDS * self._world.clock.speed)
        return {
            one.key: not_placed(one.said)
            for one in waiting
            if one.key in placed and wall - self._room_since[one.key] > SCHEDULER_SECONDS
        }

    def _report_scale_up(self, wanted: Iterable[Wanted]) -> None:
        machines: dict[Offer, list[PodKey]] = {}
        numbers: dict[Offer, int] = {}
        for one in wanted:
            machines.setdefault(one.offer, []).extend(one.pods)
            numbers[one.offer] = numbers.get(one.offer, 0) + 1
        for offer, pods in machines.items():
            group = node_name(offer, 0, self._cluster).rpartition("-")[0]
            what = (
                f"pod triggered scale-up: [{{https://www.googleapis.com/compute/v1/projects/{self._project}/zones/"
                f"{offer.zone}/instanceGroups/{group}-grp 0->{numbers[offer]} (max: 1000)}}]"
            )
            for key in pods[:EVENTS_PER_SCAN]:
                self._event(key, "TriggeredScaleUp", what, warning=False)

    def _report_troubles(self, troubles: dict[PodKey, Trouble]) -> None:
        before, self._troubles = self._troubles, troubles
        fresh: dict[Trouble, list[PodKey]] = {}
        for key, trouble in troubles.items():
            if key not in before or before[key] != trouble:
                fresh.setdefault(trouble, []).append(key)
        for trouble, keys in fresh.items():
            for key in keys:
                if trouble.event:
                    self._event(key, trouble.event, trouble.shown, warning=trouble.event == "FailedScaleUp")

    def _event(self, key: PodKey, reason: str, message: str, *, warning: bool) -> None:
        pod = self._world.pods.get(key[1], key[0])
        if pod is None:
            return
        manifest = event_manifest(
            pod, reason=reason, message=message, warning=warning, number=next(self._event_numbers)
        )
        self._agenda.soon(self._create_event, manifest)

    def _create_event(self, manifest: Manifest) -> None:
        try:
            self._world.api.create(manifest)
        except ApiRefusedError as refusal:
            # The namespace is being deleted, or an earlier attempt succeeded.
            LOG.info("event on %s: %s", manifest["involvedObject"]["name"], refusal.message)

    # Down

    def _plan_removal(self, name: str, empty_since: float) -> None:
        wait = empty_since + self._idle_seconds(name) - self._world.clock.now_seconds()
        self._agenda.after(wait, self._consider_removal, name)

    def _idle_seconds(self, name: str) -> float:
        """How long this node is empty before it is removed: by its class, else the autoscaler's own delay."""
        node = self._world.nodes.get(name)
        delay = None if node is None else node["metadata"]["labels"].get(CONSOLIDATION_DELAY)
        if delay is None:
            return self._timings.scale_down_seconds
        return max(float(delay), self._timings.least_idle_seconds)

    def _consider_removal(self, name: str) -> None:
        """Taint the node, check that it is still empty, and remove it."""
        since, node = self._view.empty_since(name), self._world.nodes.get(name)
        due = None if since is None else since + self._idle_seconds(name)
        if due is None or node is None or due > self._world.clock.now_seconds() + ROUNDING_SECONDS:
            return  # In use again.
        if self._view.is_wanted(name):
            patience = max(self._timings.autoscaler_scan_seconds, WANTED_WALL_SECONDS * self._world.clock.speed)
            self._agenda.after(patience, self._consider_removal, name)
            return
        api = self._world.api
        taints = [taint for taint in node["spec"].get("taints") or () if taint["key"] != TO_BE_DELETED]
        marked = [*taints, {"key": TO_BE_DELETED, "value": "", "effect": "NoSchedule"}]
        api.patch(NODE, name, None, {"spec": {"taints": marked}})
        pods = api.list_all(POD, field_selector=f"spec.nodeName={name}")
        if not all(map(has_ended, pods)):
            api.patch(NODE, name, None, {"spec": {"taints": taints}})
            return
        self._agenda.after(self._timings.node_removal_seconds, self._remove, name)

    def _remove(self, name: str) -> None:
        self._world.api.delete(NODE, name)


def _waits_for_volume(said: str) -> bool:
    """Whether the scheduler's message is about a claim. Source: kube-scheduler, volume binding."""
    return "unbound immediate PersistentVolumeClaims" in said or "persistentvolumeclaim " in said
