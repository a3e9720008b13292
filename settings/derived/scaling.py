"""How the number of servers follows load and clock: one policy, which objects, bill and simulation read alike."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from settings.sections.scaling import ScalingWindow as WindowSection
    from settings.stack import Settings

GROWTH_DURING_LEAD: Final = 1.41
"""How many times as many requests there are 20 minutes later, in 95 of 100 cases. Source: ServeGen (Apache-2.0), m-large, 14 days in
steps of ten minutes; the 99th percentile is 1.74."""
EARLY_SECONDS: Final = 600
"""A window opens this much before its lead. Assumed: a node may take ten minutes longer than usual to come."""
DAY_MINUTES: Final = 24 * 60
WEEK_MINUTES: Final = 7 * DAY_MINUTES


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyWindow:
    """Hours of the week with a floor."""

    days: tuple[int, ...]
    """Days on which it begins, 0 Monday to 6 Sunday."""
    start_minute: int
    """Minutes from midnight to the moment at which callers come."""
    end_minute: int
    """Minutes from midnight to its end, 1440 at most."""
    replicas: int

    def opens(self, early_minutes: int) -> tuple[tuple[int, ...], int]:
        """Days and minute of the day at which servers are asked for: the evening before, where midnight lies between."""
        minute = self.start_minute - early_minutes
        return _on(self.days, minute)

    def closes(self) -> tuple[tuple[int, ...], int]:
        """Days and minute of the day of its end."""
        return _on(self.days, self.end_minute)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingPolicy:
    """Between which bounds the number of servers moves, by what, and how fast."""

    mode: Literal["schedule", "load"]
    mechanism: Literal["keda", "gke"]
    paused: bool = False
    """Whether all servers are to go, whatever load and clock say."""
    min: int
    max: int
    target_in_flight: int | None
    """Requests per server, running and waiting. None: load is not asked."""
    lead_seconds: int
    """From growing load to a server that answers."""
    windows: tuple[PolicyWindow, ...]
    timezone: str
    up_window_seconds: int = 30
    """The smallest recommendation of so long counts, going up."""
    up_percent: int = 100
    up_pods: int = 2
    """Servers that are added in a period at most: the larger of the two."""
    up_period_seconds: int = 60
    down_window_seconds: int
    """The largest recommendation of so long counts, going down."""
    down_pods_per_period: int = 1
    down_period_seconds: int = 900
    """A server that is taken away and asked for again costs its start and ten idle minutes of its node."""
    tolerance: float = 0.1
    """Share of the target by which load may differ without consequence.
    Source: kube-controller-manager 1.36, --horizontal-pod-autoscaler-tolerance."""
    failures_before_fallback: int = 4
    """Failed queries after which the number of servers is held: never lowered, and raised to `fallback_replicas` if below."""
    fallback_replicas: int

    @property
    def early_minutes(self) -> int:
        """Minutes before its start at which a window asks for servers."""
        return (self.lead_seconds + EARLY_SECONDS) // 60

    def floor(self, week_minute: int) -> int:
        """Least number of servers asked for at a minute of the week, which begins on Monday at midnight."""
        open_ = (one.replicas for one in self.windows if any(_within(week_minute, *span) for span in self._spans(one)))
        return max([self.min, *open_])

    def mean_floor(self) -> float:
        """Mean of the floor over a week."""
        return sum(self.floor(minute) for minute in range(WEEK_MINUTES)) / WEEK_MINUTES

    def _spans(self, window: PolicyWindow) -> Iterator[tuple[int, int]]:
        for day in window.days:
            begin = day * DAY_MINUTES + window.start_minute - self.early_minutes
            yield begin, day * DAY_MINUTES + window.end_minute


def scaling_policy(settings: Settings) -> ScalingPolicy | None:
    """The policy of a stack; None where a person, or somebody else's autoscaler, says how many servers there are."""
    scaling = settings.server.scaling
    if scaling.mode == "none":
        return None
    lead_seconds = scaling.lead_minutes * 60
    return ScalingPolicy(
        mode=scaling.mode,
        mechanism=scaling.mechanism,
        paused=settings.server.replicas == 0,
        min=scaling.min,
        max=scaling.max,
        target_in_flight=(scaling.target_in_flight or default_target(settings.serving.concurrency_per_replica))
        if scaling.mode == "load"
        else None,
        lead_seconds=lead_seconds,
        windows=tuple(_window(one) for one in scaling.windows),
        timezone=scaling.timezone,
        down_window_seconds=2 * lead_seconds,
        fallback_replicas=max(1, scaling.min),
    )


def default_target(concurrency_per_replica: int) -> int:
    """Requests in flight per server that leave room for what comes while the next one starts."""
    return max(1, int(concurrency_per_replica / GROWTH_DURING_LEAD))


def _window(window: WindowSection) -> PolicyWindow:
    from settings.sections.scaling import DAYS

    return PolicyWindow(
        days=tuple(sorted({DAYS.index(day) for day in window.days})),
        start_minute=window.start_minute,
        end_minute=window.end_minute,
        replicas=window.replicas,
    )


def _on(days: tuple[int, ...], minute: int) -> tuple[tuple[int, ...], int]:
    """Days and minute of the day, where the minute may lie on the day before or after."""
    shift, minute = divmod(minute, DAY_MINUTES)
    return tuple(sorted((day + shift) % 7 for day in days)), minute


def _within(week_minute: int, begin: int, end: int) -> bool:
    """Whether a minute lies in a span that may begin in the week before."""
    return (week_minute - begin) % WEEK_MINUTES < end - begin
