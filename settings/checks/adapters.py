"""Checks of the model's LoRA adapters: names, weights, drafts, and the layers that have no adapters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from facts.engines import parse
from facts.experts import expert_format, has_trtllm
from facts.finding import Finding
from facts.releases import CURRENT, number_of
from settings.row import Row
from settings.sections.engine import Engine

if TYPE_CHECKING:
    from facts.models import ModelShape
    from settings.stack import Settings

_DERIVED: Final = ("lora-modules", "enable-lora", "max-lora-rank")
"""Options that follow from `model.adapters`."""
# Source: vLLM 0.18.1, lora/layers/fused_moe.py: FusedMoEWithLoRA asserts that experts are not spread over ranks, and that their kernels
# are Triton's, which do not compute NVFP4; column_parallel_linear.py: set_lora takes a matrix for each of the four slices of Qwen3.5's
# in_proj_qkvz, and gets two. 0.33.0 has adapters for all of these, but not for every way to spread experts (_spread_without_adapters).
# Releases between them were not read.
_LAST_LIMITED: Final = number_of("0.18.1")
# Source: vLLM 0.33.0, fused_moe/modular_kernel.py: kernels without supports_lora are refused if asked for, and passed over otherwise.
# Other formats, and FP8 in 0.18.1, take kernels with LoRA whatever is asked for (fused_moe/oracle).
_KERNELS_WITH_ADAPTERS: Final = {"nvfp4": ("auto", "marlin"), "fp8": ("auto", "marlin", "triton")}
# Source: vLLM 0.33.0, config/parallel.py: the default, and the two that vLLM replaces with it. With it vLLM also splits the tokens where
# several engines have several GPUs each (use_sequence_parallel_moe).
_EXCHANGES_WITH_ADAPTERS: Final = (None, "allgather_reducescatter", "naive", "pplx")
_NAME = Row("adapter-name-taken", "requests choose by name", "a name of its own")
_TWICE = Row(
    "adapters-named-twice",
    "vLLM uses one of the two lists, and exits at startup if an adapter has no slot or a larger rank than its slots",
    "every adapter in model.adapters",
)
_NO_VOLUME = Row(
    "adapters-without-volume",
    "adapters are downloaded to the weights' volume, at their revisions; vLLM itself would take their latest",
    "weights: {source: hyperdisk}",
)
_IMAGE = Row(
    "adapters-of-the-image",
    "nothing is downloaded to a volume from an image, and vLLM exits at startup if an adapter is missing",
    "nothing, if the image has these folders",
    "note",
)
_DRAFTS = Row(
    "adapters-with-drafts",
    "drafts do not use the adapter (read in both releases): responses are right, but fewer drafts are accepted, how many fewer was not "
    "measured",
    "nothing, or speculative: null if an adapter changes most responses",
    "note",
)
_OLD = Row(
    "adapters-on-old-release",
    "0.18 cannot load adapters into linear layers of Qwen3.5, experts in NVFP4 or experts that are spread over GPUs, and exits at startup",
    f"version: {CURRENT}, with a profile that is valid for it",
)
_KERNELS = Row(
    "adapters-on-expert-kernels",
    "these kernels have no adapters, and vLLM exits at startup",
    "moeBackend: marlin, or left out",
)
_BF16 = Row(
    "adapters-on-bf16-experts",
    "for adapters vLLM runs TRT-LLM's kernels there whatever moeBackend says, and they exit at startup: they write into the image",
    "a machine with H100 or H200, or no adapters",
)
_SPREAD = Row(
    "adapters-on-spread-experts",
    "vLLM has no adapters for experts that are spread so, and exits at startup",
    "no enableExpertParallel, or experts that are spread in vLLM's default way by engines of one GPU",
)


def adapter_problems(settings: Settings) -> Iterator[Finding]:
    """Every problem with the model's adapters, and with slots for others."""
    serving = settings.serving
    if parse(serving.engine.extra_args).on("enable-lora") is True and serving.shape is not None:
        yield from _layers(settings, serving.shape)
    if serving.model.adapters:
        yield from _names(settings)
        yield from _weights(settings)
        speculative = serving.engine.speculative
        if speculative is not None and speculative.method == "mtp":
            yield _DRAFTS("server.engine.speculative", speculative.method, "any")


def _names(settings: Settings) -> Iterator[Finding]:
    serving = settings.serving
    taken = {serving.served_model_name}
    for number, adapter in enumerate(serving.model.adapters):
        if adapter.name in taken:
            allowed = f"another name than {', '.join(sorted(taken))}"
            yield _NAME(f"model.adapters[{number}].name", adapter.name, allowed)
        taken.add(adapter.name)
    given = parse(settings.server.engine.get("extraArgs", ()))
    for option in _DERIVED:
        if option in given:
            yield _TWICE("server.engine.extraArgs", f"--{option}", "left out, with model.adapters")


def _weights(settings: Settings) -> Iterator[Finding]:
    weights, adapters = settings.weights, settings.serving.model.adapters
    if not weights.has_volume:
        yield _NO_VOLUME("weights.source", weights.source, "hyperdisk, or image, with model.adapters")
    elif not weights.is_written:
        allowed = f"an image with {', '.join(adapter.folder for adapter in adapters)}"
        yield _IMAGE("weights.image", weights.image, allowed)


def _layers(settings: Settings, shape: ModelShape) -> Iterator[Finding]:
    """Layers for which a release has no adapters."""
    engine, form = settings.serving.engine, shape.weight_format
    spread = shape.experts and bool(engine.enable_expert_parallel) and engine.gpus > 1
    if number_of(engine.version) <= _LAST_LIMITED:
        if shape.splits_linear_inputs or spread or (shape.experts and form == "nvfp4"):
            yield _OLD("server.engine.version", engine.version, f"{CURRENT}, with adapters on this model")
        return
    if not shape.experts:
        return
    kernels = _KERNELS_WITH_ADAPTERS.get(form)
    if kernels and (engine.moe_backend or "auto") not in kernels:
        allowed = f"{', '.join(kernels)}, with adapters on {form.upper()} experts"
        yield _KERNELS("server.engine.moeBackend", engine.moe_backend, allowed)
    # Source: vLLM 0.33.0, fused_moe/oracle/unquantized.py: these kernels wherever they run, before it looks at --moe-backend.
    elif expert_format(shape, ()) == "bf16" and has_trtllm(settings.machine.gpu):
        yield _BF16("machine", settings.machine.type, "a GPU without TRT-LLM kernels, with adapters on experts in BF16")
    if spread and (how := _spread_without_adapters(engine)):
        yield _SPREAD("server.engine.enableExpertParallel", True, f"left out {how}, with adapters")


def _spread_without_adapters(engine: Engine) -> str | None:
    """How experts are spread that have no adapters in 0.33.0 either; None if they have.

    Source: vLLM 0.33.0, lora/layers/fused_moe.py, _ep_check and _verify_ep_fs.
    """
    options = parse(engine.extra_args)
    exchange = options.text("all2all-backend")
    if engine.tensor_parallel_size > 1 and engine.data_parallel_size > 1:
        return "with several engines of several GPUs each"
    if exchange not in _EXCHANGES_WITH_ADAPTERS:
        return f"with --all2all-backend={exchange}"
    return "with --fully-sharded-loras" if options.on("fully-sharded-loras") else None
