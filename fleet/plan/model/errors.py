"""Errors of the model and of the linear baseline on every row."""

from __future__ import annotations

from dataclasses import dataclass

from fleet.plan.model import baseline
from fleet.plan.model.estimates import Estimate
from fleet.plan.model.performance import estimate
from fleet.plan.model.rows import Role, Row, rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Error:
    """One row with both predictions."""

    row: Row
    predicted: Estimate
    line: float | None
    """The baseline's prediction; None where it does not apply."""

    @property
    def percent(self) -> float:
        """The model's error."""
        return 100 * (self.predicted.value / self.row.published - 1)

    @property
    def line_percent(self) -> float | None:
        """The line's error."""
        return None if self.line is None else 100 * (self.line / self.row.published - 1)


def errors(role: Role | None = None) -> tuple[Error, ...]:
    """Errors on the rows of that role, or on all."""
    return tuple(_error(row) for row in rows() if role in (None, row.role))


def mean_percent(values: list[float]) -> float:
    """Mean absolute error."""
    return sum(abs(value) for value in values) / len(values)


def _error(row: Row) -> Error:
    performance = estimate(row.deployment, row.workload, row.offered)
    predicted: Estimate = getattr(performance, row.metric)
    return Error(row=row, predicted=predicted, line=_line(row))


def _line(row: Row) -> float | None:
    if row.id.startswith("phases."):
        return None
    if row.metric == "total_tokens_per_s":
        return baseline.total_tokens_per_s(row.deployment)
    if row.metric == "requests_per_s":
        return baseline.requests_per_s(row.deployment, row.workload)
    if row.metric == "tpot_ms":
        return baseline.tpot_ms()
    if row.metric == "ttft_ms":
        return baseline.ttft_ms()
    if row.metric == "running_peak_per_engine":
        return baseline.running_per_engine(row.deployment, row.offered)
    return None
