"""The model's errors in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fleet.plan.model.errors import Error, mean_percent


def format_accuracy(found: Sequence[Error]) -> Iterator[str]:
    """One sentence on throughput errors, one on time per token."""
    predicted = [error for error in found if error.row.role == "predicted"]
    rates = [error for error in predicted if error.row.metric in ("total_tokens_per_s", "requests_per_s")]
    tpots = [error for error in predicted if error.row.metric == "tpot_ms"]
    lines = [error.line_percent for error in rates if error.line_percent is not None]
    yield (
        f"On {len(rates)} published throughputs outside the fit, the model's error is {_mean(rates)} on average and "
        f"{_worst(rates)} at most; that of a straight line through one and two nodes is {mean_percent(lines):.1f} % and "
        f"{max(abs(line) for line in lines):.1f} %."
    )
    yield (
        "Two choices were made with such rows in sight: one share of the peak for arithmetic and bandwidth, and the gateway's cost halfway "
        "between two readings."
    )
    yield f"On {len(tpots)} times per token it is {_mean(tpots)} on average and {_worst(tpots)} at most."


def _mean(found: list[Error]) -> str:
    return f"{mean_percent([error.percent for error in found]):.1f} %"


def _worst(found: list[Error]) -> str:
    return f"{max(abs(error.percent) for error in found):.1f} %"
