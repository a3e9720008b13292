"""The part of `vllm bench serve` that the benchmark's pods use: the same functions, options, order and results.

Source: vLLM 0.18.1, benchmarks/serve.py. tests/lab/selftest/test_small_client.py holds both results next to each other.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
import uuid
from datetime import datetime
from pathlib import Path
from typing import Any

import aiohttp

from .datasets import get_samples
from .requests import Output, Target, complete
from .spec_decode import SpecDecodeMetrics, fetch_spec_decode_metrics, speculation
from .statistics_of import statistics_of, summary

__all__ = ["SpecDecodeMetrics", "add_cli_args", "fetch_spec_decode_metrics", "get_samples", "main_async"]

DETAILS = ("input_lens", "output_lens", "start_times", "ttfts", "itls", "generated_texts", "errors")


def add_cli_args(parser: argparse.ArgumentParser) -> None:
    """The options that the benchmark passes, with vLLM's defaults."""
    for name in ("backend", "endpoint", "dataset-name"):
        default = {"backend": "openai", "endpoint": "/v1/completions", "dataset-name": "random"}[name]
        parser.add_argument(f"--{name}", default=default)
    for name in ("base-url", "model", "served-model-name", "tokenizer", "dataset-path", "label"):
        parser.add_argument(f"--{name}")
    for name in ("result-dir", "result-filename", "percentile-metrics"):
        parser.add_argument(f"--{name}")
    for name, number in {"num-prompts": 1000, "num-warmups": 0, "seed": 0, "ready-check-timeout-sec": 0}.items():
        parser.add_argument(f"--{name}", type=int, default=number)
    for name, number in {"random-input-len": 1024, "random-output-len": 128, "random-prefix-len": 0}.items():
        parser.add_argument(f"--{name}", type=int, default=number)
    for name in ("max-concurrency", "sharegpt-output-len", "custom-output-len"):
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--random-range-ratio", type=float, default=0.0)
    parser.add_argument("--metric-percentiles", default="99")
    parser.add_argument("--request-id-prefix", default=f"bench-{uuid.uuid4().hex[:8]}-")
    parser.add_argument("--extra-body", type=json.loads)
    parser.add_argument("--temperature", type=float)
    parser.add_argument("--metadata", nargs="*", metavar="KEY=VALUE")
    parser.add_argument("--goodput", nargs="+", metavar="KEY:VALUE")
    switches = ("ignore-eos", "save-result", "save-detailed", "disable-tqdm", "skip-chat-template", "disable-shuffle")
    for name in switches:
        parser.add_argument(f"--{name}", action="store_true")


async def main_async(args: argparse.Namespace) -> dict[str, Any]:
    """One benchmark, as asked; writes the result where asked and returns it. Raises ValueError for an option it does not know."""
    sys.stdout.write(f"{args}\n")
    random.seed(args.seed)
    if args.dataset_name == "random":
        args.ignore_eos = True
    # By the module's name, so that who replaces these functions is asked; so does vLLM.
    samples = get_samples(args, None)
    sampling = {} if args.temperature is None else {"temperature": args.temperature}
    target = Target(
        url=f"{args.base_url}{args.endpoint}",
        model=args.served_model_name or args.model,
        ignore_eos=args.ignore_eos,
        extra_body={**sampling, **(args.extra_body or {})},
    )
    connector = aiohttp.TCPConnector(
        limit=args.max_concurrency or 0, limit_per_host=args.max_concurrency or 0, keepalive_timeout=60
    )
    timeout = aiohttp.ClientTimeout(total=6 * 60 * 60)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        turns = asyncio.Semaphore(args.max_concurrency or len(samples))
        bar = _Bar(len(samples), shown=not args.disable_tqdm)

        async def in_turn(index: int) -> Output:
            async with turns:
                output = await complete(session, target, samples[index])
            bar.advance()
            return output

        unnamed = type(samples[0])(samples[0].prompt, samples[0].prompt_len, samples[0].expected_output_len)
        await asyncio.gather(*(_warm_up(turns, session, target, unnamed) for _ in range(args.num_warmups)))
        before = await fetch_spec_decode_metrics(args.base_url, session)
        began = time.perf_counter()
        outputs = await asyncio.gather(*(asyncio.ensure_future(in_turn(index)) for index in range(len(samples))))
        duration = time.perf_counter() - began
        after = await fetch_spec_decode_metrics(args.base_url, session)
    measured = {
        **summary(samples, outputs, duration, _limits(args.goodput)),
        **speculation(before, after),
        **statistics_of(outputs, args.percentile_metrics or "ttft,tpot,itl", args.metric_percentiles),
    }
    for key in ("completed", "failed", "duration"):
        sys.stdout.write(f"{key}: {measured[key]}\n")
    result = {**_head(args), **measured}
    if not args.save_detailed:
        for key in DETAILS:
            del result[key]
    if args.save_result:
        _save(args, result)
    return result


class _Bar:
    """How many are done, once a second and in the end: the pods count requests by it, as by vLLM's own."""

    def __init__(self, number: int, *, shown: bool) -> None:
        self._done, self._of, self._shown = 0, number, shown
        self._began = self._told = time.monotonic()

    def advance(self) -> None:
        """One more."""
        self._done += 1
        now = time.monotonic()
        if self._shown and (now - self._told >= 1 or self._done == self._of):
            self._told = now
            sys.stderr.write(f"\r{self._done}/{self._of} [{now - self._began:.0f} s]")
            sys.stderr.flush()


async def _warm_up(turns: asyncio.Semaphore, session: aiohttp.ClientSession, target: Target, sample: Any) -> None:
    async with turns:
        await complete(session, target, sample)


def _head(args: argparse.Namespace) -> dict[str, Any]:
    head = {
        "date": datetime.now().strftime("%Y%m%d-%H%M%S"),
        "endpoint_type": args.backend,
        "backend": args.backend,
        "label": args.label,
        "model_id": args.model,
        "tokenizer_id": args.tokenizer or args.model,
        "num_prompts": args.num_prompts,
    }
    for item in args.metadata or ():
        key, equals, value = item.partition("=")
        if not equals:
            raise ValueError("Invalid metadata format. Please use KEY=VALUE format.")
        head[key.strip()] = value.strip()
    return {**head, "request_rate": "inf", "burstiness": 1.0, "max_concurrency": args.max_concurrency}


def _limits(goodput: list[str] | None) -> dict[str, float]:
    """Seconds by metric."""
    limits = {}
    for pair in goodput or ():
        name, _, milliseconds = pair.partition(":")
        if name not in ("ttft", "tpot", "e2el"):
            raise ValueError(f"Invalid metric name found, {pair}: one of ttft, tpot, e2el")
        limits[name] = float(milliseconds) / 1000
    return limits


def _save(args: argparse.Namespace, result: dict[str, Any]) -> None:
    name = args.result_filename or f"{args.backend}-infqps-{args.model.split('/')[-1]}-{result['date']}.json"
    folder = Path(args.result_dir or ".")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / name).open("w", encoding="utf-8") as file:
        json.dump(result, file)
