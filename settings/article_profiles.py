"""The configurations of the article, phase by phase: the record, and what was measured, or failed, on the way to it.

They are here to be repeated, not recommended: most carry the lesson that the next phase learnt. Where the article
leaves an option open, the profile keeps the value of that phase's own text and says so in `assumptions`. All run on
0.18.1.
"""

from __future__ import annotations

from settings.engine import Engine, Speculative
from settings.kubernetes import Model
from settings.profile import Profile

MODEL_ID = "Qwen/Qwen3.5-27B-FP8"
# Source: snapshot id of the repository, quoted by several public repositories in spring 2026.
REVISION = "2e1b21350ce589fcaafbb3c7d7eac526a7aed582"
# Source: the article, "let's assume about 29 GB"; it also says 14 GB of download, which FP8 weights cannot be.
SIZE_GB = 29.0

# Source: the article, Phase 3 and benchmark methodology: prompts of up to 1,024 tokens and answers of up to 512.
ARTICLE_CONTEXT_TOKENS = 1_536
# Source: the article, "A single A4 node handles 2,000 concurrent users".
ARTICLE_CONCURRENCY = 2_000
# Source: the article, Phase 1: flat "from 500 to 1000 concurrency".
TP8_CONCURRENCY = 1_000

_MTP_1 = Speculative(method="mtp", num_speculative_tokens=1)
_NOT_SAID_BEFORE_PHASE_4 = (
    "the vLLM release before 0.18.0 is not named: 0.18.1 here",
    "prefix caching on: the mamba-cache flags, which the text says it needs, do nothing without it",
    "workload: the final benchmark's; the text says sequences of about 1,500 tokens",
    "batched tokens, attention backend, memory utilization and KV-cache type are vLLM's defaults unless named",
)
_SPEED_OF_PHASE_4 = "context, batched tokens and the other flags of the sweep: the final configuration's"


def model() -> Model:
    """The article's model at its pinned revision."""
    return Model(id=MODEL_ID, revision=REVISION, size_gb=SIZE_GB)


def record() -> Profile:
    """The article's final flags, plus what its prose requires beside them."""
    return _article(
        "record",
        "the record: 1,103,941 tok/s on 12 nodes, 95,317 on one",
        "phases.mtp1-092",
        _record_engine(),
        lessons={"prefix-cache-never-hits", "max-num-seqs-above-state"},
        assumptions=(
            "entry point: `vllm serve`, which the image starts; the article prints arguments only",
            "max-num-seqs and the two mamba-cache flags: named in the prose, absent from the final list",
            "0.18.1 instead of 0.18.0, whose FP8 accuracy problem on B200 it fixes",
        ),
    )


def tp8() -> Profile:
    """Phase 1: one engine over eight GPUs."""
    return _article(
        "tp8",
        "phase 1: one engine over eight GPUs, MTP-1; 22,300 tok/s",
        "phases.tp8",
        _tp8_engine(_MTP_1),
        lessons={"tp8-on-one-gpu-model", "context-far-above-need", "sequences-below-load"},
        concurrency=TP8_CONCURRENCY,
        assumptions=("context 131,072: phase 2 calls it the default so far", *_NOT_SAID_BEFORE_PHASE_4),
    )


def tp8_mtp5() -> Profile:
    """Phase 1 with five draft tokens: faster, then a crash."""
    return _article(
        "tp8-mtp5",
        "phase 1: MTP-5; about 21 % more, then cudaErrorIllegalAddress on the second run",
        "phases.tp8-mtp5",
        _tp8_engine(Speculative(method="mtp", num_speculative_tokens=5)),
        lessons={
            "tp8-on-one-gpu-model",
            "context-far-above-need",
            "sequences-below-load",
            "mtp-above-one",
        },
        concurrency=TP8_CONCURRENCY,
        assumptions=("context 131,072: phase 2 calls it the default so far", *_NOT_SAID_BEFORE_PHASE_4),
    )


def dp8_131k() -> Profile:
    """Phase 2: eight engines, each with room for a context that nobody used."""
    return _article(
        "dp8-131k",
        "phase 2: eight engines at context 131,072; 74,848 tok/s",
        "phases.dp8",
        _dp8_engine(max_model_len=131_072),
        lessons={"context-far-above-need", "max-num-seqs-above-state"},
        assumptions=(_MTP_BEFORE_PHASE_4, *_NOT_SAID_BEFORE_PHASE_4),
    )


def dp8_4096() -> Profile:
    """Phase 3: the context cut to 4,096 tokens."""
    return _article(
        "dp8-4096",
        "phase 3: context 4,096, memory utilization 0.90; 85,509 tok/s",
        "phases.dp8-4096",
        _dp8_engine(max_model_len=4_096, gpu_memory_utilization=0.90),
        lessons={"max-num-seqs-above-state"},
        assumptions=_NOT_SAID_BEFORE_PHASE_4,
    )


def dp8_4096_crash() -> Profile:
    """Phase 3, first attempt: 0.95 of the memory with a bfloat16 cache and MTP."""
    return _article(
        "dp8-4096-crash",
        "phase 3: the same at 0.95; crashed with 908 failed requests",
        "phases.dp8-4096-095-crash",
        _dp8_engine(max_model_len=4_096, gpu_memory_utilization=0.95),
        lessons={"utilisation-with-mtp", "max-num-seqs-above-state"},
        assumptions=_NOT_SAID_BEFORE_PHASE_4,
    )


def mtp1_095() -> Profile:
    """Phase 4: the record at 0.95 of the memory."""
    return _article(
        "mtp1-095",
        "phase 4: the record at memory utilization 0.95; 95,391 tok/s, no gain",
        "phases.mtp1-095",
        _record_engine().but({"gpuMemoryUtilization": 0.95}),
        lessons={"utilisation-with-mtp", "prefix-cache-never-hits", "max-num-seqs-above-state"},
        assumptions=(_SPEED_OF_PHASE_4,),
    )


def mtp2_095() -> Profile:
    """Phase 4: two draft tokens."""
    return _article(
        "mtp2-095",
        "phase 4: MTP-2 at 0.95; 90,567 tok/s",
        "phases.mtp2-095",
        _record_engine().but({"gpuMemoryUtilization": 0.95, "speculative": {"numSpeculativeTokens": 2}}),
        lessons={"mtp-above-one", "utilisation-with-mtp", "prefix-cache-never-hits", "max-num-seqs-above-state"},
        assumptions=(_SPEED_OF_PHASE_4,),
    )


def no_mtp_095() -> Profile:
    """Phase 4: no speculation."""
    return _article(
        "no-mtp-095",
        "phase 4: no MTP at 0.95; 66,021 tok/s",
        "phases.no-mtp-095",
        _record_engine().but({"gpuMemoryUtilization": 0.95, "speculative": None}),
        lessons={"max-num-seqs-above-state"},
        assumptions=(_SPEED_OF_PHASE_4,),
    )


def nvfp4_397b() -> Profile:
    """Phase 4b: the mixture-of-experts sibling, which needs all eight GPUs."""
    return Profile(
        name="397b-nvfp4",
        title="phase 4b: Qwen3.5-397B-A17B in NVFP4 over eight GPUs with expert parallel; 19,725 tok/s",
        reproduces="phases.qwen-397b",
        engine=_record_engine().but(
            {"dataParallelSize": 1, "tensorParallelSize": 8, "enableExpertParallel": True, "speculative": None}
        ),
        model_id="nvidia/Qwen3.5-397B-A17B-NVFP4",
        model=None,
        workload="article",
        context_tokens=ARTICLE_CONTEXT_TOKENS,
        concurrency_per_replica=ARTICLE_CONCURRENCY,
        assumptions=(
            "repository nvidia/Qwen3.5-397B-A17B-NVFP4: the article names none; revision and size are yours",
            "no speculation: the text names none, and whether the checkpoint carries the MTP layer is not said",
            "every other flag: the final configuration's, which this detour followed",
        ),
    )


_MTP_BEFORE_PHASE_4 = (
    "MTP-1: phase 1 settled on it and phase 3 blames its draft; without it phase 4 measured only 66,021 tok/s"
)


def _article(
    name: str,
    title: str,
    reproduces: str,
    engine: Engine,
    *,
    lessons: set[str],
    assumptions: tuple[str, ...],
    concurrency: int = ARTICLE_CONCURRENCY,
) -> Profile:
    return Profile(
        name=name,
        title=title,
        reproduces=reproduces,
        engine=engine,
        model_id=MODEL_ID,
        model=model(),
        workload="article",
        context_tokens=ARTICLE_CONTEXT_TOKENS,
        concurrency_per_replica=concurrency,
        lessons_reproduced=frozenset(lessons),
        assumptions=assumptions,
    )


def _record_engine() -> Engine:
    return Engine(
        data_parallel_size=8,
        max_model_len=2_560,
        max_num_batched_tokens=16_384,
        max_num_seqs=8_192,
        kv_cache_dtype="fp8_e4m3",
        gpu_memory_utilization=0.92,
        enable_prefix_caching=True,
        enable_chunked_prefill=True,
        attention_backend="FLASHINFER",
        optimization_level=3,
        speculative=_MTP_1,
        mamba_cache_mode="align",
        mamba_block_size=8,
        estimate_cudagraphs=True,
    )


def _tp8_engine(speculative: Speculative) -> Engine:
    return Engine(
        tensor_parallel_size=8,
        max_model_len=131_072,
        max_num_seqs=512,
        enable_prefix_caching=True,
        speculative=speculative,
        mamba_cache_mode="align",
        mamba_block_size=8,
    )


def _dp8_engine(*, max_model_len: int, gpu_memory_utilization: float | None = None) -> Engine:
    return Engine(
        data_parallel_size=8,
        max_model_len=max_model_len,
        max_num_seqs=8_192,
        gpu_memory_utilization=gpu_memory_utilization,
        enable_prefix_caching=True,
        speculative=_MTP_1,
        mamba_cache_mode="align",
        mamba_block_size=8,
    )
