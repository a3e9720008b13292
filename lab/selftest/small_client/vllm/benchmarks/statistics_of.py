"""What a result says of its requests. Source: vLLM 0.18.1, benchmarks/serve.py, calculate_metrics."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from typing import Any

from .datasets import SampleRequest
from .requests import Output


def output_length(output: Output) -> int:
    """0 for a failed request; a successful one without usage counts its words, as vLLM tokenizes them."""
    if not output.success:
        return 0
    return output.output_tokens or len(output.generated_text.split())


def summary(
    samples: Sequence[SampleRequest], outputs: Sequence[Output], duration: float, limits: dict[str, float]
) -> dict[str, Any]:
    """Totals, rates and the lists request by request."""
    lengths = [output_length(output) for output in outputs]
    good = [output for output in outputs if output.success]
    inputs = sum(sample.prompt_len for sample, output in zip(samples, outputs, strict=True) if output.success)
    tokens_per_s, in_flight = _peaks(good)
    return {
        "duration": duration,
        "completed": len(good),
        "failed": len(outputs) - len(good),
        "total_input_tokens": inputs,
        "total_output_tokens": sum(lengths),
        "request_throughput": len(good) / duration,
        "request_goodput": _within(good, limits) / duration if limits else None,
        "output_throughput": sum(lengths) / duration,
        "total_token_throughput": (inputs + sum(lengths)) / duration,
        "input_lens": [output.prompt_len for output in outputs],
        "output_lens": lengths,
        "ttfts": [output.ttft for output in outputs],
        "itls": [output.itl for output in outputs],
        "start_times": [output.start_time for output in outputs],
        "generated_texts": [output.generated_text for output in outputs],
        "errors": [output.error for output in outputs],
        "max_output_tokens_per_s": tokens_per_s,
        "max_concurrent_requests": in_flight,
        "rtfx": 0.0,
    }


def statistics_of(outputs: Sequence[Output], metrics: str, percentiles: str) -> dict[str, float]:
    """Mean, median, deviation and percentiles of each chosen metric, in milliseconds."""
    good = [output for output in outputs if output.success]
    values = {
        "ttft": [output.ttft for output in good],
        "tpot": [_tpot(output) for output in good if output_length(output) > 1],
        "itl": [gap for output in good for gap in output.itl],
        "e2el": [output.latency for output in good],
    }
    said: dict[str, float] = {}
    for name, found in values.items():
        if name not in metrics.split(","):
            continue
        ordered = sorted(found) or [0.0]
        said[f"mean_{name}_ms"] = statistics.fmean(ordered) * 1000
        said[f"median_{name}_ms"] = percentile(ordered, 50) * 1000
        said[f"std_{name}_ms"] = statistics.pstdev(ordered) * 1000
        for text in percentiles.split(","):
            number = float(text)
            word = str(int(number)) if int(number) == number else str(number)
            said[f"p{word}_{name}_ms"] = percentile(ordered, number) * 1000
    return said


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Linear between the two nearest, as numpy does it by default."""
    position = (len(ordered) - 1) * percent / 100
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def _tpot(output: Output) -> float:
    length = output_length(output)
    return (output.latency - output.ttft) / (length - 1) if length > 1 else 0.0


def _within(good: Sequence[Output], limits: dict[str, float]) -> int:
    values = ({"ttft": one.ttft, "tpot": _tpot(one), "e2el": one.latency} for one in good)
    return sum(all(value[name] <= limit for name, limit in limits.items()) for value in values)


def _peaks(good: Sequence[Output]) -> tuple[float, int]:
    """Chunks in the fullest second, and requests in the most crowded one."""
    if not good:
        return 0.0, 0
    first = min(output.start_time for output in good)
    chunks, crowd = Counter[int](), Counter[int]()
    for output in good:
        at = output.start_time + output.ttft
        chunks[int(at - first)] += 1
        for gap in output.itl:
            at += gap
            chunks[int(at - first)] += 1
        end = int(output.start_time + output.latency - first)
        crowd.update(range(int(output.start_time - first), end + 1))
    return float(max(chunks.values())), max(crowd.values())
