"""What a vLLM server caches, and how many sequences of which length it admits."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import Final

from engines import CONCURRENCY_ANNOTATION, CONTEXT_ANNOTATION, Engine, each_engine
from facts import memory
from facts.engines import DEFAULT_SEQUENCES
from facts.ledger import value
from rule import Finding, Rule, Setting, Settings
from settings.rules.limits import CONTEXT_SLACK

_FULL_CONTEXT: Final[int] = value("phases.figures.dp8.total_tokens_per_s")
_SHORT_CONTEXT: Final[int] = value("phases.figures.dp8-4096.total_tokens_per_s")
_FULL_CACHE: Final[float] = value("phases.figures.dp8.details.kv_cache_usage_percent")
_WAITING: Final[int] = value("phases.figures.dp8.details.waiting_requests")
# Source: release notes as measured: vLLM 0.20.2 refused 8192 and named the state blocks; 0.18.1 accepts it.
_REFUSES_FROM: Final = (0, 20, 0)
# Assumed: the count of state blocks is an estimate from one run; below a tenth too many the server may still start.
_MARGIN: Final = 1.1


def _flags_missing(engine: Engine, _: Settings) -> Iterator[Finding]:
    if not engine.is_hybrid or not engine.prefix_caching:
        return
    missing = [f"--{name}" for name in ("mamba-cache-mode", "mamba-block-size") if name not in engine.flags]
    if missing:
        yield engine.found(f"--enable-prefix-caching without {' and '.join(missing)}")


def _flags_without_caching(engine: Engine, _: Settings) -> Iterator[Finding]:
    if engine.is_hybrid and not engine.prefix_caching and "mamba-block-size" in engine.flags:
        yield engine.found(
            f"--mamba-block-size={engine.flags.text('mamba-block-size')} without --enable-prefix-caching"
        )


def _never_hits(engine: Engine, _: Settings) -> Iterator[Finding]:
    layout, longest = engine.layout, engine.context_tokens
    if not engine.prefix_caching or layout is None or longest is None:
        return
    shortest = memory.shortest_prompt_prefix_caching_can_hit(layout)
    if shortest is not None and longest < shortest:
        yield engine.found(
            f"--enable-prefix-caching with --max-model-len={longest}, and no prompt below {shortest} tokens can hit",
            why=f"a cache block of this model is {memory.attention_block_tokens(layout)} tokens with these flags, "
            "the last token is always computed"
            + (", and with MTP the last matched block is given up" if engine.flags.speculative_tokens else "")
            + "; the article saw no hit, and the flag costs a quarter of the concurrency that vLLM plans with",
            fix="leave out --enable-prefix-caching, --mamba-cache-mode and --mamba-block-size, "
            f"or --max-model-len={shortest} and more",
        )


def _too_few_sequences(engine: Engine, _: Settings) -> Iterator[Finding]:
    offered = engine.offered_concurrency
    engines = engine.flags.engines
    if offered is not None and engine.sequences * engines < offered:
        needed = ceil(offered / engines)
        yield engine.found(
            f"--max-num-seqs is {engine.sequences} for each of {engines} engine(s), "
            f"{engine.sequences * engines} in all, and {offered} requests are in flight ({CONCURRENCY_ANNOTATION})",
            fix=f"--max-num-seqs={needed}",
        )


def _batch_below_sequences(engine: Engine, _: Settings) -> Iterator[Finding]:
    if engine.batched_tokens < engine.sequences:
        yield engine.found(
            f"--max-num-batched-tokens is {engine.batched_tokens}, --max-num-seqs is {engine.sequences}",
            fix=f"--max-num-batched-tokens={engine.sequences} or more",
        )


def _block_above_batch(engine: Engine, _: Settings) -> Iterator[Finding]:
    layout = engine.layout
    if not engine.prefix_caching or layout is None:
        return
    block_tokens = memory.attention_block_tokens(layout)
    if block_tokens > engine.batched_tokens:
        yield engine.found(
            f"--max-num-batched-tokens is {engine.batched_tokens}, below one cache block of {block_tokens} tokens",
            fix=f"--max-num-batched-tokens={block_tokens} or more",
        )


def _sequences_above_state(engine: Engine, margin: float) -> Iterator[Finding]:
    # On another GPU, or split over several, another number of blocks fits.
    if not engine.server.pod.is_on_b200 or engine.flags.tensor_parallel_size > 1 or "max-num-seqs" not in engine.flags:
        return
    layout = engine.layout
    # What the weights leave is only known for these.
    if layout is None or not engine.is_called("Qwen3.5-27B-FP8"):
        return
    limit = memory.max_num_seqs_limit(layout, memory.cache_gib_per_gpu(gpu_memory_utilization=engine.utilisation))
    if engine.sequences > limit * margin:
        yield engine.found(
            f"--max-num-seqs is {engine.sequences}; about {limit} recurrent states fit one GPU",
            fix=f"--max-num-seqs={min(limit, DEFAULT_SEQUENCES)}",
        )


def _above_state(engine: Engine, _: Settings) -> Iterator[Finding]:
    yield from _sequences_above_state(engine, 1.0)


def _refused_above_state(engine: Engine, _: Settings) -> Iterator[Finding]:
    for finding in _sequences_above_state(engine, _MARGIN):
        release = engine.release
        if release is not None and release >= _REFUSES_FROM:
            yield finding


def _context_below_need(engine: Engine, _: Settings) -> Iterator[Finding]:
    configured, needed = engine.context_tokens, engine.needed_context_tokens
    if configured is not None and needed is not None and configured < needed:
        yield engine.found(
            f"--max-model-len is {configured} and requests need up to {needed} tokens ({CONTEXT_ANNOTATION})",
            fix=f"--max-model-len={needed}",
        )


def _context_above_need(engine: Engine, settings: Settings) -> Iterator[Finding]:
    configured, needed = engine.context_tokens, engine.needed_context_tokens
    if configured is not None and needed and configured > needed * settings["slack"]:
        yield engine.found(
            f"--max-model-len is {configured}, {configured / needed:.0f} times the {needed} tokens "
            f"that requests need ({CONTEXT_ANNOTATION})",
            fix=f"--max-model-len={needed}",
        )


RULES: Final = (
    Rule(
        name="hybrid-prefix-cache-flags",
        lesson="hybrid-prefix-cache-flags",
        subject="serving",
        statement="Prefix caching of a hybrid model says how its states are cached.",
        evidence="the article lost throughput ten-fold without the mamba-cache flags: the engine reprocessed the whole prompt on "
        "every answer. Mandatory: nine tenths of a fleet",
        fix="--mamba-cache-mode=align and --mamba-block-size=8 beside --enable-prefix-caching",
        level="mandatory",
        severity="high",
        judge=each_engine(_flags_missing),
    ),
    Rule(
        name="mamba-flags-without-prefix-caching",
        lesson="mamba-flags-without-prefix-caching",
        subject="serving",
        statement="A block size for states comes with prefix caching.",
        evidence="vLLM 0.18.1 refuses to start: --mamba-block-size only means something with prefix caching, which is off by "
        "default for hybrid models (run). Mandatory: no replica gets ready",
        fix="leave out --mamba-block-size and --mamba-cache-mode, or --enable-prefix-caching",
        level="mandatory",
        severity="high",
        judge=each_engine(_flags_without_caching),
    ),
    Rule(
        name="prefix-cache-never-hits",
        lesson="prefix-cache-never-hits",
        subject="serving",
        statement="Prefix caching is on only where a prompt can be long enough to hit.",
        evidence="vLLM makes a block of a hybrid model as large as one state; a prompt below one block, two with MTP, can never "
        "hit (0.18.1's cache manager, run). Mandatory: the flag promises what it cannot give",
        fix="leave out --enable-prefix-caching, --mamba-cache-mode and --mamba-block-size",
        level="mandatory",
        severity="medium",
        judge=each_engine(_never_hits),
    ),
    Rule(
        name="sequences-below-load",
        lesson="sequences-below-load",
        subject="serving",
        statement="The engines together admit the requests that are offered to a replica.",
        evidence="the scheduler admits no more than --max-num-seqs per engine: at 512 on one engine throughput was flat from 500 "
        "to 1,000 in flight (the article, phase 1). Mandatory: GPUs idle while requests wait",
        fix="raise --max-num-seqs to the offered requests over the engines",
        level="mandatory",
        severity="medium",
        judge=each_engine(_too_few_sequences),
    ),
    Rule(
        name="batch-below-sequences",
        lesson="batch-below-sequences",
        subject="serving",
        statement="A step has room for one token of every sequence.",
        evidence="vLLM refuses to start with fewer batched tokens than sequences (0.18.1, run). Mandatory: no replica gets ready",
        fix="raise --max-num-batched-tokens to --max-num-seqs at least",
        level="mandatory",
        severity="medium",
        judge=each_engine(_batch_below_sequences),
    ),
    Rule(
        name="block-above-batch",
        lesson="block-above-batch",
        subject="serving",
        statement="With aligned prefix caching a step has room for a whole cache block.",
        evidence="aligned prefix caching computes whole blocks; vLLM 0.18.1 refuses to start otherwise (run). "
        "Mandatory: no replica gets ready",
        fix="raise --max-num-batched-tokens to a block at least",
        level="mandatory",
        severity="medium",
        judge=each_engine(_block_above_batch),
    ),
    Rule(
        name="max-num-seqs-above-state",
        lesson="max-num-seqs-above-state",
        subject="serving",
        statement="A server admits no more sequences than it can hold a state for.",
        evidence="every running sequence of a hybrid model holds at least one block of the pool; 0.18.1 accepts more sequences "
        "and never runs them (own trial on an H200). Advisory: until the release changes",
        fix="lower --max-num-seqs to the states that fit",
        level="advisory",
        severity="low",
        judge=each_engine(_above_state),
    ),
    Rule(
        # Of no lesson that could excuse it: a server that refuses to start reproduces nothing.
        name="max-num-seqs-refused",
        subject="serving",
        statement="A release that counts states is given no more sequences than there is room for.",
        evidence="vLLM 0.20.2 refused 8192 sequences for this model and named the state blocks it had (own trial on an H200). "
        "Mandatory: no replica gets ready. A tenth above the estimate is let pass",
        fix="lower --max-num-seqs to the states that fit",
        level="mandatory",
        severity="high",
        judge=each_engine(_refused_above_state),
    ),
    Rule(
        name="context-below-need",
        lesson="context-below-need",
        subject="serving",
        statement="The longest request that the traffic needs is admitted.",
        evidence="the server refuses longer requests with an error. Mandatory: users see it",
        fix="raise --max-model-len to the declared need",
        level="mandatory",
        severity="medium",
        judge=each_engine(_context_below_need),
    ),
    Rule(
        name="context-far-above-need",
        lesson="context-far-above-need",
        subject="serving",
        statement="The admitted context is of the size of what the traffic needs.",
        evidence=f"131,072 for 1,500-token requests left the cache {_FULL_CACHE} % full and {_WAITING} requests waiting: "
        f"{_FULL_CONTEXT:,} tok/s against {_SHORT_CONTEXT:,} at 4,096 (the article, phases 2 and 3). Mandatory: an eighth of a fleet",
        fix="lower --max-model-len to the declared need",
        level="mandatory",
        severity="medium",
        settings=(
            Setting(
                name="slack",
                type="number",
                unit="times the need",
                default=CONTEXT_SLACK,
                why="how far above the need the context may be",
            ),
        ),
        judge=each_engine(_context_above_need),
    ),
)
