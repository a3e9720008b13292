"""The server's counters of speculation, before and after. Source: vLLM 0.18.1, benchmarks/serve.py."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import aiohttp

_SERIES = re.compile(r"^vllm:spec_decode_(\w+?)_total\{(.*)\} (\S+)$", re.MULTILINE)
_POSITION = re.compile(r'position="(\d+)"')


@dataclass
class SpecDecodeMetrics:
    """Counts of one server, all engines together."""

    num_drafts: int = 0
    num_draft_tokens: int = 0
    num_accepted_tokens: int = 0
    accepted_per_pos: dict[int, int] = field(default_factory=dict)


async def fetch_spec_decode_metrics(base_url: str, session: aiohttp.ClientSession) -> SpecDecodeMetrics | None:
    """The counts now; None without speculation or without an answer."""
    try:
        async with session.get(f"{base_url}/metrics") as response:
            if response.status != 200:
                return None
            text = await response.text()
    except (TimeoutError, aiohttp.ClientError):
        return None
    found = SpecDecodeMetrics()
    series = _SERIES.findall(text)
    for name, labels, value in series:
        number = int(float(value))
        if name == "num_accepted_tokens_per_pos":
            position = _POSITION.search(labels)
            if position is not None:
                at = int(position.group(1))
                found.accepted_per_pos[at] = found.accepted_per_pos.get(at, 0) + number
        elif name in ("num_drafts", "num_draft_tokens", "num_accepted_tokens"):
            setattr(found, name, getattr(found, name) + number)
    return found if series else None


def speculation(before: SpecDecodeMetrics | None, after: SpecDecodeMetrics | None) -> dict[str, Any]:
    """The result's fields about speculation; none where nothing was drafted."""
    if before is None or after is None:
        return {}
    drafts = after.num_drafts - before.num_drafts
    drafted = after.num_draft_tokens - before.num_draft_tokens
    accepted = after.num_accepted_tokens - before.num_accepted_tokens
    if drafted <= 0:
        return {}
    rates = [
        (after.accepted_per_pos.get(at, 0) - before.accepted_per_pos.get(at, 0)) / drafts
        for at in sorted({*before.accepted_per_pos, *after.accepted_per_pos})
        if drafts
    ]
    return {
        "spec_decode_acceptance_rate": accepted / drafted * 100,
        "spec_decode_acceptance_length": 1 + accepted / drafts if drafts else 0.0,
        "spec_decode_num_drafts": drafts,
        "spec_decode_draft_tokens": drafted,
        "spec_decode_accepted_tokens": accepted,
        "spec_decode_per_position_acceptance_rates": rates,
    }
