"""The autoscaling policy of a stack, used by Kubernetes objects, bill and simulation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Literal

from facts.capacity import FLEX_START_WAIT_SECONDS
from settings.derived.batch_pods import batch_pods
from settings.sections.capacity import has_flex_start
from settings.sections.scaling import DAYS

if TYPE_CHECKING:
    from settings.sections.scaling import ScalingWindow as WindowSection
    from settings.stack import Settings

GROWTH_DURING_LEAD: Final = 1.41
"""Growth of load in 20 minutes, 95th percentile. Source: ServeGen (github.com/alibaba/ServeGen, commit f891d11),
data/language/m-large, the rates of all clients summed, 14 days in steps of ten minutes; the 99th percentile is 1.74."""
LEAD_MINUTES: Final = 20
"""From rising load to a ready server. Source: settings.sections.scaling, `lead_minutes`."""
EARLY_SECONDS: Final = 600
"""A window opens by this much earlier than its lead. Assumed: a node may take ten minutes longer than usual."""
BATCH_POLL_SECONDS: Final = 15
"""How often the batch's pods are counted. The HPA's own period; each count lists the namespace's pods from KEDA's cache."""
BATCH_DOWN_SECONDS: Final = 300
"""How long fewer pods of a batch, or none, must last before servers go: a shard whose pod failed waits for 10 to 160 s, and holds the
place of another. Source: Kubernetes, Job, pod backoff failure policy; five failures. Disruptions count for the pause, too, which is 320 s
after the sixth and up to ten minutes: where that shard is the last one, servers go and come again. So they do for a last shard whose pods
fail within seconds, five times: no poll may see them. Both were seen with KEDA 2.20.2 (docs/decisions/25-batch.md)."""
DAY_MINUTES: Final = 24 * 60
WEEK_MINUTES: Final = 7 * DAY_MINUTES


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyWindow:
    """Weekly hours with a minimum number of servers."""

    days: tuple[int, ...]
    """Days of its start, 0 Monday to 6 Sunday."""
    start_minute: int
    """Start in minutes after midnight."""
    end_minute: int
    """End in minutes after midnight, up to 1440."""
    replicas: int

    def opens(self, early_minutes: int) -> tuple[tuple[int, ...], int]:
        """Days and minute of the day at which scaling starts, possibly on the previous day."""
        minute = self.start_minute - early_minutes
        return _on(self.days, minute)

    def closes(self) -> tuple[tuple[int, ...], int]:
        """Days and minute of the day of its end."""
        return _on(self.days, self.end_minute)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingPolicy:
    """Bounds, triggers and speed of autoscaling."""

    mode: Literal["schedule", "load", "batch"]
    paused: bool = False
    """Whether the fleet is paused, with zero servers."""
    min: int
    max: int
    target_in_flight: int | None
    """Target requests per server, running and waiting. None: no scaling by load."""
    lead_seconds: int
    """From rising load to a ready server."""
    windows: tuple[PolicyWindow, ...]
    timezone: str
    up_window_seconds: int = 30
    """Scale-up stabilization window: the lowest recommendation in it applies."""
    up_percent: int = 100
    up_pods: int = 2
    """Maximum servers added in a period: the larger of the two."""
    up_period_seconds: int = 60
    down_window_seconds: int
    """Scale-down stabilization window: the highest recommendation in it applies."""
    down_pods_per_period: int = 1
    down_period_seconds: int = 900
    """Slow, because a removed server that is needed again costs its startup and ten idle minutes of its node."""
    failures_before_fallback: int = 4
    """Failed queries after which the number of servers is kept, or raised to `fallback_replicas`."""
    fallback_replicas: int
    batch_pods_per_server: int = 1
    """Pods of a batch for which a server runs."""
    batch_max_usd: float | None = None
    """Amount in USD at which the stack's batches stop; None without one, and where something else than a batch decides."""

    @property
    def early_minutes(self) -> int:
        """Minutes before a window's start at which scaling starts."""
        return (self.lead_seconds + EARLY_SECONDS) // 60

    def floor(self, week_minute: int) -> int:
        """Minimum number of servers at a minute of the week, which starts on Monday at midnight."""
        open_ = (
            window.replicas
            for window in self.windows
            if any(_within(week_minute, *span) for span in self._spans(window))
        )
        return max([self.min, *open_])

    def mean_floor(self) -> float:
        """Mean minimum number of servers over a week."""
        ends = {end % WEEK_MINUTES for window in self.windows for span in self._spans(window) for end in span}
        return (
            sum(self.floor(begin) * (end - begin) for begin, end in pairwise(sorted({0, *ends, WEEK_MINUTES})))
            / WEEK_MINUTES
        )

    def _spans(self, window: PolicyWindow) -> Iterator[tuple[int, int]]:
        for day in window.days:
            begin = day * DAY_MINUTES + window.start_minute - self.early_minutes
            yield begin, day * DAY_MINUTES + window.end_minute


def lead_minutes(settings: Settings) -> int:
    """`server.scaling.leadMinutes`, or its default for the stack's capacity."""
    waits = has_flex_start(settings.capacity) and not settings.placement.interruptible
    return settings.server.scaling.lead_minutes or LEAD_MINUTES + waits * FLEX_START_WAIT_SECONDS // 60


def scaling_policy(settings: Settings) -> ScalingPolicy | None:
    """The policy of a stack; None if replicas are fixed or managed externally."""
    scaling = settings.server.scaling
    if scaling.mode == "none":
        return None
    lead_seconds, paused = lead_minutes(settings) * 60, settings.server.replicas == 0
    if scaling.mode == "batch":
        return ScalingPolicy(
            mode="batch",
            paused=paused,
            min=scaling.min,
            max=scaling.max,
            target_in_flight=None,
            lead_seconds=lead_seconds,
            windows=(),
            timezone=scaling.timezone,
            # All servers at once: a batch has pods for a number, and none too many.
            up_window_seconds=0,
            up_pods=scaling.max,
            up_period_seconds=BATCH_POLL_SECONDS,
            down_window_seconds=BATCH_DOWN_SECONDS,
            down_pods_per_period=scaling.max,
            down_period_seconds=BATCH_POLL_SECONDS,
            fallback_replicas=1,
            batch_pods_per_server=batch_pods(settings).per_server,
            batch_max_usd=settings.batch.max_usd,
        )
    return ScalingPolicy(
        mode=scaling.mode,
        paused=paused,
        min=scaling.min,
        max=scaling.max,
        target_in_flight=(scaling.target_in_flight or default_target(load_of_a_server(settings)))
        if scaling.mode == "load"
        else None,
        lead_seconds=lead_seconds,
        windows=tuple(_window(window) for window in scaling.windows),
        timezone=scaling.timezone,
        down_window_seconds=2 * lead_seconds,
        fallback_replicas=max(1, scaling.min),
    )


def load_of_a_server(settings: Settings) -> int:
    """Requests in flight that a server is for; with prefill apart at most those for which decode has places."""
    load = settings.serving.concurrency_per_replica
    return load if settings.server.shape is None else min(load, settings.seats or load)


def default_target(concurrency_per_replica: int) -> int:
    """Default target per server, with room for the growth of load while another server starts."""
    return max(1, int(concurrency_per_replica / GROWTH_DURING_LEAD))


def _window(window: WindowSection) -> PolicyWindow:
    return PolicyWindow(
        days=tuple(sorted({DAYS.index(day) for day in window.days})),
        start_minute=window.start_minute,
        end_minute=window.end_minute,
        replicas=window.replicas,
    )


def _on(days: tuple[int, ...], minute: int) -> tuple[tuple[int, ...], int]:
    """Normalize a minute before or after the day."""
    shift, minute = divmod(minute, DAY_MINUTES)
    return tuple(sorted((day + shift) % 7 for day in days)), minute


def _within(week_minute: int, begin: int, end: int) -> bool:
    """Whether a minute is in a span that may start in the previous week."""
    return (week_minute - begin) % WEEK_MINUTES < end - begin
