"""Simulate one policy under one load in one-minute steps: requests, queue, metric, autoscaler, nodes. Deterministic.

The autoscaler is KEDA's (keda.py): its metrics go through the HPA (hpa.py). Source: keda v2.20.2, pkg/scalers/cron_scaler.go
(a window requests its replicas at target 1).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from facts.day import Load
from fleet.plan.day.fleet import IDLE_SECONDS, METRIC_LAG_SECONDS, PATIENCE_SECONDS, Fleet
from fleet.plan.day.hpa import SYNC_SECONDS, Behavior, Hpa, Metric, Rate
from fleet.plan.day.keda import COOLDOWN_SECONDS, fallback_value, own_replicas
from settings.derived.scaling import WEEK_MINUTES, ScalingPolicy

NO_WAIT_SECONDS: Final = 1.0
"""Assumed: longest wait beyond full load that still counts as on time."""
WASTED_SECONDS: Final = 3600
"""Assumed: a start is wasted if the server serves for less than this."""
_POINT_SECONDS: Final = 600
_HOUR: Final = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """State of the fleet at one moment."""

    second: int
    requests_per_s: float
    ready: int
    asked: int
    """Desired servers: ready, starting or pending."""
    capacity_requests_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DayResult:
    """Outcome of one policy under one load."""

    requests: float
    requests_late: float
    """Answered after a wait beyond full load."""
    requests_lost: float
    """Abandoned by the client, or arrived while no server was ready."""
    node_hours: float
    """Billed node-hours, idle minutes before removal and idle reserved nodes included."""
    hours: float
    usd: float | None
    """None if the price of a node-hour is unknown."""
    worst_hour: int
    """Hour with the smallest share on time."""
    worst_hour_attainment: float
    starts: int
    wasted_starts: int
    """Servers removed before or within an hour of their first response."""
    most_nodes: int
    timeline: tuple[Point, ...]

    @property
    def slo_attainment(self) -> float:
        """Share of requests on time: they found a server below full load."""
        return max(0.0, 1 - (self.requests_late + self.requests_lost) / self.requests)


class _Servers:
    """Servers, oldest first: when each is ready, and when billing of its node starts."""

    def __init__(self, fleet: Fleet, count: int, step_seconds: int) -> None:
        self._fleet, self._step = fleet, step_seconds
        self._ready_at, self._paid_from = [0.0] * count, [0.0] * count
        self.starts = self.wasted = self.most = 0
        self.node_seconds = 0.0

    def __len__(self) -> int:
        return len(self._ready_at)

    def ready(self, now: float) -> int:
        """Number of ready servers."""
        return bisect_right(self._ready_at, now)

    def pay(self, now: float) -> None:
        """Bill one step of all nodes, and of reserved ones that do not run."""
        nodes = bisect_right(self._paid_from, now)
        self.node_seconds += max(nodes, self._fleet.reserved_nodes) * self._step
        self.most = max(self.most, nodes)

    def change(self, wanted: int, now: float) -> None:
        """Add servers, or remove the youngest: a ReplicaSet removes unready pods first."""
        while len(self) < wanted:
            comes = max([now, *(span.end for span in self._fleet.stock_outs if now in span)])
            self._paid_from.append(comes)
            self._ready_at.append(comes + self._fleet.start_seconds)
            self.starts += 1
        while len(self) > wanted:
            answered, paid = self._ready_at.pop(), self._paid_from.pop()
            self.wasted += answered > 0 and now < answered + WASTED_SECONDS
            is_reserved = len(self) < self._fleet.reserved_nodes
            self.node_seconds += IDLE_SECONDS if paid <= now and not is_reserved else 0

    def lose(self, now: float) -> None:
        """Lose one node and request its server again."""
        if self.ready(now):
            del self._ready_at[0], self._paid_from[0]
            self.change(len(self) + 1, now)


class _Scaler:
    """KEDA and its HPA, for one policy."""

    def __init__(self, policy: ScalingPolicy, load: Load, *, nulls_are_zero: bool) -> None:
        self._policy, self._nulls_are_zero = policy, nulls_are_zero
        self._hpa = Hpa(
            least=max(1, policy.min),
            most=policy.max,
            up=Behavior(
                window_seconds=policy.up_window_seconds,
                rates=(
                    Rate(type="Percent", value=policy.up_percent, period_seconds=policy.up_period_seconds),
                    Rate(type="Pods", value=policy.up_pods, period_seconds=policy.up_period_seconds),
                ),
                tolerance=policy.tolerance,
            ),
            down=Behavior(
                window_seconds=policy.down_window_seconds,
                rates=(
                    Rate(type="Pods", value=policy.down_pods_per_period, period_seconds=policy.down_period_seconds),
                ),
                tolerance=policy.tolerance,
            ),
        )
        self._floor = floors(policy)
        self._first_minute, self._step = load.first_second // 60, load.step_seconds
        self._failures, self._active_at = 0, 0.0

    def window(self, now: float) -> int:
        """Replicas requested by the cron windows; 0 outside them."""
        floor = self._floor(self._first_minute + int(now // 60))
        return floor if floor > self._policy.min else 0

    def wanted(self, now: float, current: int, signal: float | None) -> int:
        """Desired servers after this step."""
        policy, window, by_load = self._policy, self.window(now), self._policy.target_in_flight is not None
        if signal is None and self._nulls_are_zero:
            signal = 0.0
        active = bool(window) or (by_load and bool(signal))
        if active:
            self._active_at = now
        current = own_replicas(
            active=active,
            failing=by_load and signal is None,
            fallback=policy.fallback_replicas,
            current=current,
            least=policy.min,
            idle_seconds=now - self._active_at,
            cooldown=COOLDOWN_SECONDS,
        )
        metrics = [Metric(value=window, target=1)] if policy.windows else []
        if policy.target_in_flight is not None:
            self._failures = 0 if signal is not None else self._failures + self._step // SYNC_SECONDS
            if self._failures > policy.failures_before_fallback and policy.mechanism == "keda":
                signal = fallback_value(
                    "currentReplicasIfHigher", policy.fallback_replicas, policy.target_in_flight, current
                )
            metrics.append(Metric(value=signal, target=policy.target_in_flight))
        return self._hpa.replicas(now, current, metrics)


def floors(policy: ScalingPolicy) -> Callable[[int], int]:
    """Return a fast `policy.floor`, precomputed between the moments at which windows open and close."""
    moments = [edge for window in policy.windows for edge in (window.opens(policy.early_minutes), window.closes())]
    minutes = sorted({0, *(day * 24 * 60 + minute for days, minute in moments for day in days)})
    found = [policy.floor(minute) for minute in minutes]
    return lambda minute: found[bisect_right(minutes, minute % WEEK_MINUTES) - 1]


def simulate(
    policy: ScalingPolicy | int,
    load: Load,
    fleet: Fleet,
    *,
    signal: Literal["in-flight", "waiting"] = "in-flight",
    nulls_are_zero: bool = False,
) -> DayResult:
    """Simulate the load under a policy, or under a fixed number of servers.

    `signal` and `nulls_are_zero` (KEDA's ignoreNullValues) reproduce common mistakes.
    """
    step, serving = load.step_seconds, fleet.serving
    lag = METRIC_LAG_SECONDS // step
    scaler = None if isinstance(policy, int) else _Scaler(policy, load, nulls_are_zero=nulls_are_zero)
    servers = _Servers(fleet, _first(policy, scaler, load, fleet), step)
    seen: list[float | None] = []
    queue = lost = late = 0.0
    hours: dict[int, list[float]] = {}
    timeline = []
    for at, rate in enumerate(load.requests_per_s):
        now = at * step
        for moment in fleet.losses:
            if now <= moment < now + step:
                servers.lose(now)
        ready, arrived, before = servers.ready(now), rate * step, queue
        full = ready * serving.full_requests_per_s
        answered = min(before + arrived, full * step)
        queue = before + arrived - answered
        gone = max(0.0, queue - full * PATIENCE_SECONDS)
        queue -= gone
        waits = full == 0 or (before + queue) / 2 / full > NO_WAIT_SECONDS
        missed = max(arrived, gone) if waits else 0.0
        lost += gone
        late += max(0.0, missed - gone)
        hour = hours.setdefault(now // _HOUR, [0.0, 0.0])
        hour[0] += arrived
        hour[1] += missed
        servers.pay(now)
        if now % _POINT_SECONDS == 0:
            timeline.append(
                Point(second=now, requests_per_s=rate, ready=ready, asked=len(servers), capacity_requests_per_s=full)
            )
        if scaler is None:
            continue
        running = ready * serving.in_flight(answered / step / ready) if ready else 0.0
        # Without a ready server there is no series, and the query returns nothing.
        seen.append(None if not ready else queue + (running if signal == "in-flight" else 0.0))
        blind = any(now in span for span in fleet.blind)
        servers.change(scaler.wanted(now, len(servers), None if blind else seen[max(0, at - lag)]), now)
    worst = min(hours, key=lambda hour: 1 - hours[hour][1] / hours[hour][0] if hours[hour][0] else 1.0)
    node_hours = servers.node_seconds / _HOUR
    paid = node_hours if fleet.paid_nodes is None else fleet.paid_nodes * load.hours
    return DayResult(
        requests=sum(load.requests_per_s) * step,
        requests_late=late,
        requests_lost=lost,
        node_hours=node_hours,
        hours=load.hours,
        usd=None
        if fleet.usd_per_node_hour is None
        else paid * fleet.usd_per_node_hour + load.hours * fleet.usd_per_hour_around,
        worst_hour=worst,
        worst_hour_attainment=max(0.0, 1 - hours[worst][1] / hours[worst][0]),
        starts=servers.starts,
        wasted_starts=servers.wasted,
        most_nodes=servers.most,
        timeline=tuple(timeline),
    )


def _first(policy: ScalingPolicy | int, scaler: _Scaler | None, load: Load, fleet: Fleet) -> int:
    """Initial servers: the policy's steady state under the first load."""
    if isinstance(policy, int) or scaler is None:
        return int(policy)  # type: ignore[arg-type]
    needed = 0
    if policy.target_in_flight is not None:
        # Requests in flight grow faster than the rate, so search for the count instead of dividing.
        rate, serving = load.requests_per_s[0], fleet.serving
        needed = next(
            (n for n in range(1, policy.max) if serving.in_flight(rate / n) <= policy.target_in_flight), policy.max
        )
    return min(policy.max, max(policy.min, scaler.window(0), needed))
