"""Which tokens fall into which window, and where a run is steady.

A request's output tokens lie at its chunks, evenly; its input tokens at its first token; itself where it ends. Windows
are half open, [began, ended), and the last of a row of windows holds what lies on its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from fleet.bench.measurement import Rates
from fleet.bench.merge.client_data import ClientData, Floats, Ints

ARRIVED_SHARE: Final = 0.95
"""Of the requests meant to be in flight, from which a run counts as arrived."""


@dataclass(frozen=True, kw_only=True)
class Totals:
    """Sums in each of a row of windows."""

    output_tokens: Floats
    input_tokens: Floats
    requests: Floats
    good_requests: Floats


def totals(clients: Sequence[ClientData], edges: Floats, good: Sequence[Floats] | None = None) -> Totals:
    """Sums between consecutive edges. `good`: of each client's requests 1.0 or 0.0, for goodput."""
    sums = np.zeros((4, len(edges) - 1))
    for number, data in enumerate(clients):
        of = _cell(edges, np.repeat(data.start, data.chunks) + data.chunk_offset)
        each = data.output_tokens / data.chunks
        _add(sums[0], of, np.repeat(each, data.chunks))
        _add(sums[1], _cell(edges, data.start + data.first_after), data.input_tokens)
        ended = _cell(edges, data.end)
        _add(sums[2], ended, np.ones(len(ended)))
        if good is not None:
            _add(sums[3], ended, good[number])
    return Totals(output_tokens=sums[0], input_tokens=sums[1], requests=sums[2], good_requests=sums[3])


def _cell(bounds: Floats, moments: Floats) -> Ints:
    """Number of the window + 1; 0 and the last + 1 are outside."""
    cells: Ints = np.searchsorted(bounds, moments, "right").astype(np.int64)
    cells[moments == bounds[-1]] = len(bounds) - 1
    return cells


def _add(sums: Floats, cells: Ints, weights: Floats | Ints) -> None:
    sums += np.bincount(cells, weights=weights, minlength=len(sums) + 2)[1:-1]


def rates(sums: Totals, cells: slice, began: float, ended: float, origin: float) -> Rates:
    """Rates over consecutive windows together; moments are given since `origin`."""
    seconds = ended - began
    outputs, inputs = float(sums.output_tokens[cells].sum()), float(sums.input_tokens[cells].sum())
    return Rates(
        began=origin + began,
        ended=origin + ended,
        seconds=seconds,
        total_tokens_per_s=(inputs + outputs) / seconds,
        input_tokens_per_s=inputs / seconds,
        output_tokens_per_s=outputs / seconds,
        requests_per_s=float(sums.requests[cells].sum()) / seconds,
    )


def steady_window(
    clients: Sequence[ClientData], *, intended: int, common: tuple[float, float] | None, median_request_s: float
) -> tuple[float, float] | None:
    """The common window from one median request after the arrival at 95 % of the intended requests in flight, until they
    fall below for good. The first wave runs in lock-step (all prefill, then all decode), so it is cut as warm-up.

    None: clients were never all active, never arrived, or what is left is shorter than a median request.
    """
    moments, flying = in_flight(clients)
    full = np.flatnonzero(flying >= ARRIVED_SHARE * intended)
    if common is None or not len(full):
        return None
    arrived, left = float(moments[full[0]]), float(moments[min(full[-1] + 1, len(moments) - 1)])
    began, ended = max(arrived, common[0]) + median_request_s, min(left, common[1])
    return (began, ended) if ended - began >= median_request_s else None


def in_flight(clients: Sequence[ClientData]) -> tuple[Floats, Floats]:
    """Moments of change, sorted, and the number of requests in flight from each on."""
    starts = np.concatenate([client.start for client in clients])
    ends = np.concatenate([client.end for client in clients])
    moments = np.concatenate([starts, ends])
    changes = np.concatenate([np.ones(len(starts)), -np.ones(len(ends))])
    order = np.argsort(moments, kind="stable")
    return moments[order], np.cumsum(changes[order])


def in_flight_means(clients: Sequence[ClientData], edges: Floats) -> Floats:
    """Mean number in flight between consecutive edges."""
    moments, flying = in_flight(clients)
    area = np.concatenate([[0.0], np.cumsum(flying[:-1] * np.diff(moments))])
    means: Floats = np.diff(np.interp(edges, moments, area)) / np.diff(edges)
    return means
