"""Each client's part of a dataset: lines of a trace, or conversations of a ShareGPT file.

A run takes up where the one before it ended, and its clients take entries in turn, so that none is sent twice before all were sent.
Parts of a trace are what bench_client reads as `custom`, parts of ShareGPT what vLLM reads as `sharegpt`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .run_plan import Plan, Run

SPARE = 3.0
"""Conversations for each prompt, where there are enough: vLLM skips prompts below 4 or above 1,024 tokens, answers below 4
tokens and sums above 2,048. Source: is_valid_sequence in vllm/benchmarks/datasets.py 0.18.1. Assumed: a third remain at least."""


class DatasetError(Exception):
    """The dataset is invalid; the message has the entry, its value and what is allowed."""


class Parts:
    """The entries of a measurement's dataset, as JSON text; none where vLLM draws the requests."""

    def __init__(self, plan: Plan, dataset: Path | None) -> None:
        """Reads the whole file. Raises DatasetError."""
        self.plan, self.kind = plan, plan.workload["kind"]
        self._entries: list[bytes] = []
        if self.kind == "random":
            return
        if dataset is None:
            raise DatasetError(f"workload {plan.workload['name']} is of kind {self.kind} and needs --dataset=FILE")
        self._entries = _trace(dataset) if self.kind == "trace" else _conversations(dataset)
        if not self._entries:
            raise DatasetError(f"{dataset.name} has no requests")

    def write(self, run: Run, client: int, file: Path) -> None:
        """Write one client's part."""
        if not self._entries:
            return
        wanted, first = self.plan.prompts_per_client, run.first_prompt
        if self.kind == "sharegpt":
            last = self.plan.runs[-1]
            spare = min(SPARE, max(1.0, len(self._entries) / (last.first_prompt + last.clients * wanted)))
            wanted, first = int(spare * wanted), int(spare * first)
        part = [self._entries[(first + turn * run.clients + client) % len(self._entries)] for turn in range(wanted)]
        # ShareGPT's reader takes a list.
        file.write_bytes(b"\n".join(part) if self.kind == "trace" else b"[" + b",\n".join(part) + b"]")


def _trace(file: Path) -> list[bytes]:
    """JSON lines with `output_tokens` and `prompt` or `input_tokens`. Raises DatasetError at the first wrong line."""
    entries = []
    with file.open("rb") as source:
        for number, line in enumerate(source, 1):
            if not line.strip():
                continue
            try:
                request = json.loads(line)
                sound = _is_count(request["output_tokens"]) and (
                    bool(request["prompt"]) if "prompt" in request else _is_count(request["input_tokens"])
                )
            except (ValueError, KeyError, TypeError):
                sound = False
            if not sound:
                shown = line[:80].decode(errors="replace").strip()
                raise DatasetError(
                    f"{file.name}, line {number} is {shown}; an object with output_tokens, and prompt or input_tokens, is needed"
                )
            entries.append(line.strip())
    return entries


def _is_count(value: Any) -> bool:
    return type(value) is int and value > 0


def _conversations(file: Path) -> list[bytes]:
    """The first two turns of each conversation, each first turn once. Raises DatasetError."""
    try:
        turns = [[turn["value"] for turn in entry["conversations"][:2]] for entry in json.loads(file.read_bytes())]
    except (ValueError, KeyError, TypeError) as error:
        raise DatasetError(
            f"{file.name} is not ShareGPT, a JSON list of objects with `conversations`: {error or type(error).__name__}"
        ) from None
    # vLLM passes over fewer than two turns.
    once = {both[0]: both for both in turns if len(both) == 2 and both[0]}
    return [json.dumps({"conversations": [{"value": turn} for turn in both]}).encode() for both in once.values()]
