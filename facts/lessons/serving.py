"""Rules for parallelism, speculative decoding and GPU memory of a vLLM server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from facts.ledger import value
from facts.lessons.lesson import Breach, Lesson, Limits, Setting
from facts.lessons.limits import (
    CRASH_UTILISATION,
    GRAPH_RISK_UTILISATION,
    MOST_DRAFT_TOKENS,
    TWO_BYTE_UTILISATION,
)
from facts.lessons.served import ESTIMATE_CUDAGRAPHS, Served
from facts.memory import GIB

_TP8: Final[int] = value("phases.figures.tp8.total_tokens_per_s")
_DP8: Final[int] = value("phases.figures.dp8.total_tokens_per_s")
_MTP1: Final[int] = value("phases.figures.mtp1-092.total_tokens_per_s")
_MTP2: Final[int] = value("phases.figures.mtp2-095.total_tokens_per_s")
_MTP1_AT_095: Final[int] = value("phases.figures.mtp1-095.total_tokens_per_s")
_MTP5: Final = value("phases.figures.tp8-mtp5.details")
_CRASH: Final = value("phases.figures.dp8-4096-095-crash.details")
_DRAFTS: Final = "speculative-config.num_speculative_tokens"


def _split_without_need(server: Served, limits: Limits) -> Iterator[Breach]:
    size = server.flags.tensor_parallel_size
    if size < 2 or not server.is_on_b200:
        return
    weights = server.weights_gb(limits["weightsGb"] or {})
    if weights is None:
        return
    name, gigabytes = weights
    room = server.cache_gib(weights_gib=gigabytes * 1e9 / GIB)
    if room > 0:
        yield Breach(
            option="tensor-parallel-size",
            value=size,
            allowed="1, or more with a reason, such as latency, in {tensor-parallel-reason}",
            because=f"{name} ({gigabytes:g} GB) fits one B200 and leaves {room:.0f} GiB for its cache",
            changes={"data-parallel-size": server.gpus or size * server.flags.engines, "tensor-parallel-size": 1},
            reason=server.tensor_parallel_reason,
        )


def _more_drafts_than_it_bears(server: Served, limits: Limits) -> Iterator[Breach]:
    drafts = server.mtp_tokens
    if drafts > limits["mostTokens"]:
        yield Breach(option=_DRAFTS, value=drafts, allowed="1", changes={_DRAFTS: 1})
    elif drafts == 2:
        yield Breach(
            option=_DRAFTS,
            value=drafts,
            allowed="1",
            why=f"{_MTP2:,} tok/s with 2 draft tokens, {_MTP1:,} with 1 (the article, phase 4); the single draft layer of this family "
            "runs again for the second token",
            changes={_DRAFTS: 1},
            is_advisory=True,
        )


def _crowded_memory(server: Served, _: Limits) -> Iterator[Breach]:
    share = server.utilisation
    if not server.flags.speculative_tokens or share <= TWO_BYTE_UTILISATION:
        return
    if share < CRASH_UTILISATION:
        if server.has_two_byte_cache:
            yield Breach(
                option="gpu-memory-utilization",
                value=share,
                allowed=f"{TWO_BYTE_UTILISATION} or less",
                because=f"the server uses speculative decoding, and {{kv-cache-dtype}} is {server.kv_cache_dtype}",
                why=f"with MTP and a bf16 cache {TWO_BYTE_UTILISATION} worked and {CRASH_UTILISATION} failed "
                f"{_CRASH['failed_requests']} requests; nothing is published between them (the article, phase 3)",
                changes={"gpu-memory-utilization": TWO_BYTE_UTILISATION},
                is_advisory=True,
            )
    elif server.has_two_byte_cache:
        yield Breach(
            option="gpu-memory-utilization",
            value=share,
            allowed=f"below {CRASH_UTILISATION}; {TWO_BYTE_UTILISATION} worked",
            because=f"the server uses speculative decoding, and {{kv-cache-dtype}} is {server.kv_cache_dtype}",
            changes={"gpu-memory-utilization": TWO_BYTE_UTILISATION},
        )
    elif not server.estimates_cudagraphs:
        yield Breach(
            option="gpu-memory-utilization",
            value=share,
            allowed=f"below {CRASH_UTILISATION}; {GRAPH_RISK_UTILISATION} worked with {{{ESTIMATE_CUDAGRAPHS}=true}}",
            because="the server uses speculative decoding, and its CUDA graphs are not counted",
            why="without the estimate the graphs need additional memory, which may not be free",
            changes={"gpu-memory-utilization": GRAPH_RISK_UTILISATION, ESTIMATE_CUDAGRAPHS: True},
        )
    else:
        yield Breach(
            option="gpu-memory-utilization",
            value=share,
            allowed=f"{GRAPH_RISK_UTILISATION}",
            because="the server uses speculative decoding",
            why=f"with an fp8 cache and counted CUDA graphs {CRASH_UTILISATION} gained nothing: {_MTP1_AT_095:,} tok/s instead of "
            f"{_MTP1:,} at {GRAPH_RISK_UTILISATION} (the article, phase 4)",
            changes={"gpu-memory-utilization": GRAPH_RISK_UTILISATION},
            is_advisory=True,
        )


def _uncounted_graphs(server: Served, limits: Limits) -> Iterator[Breach]:
    share = server.utilisation
    if share < limits["fromUtilisation"] or server.flags.on("enforce-eager"):
        return
    if share >= CRASH_UTILISATION and server.flags.speculative_tokens:
        return  # utilisation-with-mtp reports it
    if not server.estimates_cudagraphs:
        yield Breach(
            option=ESTIMATE_CUDAGRAPHS,
            value=None if server.env(ESTIMATE_CUDAGRAPHS) is None else False,
            allowed="true (1)",
            because=f"{{gpu-memory-utilization}} is {share:g}",
            changes={ESTIMATE_CUDAGRAPHS: True},
        )


LESSONS: Final[tuple[Lesson[Served], ...]] = (
    Lesson(
        name="tp8-on-one-gpu-model",
        statement="A model that fits one GPU is not split over several without a reason.",
        evidence=f"an engine split over 8 GPUs waits for the slowest GPU at every layer: {_TP8:,} tok/s on a node with TP=8 "
        f"(the article, phase 1), {_DP8:,} with eight engines (phase 2)",
        level_reason="it costs two thirds of a node's throughput",
        fix="{data-parallel-size=8} and {tensor-parallel-size=1}, or a reason in {tensor-parallel-reason}",
        level="mandatory",
        severity="high",
        settings=(
            Setting(
                name="weightsGb",
                type="object",
                unit="GB",
                default={},
                why="size of the weights by part of the model's name, for models that the pack does not know",
            ),
        ),
        judge=_split_without_need,
    ),
    Lesson(
        name="mtp-above-one",
        statement="MTP drafts no more tokens than the model's draft layer supports.",
        evidence=f"5 draft tokens gained {_MTP5['gain_percent']} % once and crashed on the second run (cudaErrorIllegalAddress); "
        "acceptance by position falls: {}, {}, {}, {}, {} % (the article, phase 1)".format(
            *_MTP5["acceptance_percent_by_position"]
        ),
        level_reason="a crash stops a whole server. Two draft tokens are advisory: the server is slower but works",
        fix=f"{{{_DRAFTS}=1}}",
        level="mandatory",
        severity="high",
        settings=(
            Setting(
                name="mostTokens",
                type="integer",
                unit="draft tokens",
                default=MOST_DRAFT_TOKENS,
                why="maximum that worked in your own runs for a day",
            ),
        ),
        judge=_more_drafts_than_it_bears,
    ),
    Lesson(
        name="utilisation-with-mtp",
        statement="A server with speculative decoding leaves memory that vLLM does not count.",
        evidence=f"with MTP and a bf16 cache {CRASH_UTILISATION} failed {_CRASH['failed_requests']} requests: one engine used "
        f"{_CRASH['fullest_engine_kv_cache_percent']} % of its cache with {_CRASH['queued_on_fullest_engine']} requests queued, "
        "another was idle (the article, phase 3)",
        level_reason="requests fail. What worked without a gain, or may work, is advisory",
        fix=f"{{gpu-memory-utilization={GRAPH_RISK_UTILISATION}}} with {{kv-cache-dtype=fp8_e4m3}} and "
        f"{{{ESTIMATE_CUDAGRAPHS}=true}}, or {TWO_BYTE_UTILISATION} with a bf16 cache",
        level="mandatory",
        severity="high",
        judge=_crowded_memory,
    ),
    Lesson(
        name="cudagraph-estimate-unset",
        statement="At high memory utilization, CUDA graphs are counted.",
        evidence="before 0.20 vLLM does not count CUDA graphs by default: they need memory beyond {gpu-memory-utilization}, and "
        "capturing them can run out of memory",
        level_reason="a few hundred MiB decide whether a replica starts",
        fix=f"{{{ESTIMATE_CUDAGRAPHS}=true}}",
        level="mandatory",
        severity="medium",
        settings=(
            Setting(
                name="fromUtilisation",
                type="number",
                unit="share of GPU memory",
                default=GRAPH_RISK_UTILISATION,
                why="utilization from which the estimate is required",
            ),
        ),
        judge=_uncounted_graphs,
    ),
)
