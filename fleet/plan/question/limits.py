"""Limits on latency."""

from __future__ import annotations

from dataclasses import dataclass

from fleet.report.words import format_milliseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Latency limits, compared with the high end of the estimate."""

    ttft_p99_ms: float | None = None
    """99th percentile of time to first token."""
    tpot_ms: float | None = None
    """Mean time per output token after the first."""

    @property
    def given(self) -> bool:
        """Whether there is one."""
        return self.ttft_p99_ms is not None or self.tpot_ms is not None

    def __str__(self) -> str:
        """`TPOT within 20 ms`."""
        limits = (("TTFT p99", self.ttft_p99_ms), ("TPOT", self.tpot_ms))
        return " and ".join(
            f"{name} within {format_milliseconds(limit)}" for name, limit in limits if limit is not None
        )
