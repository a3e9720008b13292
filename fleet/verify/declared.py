"""Expected values from the stack file: names, versions, sizes, labels of vLLM's metrics.

Source of labels and spellings: vLLM 0.18.1, config/cache.py (metrics_info: every field of CacheConfig as `str`),
v1/metrics/loggers.py (log_metrics_info).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from facts import memory
from facts.engines import LONGEST_CONTEXT_TOKENS
from facts.workloads import draft_acceptance
from fleet.plan.from_settings import deployment_of
from fleet.verify.questions import LONG_PROMPT_ANSWER_TOKENS
from settings.sections.engine import effective_flags

if TYPE_CHECKING:
    from settings.stack import Settings

ARTICLE_MODEL = "Qwen3.5-27B"
"""Part of the model id for which the article published acceptance."""
SMALLEST_BLOCK_TOKENS = 16
"""Of another model's cache. Source: vLLM 0.18.1, CacheConfig.DEFAULT_BLOCK_SIZE. Attention backends raise it, to 128 at most (CUTLASS
MLA), without reporting it."""
UNKNOWN_MODELS_PROMPT = 1_025
"""Tokens of a prompt that hits with any block size: eight of the largest blocks, of which speculation drops one."""


def model_name(settings: Settings) -> str:
    """The served model name."""
    return settings.serving.served_model_name


def version(settings: Settings) -> str:
    """The vLLM release from the image's tag: `v0.18.1-cu130` is 0.18.1."""
    return settings.serving.image.tag.removeprefix("v").partition("-")[0]


def is_hybrid(settings: Settings) -> bool:
    """Whether the model has recurrent states in addition to keys and values."""
    shape = settings.serving.shape
    return shape is not None and shape.kind == "hybrid"


def is_the_articles_model(settings: Settings) -> bool:
    """Whether acceptance was published for the model."""
    return ARTICLE_MODEL in settings.serving.model.id


def block_tokens(settings: Settings) -> int | None:
    """Tokens of one cache block: raised by vLLM for a hybrid model, or as declared; None if undetermined."""
    given = effective_flags(settings.serving.engine).get("block-size")
    chosen = None if given is None else int(given)
    if not is_hybrid(settings):
        return chosen
    try:
        layout = deployment_of(settings).layout
    except LookupError:
        return chosen
    return max(chosen or 0, memory.attention_block_tokens(layout))


def cache_labels(settings: Settings) -> dict[str, str]:
    """Expected labels of `vllm:cache_config_info`, with the values that vLLM resolves."""
    engine = settings.serving.engine
    flags = effective_flags(engine)
    hybrid, shape = is_hybrid(settings), settings.serving.shape
    prefix_caching = settings.serving.caches_prefixes
    expected: dict[str, str] = {
        "gpu_memory_utilization": str(engine.gpu_memory_share),
        "prefix_caching_hash_algo": str(flags.get("prefix-caching-hash-algo", "sha256")),
    }
    if (block := block_tokens(settings)) is not None:
        expected["block_size"] = str(block)
    # A checkpoint may set a cache type; the article's does not.
    if engine.kv_cache_dtype is not None or is_the_articles_model(settings):
        expected["cache_dtype"] = engine.kv_cache_dtype or "auto"
    expected["enable_prefix_caching"] = str(prefix_caching)
    if hybrid:
        # Without prefix caching there is no mode; Qwen3.5 supports only align.
        expected["mamba_cache_mode"] = "align" if prefix_caching else "none"
    if hybrid and shape is not None:
        ssm, own = flags.get("mamba-ssm-cache-dtype"), shape.architecture.linear_state_dtype
        expected["mamba_ssm_cache_dtype"] = (
            str(ssm) if ssm not in (None, "auto") else own if own == "float32" else "auto"
        )
    extra = {argument.partition("=")[0].replace("_", "-") for argument in engine.extra_args}
    # These two override every declared cache setting.
    for label in ("num_gpu_blocks_override", "kv_cache_memory_bytes"):
        if f"--{label.replace('_', '-')}" not in extra:
            expected[label] = "None"
    return expected


def context_tokens(settings: Settings) -> int | None:
    """`max_model_len` as reported by the server; None if the model's own is unknown."""
    declared, shape = settings.serving.engine.max_model_len, settings.serving.shape
    return declared if declared is not None or shape is None else shape.context_tokens


def acceptance(settings: Settings) -> float | None:
    """Published share of accepted draft tokens over all positions; None for other models."""
    drafts = settings.serving.engine.speculative_tokens
    shares = draft_acceptance()[:drafts]
    if not shares or len(shares) < drafts or not is_the_articles_model(settings):
        return None
    speculative = settings.serving.engine.speculative
    return sum(shares) / drafts if speculative is not None and speculative.method == "mtp" else None


def prompt_to_hit(settings: Settings) -> int | None:
    """Tokens of a prompt that hits two blocks when repeated, or one block if no more fits the
    context. None if no prompt within the context can hit.
    """
    block = block_tokens(settings)
    given_up = 1 if settings.serving.engine.speculative_tokens else 0
    longest = (context_tokens(settings) or LONGEST_CONTEXT_TOKENS) - LONG_PROMPT_ANSWER_TOKENS
    if block is None:
        return UNKNOWN_MODELS_PROMPT if longest >= UNKNOWN_MODELS_PROMPT else None
    for hits in (2, 1):
        tokens = block * (hits + given_up) + 1
        if tokens <= longest:
            return tokens
    return None
