"""Adapt a profile to another machine or model: keep applicable options, choose data and tensor parallelism."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from facts import memory, models, strict_json
from facts.engines import VERSIONS, Scalar
from facts.experts import WITHOUT_TRTLLM, chosen_by_vllm, expert_format, has_trtllm
from facts.lessons.limits import TWO_BYTE_UTILISATION
from facts.machines import B200, DEFAULT_MACHINE, LEAST_FP8_CACHE, Machine
from facts.model_config import MOST_BYTES, ModelShape
from facts.releases import at, number_of
from facts.texts import nearest
from facts.user_error import UserError
from facts.workloads import Workload
from fleet.plan.model.deployment import Deployment, OfferedLoad
from fleet.plan.model.fleet_rate import fleet_load, most_in_flight_per_node
from fleet.plan.model.gpu_memory import DoesNotFitError, budget
from fleet.plan.model.performance import estimate
from fleet.plan.model.roofline import known
from fleet.plan.model.step_time import step_costs
from fleet.plan.question.limits import Limits
from fleet.plan.question.profiles import ProfileFacts

_RANKS: Final = (1, 2, 4, 8, 16)
_FILLINGS: Final = 4
_LEAST_REQUESTS: Final = 16
"""Assumed: with fewer in its cache, an engine reads the weights for too few tokens. On B200 the lesson asks for no number."""
_OF_A_DRAFT: Final = "speculative-config."
_TRUST: Final = "trust-remote-code"
_PARSERS: Final = ("tool-call-parser", "reasoning-parser")


class UnknownModelError(UserError):
    """The model's shape is unknown. The message gives the fix."""


def model_facts(name: str) -> tuple[ModelShape, float]:
    """Shape and file size (GB) of a catalogue id or of a config.json path.

    Raises UnknownModelError if it is not found or its architecture is unknown.
    """
    if name in models.CATALOGUE:
        found = models.CATALOGUE[name]
        return found.shape, found.size_gb
    path = Path(name)
    if path.suffix != ".json" or not path.is_file():
        if path.suffix == ".json":
            raise UnknownModelError(f"--model {name}: no such file")
        near = nearest(name, models.CATALOGUE)
        hint = f"; did you mean {near}? For" if near else f" ({', '.join(models.CATALOGUE)}); for"
        raise UnknownModelError(
            f"--model {name} is not in the catalogue{hint} your own model, pass the path of its config.json"
        )
    try:
        config = strict_json.read(path, MOST_BYTES)
        if not isinstance(config, dict):
            raise ValueError("the file must contain a JSON object")
        # Not its _name_or_path, which for a fine-tune is often the base model.
        shape = models.from_config(config, path.stem)
    except OSError as error:
        raise UnknownModelError(f"--model {name}: {error.strerror}") from None
    except ValueError as error:
        raise UnknownModelError(f"--model {name}: {error}") from None
    return shape, shape.weights_gib * 2**30 / 1e9


def fitted(
    profile: ProfileFacts,
    machine: Machine,
    workload: Workload,
    model: tuple[ModelShape, float] | None = None,
    limits: Limits | None = None,
) -> tuple[ProfileFacts, str]:
    """The profile adapted to model and machine, unchanged for the article's pair; and why a model that fits one GPU is split, or "".

    Raises DoesNotFitError if the model does not fit all GPUs of one machine.
    """
    if machine == DEFAULT_MACHINE and model is None:
        return profile, ""
    shape, weights_gb = model or (profile.model_shape, profile.weights_gb)
    kept = {name: value for name, value in profile.flags.items() if not _is_foreign(name, value, shape)}
    if machine.gpu.compute_capability < LEAST_FP8_CACHE or shape.name != profile.model_shape.name:
        # An 8-bit cache is safe only for models whose authors support it.
        kept["kv-cache-dtype"] = "auto"
        share = kept.get("gpu-memory-utilization")
        if share is not None and any(name.startswith(_OF_A_DRAFT) for name in kept):
            # More is not known to work with a two-byte cache and drafts.
            kept["gpu-memory-utilization"] = min(float(share), TWO_BYTE_UTILISATION)
    if machine.gpu.compute_capability != B200.compute_capability or shape.name != profile.model_shape.name:
        # Available kernels depend on GPU and model: let vLLM choose.
        kept.pop("attention-backend", None)
    listed = models.CATALOGUE.get(shape.name)
    own = {"tool-call-parser": listed.tool_parser, "reasoning-parser": listed.reasoning_parser} if listed else {}
    for name in _PARSERS:
        kept.pop(name, None)
        if name in profile.flags and (parser := own.get(name)):
            kept[name] = parser
    version = _release(profile.engine_version, listed)
    if listed and listed.why_own_code(version):
        kept[_TRUST] = True
    form = expert_format(shape, ())
    if has_trtllm(machine.gpu) and chosen_by_vllm(at(number_of(version)), form, profile.env.get):
        kept.setdefault("moe-backend", WITHOUT_TRTLLM[form])
    drafts_on_states = shape.architecture.linear_attention_layers and any(name.startswith(_OF_A_DRAFT) for name in kept)
    if kept.get("enable-prefix-caching") is False and not drafts_on_states:
        # As settings/serving.py does.
        kept.pop("enable-prefix-caching")
    elif drafts_on_states and kept.get("kv-cache-dtype") != profile.flags.get("kv-cache-dtype"):
        # With blocks of another size prompts may hit: lesson prefix-caching-with-mtp.
        kept = {name: value for name, value in kept.items() if not name.startswith("mamba-")}
        kept["enable-prefix-caching"] = False
    if (context := kept.get("max-model-len")) is not None:
        kept["max-model-len"] = min(int(context), shape.context_tokens)
    changed = replace(
        profile,
        flags=kept,
        model=shape.name,
        own_shape=shape,
        weights_gb=weights_gb,
        engine_version=version,
        gpu=machine.gpu,
    )
    return _parallel(changed, machine, workload, limits or Limits())


def engine_changes(profile: ProfileFacts, fitted_to: ProfileFacts) -> Mapping[str, Any]:
    """Engine options to add to a stack file besides the profile, by vLLM's long names; None removes an option."""
    mine, its = fitted_to.flags, profile.flags
    changed = (name for name in dict.fromkeys((*its, *mine)) if mine.get(name) != its.get(name))
    version = {} if fitted_to.engine_version == profile.engine_version else {"version": fitted_to.engine_version}
    # Also the options of other architectures, which the program drops with a warning. It sets the parsers and the trust itself.
    return version | {
        "speculative" if name.startswith(_OF_A_DRAFT) else name: mine.get(name)
        for name in changed
        if name not in {*_PARSERS, _TRUST}
    }


def _release(version: str, listed: models.CatalogueModel | None) -> str:
    """The profile's release, or the first known one that supports the model."""
    if listed is None or number_of(version) >= number_of(listed.min_vllm):
        return version
    return next((later for later in VERSIONS if number_of(later) >= number_of(listed.min_vllm)), version)


def _is_foreign(name: str, value: Scalar, shape: ModelShape) -> bool:
    """Whether the option is for an architecture that the model lacks."""
    if name.startswith(_OF_A_DRAFT):
        return not shape.architecture.mtp_layers or shape.architecture.linear_attention_layers == 0
    part = models.part_for(name, value)
    return part is not None and part not in (models.parts_of([shape.name], shape) or frozenset())


def _parallel(profile: ProfileFacts, machine: Machine, workload: Workload, limits: Limits) -> tuple[ProfileFacts, str]:
    """The profile on the fewest GPUs per engine that hold the model, as lesson tp8-on-one-gpu-model asks; on more only for a latency
    limit that it keeps there alone. Where one GPU does not hold it with some requests, the highest throughput decides.
    """
    fitting: list[tuple[int, ProfileFacts]] = []
    refused: DoesNotFitError | None = None
    heads = profile.model_shape.attention_heads
    for ranks in (count for count in _RANKS if machine.gpus % count == 0 and heads % count == 0):
        engines = machine.gpus // ranks
        sized = {"data-parallel-size": engines, "tensor-parallel-size": ranks}
        if "api-server-count" in profile.flags:
            sized["api-server-count"] = engines
        try:
            sized_to_it = replace(profile, flags={**profile.flags, **sized})
            fitting.append((ranks, _startable(_filled(sized_to_it, machine, workload), machine, workload)))
        except DoesNotFitError as error:
            refused = error
    if not fitting:
        assert refused is not None
        raise refused
    fewest, first = fitting[0]
    if limits.given:
        keeping = [(ranks, one) for ranks, one in fitting if _keeps(one, machine, workload, limits)]
        # Where none does, the nearest limit is that of the most GPUs.
        ranks, chosen = keeping[0] if keeping else fitting[-1]
        is_split = ranks > fewest == 1
        return chosen, f"latency: one GPU does not keep {limits}" if is_split else ""
    if machine.gpu is B200 or (fewest == 1 and _is_roomy(profile, first, machine, workload)):
        return first, ""
    return max((one for _, one in fitting), key=lambda one: _highest_rate(one, machine, workload)), ""


def _is_roomy(wanted: ProfileFacts, profile: ProfileFacts, machine: Machine, workload: Workload) -> bool:
    """Whether an engine has the whole context, and room for some requests."""
    is_whole = profile.shape.max_model_len_tokens == wanted.shape.max_model_len_tokens
    return is_whole and _holds(profile, machine, workload) >= _LEAST_REQUESTS


def _holds(profile: ProfileFacts, machine: Machine, workload: Workload) -> float:
    """Requests of that workload in one engine's cache."""
    return budget(_one(profile, machine), workload).running_limit(workload)


def _keeps(profile: ProfileFacts, machine: Machine, workload: Workload, limits: Limits) -> bool:
    """Whether an engine with one request is within the limits."""
    one = _one(profile, machine)
    found = estimate(one, workload, OfferedLoad(in_flight=float(one.engine.data_parallel)))
    return all(
        limit is None or (reading.value if found.is_bound else reading.high) <= limit
        for limit, reading in ((limits.ttft_p99_ms, found.ttft_p99_ms), (limits.tpot_ms, found.tpot_ms))
    )


def _startable(profile: ProfileFacts, machine: Machine, workload: Workload) -> ProfileFacts:
    """The profile with the longest context, halved from its own, of which vLLM can hold one request: otherwise it exits at startup."""
    room = budget(_one(profile, machine), workload)
    context = min(profile.shape.max_model_len_tokens, profile.model_shape.context_tokens)
    longest = workload.longest_request_tokens
    while context > longest:
        if memory.startup_concurrency(room.layout, room.cache_gib, context) >= 1:
            break
        context = max(longest, context // 2)
    if context == profile.shape.max_model_len_tokens:
        return profile
    return replace(profile, flags={**profile.flags, "max-model-len": context})


def _filled(profile: ProfileFacts, machine: Machine, workload: Workload) -> ProfileFacts:
    """The profile with `--max-num-seqs` raised to what the cache holds, up to what keeps steps within captured CUDA graphs, or lowered to
    the recurrent states that fit, above which vLLM may exit (finding sequences-above-states).

    The profile's own limit is for its model. Raises DoesNotFitError.
    """
    before = profile.shape
    least = before.max_num_seqs
    if profile.model_shape.architecture.linear_attention_layers:
        room = budget(_one(profile, machine), workload)
        least = min(least, memory.max_num_seqs_limit(room.layout, room.cache_gib))
    most = before.captured_tokens // (1 + before.speculative_tokens)
    for _ in range(_FILLINGS):  # A higher limit takes memory for its logits from the cache.
        shape = profile.shape
        held = int(_holds(profile, machine, workload))
        sequences = max(least, min(most, held))
        if sequences == shape.max_num_seqs:
            break
        profile = replace(profile, flags={**profile.flags, "max-num-seqs": sequences})
    return profile


def _one(profile: ProfileFacts, machine: Machine) -> Deployment:
    return Deployment(
        nodes=1, engine=profile.shape, model=profile.model_shape, gpu=machine.gpu, gpus_per_node=machine.gpus
    )


def _highest_rate(profile: ProfileFacts, machine: Machine, workload: Workload) -> float:
    deployment = _one(profile, machine)
    room, what = budget(deployment, workload), known(deployment)
    most = most_in_flight_per_node(deployment, step_costs(deployment, workload, what.engine, room))
    load = fleet_load(deployment, workload, OfferedLoad(in_flight=most), what.engine, room)
    return load.requests_per_s
