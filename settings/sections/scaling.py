"""Section `server.scaling`: who changes the number of servers, between which bounds, and when."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from settings.sections.section import Section, like

Day = Literal["MO", "TU", "WE", "TH", "FR", "SA", "SU"]
DAYS: Final[tuple[Day, ...]] = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")


class ScalingWindow(Section):
    """Hours of the week in which at least so many servers are ready."""

    days: Annotated[tuple[Day, ...], Field(min_length=1)] = DAYS
    """Days on which it begins, e.g. `[MO, TU, WE, TH, FR]`. Default: every day."""
    start: Annotated[str, like(r"^([01][0-9]|2[0-3]):[0-5][0-9]$", 'a time of day, such as "07:00"')]
    """When callers come, in the section's time zone. Servers are asked for earlier, by the lead and ten minutes."""
    end: Annotated[str, like(r"^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$", 'a time of day, such as "20:00" or "24:00"')]
    """When they are gone, on the same day."""
    replicas: Annotated[int, Field(ge=1, le=1_000)]
    """Least number of servers meanwhile."""

    @property
    def start_minute(self) -> int:
        """Minutes from midnight to its start."""
        return _minutes(self.start)

    @property
    def end_minute(self) -> int:
        """Minutes from midnight to its end."""
        return _minutes(self.end)


class Scaling(Section):
    """An autoscaler for the servers. With it `replicas` is left out, or 0 to pause."""

    mode: Literal["none", "schedule", "load"] = "none"
    """`schedule`: by the windows alone. `load`: by requests in flight, the windows as a floor. `none`: a person says `replicas`."""
    min: Annotated[int, Field(ge=0, le=1_000)] = 1
    """Fewest servers. 0, for `schedule` alone: outside every window there is no server and no answer."""
    max: Annotated[int, Field(ge=1, le=1_000)] = 1
    """Most servers. Price, quotas and volumes are worked out for so many, and the GPU quota refuses more."""
    target_in_flight: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """Requests in flight per server, running and waiting together, that are right. Default: what the profile is for
    (`needs.concurrencyPerReplica`) less the growth of load while a server starts."""
    lead_minutes: Annotated[int, Field(ge=1, le=120)] = 20
    """Minutes from growing load to a server that answers: scrape, metric, node, start. Default: the 17 to 19 that they add up to, rounded
    up."""
    windows: tuple[ScalingWindow, ...] = ()
    """When at least so many servers are ready."""
    timezone: Annotated[str, like(r"^[A-Za-z0-9_+/-]{1,60}$", "a time zone's name, such as Europe/Berlin")] = "UTC"
    """Time zone of the windows, by its IANA name. Daylight saving is followed."""
    mechanism: Literal["keda", "gke"] = "keda"
    """What scales: KEDA, or GKE's own AutoscalingMetric (`load` without windows, from GKE 1.37)."""


def _minutes(text: str) -> int:
    hours, minutes = text.split(":")
    return int(hours) * 60 + int(minutes)
