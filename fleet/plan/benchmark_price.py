"""What a measurement takes, in minutes and dollars, told before it starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from fleet.report.words import format_usd, plural

if TYPE_CHECKING:
    from settings.stack import Settings

_BENCHMARK_ITEM: Final = "benchmark"
"""Id of the benchmark machine's line. Source: facts/cost.py."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """Expected, not promised."""

    runs: int
    """Points times repeats."""
    minutes: float
    """From the first client's start to the last one's end."""
    machine_minutes: float
    """Until the benchmark's machines are there, at worst."""
    usd_per_hour: float | None
    """Of the whole stack, benchmark machines included; None where its nodes have no price."""
    at_least: bool
    """Whether prices are missing from it."""
    machines: int
    machine_type: str
    machines_usd_per_hour: float | None
    """Of all benchmark machines; None where no dated price is known."""

    @property
    def usd(self) -> float | None:
        """Dollars of the stack over the measurement."""
        return None if self.usd_per_hour is None else self.usd_per_hour * self.minutes / 60

    def short(self) -> str:
        """The same in one phrase."""
        own = self.machines_usd_per_hour
        spent = "an unknown part" if own is None else format_usd(own * self.minutes / 60)
        least = "at least " if self.at_least else ""
        whole = "at an unknown price" if self.usd is None else f"in which the stack costs {least}{format_usd(self.usd)}"
        return (
            f"{plural(self.runs, 'run')}, about {self.minutes:.0f} minutes {whole}, {spent} of it for machines of its own "
            f"({self.machines} x {self.machine_type})"
        )

    def format(self) -> str:
        """Some sentences for somebody who decides whether to go on."""
        least = "at least " if self.at_least else ""
        machines = f"{self.machines} x {self.machine_type}"
        extra = (
            f" What {machines} cost on top of what runs anyway is not known and not in it"
            if self.machines_usd_per_hour is None
            else f" {format_usd(self.machines_usd_per_hour * self.minutes / 60)} of it is for {machines}, on top of what runs anyway"
        )
        stack = (
            "What the stack costs is not known: its nodes have no price."
            if self.usd_per_hour is None or self.usd is None
            else f"The stack costs {least}{format_usd(self.usd_per_hour)} an hour, {least}{format_usd(self.usd)} over the runs."
        )
        return (
            f"{plural(self.runs, 'run')}, about {self.minutes:.0f} minutes once the benchmark's machines are there, "
            f"which takes up to {self.machine_minutes:.0f} minutes. {stack}{extra}. Nobody else should use the servers meanwhile."
        )


def price_of(settings: Settings) -> Price:
    """The price of one measurement with these settings."""
    from settings.derived.benchmark_load import expected_seconds, load_of
    from settings.derived.figures import figures
    from workloads.server.pod import PROVISIONING_MINUTES

    load = load_of(settings)
    bill = figures(settings).bill
    # The bill counts a machine for each pod.
    machines = next((item.usd_per_hour for item in bill.items if item.id == _BENCHMARK_ITEM), None)
    return Price(
        runs=len(load.points) * settings.benchmark.repeats,
        minutes=expected_seconds(settings) / 60,
        machine_minutes=PROVISIONING_MINUTES,
        usd_per_hour=bill.usd_per_hour,
        at_least=bool(bill.unknown),
        machines=load.pods,
        machine_type=settings.benchmark.machine_type,
        machines_usd_per_hour=machines,
    )
