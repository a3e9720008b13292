"""Prompts by seed, and ShareGPT conversations. Source for lengths and filters: vLLM 0.18.1, benchmarks/datasets.py."""

from __future__ import annotations

import itertools
import json
import math
import random
from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WORDS = 50_000
"""Words to draw from, as many as a usual vocabulary has tokens."""


@dataclass
class SampleRequest:
    """One request to send."""

    prompt: str
    prompt_len: int
    expected_output_len: int
    multi_modal_data: None = None
    lora_request: None = None
    request_id: str | None = None


def get_samples(args: Namespace, _tokenizer: Any) -> list[SampleRequest]:
    """The requests of one client. The same seed gives the same ones. Raises ValueError for a dataset that is not there."""
    if args.dataset_name == "random":
        return _random(args)
    if args.dataset_name == "sharegpt":
        return _sharegpt(args)
    raise ValueError(f"Unknown dataset: {args.dataset_name}")


def _random(args: Namespace) -> list[SampleRequest]:
    draw = random.Random(args.seed)  # noqa: S311 - prompts, not secrets
    # The prefix is drawn first, from the client's own seed: clients of different seeds share nothing.
    prefix = _words(draw, args.random_prefix_len)
    samples = []
    for number in range(args.num_prompts):
        inputs = _between(draw, args.random_input_len, args.random_range_ratio, 0)
        outputs = _between(draw, args.random_output_len, args.random_range_ratio, 1)
        words = [*prefix, *_words(draw, inputs)]
        if not words:
            raise ValueError("--random-input-len is too small: a prompt needs one token")
        samples.append(
            SampleRequest(" ".join(words), len(words), outputs, request_id=f"{args.request_id_prefix}{number}")
        )
    return samples


def _between(draw: random.Random, length: int, ratio: float, least: int) -> int:
    low, high = math.floor(length * (1 - ratio)), math.ceil(length * (1 + ratio))
    return draw.randint(max(low, least), max(high, least))


def _words(draw: random.Random, number: int) -> list[str]:
    return [f"w{choice}" for choice in draw.choices(range(WORDS), k=number)]


def _sharegpt(args: Namespace) -> list[SampleRequest]:
    conversations = json.loads(Path(args.dataset_path).read_text(encoding="utf-8"))
    kept = [
        conversation["conversations"]
        for conversation in conversations
        if len(conversation.get("conversations", ())) >= 2
    ]
    random.Random(args.seed).shuffle(kept)  # noqa: S311
    samples: list[SampleRequest] = []
    for turns in kept:
        if len(samples) == args.num_prompts:
            break
        prompt, answer = turns[0]["value"], turns[1]["value"]
        inputs, outputs = len(prompt.split()), args.sharegpt_output_len or len(answer.split())
        if inputs < 4 or outputs < 4 or inputs > 1024 or inputs + outputs > 2048:
            continue
        samples.append(SampleRequest(prompt, inputs, outputs, request_id=f"{args.request_id_prefix}{len(samples)}"))
    if not samples:
        raise ValueError(f"{args.dataset_path} has no conversation of a usable length")
    # Too few: from the first again.
    return list(itertools.islice(itertools.cycle(samples), args.num_prompts))
