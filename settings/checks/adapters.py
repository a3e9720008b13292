"""Checks of the model's LoRA adapters: names, slots, weights, drafts, linear layers and experts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from facts.engines import parse
from facts.experts import expert_format, has_trtllm
from facts.finding import Finding
from facts.memory import DEFAULT_LORA_RANK
from facts.releases import CURRENT, number_of
from settings.profiles import valid_for
from settings.sections.engine import Engine
from settings.sections.section import key

if TYPE_CHECKING:
    from settings.stack import Settings

_MODULES: Final = "lora-modules"
# Source: vLLM 0.18.1, lora/layers/fused_moe.py: FusedMoEWithLoRA asserts that experts are not spread over ranks, and that their kernels
# are Triton's, which do not compute NVFP4; column_parallel_linear.py: set_lora takes a matrix for each of the four slices of Qwen3.5's
# in_proj_qkvz, and gets two. 0.33.0 has adapters for all of these, but not for every way to spread experts (_refused_by_current).
# Releases between them were not read.
_LAST_LIMITED: Final = number_of("0.18.1")
# Source: vLLM 0.33.0, fused_moe/modular_kernel.py: kernels without supports_lora are refused if asked for, and passed over otherwise.
# Other formats, and FP8 in 0.18.1, take kernels with LoRA whatever is asked for (fused_moe/oracle).
_KERNELS_WITH_ADAPTERS: Final = {"nvfp4": ("auto", "marlin"), "fp8": ("auto", "marlin", "triton")}
# Source: vLLM 0.33.0, config/parallel.py: the default, and the two that vLLM replaces with it. With it vLLM also splits the tokens where
# several engines have several GPUs each (use_sequence_parallel_moe).
_EXCHANGES_WITH_ADAPTERS: Final = (None, "allgather_reducescatter", "naive", "pplx")


def adapter_problems(settings: Settings) -> Iterator[Finding]:
    """Every problem with slots for adapters, and with the model's adapters."""
    if settings.serving.engine.enable_lora:
        yield from _linear_layers(settings)
        yield from _experts(settings)
    if settings.serving.model.adapters:
        yield from _names(settings)
        yield from _slots(settings)
        yield from _weights(settings)
        yield from _drafts(settings)


def _names(settings: Settings) -> Iterator[Finding]:
    serving = settings.serving
    taken = {serving.served_model_name: "the model's name in requests"}
    for number, adapter in enumerate(serving.model.adapters):
        if adapter.name in taken:
            yield Finding(
                id="adapter-name-taken",
                subject=key(f"model.adapters[{number}].name"),
                found=adapter.name,
                allowed="a name of its own",
                why=f"it is {taken[adapter.name]}, and requests choose by name",
                write=f"name: {adapter.name}-{number + 1}",
            )
        taken.setdefault(adapter.name, "the name of another adapter")
    if _MODULES in parse(serving.engine.extra_args).options:
        yield Finding(
            id="adapters-named-twice",
            subject=key("server.engine.extraArgs"),
            found=f"--{_MODULES}",
            allowed="left out, with model.adapters",
            why="vLLM uses one of the two lists",
            write="every adapter in model.adapters",
        )


def _slots(settings: Settings) -> Iterator[Finding]:
    engine = settings.serving.engine
    if not engine.enable_lora:
        yield Finding(
            id="adapters-without-slots",
            subject=key("server.engine.enableLora"),
            found=engine.enable_lora,
            allowed="true, or left out, with model.adapters",
            why="vLLM has no room for adapters and exits at startup",
            write="no enableLora, or no model.adapters",
        )
    most = engine.max_lora_rank or DEFAULT_LORA_RANK
    for number, adapter in enumerate(settings.serving.model.adapters):
        if adapter.rank > most:
            yield Finding(
                id="adapter-above-rank",
                subject=key(f"model.adapters[{number}].rank"),
                found=adapter.rank,
                allowed=f"up to {most}, as in server.engine.maxLoraRank",
                why="vLLM refuses an adapter with a larger rank than its slots, and exits at startup",
                write=f"no maxLoraRank, or maxLoraRank: {adapter.rank}",
            )


def _weights(settings: Settings) -> Iterator[Finding]:
    weights, adapters = settings.weights, settings.serving.model.adapters
    if not weights.has_volume:
        yield Finding(
            id="adapters-without-volume",
            subject=key("weights.source"),
            found=weights.source,
            allowed="hyperdisk, or image, with model.adapters",
            why="adapters are downloaded to the weights' volume, at their revisions; vLLM itself would take their latest",
            write="weights: {source: hyperdisk}",
        )
    elif not weights.is_written:
        yield Finding(
            id="adapters-of-the-image",
            subject=key("weights.image"),
            found=weights.image,
            allowed=f"an image with {', '.join(adapter.folder for adapter in adapters)}",
            why="nothing is downloaded to a volume from an image, and vLLM exits at startup if an adapter is missing",
            write="nothing, if the image has these folders",
            severity="note",
        )


def _drafts(settings: Settings) -> Iterator[Finding]:
    speculative = settings.serving.engine.speculative
    if speculative is not None and speculative.method == "mtp":
        yield Finding(
            id="adapters-with-drafts",
            subject=key("server.engine.speculative"),
            found=speculative.method,
            allowed="any",
            why="drafts do not use the adapter (read in both releases): responses are right, but fewer drafts are accepted, how many fewer "
            "was not measured",
            write="nothing, or speculative: null if an adapter changes most responses",
            severity="note",
        )


def _linear_layers(settings: Settings) -> Iterator[Finding]:
    serving = settings.serving
    engine, shape = serving.engine, serving.shape
    if shape is None or not shape.splits_linear_inputs or number_of(engine.version) > _LAST_LIMITED:
        return
    yield Finding(
        id="adapters-on-linear-layers",
        subject=key("server.engine.version"),
        found=engine.version,
        allowed=f"{CURRENT}, with adapters on the linear layers of Qwen3.5",
        why=f"vLLM {engine.version} cannot load an adapter into these layers. It tries at startup, for each CUDA graph, and exits",
        write=f"version: {CURRENT}"
        if CURRENT in serving.profile.versions
        else f"profile: {_current_profile(serving.profile.workload)}, with version: {CURRENT}",
    )


def _current_profile(workload: str) -> str:
    """The first profile for this workload that is valid for the current release."""
    return next(near.name for near in valid_for(CURRENT) if near.workload == workload)


def _experts(settings: Settings) -> Iterator[Finding]:
    serving = settings.serving
    engine = serving.engine
    if serving.shape is None or not serving.shape.experts:
        return
    limited, form = number_of(engine.version) <= _LAST_LIMITED, serving.shape.weight_format
    kernels = _KERNELS_WITH_ADAPTERS.get(form)
    if form == "nvfp4" and limited:
        yield Finding(
            id="adapters-on-nvfp4-experts",
            subject=key("server.engine.version"),
            found=engine.version,
            allowed=f"{CURRENT}, with adapters on NVFP4 experts",
            why=f"vLLM {engine.version} has no adapters for experts in NVFP4, and exits at startup",
            write=f"version: {CURRENT}, or no adapters",
        )
    elif kernels and not limited and (engine.moe_backend or "auto") not in kernels:
        yield Finding(
            id="adapters-on-expert-kernels",
            subject=key("server.engine.moeBackend"),
            found=engine.moe_backend,
            allowed=f"{', '.join(kernels)}, with adapters on {form.upper()} experts",
            why="these kernels have no adapters, and vLLM exits at startup",
            write=f"moeBackend: {kernels[-1]}",
        )
    # Source: vLLM 0.33.0, fused_moe/oracle/unquantized.py: these kernels wherever they run, before it looks at --moe-backend.
    elif not limited and expert_format(serving.shape, ()) == "bf16" and has_trtllm(settings.machine.gpu):
        yield Finding(
            id="adapters-on-bf16-experts",
            subject=key("machine"),
            found=settings.machine.type,
            allowed="a GPU without TRT-LLM kernels, with adapters on experts in BF16",
            why=f"vLLM {engine.version} runs them on {settings.machine.gpu.name} for adapters whatever moeBackend says, and they exit at "
            "startup: they download headers into the image",
            write="machine: a3-highgpu-8g, another with H100 or H200, or no adapters",
        )
    if engine.enable_expert_parallel and engine.gpus > 1:
        yield from _spread_experts(engine, limited=limited)


def _spread_experts(engine: Engine, *, limited: bool) -> Iterator[Finding]:
    still_refused = _refused_by_current(engine)
    if limited:
        spread, otherwise = "", "" if still_refused else f", or version: {CURRENT}"
    elif still_refused:
        spread, otherwise = still_refused
    else:
        return
    yield Finding(
        id="adapters-on-spread-experts",
        subject=key("server.engine.enableExpertParallel"),
        found=True,
        allowed="left out, with adapters",
        why=f"vLLM {engine.version} has no adapters for experts that are spread over GPUs{spread}, and exits at startup",
        write=f"no enableExpertParallel{otherwise}",
    )


def _refused_by_current(engine: Engine) -> tuple[str, str] | None:
    """How experts are spread that have no adapters in 0.33.0 either, and what else to write; None if they have.

    Source: vLLM 0.33.0, lora/layers/fused_moe.py, _ep_check and _verify_ep_fs.
    """
    options = parse(engine.extra_args)
    exchange = options.text("all2all-backend")
    if engine.tensor_parallel_size > 1 and engine.data_parallel_size > 1:
        return " of several engines with several GPUs each", ""
    if exchange not in _EXCHANGES_WITH_ADAPTERS:
        return f" by {exchange}", ", or no --all2all-backend"
    if options.on("fully-sharded-loras"):
        return " with --fully-sharded-loras", ", or no --fully-sharded-loras"
    return None
