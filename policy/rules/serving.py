"""How a vLLM server splits over its GPUs, speculates and shares out their memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from engines import Engine, each_engine
from facts.ledger import value
from facts.memory import GIB, cache_gib_per_gpu
from rule import Finding, Rule, Setting, Settings, mapped
from settings.rules.limits import CRASH_UTILISATION, GRAPH_RISK_UTILISATION

_TP8: Final[int] = value("phases.figures.tp8.total_tokens_per_s")
_DP8: Final[int] = value("cluster_ip.figures.nodes-1.total_tokens_per_s")
_MTP1: Final[int] = value("phases.figures.mtp1-092.total_tokens_per_s")
_MTP2: Final[int] = value("phases.figures.mtp2-095.total_tokens_per_s")
_MTP1_AT_095: Final[int] = value("phases.figures.mtp1-095.total_tokens_per_s")
_MTP5_GAIN: Final[int] = value("phases.figures.tp8-mtp5.details.gain_percent")
_ACCEPTANCE: Final[list[float]] = value("phases.figures.tp8-mtp5.details.acceptance_percent_by_position")
_FAILED: Final[int] = value("phases.figures.dp8-4096-095-crash.details.failed_requests")
_FULLEST: Final[float] = value("phases.figures.dp8-4096-095-crash.details.fullest_engine_kv_cache_percent")
_QUEUED: Final[int] = value("phases.figures.dp8-4096-095-crash.details.queued_on_fullest_engine")
_KNOWN_WEIGHTS_GB: Final = {"Qwen3.5-27B-FP8": value("memory.values.weights-gb.value")}


def _split_without_need(engine: Engine, settings: Settings) -> Iterator[Finding]:
    size = engine.flags.tensor_parallel_size
    if size < 2 or not engine.server.pod.is_on_b200:
        return
    for part, gigabytes in (_KNOWN_WEIGHTS_GB | dict(mapped(settings["weightsGb"]))).items():
        if not engine.is_called(part):
            continue
        room = cache_gib_per_gpu(
            gpu_memory_utilization=engine.utilisation, weights_and_draft_gib=float(gigabytes) * 1e9 / GIB
        )
        if room > 0:
            yield engine.found(
                f"--tensor-parallel-size is {size}, and {part} ({gigabytes:g} GB) fits one B200 "
                f"and leaves {room:.0f} GiB for its cache",
                fix=f"--data-parallel-size={size} and --tensor-parallel-size=1",
            )
            return


def _experts_of_a_dense_model(engine: Engine, _: Settings) -> Iterator[Finding]:
    if engine.flags.on("enable-expert-parallel") and engine.is_called("Qwen3.5-27B"):
        yield engine.found(f"--enable-expert-parallel is set and {engine.model} has no experts")


def _more_drafts_than_it_bears(engine: Engine, settings: Settings) -> Iterator[Finding]:
    drafts = _mtp_drafts(engine)
    if drafts > settings["mostTokens"]:
        yield engine.found(f"num_speculative_tokens is {drafts}; this family bears {settings['mostTokens']:g}")


def _a_second_draft(engine: Engine, _: Settings) -> Iterator[Finding]:
    if _mtp_drafts(engine) == 2:
        yield engine.found("num_speculative_tokens is 2")


def _mtp_drafts(engine: Engine) -> int:
    # Other families bring their own draft layers; what they bear was not measured.
    return engine.flags.speculative_tokens if engine.is_hybrid and engine.flags.uses_mtp else 0


def _crowded_memory(engine: Engine, _: Settings) -> Iterator[Finding]:
    share = engine.utilisation
    if share < CRASH_UTILISATION or not engine.flags.speculative_tokens:
        return
    if engine.has_bf16_cache:
        yield engine.found(
            f"--gpu-memory-utilization is {share:g} with speculation and a {engine.kv_cache_dtype} cache"
        )
    elif not engine.estimates_cudagraphs:
        yield engine.found(
            f"--gpu-memory-utilization is {share:g} with speculation and CUDA graphs that nobody counts",
            why="without the estimate the graphs come on top of the share and may not fit",
        )


def _memory_without_gain(engine: Engine, _: Settings) -> Iterator[Finding]:
    share = engine.utilisation
    if share < CRASH_UTILISATION or not engine.flags.speculative_tokens or engine.has_bf16_cache:
        return
    if engine.estimates_cudagraphs:
        yield engine.found(f"--gpu-memory-utilization is {share:g} with speculation")


def _uncounted_graphs(engine: Engine, settings: Settings) -> Iterator[Finding]:
    share = engine.utilisation
    if share < settings["fromUtilisation"] or engine.flags.on("enforce-eager"):
        return
    if share >= CRASH_UTILISATION and engine.flags.speculative_tokens:
        return  # utilisation-with-mtp says it
    if not engine.estimates_cudagraphs:
        yield engine.found(
            f"--gpu-memory-utilization is {share:g} and VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS is not 1"
        )


RULES: Final = (
    Rule(
        name="tp8-on-one-gpu-model",
        lesson="tp8-on-one-gpu-model",
        subject="serving",
        statement="A model that fits one GPU is not split over several.",
        evidence=f"split over 8 GPUs the engine waits for the slowest one at every layer: {_TP8:,} tok/s on a node with TP=8 "
        f"against {_DP8:,} with eight engines (the article, phases 1 and 2). Mandatory: three quarters of a node are lost",
        fix="--data-parallel-size=8 and --tensor-parallel-size=1",
        level="mandatory",
        severity="high",
        settings=(
            Setting(
                name="weightsGb",
                type="object",
                unit="GB",
                default={},
                why="size of the weights by a part of the model's name, for models that the pack does not know",
            ),
        ),
        judge=each_engine(_split_without_need),
    ),
    Rule(
        name="expert-parallel-on-dense-model",
        lesson="expert-parallel-on-dense-model",
        subject="serving",
        statement="Expert parallelism is for models with experts.",
        evidence="vLLM refuses expert parallelism on a dense model when it starts (0.18.1, run). "
        "Mandatory: no replica gets ready",
        fix="leave --enable-expert-parallel out",
        level="mandatory",
        severity="medium",
        judge=each_engine(_experts_of_a_dense_model),
    ),
    Rule(
        name="mtp-above-one",
        lesson="mtp-above-one",
        subject="serving",
        statement="A model drafts no more tokens ahead than its draft layer bears.",
        evidence=f"5 draft tokens gained {_MTP5_GAIN} % once and crashed on the second run (cudaErrorIllegalAddress); acceptance "
        f"falls from {_ACCEPTANCE[0]} % at the first position to {_ACCEPTANCE[1]}, {_ACCEPTANCE[2]}, {_ACCEPTANCE[3]} and "
        f"{_ACCEPTANCE[4]} % (the article, phase 1). Mandatory: a crash takes eight GPUs out at once",
        fix='--speculative-config={"method":"mtp","num_speculative_tokens":1}',
        level="mandatory",
        severity="high",
        settings=(
            Setting(
                name="mostTokens",
                type="integer",
                unit="draft tokens",
                default=2,
                why="what your own runs have borne for a day",
            ),
        ),
        judge=each_engine(_more_drafts_than_it_bears),
    ),
    Rule(
        name="mtp-two-is-slower",
        lesson="mtp-above-one",
        subject="serving",
        statement="A model with one draft layer drafts one token.",
        evidence=f"2 draft tokens gave {_MTP2:,} tok/s against {_MTP1:,} with 1 (the article, phase 4); the one layer of this "
        "family runs again for the second. Advisory: slower, not broken",
        fix='--speculative-config={"method":"mtp","num_speculative_tokens":1}',
        level="advisory",
        severity="medium",
        judge=each_engine(_a_second_draft),
    ),
    Rule(
        name="utilisation-with-mtp",
        lesson="utilisation-with-mtp",
        subject="serving",
        statement="A server that speculates leaves memory for what the share does not count.",
        evidence=f"with MTP and a bf16 cache {CRASH_UTILISATION} left {_FAILED} requests failed: one engine at {_FULLEST} % of its cache "
        "with "
        f"{_QUEUED} queued, another idle (the article, phase 3). Mandatory: requests fail",
        fix="--gpu-memory-utilization=0.92 with --kv-cache-dtype=fp8_e4m3 and VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=1, "
        "or 0.90 with a bf16 cache",
        level="mandatory",
        severity="high",
        judge=each_engine(_crowded_memory),
    ),
    Rule(
        name="utilisation-without-gain",
        lesson="utilisation-with-mtp",
        subject="serving",
        statement="Memory that brings no throughput is left as a margin.",
        evidence=f"with an fp8 cache and counted CUDA graphs {CRASH_UTILISATION} gained nothing: {_MTP1_AT_095:,} tok/s against "
        f"{_MTP1:,} at "
        f"{GRAPH_RISK_UTILISATION} (the article, phase 4). Advisory: it ran",
        fix="--gpu-memory-utilization=0.92",
        level="advisory",
        severity="low",
        judge=each_engine(_memory_without_gain),
    ),
    Rule(
        name="cudagraph-estimate-unset",
        lesson="cudagraph-estimate-unset",
        subject="serving",
        statement="Where little memory is left, CUDA graphs are counted in the share.",
        evidence="vLLM 0.18 does not count CUDA graphs by default: they come on top of --gpu-memory-utilization and capture runs "
        "out of memory; 0.19 counts them. Mandatory: whether a replica starts is then a matter of a few hundred MiB",
        fix="set the variable VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS to 1",
        level="mandatory",
        severity="medium",
        settings=(
            Setting(
                name="fromUtilisation",
                type="number",
                unit="share of GPU memory",
                default=GRAPH_RISK_UTILISATION,
                why="from which share on the estimate is asked for",
            ),
        ),
        judge=each_engine(_uncounted_graphs),
    ),
)
