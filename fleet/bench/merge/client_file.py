"""Read a result of `vllm bench serve --save-detailed`. Source of the schema and its traps: vLLM 0.18.1, benchmarks/serve.py.

A request has failed exactly when its output length is 0, whatever its time to first token or its error say. Gaps
(`itls`) are between chunks, not tokens. `start_times` are of time.perf_counter().
"""

from __future__ import annotations

import gc
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson

from fleet.bench.errors import BenchmarkError
from fleet.bench.merge.client_data import ClientData, Floats, Ints
from fleet.bench.merge.failures import counted

_LISTS: Final = ("input_lens", "output_lens", "ttfts", "itls", "start_times", "errors")
LONGEST_SECONDS: Final = 21_600.0
"""Longest request. Source: vLLM 0.18.1, AIOHTTP_TIMEOUT of endpoint_request_func.py: its client gives up after six hours."""
_LATEST_SECONDS: Final = 1e10
"""Largest reading of a clock: 300 years."""


class NoSuccessError(Exception):
    """All requests of a client failed."""


def read_client(path: Path, number: int) -> ClientData:
    """The result of that client. Raises BenchmarkError for anything that the benchmark's pod does not store, and NoSuccessError."""
    collecting = gc.isenabled()
    gc.disable()  # a million numbers without a cycle among them
    try:
        return _client(orjson.loads(path.read_bytes()), number)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise BenchmarkError(
            f"{path} is not a whole result of `vllm bench serve --save-detailed`: {error or type(error).__name__}; fetch the measurement "
            "again, or measure again"
        ) from None
    finally:
        if collecting:
            gc.enable()


def _client(result: dict[str, Any], number: int) -> ClientData:
    lengths = {key: len(result[key]) for key in _LISTS}
    requests = lengths["start_times"]
    if len(set(lengths.values())) > 1:
        raise ValueError(f"lists differ in length: {lengths}")
    if int(result["client"]) != number:
        raise ValueError(f"client is {result['client']}")
    inputs, outputs = _whole(result["input_lens"]), _whole(result["output_lens"])
    starts = _times(result["start_times"], "start_times", _LATEST_SECONDS)
    ttfts = _times(result["ttfts"], "ttfts", LONGEST_SECONDS)
    good = outputs > 0
    if not good.any():
        raise NoSuccessError(f"all {requests} requests failed")
    counts, gaps = _gaps(result["itls"])
    kept = np.repeat(good, counts)
    counts, gaps, ttft = counts[good], gaps[kept], ttfts[good]
    if not ttft.min() > 0:
        raise ValueError("a time to first token is 0 although the request has an answer")
    offsets, e2e = _offsets(ttft, counts, gaps)
    return ClientData(
        number=number,
        connections=min(int(result["max_concurrency"] or requests), requests),
        requests=requests,
        own_rates=(float(result["total_token_throughput"]), float(result["output_throughput"])),
        failures=counted(
            str(error or "") for error, sound in zip(result["errors"], good.tolist(), strict=True) if not sound
        ),
        index=np.flatnonzero(good),
        start=starts[good],
        ttft=ttft,
        e2e=e2e,
        input_tokens=inputs[good],
        output_tokens=outputs[good],
        chunks=counts + 1,
        chunk_offset=offsets,
        gaps=gaps.astype(np.float32),
    )


def _whole(values: list[Any]) -> Ints:
    found = np.array(values)
    if found.dtype.kind != "i" or found.min() < 0:
        raise ValueError("a length is not a whole number of tokens")
    return found.astype(np.int64)


def _times(values: list[Any], key: str, most: float) -> Floats:
    found = np.array(values, dtype=np.float64)
    if not (found.min() >= 0 and found.max() <= most):  # neither holds of a NaN
        raise ValueError(f"{key} are not seconds from 0 to {most:,.0f}")
    return found


def _gaps(rows: list[list[float]]) -> tuple[Ints, Floats]:
    counts = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    total = int(counts.sum())
    gaps = np.fromiter(chain.from_iterable(rows), dtype=np.float64, count=total)
    if total and not (gaps.min() >= 0 and gaps.max() <= LONGEST_SECONDS):
        raise ValueError(f"itls are not seconds from 0 to {LONGEST_SECONDS:,.0f}")
    return counts, gaps


def _offsets(ttft: Floats, counts: Ints, gaps: Floats) -> tuple[Any, Floats]:
    """Each chunk's seconds since its request's start, and each request's end to end time."""
    sums = np.zeros(len(counts))
    first = np.cumsum(counts) - counts
    some = counts > 0
    if some.any():
        sums[some] = np.add.reduceat(gaps, first[some])
    steps = np.insert(gaps, first, 0.0)
    run = np.cumsum(steps)
    begin = first + np.arange(len(counts))
    offsets = run - np.repeat(run[begin] - ttft, counts + 1)
    return offsets.astype(np.float32), ttft + sums
