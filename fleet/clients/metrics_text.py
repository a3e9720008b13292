"""A scrape in the Prometheus text format, read by Prometheus' own client library. A histogram is one series per bucket, plus
`_sum` and `_count`.
"""

from __future__ import annotations

from dataclasses import dataclass

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample


class MetricsTextError(ValueError):
    """Invalid format; the message quotes the library's reason."""


@dataclass(frozen=True, slots=True)
class MetricsText:
    """One scrape."""

    series: tuple[Sample, ...]
    """In the order of the text."""

    def of(self, name: str, **labels: str) -> tuple[Sample, ...]:
        """All series of this name with at least these labels."""
        return tuple(
            sample
            for sample in self.series
            if sample.name == name and all(sample.labels.get(key) == value for key, value in labels.items())
        )

    def total(self, name: str, **labels: str) -> float | None:
        """Sum of these series' values; None without series."""
        samples = self.of(name, **labels)
        return sum(sample.value for sample in samples) if samples else None

    def by(self, label: str, name: str, **labels: str) -> dict[str, float]:
        """Sums of these series by the value of one label; empty text for a series without it."""
        sums: dict[str, float] = {}
        for sample in self.of(name, **labels):
            key = sample.labels.get(label, "")
            sums[key] = sums.get(key, 0.0) + sample.value
        return sums


def parse(text: str) -> MetricsText:
    """All series of a scrape. Raises MetricsTextError for an invalid line."""
    try:
        families: list[Metric] = list(text_string_to_metric_families(text))
    except ValueError as error:
        raise MetricsTextError(f"not in the Prometheus text format: {str(error)[:120]}") from error
    return MetricsText(tuple(sample for family in families for sample in family.samples))
