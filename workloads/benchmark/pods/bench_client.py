"""One benchmark client: vLLM's own `vllm bench serve`, watched from inside its process.

Two functions of vllm.benchmarks.serve are wrapped. `get_samples` gives the requests: their hashes and the lengths asked for are
noted. `fetch_spec_decode_metrics` is called twice: after the warm-up, right before the first measured request, which is where the
client waits for all others, and right after the last answer.

A dataset named `custom` is read here and not by vLLM 0.18.1, whose reader needs pandas, which vLLM does not install, and takes
no lengths without prompts. The format is vLLM's: lines of `prompt` and `output_tokens`; in the place of `prompt` there may be
`input_tokens`, for which token ids are drawn.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import sys
import time
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

SCHEMA = 1
TICK_SECONDS = 0.02
SAMPLE_SECONDS = 1.0
LEAST_SAMPLE_SECONDS = 0.1
"""Shortest last sample: a share over fewer ticks would be noise."""
GO_POLL_SECONDS = 0.02
METRICS_SECONDS = 30.0
"""Timeout of the server's metrics page. vLLM 0.18.1 would wait six hours for a server that hangs, and works without the page.
Assumed: six times the collector's timeout."""
HOOKS = ("add_cli_args", "main_async", "get_samples", "fetch_spec_decode_metrics")


@dataclass
class Request:
    """One request with the fields of vLLM's SampleRequest. Source: vllm/benchmarks/datasets.py, 0.18.1."""

    prompt: str | list[int]
    prompt_len: int
    expected_output_len: int
    multi_modal_data: None = None
    lora_request: None = None
    request_id: str | None = None


@dataclass
class Seen:
    """Records of the hooks."""

    hashes: list[str] = field(default_factory=list)
    asked_input: list[int] = field(default_factory=list)
    asked_output: list[int] = field(default_factory=list)
    drawn: bool = False
    released: float = 0.0
    """perf_counter at the common start."""
    calls: int = 0
    """Of fetch_spec_decode_metrics."""


class Sampler:
    """CPU and delay of the event loop, second by second, by ticks of the loop that is measured.

    Timer callbacks and not a task that sleeps: half the cost.
    """

    def __init__(self) -> None:
        self.at: list[float] = []
        self.cpu: list[float] = []
        self.lag_ms: list[float] = []
        self._lags = array("d")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._begin = self._cpu_before = self._worst = 0.0

    def start(self) -> None:
        """Begin within the running loop."""
        self._begin, self._cpu_before = time.perf_counter(), time.process_time()
        self._loop = asyncio.get_running_loop()
        self._again(self._begin)

    def stop(self) -> None:
        """End, with the rest of a second as the last sample."""
        if self._timer is not None:
            self._timer.cancel()
        if not self.at or time.perf_counter() - self._begin >= LEAST_SAMPLE_SECONDS:
            self._note()

    @property
    def lag_p99_ms(self) -> float:
        """p99 of a callback's delay at any moment: a stall also counts for the ticks it swallowed."""
        return sorted(self._lags)[int(0.99 * (len(self._lags) - 1))] if self._lags else 0.0

    def _again(self, now: float) -> None:
        if self._loop is not None:
            self._due = now + TICK_SECONDS
            self._timer = self._loop.call_later(TICK_SECONDS, self._tick)

    def _tick(self) -> None:
        now = time.perf_counter()
        lag = max(0.0, 1e3 * (now - self._due))
        self._worst = max(self._worst, lag)
        self._lags.append(lag)
        while (lag := lag - 1e3 * TICK_SECONDS) > 0:
            self._lags.append(lag)
        if now - self._begin >= SAMPLE_SECONDS:
            self._note()
            now = time.perf_counter()
        self._again(now)

    def _note(self) -> None:
        now, cpu = time.perf_counter(), time.process_time()
        self.at.append(round(time.time(), 3))
        self.cpu.append(round((cpu - self._cpu_before) / max(now - self._begin, 1e-6), 4))
        self.lag_ms.append(round(self._worst, 3))
        self._begin, self._cpu_before, self._worst = now, cpu, 0.0


def prompt_hash(prompt: Any) -> str:
    """16 hexadecimal digits of a prompt; of one given as token ids, or as anything else, those of its JSON."""
    text = prompt if isinstance(prompt, str) else json.dumps(prompt)
    return blake2b(text.encode("utf-8", errors="surrogatepass"), digest_size=8).hexdigest()


def read_requests(file: Path, number: int, tokenizer: Any, seed: int, id_prefix: str = "") -> Iterator[Request]:
    """The first `number` requests of a file that dataset_parts wrote; from its beginning again when it has fewer."""
    # As bytes: text would be cut at every separator that Unicode knows, and JSON may hold those.
    lines = [json.loads(line) for line in file.read_bytes().split(b"\n") if line.strip()]
    if not lines:
        sys.exit(f"{file} has no requests")
    draw = random.Random(seed)  # noqa: S311 - prompts, not secrets
    for index in range(number):
        line = lines[index % len(lines)]
        if "prompt" in line:
            prompt = line["prompt"]
            if isinstance(prompt, list):
                length = len(prompt)
            else:
                length = len(prompt.split()) if tokenizer is None else len(tokenizer(prompt).input_ids)
        else:
            # As ids: the server takes exactly as many tokens as there are, whatever they would be as text.
            length = line["input_tokens"]
            prompt = draw.choices(range(tokenizer.vocab_size), k=length)
        yield Request(prompt, length, line["output_tokens"], request_id=f"{id_prefix}{index}")


def wrap_samples(original: Callable[..., Any], seen: Seen) -> Callable[..., Any]:
    """`get_samples` that records its results."""

    def get_samples(args: Any, tokenizer: Any, *rest: Any, **named: Any) -> Any:
        if getattr(args, "dataset_name", None) == "custom":
            # A server may treat two requests with one id as the same.
            own = getattr(args, "request_id_prefix", "")
            samples: Any = list(read_requests(Path(args.dataset_path), args.num_prompts, tokenizer, args.seed, own))
        else:
            samples = original(args, tokenizer, *rest, **named)
        seen.drawn = True
        seen.hashes = [prompt_hash(sample.prompt) for sample in samples]
        seen.asked_input = [int(sample.prompt_len) for sample in samples]
        seen.asked_output = [int(sample.expected_output_len) for sample in samples]
        return samples

    return get_samples


def wrap_fetch(
    original: Callable[..., Any], seen: Seen, sampler: Sampler, wait: Callable[[], Any]
) -> Callable[..., Any]:
    """`fetch_spec_decode_metrics` whose first call waits for the common start and whose second ends the watch."""

    async def fetch_spec_decode_metrics(*positional: Any, **named: Any) -> Any:
        seen.calls += 1
        if seen.calls == 2:
            sampler.stop()
        # Before the wait: nothing may delay the first request after the start.
        try:
            answer = await asyncio.wait_for(original(*positional, **named), METRICS_SECONDS)
        except TimeoutError:
            answer = None
        if seen.calls == 1:
            await wait()
        return answer

    return fetch_spec_decode_metrics


def write_whole(file: Path, text: str) -> None:
    """Write a file atomically."""
    part = file.with_name(f"{file.name}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(file)


async def wait_for_go(ready: Path, go: Path, seen: Seen) -> None:
    """Report that this client is ready, wait for the time of the start, and sleep until then."""
    write_whole(ready, "")
    launcher = os.getppid()
    while not go.exists():
        if os.getppid() != launcher:
            sys.exit("the program that started this client ended before the common start")
        await asyncio.sleep(GO_POLL_SECONDS)
    await asyncio.sleep(max(0.0, float(go.read_text()) - time.time()))
    seen.released = time.perf_counter()


def problem_of(seen: Seen, result: Mapping[str, Any], program: str) -> str | None:
    """Why this client's result does not match its witness; None: it does."""
    if not seen.drawn:
        return f"{program} never called get_samples: its requests are unknown"
    if seen.calls == 0:
        return f"{program} never called fetch_spec_decode_metrics: the client did not wait for the common start"
    if seen.calls == 1:
        return f"{program} called fetch_spec_decode_metrics once and not again: the end of the run is unknown"
    if seen.calls > 2:
        return f"{program} called fetch_spec_decode_metrics {seen.calls} times, not twice: start and end are not where they belong"
    sent = len(result["start_times"])
    if sent != len(seen.hashes):
        return f"{program} drew {len(seen.hashes)} requests and has {sent} results: their order is not known"
    early = sum(1 for start in result["start_times"] if 0 < start < seen.released)
    if early:
        return f"{program} started {early} measured requests before the common start"
    return None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run vLLM's benchmark and write the witness. Exits with a message when vLLM is not the one that the hooks fit."""
    options, of_vllm = _parse(sys.argv[1:] if arguments is None else arguments)
    try:
        import vllm  # type: ignore[import-not-found, unused-ignore]  # of the pod's image
        from vllm.benchmarks import serve  # type: ignore[import-not-found, unused-ignore]
        from vllm.utils.argparse_utils import FlexibleArgumentParser  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        sys.exit(f"vLLM's benchmark cannot be imported: {error}")
    program = f"vllm bench serve {vllm.__version__}"
    missing = [name for name in HOOKS if not hasattr(serve, name)]
    if missing:
        sys.exit(f"{program} has no {' and no '.join(missing)} in vllm.benchmarks.serve: this client fits 0.18.1")
    parser = FlexibleArgumentParser()
    serve.add_cli_args(parser)
    args = parser.parse_args(of_vllm)

    seen, sampler = Seen(), Sampler()

    async def wait() -> None:
        await wait_for_go(options.ready_file, options.go_file, seen)
        sampler.start()

    serve.get_samples = wrap_samples(serve.get_samples, seen)
    serve.fetch_spec_decode_metrics = wrap_fetch(serve.fetch_spec_decode_metrics, seen, sampler, wait)
    result = asyncio.run(serve.main_async(args))
    problem = problem_of(seen, result, program)
    if problem is not None:
        sys.exit(problem)
    write_whole(options.witness, json.dumps(_witness(options.client, args.seed, program, seen, sampler)))
    if not result["completed"]:
        sys.exit("none of its requests succeeded")
    return 0


def _witness(client: int, seed: int, program: str, seen: Seen, sampler: Sampler) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "client": client,
        "program": program,
        "seed": seed,
        "clock": _clock(),
        "loop_lag_p99_ms": round(sampler.lag_p99_ms, 3),
        "samples": {"at": sampler.at, "cpu_share": sampler.cpu, "loop_lag_ms": sampler.lag_ms},
        "prompt_hashes": seen.hashes,
        "asked_input_tokens": seen.asked_input,
        "asked_output_tokens": seen.asked_output,
    }


def _clock() -> dict[str, float]:
    """Both clocks at one moment: the reading of the wall clock lies between two of the other, and the closest of a few is taken."""
    best = (float("inf"), 0.0, 0.0)
    for _ in range(5):
        before, wall, after = time.perf_counter(), time.time(), time.perf_counter()
        best = min(best, (after - before, wall, (before + after) / 2))
    return {"wall": best[1], "perf_counter": best[2]}


def _parse(arguments: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(
        description=__doc__, usage="bench_client [options] -- [options of vllm bench serve]"
    )
    for name in ("witness", "go-file", "ready-file"):
        parser.add_argument(f"--{name}", required=True, type=Path)
    parser.add_argument("--client", required=True, type=int)
    own, of_vllm = list(arguments), []
    if "--" in own:
        at = own.index("--")
        own, of_vllm = own[:at], own[at + 1 :]
    return parser.parse_args(own), of_vllm


if __name__ == "__main__":
    sys.exit(main())
