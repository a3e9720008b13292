"""One streamed completion, timed chunk by chunk.

Source for what counts as a chunk and how failures look: vLLM 0.18.1, benchmarks/lib/endpoint_request_func.py.
"""

from __future__ import annotations

import json
import os
import time
import traceback
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from .datasets import SampleRequest


@dataclass
class Output:
    """Result of a request. A failed one has no output tokens, and times up to its failure."""

    prompt_len: int
    start_time: float = 0.0
    success: bool = False
    generated_text: str = ""
    output_tokens: int = 0
    ttft: float = 0.0
    itl: list[float] = field(default_factory=list)
    latency: float = 0.0
    error: str = ""


@dataclass(frozen=True)
class Target:
    """Where requests go and what each of them says besides its prompt."""

    url: str
    model: str
    ignore_eos: bool
    extra_body: dict[str, Any]

    def body(self, sample: SampleRequest) -> dict[str, Any]:
        """The request."""
        body = {
            "model": self.model,
            "prompt": sample.prompt,
            "repetition_penalty": 1.0,
            "max_tokens": sample.expected_output_len,
            "logprobs": None,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if self.ignore_eos:
            body["ignore_eos"] = True
        return {**body, **self.extra_body}


async def complete(session: aiohttp.ClientSession, target: Target, sample: SampleRequest) -> Output:
    """Send one request and read its answer to the end. Never raises: a failure is in the output."""
    output = Output(sample.prompt_len)
    headers = {}
    key = os.environ.get("OPENAI_API_KEY")
    if key:
        headers["Authorization"] = f"Bearer {key}"
    if sample.request_id:
        headers["x-request-id"] = sample.request_id
    output.start_time = latest = time.perf_counter()
    begun = False
    texts: list[str] = []
    try:
        async with session.post(target.url, json=target.body(sample), headers=headers) as response:
            if response.status != 200:
                output.error = response.reason or ""
                return output
            rest = b""
            async for part in response.content.iter_any():
                *events, rest = (rest + part).split(b"\n\n")
                for event in events:
                    if not event.startswith(b"data: ") or event == b"data: [DONE]":
                        continue
                    data = json.loads(event[6:])
                    if choices := data.get("choices"):
                        now = time.perf_counter()
                        if begun:
                            output.itl.append(now - latest)
                        else:
                            begun, output.ttft = True, now - output.start_time
                        latest = now
                        texts.append(choices[0].get("text") or "")
                    elif usage := data.get("usage"):
                        output.output_tokens = usage.get("completion_tokens")
    except Exception:
        output.error = traceback.format_exc()
        return output
    output.success = begun
    if not begun:
        output.error = "the answer had no chunk with a token"
    output.generated_text = "".join(texts)
    output.latency = latest - output.start_time
    return output
