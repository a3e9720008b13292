"""Checks of the model against engine, GPUs and vLLM release, by the model's shape and the catalogue."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import TYPE_CHECKING, Final

from facts.finding import Finding, Severity
from facts.memory import GIB, max_num_seqs_limit, startup, startup_concurrency
from facts.models import CATALOGUE
from facts.releases import number_of
from settings.checks.adapters import adapter_problems
from settings.checks.context import context_problems
from settings.checks.declared_server import DeclaredServer
from settings.checks.parsers import parser_problems
from settings.row import Row

if TYPE_CHECKING:
    from settings.stack import Settings


LEAST_SHARE: Final = 0.9
"""Share of the computed weights below which a stated size is refused. The catalog's sizes are at least 0.98 of theirs: the shapes have no
norms and biases, and a repository holds more files than weights."""
_REVISION = Row(
    "revision-of-another-model",
    "it is another model's commit, so the download fails",
    "no revision, where the catalog has it, else the latest commit id in the repository's history",
)
_SIZE = Row(
    "size-of-another-model",
    "the weights volume and the load time depend on it",
    "no sizeGb, where the catalog has it, else the total of the files that vLLM reads (docs/weights.md)",
)
_PROFILE = Row(
    "profile-of-another-model",
    "they are for the architecture of the profile's model, and this model is not known to have it",
    "nothing, or this model's flags in server.engine",
    "note",
)
_FITTED = Row(
    "profile-on-other-gpus",
    "the profile is for its model on eight B200, and these values follow from yours",
    "nothing, or your values in server.engine and server.needs.concurrencyPerReplica",
    "note",
)
_KEY_BIAS = Row(
    "fp8-cache-with-key-bias",
    "the keys of models of the family of Qwen2 have a large bias: with FP8 and no scales answers turn into repetitions and nonsense "
    "(QwenLM/Qwen3#840, NVIDIA/TensorRT-LLM#4218)",
    "kvCacheDtype: auto",
    "warning",
)
_HEADS = Row(
    "heads-not-divisible",
    "vLLM must split the model's attention heads evenly",
    "tensorParallelSize: one of these, with dataParallelSize for the rest of the GPUs",
)
_BLOCKS = Row(
    "fp8-blocks-cut",
    "each GPU's part of an FP8 matrix must be whole blocks: vLLM exits at startup, on a node that is billed",
    "tensorParallelSize: one of these, or enableExpertParallel: true if only experts are cut",
)
_TOO_LARGE = Row(
    "model-exceeds-gpus",
    "vLLM exits at startup, on a node that is billed",
    "more GPUs for an engine, or a machine that `fleet models` lists for the model, or a lower maxModelLen",
)
_STATES = Row(
    "sequences-above-states",
    "each sequence of a hybrid model needs a block of the cache for its state; with more vLLM exits at startup, on a node that is billed, "
    "or, by release, never runs them and reserves memory for the logits of all",
    "maxNumSeqs in the range, and needs.concurrencyPerReplica that it holds",
)
_UNKNOWN = Row(
    "architecture-unknown",
    "not known, and not checked: heads that tensor parallelism must divide, draft layer, experts, adapters, the longest context, memory "
    "for startup, and speed",
    "nothing; compare with vLLM's log at the first start",
    "note",
)
_OLD = Row(
    "model-needs-newer-vllm",
    "earlier releases do not support this model",
    "a release in the range, or another model (`fleet models`)",
)
_GATED = Row(
    "gated-model-without-token",
    "only accounts that accepted the model's license can download it",
    "weights: {tokenSecret: hf-token}",
)


def model_problems(settings: Settings) -> Iterator[Finding]:
    """Every problem with the model."""
    yield from _stated(settings)
    yield from _profile(settings)
    yield from parser_problems(settings)
    yield from adapter_problems(settings)
    yield from _shape(settings)
    yield from context_problems(settings)
    yield from _catalogue(settings)
    yield from _memory(DeclaredServer(settings))
    yield from _stated_cache(settings)


def size_gb(settings: Settings) -> float:
    """Size of the model's files: as stated, or what its shape says if that is clearly larger."""
    serving = settings.serving
    if serving.shape is None:
        return serving.model.size_gb
    # Without draft and vision tower, which some repositories leave out.
    weights_gb = serving.shape.text_weights_gib * GIB / 1e9
    if serving.model.size_gb >= LEAST_SHARE * weights_gb:
        return serving.model.size_gb
    listed = CATALOGUE.get(serving.model.id)
    return listed.size_gb if listed else ceil(10 * serving.shape.weights_gib * GIB / 1e9) / 10


def _stated(settings: Settings) -> Iterator[Finding]:
    """A revision or a size of another model, as after a change of `model.id` alone."""
    model = settings.serving.model
    listed = CATALOGUE.get(model.id)
    others = [other.id for other in CATALOGUE.values() if other.revision == model.revision and other.id != model.id]
    # A copy that the catalog does not list can have its original's commits.
    if listed is not None and others:
        yield _REVISION("model.revision", model.revision, f"a commit id of {model.id}; this one is of {others[0]}")
    if (needed_gb := size_gb(settings)) > model.size_gb:
        yield _SIZE("model.sizeGb", model.size_gb, f"about {needed_gb:g} for {model.id}")


def _profile(settings: Settings) -> Iterator[Finding]:
    """What a profile has for another model or other GPUs."""
    serving = settings.serving
    if serving.left_out:
        allowed = f"any; {', '.join(serving.left_out)} of profile {serving.profile.name} are not used"
        yield _PROFILE("model.id", serving.model.id, allowed)
    # Prefix caching follows from the drafts alone, on any GPUs.
    fitted = {name: value for name, value in serving.fitted.items() if name != "enablePrefixCaching"}
    if fitted:
        here = ", ".join(f"{name} {'set by vLLM' if value is None else value}" for name, value in fitted.items())
        gpus = f"{settings.gpus_per_replica} {settings.machine.gpu.name}"
        allowed = f"any; on {gpus}: {here}; {serving.concurrency_per_replica} requests in flight per replica"
        yield _FITTED("server.profile", serving.profile.name, allowed)


def _shape(settings: Settings) -> Iterator[Finding]:
    shape, engine = settings.serving.shape, settings.serving.engine
    if shape is None:
        return
    if shape.has_key_bias and str(engine.kv_cache_dtype).startswith("fp8"):
        allowed = "auto; FP8 only with calibrated scales in the checkpoint"
        yield _KEY_BIAS("server.engine.kvCacheDtype", engine.kv_cache_dtype, allowed)
    if shape.attention_heads % engine.tensor_parallel_size:
        divisors = [n for n in (1, 2, 4, 8) if not shape.attention_heads % n and not settings.gpus_per_replica % n]
        allowed = f"{', '.join(map(str, divisors))} for {shape.attention_heads} attention heads"
        yield _HEADS("server.engine.tensorParallelSize", engine.tensor_parallel_size, allowed)
    blocks, whole_experts = shape.blocks, engine.enable_expert_parallel is True
    if blocks is not None and (
        cut := blocks.refused(engine.tensor_parallel_size, engine.release.number, whole_experts=whole_experts)
    ):
        fitting = [
            n
            for n in (1, 2, 4, 8)
            if not shape.attention_heads % n
            and not settings.gpus_per_replica % n
            and not blocks.refused(n, engine.release.number, whole_experts=whole_experts)
        ]
        widths = ", ".join(f"{name} {width}" for name, width in cut.items())
        allowed = f"{', '.join(map(str, fitting))}; on each GPU {widths}, in blocks of {blocks.side}"
        yield _BLOCKS("server.engine.tensorParallelSize", engine.tensor_parallel_size, allowed)


def _memory(server: DeclaredServer) -> Iterator[Finding]:
    """A model that does not fit its GPUs: vLLM would exit at startup, on a node that is billed."""
    shape, engine, gpu = server.shape, server.engine, server.gpu
    if shape is None or (layout := server.layout) is None:
        return
    ranks = engine.tensor_parallel_size
    context = engine.context_tokens if engine.yarn else min(engine.context_tokens, shape.context_tokens)
    weights_gib = (shape.text_weights_gib + (shape.draft_weights_gib if server.mtp_tokens else 0)) / ranks
    weights_gib += server.adapters_gib
    share_gib = server.utilisation * gpu.memory_gib
    start = startup(
        max_num_seqs=server.sequences,
        max_num_batched_tokens=server.batched_tokens,
        vocabulary=shape.vocabulary,
        step_width=shape.step_width // ranks,
        drafts=engine.speculative_tokens > 0,
    )
    most_gib = max(0.0, share_gib - weights_gib)
    cache_gib = max(0.0, most_gib - start.total_gib)
    if startup_concurrency(layout, cache_gib, context) >= 1:
        if layout.architecture.linear_attention_layers:
            limits = (max_num_seqs_limit(layout, gib) for gib in (cache_gib, most_gib))
            yield from _sequences_above_states(server, *limits)
        return
    certain = startup_concurrency(layout, most_gib, context) < 1
    adapters = f", {server.adapters_gib * ranks:,.1f} of them slots of adapters," if server.adapters_gib else ""
    allowed = (
        f"GPUs that hold {weights_gib * ranks:,.0f} GiB of weights{adapters} and a request of {context:,} tokens; "
        f"{ranks} {gpu.name} {'have' if certain else 'have, without what startup takes,'} {share_gib * ranks:,.0f} GiB"
    )
    yield _TOO_LARGE("server.engine.tensorParallelSize", ranks, allowed, "error" if certain else "warning")


def _sequences_above_states(server: DeclaredServer, limit: int, most: int) -> Iterator[Finding]:
    """More sequences than recurrent states. `limit`: states by the estimate of memory for startup; `most`: without it."""
    if server.sequences <= limit or (server.has_measured_states and "max-num-seqs" in server.flags):
        # The lesson max-num-seqs-refused has the measured limit.
        return
    certain = server.sequences > most
    allowed = f"up to {most:,}" if certain else f"up to about {limit:,}, by an estimate of the memory for startup"
    severity: Severity = "note" if not server.refuses_sequences_above_states else "error" if certain else "warning"
    yield _STATES("server.engine.maxNumSeqs", server.sequences, allowed, severity)


def _stated_cache(settings: Settings) -> Iterator[Finding]:
    """A model of an unknown architecture: what is not checked, and whether weights and a request fit by the stated sizes."""
    serving, stated = settings.serving, settings.model.kv_bytes_per_token if settings.model else None
    if serving.shape is not None or stated is None:
        return
    server, gpu, ranks = DeclaredServer(settings), settings.machine.gpu, serving.engine.tensor_parallel_size
    share_gib, weights_gib = server.utilisation * gpu.memory_gib, serving.model.size_gb * 1e9 / GIB / ranks
    tokens = max(0, int((share_gib - weights_gib) * GIB / stated))
    needed = serving.engine.max_model_len or serving.context_tokens
    if tokens < needed:
        allowed = (
            f"GPUs that hold {weights_gib * ranks:,.0f} GiB of weights and a request of {needed:,} tokens; "
            f"{ranks} {gpu.name} have {share_gib * ranks:,.0f} GiB"
        )
        yield _TOO_LARGE("server.engine.tensorParallelSize", ranks, allowed)
    allowed = f"any; `config` if the architecture is known. Each GPU has memory for at most {tokens:,} tokens by it and sizeGb"
    yield _UNKNOWN("model.kvBytesPerToken", stated, allowed)


def _catalogue(settings: Settings) -> Iterator[Finding]:
    listed, engine = CATALOGUE.get(settings.serving.model.id), settings.serving.engine
    if listed is None:
        return
    if number_of(engine.version) < number_of(listed.min_vllm):
        yield _OLD("server.engine.version", engine.version, f"{listed.min_vllm} or later for {listed.id}")
    if listed.gated and settings.weights.source != "image" and settings.hf_token_store is None:
        allowed = f"the name of a Secret Manager secret with a Hugging Face token ({listed.licence})"
        yield _GATED("weights.tokenSecret", None, allowed)
