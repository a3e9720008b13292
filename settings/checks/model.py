"""Checks of the model against engine, GPUs and vLLM release, by the model's shape and the catalogue."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import ceil
from typing import TYPE_CHECKING, Final

from facts.finding import Finding
from facts.fit import gpus_needed
from facts.machines import MACHINES, Machine
from facts.memory import GIB, max_num_seqs_limit, startup, startup_concurrency
from facts.models import CATALOGUE, ModelShape
from facts.prices import published
from facts.releases import number_of
from settings.checks.adapters import adapter_problems
from settings.checks.context import context_problems
from settings.checks.declared_server import DeclaredServer, EngineServer
from settings.checks.parsers import parser_problems
from settings.sections.section import key

if TYPE_CHECKING:
    from settings.stack import Settings


LEAST_SHARE: Final = 0.9
"""Share of the computed weights below which a stated size is refused. The catalog's sizes are at least 0.98 of theirs: the shapes have no
norms and biases, and a repository holds more files than weights."""
_MOST_MACHINES: Final = 3
"""Machines that are suggested; `fleet models` lists all."""


def model_problems(settings: Settings) -> Iterator[Finding]:
    """Every problem with the model."""
    yield from _stated(settings)
    yield from _profile(settings)
    yield from _fitted(settings)
    yield from parser_problems(settings)
    yield from adapter_problems(settings)
    yield from _shape(settings)
    yield from context_problems(settings)
    yield from _catalogue(settings)
    yield from memory_problems(key("server.engine"), DeclaredServer(settings), settings.machine)
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
        yield Finding(
            id="revision-of-another-model",
            subject=key("model.revision"),
            found=model.revision,
            allowed=f"a commit id of {model.id}" + (f", such as {listed.revision}" if listed.revision else ""),
            why=f"it is a commit of {others[0]}, so the download fails",
            write="remove revision: the catalog has it"
            if listed.revision
            else "revision: the latest commit id in the repository's history",
        )
    if (needed_gb := size_gb(settings)) > model.size_gb:
        yield Finding(
            id="size-of-another-model",
            subject=key("model.sizeGb"),
            found=model.size_gb,
            allowed=f"about {needed_gb:g} for {model.id}",
            why=f"{'the catalog says so' if listed else 'config.json says so'}; the weights volume and the load time depend on it",
            write="remove sizeGb: the catalog has it"
            if listed
            else "sizeGb: the total of the files that vLLM reads in the repository's file list (docs/weights.md)",
        )


def _profile(settings: Settings) -> Iterator[Finding]:
    serving = settings.serving
    if serving.left_out:
        yield Finding(
            id="profile-of-another-model",
            subject=key("model.id"),
            found=serving.model.id,
            allowed=f"any; {', '.join(serving.left_out)} of profile {serving.profile.name} are not used",
            why=f"they are for the architecture of {serving.profile.model_id}, and this model is not known to have it",
            write="nothing, or this model's flags in server.engine",
            severity="note",
        )


def _fitted(settings: Settings) -> Iterator[Finding]:
    serving = settings.serving
    # Prefix caching follows from the drafts alone, on any GPUs.
    fitted = {name: value for name, value in serving.fitted.items() if name != "enablePrefixCaching"}
    if fitted:
        here = ", ".join(f"{name} {'set by vLLM' if value is None else value}" for name, value in fitted.items())
        yield Finding(
            id="profile-on-other-gpus",
            subject=key("server.profile"),
            found=serving.profile.name,
            allowed="any",
            why=f"the profile is for {serving.profile.model_id} on eight B200. On {settings.gpus_per_replica} {settings.machine.gpu.name}: "
            f"{here}; {serving.concurrency_per_replica} requests in flight per replica",
            write="nothing, or your values in server.engine and server.needs.concurrencyPerReplica",
            severity="note",
        )


def _shape(settings: Settings) -> Iterator[Finding]:
    serving = settings.serving
    shape, engine = serving.shape, serving.engine
    if shape is None:
        return
    if shape.has_key_bias and str(engine.kv_cache_dtype).startswith("fp8"):
        yield Finding(
            id="fp8-cache-with-key-bias",
            subject=key("server.engine.kvCacheDtype"),
            found=engine.kv_cache_dtype,
            allowed="auto; FP8 only with calibrated scales in the checkpoint",
            why=f"the keys of {serving.model.id}, of the family of Qwen2, have a large bias: with FP8 and no scales answers turn into "
            "repetitions and nonsense (QwenLM/Qwen3#840, NVIDIA/TensorRT-LLM#4218)",
            write="kvCacheDtype: auto",
            severity="warning",
        )
    if shape.attention_heads % engine.tensor_parallel_size:
        gpus = settings.gpus_per_replica
        divisors = [n for n in (1, 2, 4, 8) if not shape.attention_heads % n and not gpus % n]
        split = next((n for n in divisors if n >= engine.tensor_parallel_size), divisors[-1])
        yield Finding(
            id="heads-not-divisible",
            subject=key("server.engine.tensorParallelSize"),
            found=engine.tensor_parallel_size,
            allowed=", ".join(map(str, divisors)),
            why=f"{serving.model.id} has {shape.attention_heads} attention heads, which vLLM must split evenly",
            write=f"tensorParallelSize: {split} and dataParallelSize: {gpus // split}",
        )


def memory_problems(path: str, server: EngineServer, machine: Machine) -> Iterator[Finding]:
    """A model that does not fit its GPUs: vLLM would exit at startup, on a node that is billed. `path`: of the engine."""
    shape, engine, gpu = server.shape, server.engine, machine.gpu
    if shape is None or (layout := server.layout) is None:
        return
    ranks = engine.tensor_parallel_size
    context = engine.context_tokens if engine.yarn else min(engine.context_tokens, shape.context_tokens)
    weights_gib = (shape.text_weights_gib + (shape.draft_weights_gib if server.mtp_tokens else 0)) / ranks
    adapters_gib = server.adapters_gib
    weights_gib += adapters_gib
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
            yield from _sequences_above_states(path, server, *limits)
        return
    certain = startup_concurrency(layout, most_gib, context) < 1
    counts = [count for count in machine.pod_gpus if count > ranks and not shape.attention_heads % count]
    split_gib = (weights_gib - adapters_gib) * ranks
    enough = _enough(counts, share_gib, lambda count: split_gib / count + server.adapters_gib_on(count))
    yield Finding(
        id="model-exceeds-gpus",
        subject=f"{path}.tensorParallelSize",
        found=ranks,
        allowed=f"GPUs that hold {weights_gib * ranks:,.0f} GiB of weights{_of_adapters(adapters_gib * ranks)} and a request of "
        f"{context:,} tokens; `fleet models` lists them",
        why=f"vLLM can use {share_gib * ranks:,.0f} GiB of {ranks} {gpu.name}"
        + ("" if certain else ", minus an estimate of the memory for startup")
        + ": vLLM exits at startup, on a node that is billed",
        write=f"tensorParallelSize: {enough} and dataParallelSize: {max(1, server.gpus // enough)}"
        if enough
        else _larger(server, shape, cache_is_short=weights_gib < share_gib),
        severity="error" if certain else "warning",
    )


def _sequences_above_states(path: str, server: EngineServer, limit: int, most: int) -> Iterator[Finding]:
    """More sequences than recurrent states. `limit`: states by the estimate of memory for startup; `most`: without it."""
    if server.sequences <= limit or (server.has_measured_states and "max-num-seqs" in server.flags):
        # Lessons max-num-seqs-refused and max-num-seqs-above-state have the measured limit.
        return
    release, certain = server.read_as.version, server.sequences > most
    offered, admitted = server.offered_concurrency, limit * server.answering_engines
    if server.refuses_sequences_above_states:
        outcome = f"vLLM {release} exits at startup, on a node that is billed"
    else:
        outcome = f"vLLM {release} starts, never runs more, and reserves memory for the logits of all"
    yield Finding(
        id="sequences-above-states",
        subject=f"{path}.maxNumSeqs",
        found=server.sequences,
        allowed=f"up to {most if certain else limit:,}",
        why="each sequence of a hybrid model needs a block of the cache for its state, and a GPU has memory for "
        + (f"{most:,} at most" if certain else f"about {limit:,}, by an estimate of the memory for startup")
        + f": {outcome}",
        write=f"server: {{engine: {{maxNumSeqs: {limit}}}, needs: {{concurrencyPerReplica: {admitted}}}}}"
        if offered and offered > admitted
        else f"maxNumSeqs: {limit}",
        severity="note" if not server.refuses_sequences_above_states else "error" if certain else "warning",
    )


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
        counts = (count for count in settings.machine.pod_gpus if count > ranks)
        enough = _enough(counts, share_gib, lambda count: weights_gib * ranks / count)
        yield Finding(
            id="model-exceeds-gpus",
            subject=key("server.engine.tensorParallelSize"),
            found=ranks,
            allowed=f"GPUs that hold {weights_gib * ranks:,.0f} GiB of weights and a request of {needed:,} tokens",
            why=f"vLLM can use {share_gib * ranks:,.0f} GiB of {ranks} {gpu.name}: it exits at startup, on a node that is billed",
            write=f"tensorParallelSize: {enough}, with its kvBytesPerToken"
            if enough
            else "a larger machine, or a lower maxModelLen",
        )
    yield Finding(
        id="architecture-unknown",
        subject=key("model.kvBytesPerToken"),
        found=stated,
        allowed="any; `config` if the architecture is known",
        why=f"each GPU has memory for at most {tokens:,} tokens by it and sizeGb. Not known, and not checked: heads that tensor "
        "parallelism must divide, draft layer, experts, adapters, the longest context, memory for startup, and speed",
        write="nothing; compare with vLLM's log at the first start",
        severity="note",
    )


def _enough(counts: Iterable[int], share_gib: float, weights_gib_on: Callable[[int], float]) -> int | None:
    """The first of these numbers of GPUs on which each holds its weights, with 30 % on top for everything else."""
    return next((count for count in counts if 1.3 * weights_gib_on(count) < share_gib), None)


def _of_adapters(gib: float) -> str:
    return f", {gib:,.1f} of them slots of adapters," if gib else ""


def _larger(server: EngineServer, shape: ModelShape, *, cache_is_short: bool) -> str:
    """The cheapest machine of each GPU that holds the model, by the lowest list price of any region and way."""
    fitting = [
        (min(price.usd for price in listed), machine, gpus)
        for machine in MACHINES.values()
        if (gpus := gpus_needed(shape, machine, adapters_gib=server.adapters_gib_on))
        and (listed := published(machine.type))
    ]
    by_gpu: dict[str, str] = {}
    for _, machine, gpus in sorted(fitting, key=lambda one: one[0]):
        split = f" with tensorParallelSize: {gpus}" if gpus > 1 else ""
        by_gpu.setdefault(machine.gpu.name, f"machine: {machine.type}{split}")
    otherwise = ["a lower maxModelLen"] if cache_is_short else []
    if server.adapters_gib:
        otherwise.append("a lower maxLoras")
    return ", or ".join([*list(by_gpu.values())[:_MOST_MACHINES], *otherwise]) or "a smaller model (`fleet models`)"


def _catalogue(settings: Settings) -> Iterator[Finding]:
    listed, engine = CATALOGUE.get(settings.serving.model.id), settings.serving.engine
    if listed is None:
        return
    if number_of(engine.version) < number_of(listed.min_vllm):
        yield Finding(
            id="model-needs-newer-vllm",
            subject=key("server.engine.version"),
            found=engine.version,
            allowed=f"{listed.min_vllm} or later for {listed.id}",
            why="earlier releases do not support this model",
            write=f"version {listed.min_vllm} or later, or another model (`fleet models`)",
        )
    if listed.gated and settings.weights.source != "image" and settings.hf_token_store is None:
        yield Finding(
            id="gated-model-without-token",
            subject=key("weights.tokenSecret"),
            found=None,
            allowed="the name of a Secret Manager secret with a Hugging Face token",
            why=f"only accounts that accepted its license ({listed.licence}) can download {listed.id}",
            write="weights: {tokenSecret: hf-token}",
        )
