"""Section `server.scaling`: the autoscaler, its bounds and its schedule."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from settings.sections.section import Section, like

Day = Literal["MO", "TU", "WE", "TH", "FR", "SA", "SU"]
DAYS: Final[tuple[Day, ...]] = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")


class ScalingWindow(Section):
    """Weekly hours with a minimum number of servers."""

    days: Annotated[tuple[Day, ...], Field(min_length=1)] = DAYS
    """Days of the window, e.g. `[MO, TU, WE, TH, FR]`. Default: every day."""
    start: Annotated[str, like(r"^([01][0-9]|2[0-3]):[0-5][0-9]$", 'a time of day, such as "07:00"')]
    """Time from which servers are needed, in the section's time zone. Scaling starts earlier, by leadMinutes and ten minutes."""
    end: Annotated[str, like(r"^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$", 'a time of day, such as "20:00" or "24:00"')]
    """End of the window, on the same day."""
    replicas: Annotated[int, Field(ge=1, le=1_000)]
    """Minimum number of servers in the window."""

    @property
    def start_minute(self) -> int:
        """Minutes from midnight to its start."""
        return _minutes(self.start)

    @property
    def end_minute(self) -> int:
        """Minutes from midnight to its end."""
        return _minutes(self.end)


class Scaling(Section):
    """The servers' autoscaler. With it, leave out `replicas`, or set it to 0 to pause."""

    mode: Literal["none", "schedule", "load", "batch"] = "none"
    """`schedule`: windows only. `load`: requests in flight, with windows as a minimum. `batch`: as many servers as the batch in work
    asks for, none between batches. `none`: fixed by `replicas`."""
    min: Annotated[int, Field(ge=0, le=1_000)] = Field(
        default_factory=lambda given: 0 if given.get("mode") == "batch" else 1
    )
    """Minimum number of servers. 0 needs `schedule`, where no server runs outside all windows, or `batch`, where it is the default and
    the only value. Default otherwise: 1."""
    max: Annotated[int, Field(ge=1, le=1_000)] = 1
    """Maximum number of servers. Price, quotas and volumes are sized for it, and the GPU quota allows no more."""
    target_in_flight: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """Target for requests in flight per server, running and waiting. Default: `needs.concurrencyPerReplica`, minus the growth of load
    while a server starts."""
    lead_minutes: Annotated[int, Field(ge=1, le=120)] | None = None
    """Minutes from rising load to a ready server: scrape, metric, node, startup. Default: their sum, 17 to 19, rounded up to 20; 35 where
    each node may be waited for at flex-start, because no Spot stands before it."""
    windows: tuple[ScalingWindow, ...] = ()
    """Hours with a minimum number of servers."""
    timezone: Annotated[str, like(r"^[A-Za-z0-9_+/-]{1,60}$", "a time zone, such as Europe/Berlin")] = "UTC"
    """IANA time zone of the windows, with daylight saving time."""


def _minutes(text: str) -> int:
    hours, minutes = text.split(":")
    return int(hours) * 60 + int(minutes)
