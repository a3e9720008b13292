"""Expected duration and cost of a benchmark, shown before it starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from facts.capacity import PROVISIONING_MINUTES
from facts.texts import plural
from fleet.report.words import format_usd
from settings.derived.benchmark_load import expected_seconds, load_of
from settings.derived.figures import figures

if TYPE_CHECKING:
    from settings.stack import Settings

_BENCHMARK_ITEM: Final = "benchmark"
"""Id of the benchmark machine's item in the bill (facts/cost.py)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """Expected duration and cost."""

    runs: int
    """Points times repeats."""
    minutes: float
    """From the first client's start to the last client's end."""
    machine_minutes: float
    """Longest wait for the benchmark's machine."""
    usd_per_hour: float | None
    """The whole stack, benchmark machines included; None if its nodes have no price."""
    at_least: bool
    """Whether some prices are unknown."""
    machine_type: str
    machine_usd_per_hour: float | None
    """The benchmark's machine; None if no dated price is known."""

    @property
    def usd(self) -> float | None:
        """Cost of the whole stack over the benchmark; None if its nodes have no price."""
        return None if self.usd_per_hour is None else self.usd_per_hour * self.minutes / 60

    def short(self) -> str:
        """One-phrase summary."""
        own = self.machine_usd_per_hour
        spent = "an unknown part" if own is None else format_usd(own * self.minutes / 60)
        least = "at least " if self.at_least else ""
        whole = "unknown cost" if self.usd is None else f"{least}{format_usd(self.usd)} for the stack"
        return (
            f"{plural(self.runs, 'run')}, about {self.minutes:.0f} minutes, {whole}, {spent} of it for the "
            f"benchmark's machine ({self.machine_type})"
        )

    def format(self) -> str:
        """A paragraph for the confirmation prompt."""
        least = "at least " if self.at_least else ""
        extra = (
            f" The additional cost of the {self.machine_type} is unknown and not included"
            if self.machine_usd_per_hour is None
            else f" {format_usd(self.machine_usd_per_hour * self.minutes / 60)} of it is the additional cost of the {self.machine_type}"
        )
        stack = (
            "The cost of the stack is unknown: its nodes have no price."
            if self.usd_per_hour is None or self.usd is None
            else f"The stack costs {least}{format_usd(self.usd_per_hour)} an hour, {least}{format_usd(self.usd)} over the runs."
        )
        return (
            f"{plural(self.runs, 'run')}, about {self.minutes:.0f} minutes once the benchmark's machine is ready, "
            f"which takes up to {self.machine_minutes:.0f} minutes. {stack}{extra}. Keep other traffic off the servers meanwhile."
        )


def price_of(settings: Settings) -> Price:
    """Price a benchmark with these settings."""
    load = load_of(settings)
    bill = figures(settings).bill
    machine = next((item.usd_per_hour for item in bill.items if item.id == _BENCHMARK_ITEM), None)
    return Price(
        runs=len(load.points) * settings.benchmark.repeats,
        minutes=expected_seconds(settings) / 60,
        machine_minutes=PROVISIONING_MINUTES,
        usd_per_hour=bill.usd_per_hour,
        at_least=bool(bill.unknown),
        machine_type=load.machine_type,
        machine_usd_per_hour=machine,
    )
