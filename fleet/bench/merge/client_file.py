"""Read and check results of `vllm bench serve --save-detailed`. Source of the schema and its traps: vLLM 0.18.1, benchmarks/serve.py.

A request has failed exactly when its output length is 0, whatever its time to first token or its error say. Gaps
(`itls`) are between chunks, not tokens. `start_times` are of time.perf_counter(). Metadata are texts.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from hashlib import blake2b
from itertools import chain
from math import inf, isclose, isfinite
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson

from facts.secrets_in_text import without_secrets
from fleet.bench.merge.client_data import ClientData, Floats, Ints
from fleet.bench.merge.failures import counted
from fleet.bench.merge.problems import Problem

_LISTS: Final = ("input_lens", "output_lens", "ttfts", "itls", "start_times")
_METADATA: Final = ("run", "point", "repeat", "client", "clients", "workload", "seed", "started_at")
_BACKWARDS_SECONDS: Final = 1.0
"""Requests are sent in the order of the lists, so a start lies before the previous one only by scheduling."""
_BEYOND_SECONDS: Final = 1.0
"""Allowed excess of a client's requests over its own duration. Assumed."""
LONGEST_SECONDS: Final = 21_600.0
"""Longest request. Source: vLLM 0.18.1, AIOHTTP_TIMEOUT of endpoint_request_func.py: its client gives up after six hours."""
_OWN_RATES: Final = ("total_token_throughput", "output_throughput", "request_throughput")
OTHER_COUNT_SHARE: Final = 0.05
"""How far the lengths that a client asked for may lie from those in its result, as a share of all of them. From vLLM 0.20 on a result holds
what the server counted (endpoint_request_func.py: `output.prompt_len = pt`), which differs where a prompt's text is cut into other
tokens than it was made of. Measured: 0.0 % with 0.20.2. Assumed: a twentieth; another client's random lengths are off by a fifth."""
_SAME_RATE: Final = 1e-6
"""Relative. The client divides the same numbers. Source: vLLM 0.18.1, calculate_metrics of benchmarks/serve.py."""
_LATEST_SECONDS: Final = 1e10
"""Largest reading of a clock: 300 years."""
_AGAIN: Final = "download the file again"


class _FileError(Exception):
    """A problem that ends the reading of one result."""

    def __init__(self, reason: str, found: str, allowed: str, todo: str = "") -> None:
        super().__init__(found)
        self.reason, self.found, self.allowed, self.todo = reason, found, allowed, todo


def read_results(path: Path, shown: str) -> tuple[list[ClientData], list[Problem]]:
    """All results of one file: one object, or with `--append-result` one a line. `shown`: how messages name the file."""
    results: list[ClientData] = []
    problems: list[Problem] = []
    collecting = gc.isenabled()
    gc.disable()  # a million numbers without a cycle among them
    try:
        for name, content in _documents(path.read_bytes(), shown):
            try:
                results.append(_client(_object(content), name))
            except _FileError as error:
                problems.append(
                    Problem(file=name, reason=error.reason, found=error.found, allowed=error.allowed, todo=error.todo)
                )
    finally:
        if collecting:
            gc.enable()
    return results, problems


def _documents(data: bytes, shown: str) -> Iterator[tuple[str, Any]]:
    """Name and either the parsed content or the bytes that do not parse."""
    if b"\n" not in data.strip():
        yield shown, data
        return
    try:
        whole = orjson.loads(data)
    except orjson.JSONDecodeError:
        lines = [(number, line) for number, line in enumerate(data.split(b"\n"), 1) if line.strip()]
        if not _parses(lines[0][1]):  # a damaged file of one object over several lines
            yield shown, data
            return
        for number, line in lines:
            yield f"{shown}:{number}", line
        return
    yield shown, whole


def _parses(line: bytes) -> bool:
    try:
        return isinstance(orjson.loads(line), dict)
    except orjson.JSONDecodeError:
        return False


def _object(content: Any) -> dict[str, Any]:
    if isinstance(content, bytes):
        if not content.strip():
            raise _FileError("truncated", "it is empty", "one JSON object", _AGAIN)
        try:
            content = orjson.loads(content)
        except orjson.JSONDecodeError as error:
            content = _python_json(content, error)
    if not isinstance(content, dict):
        kind = type(content).__name__
        raise _FileError("not-a-result", f"it holds a {kind}", "one JSON object")
    return content


def _python_json(content: bytes, error: orjson.JSONDecodeError) -> Any:
    """Accept NaN and Infinity, which Python writes, so that messages name the number instead of the syntax."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        ending = content.rstrip()
        cut = not ending.endswith(b"}") and error.pos >= len(ending.decode(errors="replace")) - 1
        raise _FileError(
            "truncated" if cut else "not-json",
            f"{'it ends in the middle' if cut else 'it is not JSON'}: {error.msg} at byte {error.pos} of {len(content)}",
            "one complete JSON object",
            _AGAIN,
        ) from None


def _client(result: dict[str, Any], name: str) -> ClientData:
    _check_keys(result)
    requests = len(result["start_times"])
    lengths = {key: len(result[key]) for key in _LISTS}
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{key} {count}" for key, count in lengths.items())
        raise _FileError("uneven-lists", f"lists differ in length: {found}", "one entry a request in each", _AGAIN)
    if not requests:
        raise _FileError("no-success", "start_times is empty: no request was sent", "at least one answer")
    inputs, outputs = _whole(result, "input_lens"), _whole(result, "output_lens")
    starts, ttfts = _times(result, "start_times", _LATEST_SECONDS), _times(result, "ttfts", LONGEST_SECONDS)
    good = outputs > 0
    errors = result.get("errors") or [""] * requests
    if not isinstance(errors, list) or len(errors) != requests:
        raise _FileError("uneven-lists", "errors is not a list of one entry a request", f"{requests} texts", _AGAIN)
    failures = counted(str(error or "") for error, sound in zip(errors, good.tolist(), strict=True) if not sound)
    if not good.any():
        told = "; ".join(f"{count} x {kind}" for kind, (count, _) in failures.items())
        raise _FileError(
            "no-success", f"all {requests} requests failed ({told})", "at least one answer",
            "check the client's and the server's log",
        )  # fmt: skip
    counts, gaps = _gaps(result)
    summed = _own_figures(result, requests, int(outputs.sum()), int(good.sum()))
    _check_order(starts, ttfts, good)
    kept = np.repeat(good, counts)
    counts, gaps = counts[good], gaps[kept]
    ttft = ttfts[good]
    offsets, e2e = _offsets(ttft, counts, gaps)
    _check_duration(starts[good], e2e, summed[0])
    _check_rates(result, inputs, good)
    gaps.sort()
    return ClientData(
        file=name,
        metadata={key: str(result[key]) for key in _METADATA if result.get(key) is not None},
        model=str(result.get("model_id")),
        date=result["date"] if isinstance(result.get("date"), str) else None,
        duration=summed[0],
        requests=requests,
        max_concurrency=_optional_whole(result, "max_concurrency"),
        request_rate=_request_rate(result),
        own_rates=summed[1],
        digest=blake2b(ttfts.tobytes(), digest_size=16).digest(),
        input_lens=inputs,
        failures=failures,
        index=np.flatnonzero(good),
        start=starts[good],
        ttft=ttft,
        e2e=e2e,
        input_tokens=inputs[good],
        output_tokens=outputs[good],
        chunks=counts + 1,
        chunk_offset=offsets,
        gaps=gaps,
        remarks=summed[2],
        counts_speculation=any(key.startswith("spec_decode_") for key in result),
    )


def _check_keys(result: dict[str, Any]) -> None:
    missing = [key for key in _LISTS if key not in result]
    if not missing:
        for key in _LISTS:
            if not isinstance(result[key], list):
                raise _FileError("wrong-type", f"{key} is {_short(result[key])}", "a list with one entry a request")
        return
    if len(missing) == len(_LISTS):
        if "duration" in result and "completed" in result:
            raise _FileError(
                "no-detail", f"missing keys: {', '.join(missing)}", "a result with every request",
                "run `vllm bench serve` with --save-result --save-detailed",
            )  # fmt: skip
        raise _FileError(
            "not-a-result",
            f"missing keys: {', '.join(missing)}",
            "only results of `vllm bench serve` in this folder",
        )
    raise _FileError("missing-key", f"missing keys: {', '.join(missing)}", "all keys of a detailed result", _AGAIN)


def _short(value: Any) -> str:
    text = without_secrets(repr(value))  # the rest of a cut secret is not known as one
    return text if len(text) <= 40 else text[:37] + "..."


def _wrong(key: str, values: list[Any], allowed: str, bad: Any) -> _FileError:
    index = next(index for index, value in enumerate(values) if bad(value))
    return _FileError("bad-number", f"{key}[{index}] is {_short(values[index])}", allowed)


def _whole(result: dict[str, Any], key: str) -> Ints:
    values = result[key]
    if not set(map(type, values)) <= {int}:
        raise _wrong(key, values, "whole numbers of tokens", lambda value: type(value) is not int)
    if min(values) < 0 or max(values) >= 2**53:
        raise _wrong(key, values, "0 or more tokens", lambda value: not 0 <= value < 2**53)
    return np.array(values, dtype=np.int64)


def _times(result: dict[str, Any], key: str, most: float) -> Floats:
    values = result[key]
    if not set(map(type, values)) <= {int, float}:
        raise _wrong(key, values, "seconds as numbers", lambda value: type(value) not in (int, float))
    array = np.array(values, dtype=np.float64)
    if not (array.min() >= 0 and array.max() <= most):  # neither holds of a NaN
        raise _wrong(key, values, f"seconds from 0 to {most:,.0f}", lambda value: not 0 <= value <= most)
    return array


def _gaps(result: dict[str, Any]) -> tuple[Ints, Floats]:
    rows = result["itls"]
    if not set(map(type, rows)) <= {list}:
        raise _wrong("itls", rows, "a list of gaps for each request", lambda value: type(value) is not list)
    counts = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    total = int(counts.sum())
    sound = set(map(type, chain.from_iterable(rows))) <= {int, float}
    gaps = np.fromiter(chain.from_iterable(rows), dtype=np.float64, count=total) if sound else np.empty(0)
    if not sound or (total and not (gaps.min() >= 0 and gaps.max() <= LONGEST_SECONDS)):
        for index, row in enumerate(rows):
            for place, gap in enumerate(row):
                if type(gap) not in (int, float) or not 0 <= gap <= LONGEST_SECONDS:
                    raise _FileError(
                        "bad-number",
                        f"itls[{index}][{place}] is {_short(gap)}",
                        f"seconds from 0 to {LONGEST_SECONDS:,.0f}",
                    )
    return counts, gaps


def _check_order(starts: Floats, ttfts: Floats, good: Any) -> None:
    index = np.flatnonzero(good & (ttfts == 0))
    if len(index):
        raise _FileError(
            "bad-number",
            f"ttfts[{index[0]}] is 0 although the request has an answer",
            "above 0, since answers are streamed",
        )
    order, of = starts[good], np.flatnonzero(good)
    back = np.flatnonzero(np.diff(order) < -_BACKWARDS_SECONDS)
    if len(back):
        first = int(back[0])
        raise _FileError(
            "not-monotonic",
            f"start_times[{of[first + 1]}] is {order[first] - order[first + 1]:.3f} s before the previous request",
            f"the order of sending, up to {_BACKWARDS_SECONDS:g} s",
            "do not join results of two processes in one object",
        )


def _check_duration(starts: Floats, e2e: Floats, duration: float) -> None:
    took = float((starts + e2e).max() - starts.min())
    if took > duration + _BEYOND_SECONDS:
        raise _FileError(
            "contradiction", f"its requests took {took:,.1f} s from the first to the last, and duration is {duration:g}",
            "a duration that covers all requests", _AGAIN,
        )  # fmt: skip


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


def _own_figures(
    result: dict[str, Any], requests: int, output_tokens: int, good: int
) -> tuple[float, tuple[float, float, float], tuple[str, ...]]:
    """Duration, the client's own rates, and remarks."""
    for key in ("duration", *_OWN_RATES):
        value = result.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value) or value < 0:
            raise _FileError("bad-number", f"{key} is {_short(value)}", "a finite number", _AGAIN)
    if result["duration"] <= 0:
        raise _FileError("bad-number", f"duration is {result['duration']}", "above 0 seconds")
    told = result.get("total_output_tokens")
    if type(told) is not int or told != output_tokens:
        raise _FileError(
            "contradiction", f"total_output_tokens is {_short(told)}, and output_lens add up to {output_tokens}",
            "equal sums", _AGAIN,
        )  # fmt: skip
    completed, failed = result.get("completed"), result.get("failed", 0)
    if type(completed) is not int or type(failed) is not int or completed + failed != requests or failed < 0:
        raise _FileError(
            "contradiction", f"completed {_short(completed)} and failed {_short(failed)} are not {requests} requests",
            "equal counts", _AGAIN,
        )  # fmt: skip
    if completed < good:
        raise _FileError(
            "contradiction", f"completed is {completed}, and {good} requests have an answer",
            "equal counts", _AGAIN,
        )  # fmt: skip
    remarks = () if completed == good else (f"{completed - good} answers without a token are counted as failed",)
    return float(result["duration"]), tuple(float(result[key]) for key in _OWN_RATES), remarks  # type: ignore[return-value]


def _check_rates(result: dict[str, Any], inputs: Ints, good: Any) -> None:
    """The client's own sums and rates against its requests: the article's way of counting adds them up."""
    read, least, most = result.get("total_input_tokens"), int(inputs[good].sum()), int(inputs.sum())
    if type(read) is not int or not (1 - OTHER_COUNT_SHARE) * least <= read <= (1 + OTHER_COUNT_SHARE) * most:
        raise _FileError(
            "contradiction", f"total_input_tokens is {_short(read)}, and input_lens of the answered requests add up to {least}",
            f"equal sums, to {100 * OTHER_COUNT_SHARE:g} %", _AGAIN,
        )  # fmt: skip
    sums = (read + result["total_output_tokens"], result["total_output_tokens"], result["completed"])
    for key, count in zip(_OWN_RATES, sums, strict=True):
        rate = count / result["duration"]
        if not isclose(result[key], rate, rel_tol=_SAME_RATE):
            raise _FileError(
                "contradiction", f"{key} is {_short(result[key])}, and {count} in {result['duration']:g} s are {rate:g} a second",
                "the rate that follows", _AGAIN,
            )  # fmt: skip


def _request_rate(result: dict[str, Any]) -> float:
    value = result.get("request_rate", "inf")
    try:
        rate = float(value) if value == "inf" or type(value) in (int, float) else -1.0
    except OverflowError:
        rate = -1.0
    if not rate > 0:
        raise _FileError("bad-number", f"request_rate is {_short(value)}", 'requests a second, or "inf"')
    return inf if rate == inf else rate


def _optional_whole(result: dict[str, Any], key: str) -> int | None:
    value = result.get(key)
    if value is None or (type(value) is int and value > 0):
        return value
    raise _FileError("bad-number", f"{key} is {_short(value)}", "a whole number above 0, or null")
