"""Resolves what a stack serves: its profile with the stack's overrides."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError

from facts.engines import VERSIONS, parse
from facts.finding import Finding
from facts.machines import B200, LEAST_FP8_CACHE, Machine
from facts.model_config import LINEAR
from facts.models import CATALOGUE, ModelShape, part_for
from facts.releases import CURRENT, number_of, of_tag
from facts.texts import nearest
from facts.workloads import Lengths, Workload, named_workload
from settings.problems import SettingsError
from settings.profiles import NAMES, Profile, UnknownProfileError, profile
from settings.row import Row
from settings.sections.engine import Engine, flag_fields, long_name
from settings.sections.model import ChosenModel, Model
from settings.sections.section import NAMESPACE
from settings.sections.server import DEFAULT_REPOSITORY, Image, ImageChoice, Needs, Server
from settings.shaped_engine import FIRST_RELEASE, shaped

TRUST: Final = "--trust-remote-code"
"""Runs Python code of the model's repository."""


_REQUESTS = Row(
    "requests-impossible",
    "throughput is estimated for one workload or for these lengths",
    "requests: {inputTokens: 768, outputTokens: 384}",
)
_VERSION = Row(
    "version-not-the-images",
    "options and defaults would be checked for another release than the one that runs",
    "the image's version, or none",
)
_RELEASE = Row(
    "unknown-release",
    "options, defaults and defects of this release are unknown",
    f"version: {CURRENT}",
)
_NO_DIGEST = Row(
    "image-without-digest",
    "the digest is unknown, and a tag can be moved",
    "image: {digest: sha256:...}; `docker buildx imagetools inspect REPOSITORY:TAG` prints it",
)
_MODEL = Row("unknown-model", "names of repositories are case-sensitive", "the catalog's name")
_NO_REVISION = Row(
    "model-without-revision",
    "an unpinned model can change under a running fleet, and the catalog has no revision of it",
    "revision: the latest commit id in the repository's history",
)
_NO_SIZE = Row(
    "model-without-size",
    "the weights volume and the load time depend on it, and the model is not in the catalog",
    "sizeGb: the total of the files that vLLM reads in the repository's file list (docs/weights.md)",
)
_NO_CONFIG = Row(
    "model-without-config",
    "the memory check needs layers and heads, and the model is not in the catalog (`fleet models`)",
    "config: the path of a copy of the repository's config.json",
)
_STATED = Row("cache-stated-twice", "the cache is computed from config.json or the catalog", "remove kvBytesPerToken")


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """Model, flags and expected traffic of a stack."""

    profile: Profile
    engine: Engine
    """The profile's engine with the stack's `server.engine`."""
    image: Image
    """The stack file's image, else the published image of the engine's version."""
    model: Model
    shape: ModelShape | None
    """The model's shape from its config.json or the catalog; None if unknown."""
    context_tokens: int
    """Longest prompt plus output of the expected traffic."""
    concurrency_per_replica: int
    """Peak requests in flight per replica."""
    workload: str
    """Name of the profile's workload, as in published figures, or what the stack file says instead."""
    requests: Workload | None
    """The stack file's own workload."""
    overrides: frozenset[str]
    """camelCase names of the engine settings in the stack file. What they cause is no deliberate exception."""
    left_out: tuple[str, ...]
    """camelCase names of the profile's engine settings that do not apply to this model."""
    unnamed_parsers: tuple[str, ...]
    """camelCase names of the profile's parsers that are left out because nothing says which ones this model needs."""
    fitted: Mapping[str, Any]
    """Engine settings changed for this machine type or model, by camelCase name; None: vLLM's default."""

    @property
    def caches_prefixes(self) -> bool:
        """Whether prefix caching is on."""
        hybrid = self.shape is not None and self.shape.kind == "hybrid"
        return self.engine.release.caches_prefixes(self.engine.enable_prefix_caching, hybrid=hybrid)

    @property
    def served_model_name(self) -> str:
        """Model name in requests."""
        return self.engine.served_model_name or self.model.id


def resolve(stack: str, server: Server, own_model: ChosenModel | None, machine: Machine) -> Serving:
    """The profile with the stack's overrides, for a machine type. Raises SettingsError for an unknown profile and wrong overrides."""
    problems: list[Finding] = []
    try:
        chosen = profile(server.profile)
    except UnknownProfileError as error:
        problems.append(
            Finding(
                id="unknown-profile",
                subject=f"{NAMESPACE}:server.profile",
                found=server.profile,
                allowed=", ".join(NAMES),
                why="unknown profile; docs/profiles.md describes each",
                write=f"profile: {error.nearest or 'record'}",
            )
        )
        chosen = profile("record")  # any profile serves to check the overrides
    id_ = own_model.id if own_model else chosen.model_id
    listed = CATALOGUE.get(id_)
    shape = (own_model.config if own_model else None) or (listed.shape if listed else None)
    parsers = _parsers(chosen.engine, own_model) if own_model else {}
    without_parser = tuple(name for name, parser in parsers.items() if parser is None and name not in server.engine)
    left_out = _for_another_architecture(chosen.engine, shape) if own_model else ()
    named = of_tag(server.image.tag or "")
    version = {"version": named.version} if named else {}
    gpus = server.gpus or machine.gpus
    is_other = shape is None or shape.parts != CATALOGUE[chosen.model_id].shape.parts
    fitted = _fitted(chosen, server, machine, gpus, is_other=is_other)
    changes = {**dict.fromkeys(left_out), **parsers, **fitted, **version, **server.engine}
    engine = chosen.engine
    try:
        if changes:
            engine = engine.but(changes)
        drafts = _drafts_on_states(chosen.engine, server, shape, left_out)
        if engine.enable_prefix_caching is False and not drafts and "enablePrefixCaching" not in server.engine:
            # The reason to turn it off is gone. Written out, because vLLM's default depends on release and model.
            hybrid = shape is not None and LINEAR in shape.parts
            engine = engine.but({"enablePrefixCaching": engine.release.caches_prefixes(None, hybrid=hybrid)})
    except ValidationError as error:
        from settings.explain import explain

        problems += explain(error, Engine, f"{NAMESPACE}:server.engine")
    if listed and listed.why_own_code(engine.version) and not _names(engine, TRUST):
        engine = engine.but({"extraArgs": (*engine.extra_args, TRUST)})
    if own_model and own_model.adapters:
        engine = engine.but({"extraArgs": (*engine.extra_args, *_slots(own_model, engine))})
    if server.shape is not None and engine.release.number >= number_of(FIRST_RELEASE):
        engine = shaped(engine, shape)
    image, wrong = _image(engine, server.image)
    problems += wrong
    try:
        requests = _requests(server.needs)
    except ValueError as error:
        allowed = f"without workload; the longest prompt at least as long as the mean ({error})"
        problems.append(_REQUESTS("server.needs.requests", str(server.needs.requests), allowed))
        requests = None
    model = chosen.model
    if own_model is not None:
        incomplete = tuple(_incomplete(own_model, shape))
        problems += incomplete
        model = None if incomplete else _pinned(own_model)
    elif model is None:
        allowed = f"{chosen.model_id} with a commit id of its repository and its size"
        problems.append(_NO_REVISION("model", None, allowed))
    if problems or model is None or image is None:
        raise SettingsError(stack, problems)
    return Serving(
        profile=chosen,
        engine=engine,
        image=image,
        model=model,
        shape=shape,
        context_tokens=server.needs.context_tokens or chosen.context_tokens,
        concurrency_per_replica=server.needs.concurrency_per_replica or _load(chosen, engine, gpus, is_other=is_other),
        workload=requests.title if requests else chosen.workload,
        requests=requests,
        overrides=frozenset(server.engine),
        left_out=(*(name for name in left_out if name not in server.engine), *(without_parser if listed else ())),
        unnamed_parsers=() if listed else without_parser,
        fitted={name: value for name, value in fitted.items() if name not in server.engine},
    )


def _names(engine: Engine, option: str) -> bool:
    """Whether the extra flags have this switch, on or off."""
    off = option.replace("--", "--no-", 1)
    return any(argument.replace("_", "-") in (option, off) for argument in engine.extra_args)


def _requests(needs: Needs) -> Workload | None:
    """The stack file's own workload. Raises ValueError."""
    if needs.requests is None:
        return named_workload(needs.workload) if needs.workload else None
    if needs.workload is not None:
        raise ValueError(f"workload {needs.workload} has lengths already")
    mean, longest = needs.requests.input_tokens, needs.requests.longest_input_tokens
    prompts = Lengths(min=1, mean=mean, max=longest) if longest and longest != mean else Lengths.exactly(mean)
    return Workload(input_tokens=prompts, output_tokens=Lengths.exactly(needs.requests.output_tokens))


def _load(chosen: Profile, engine: Engine, gpus: int, *, is_other: bool) -> int:
    """The profile's load for this number of GPUs; with other GPUs or another model, at most what the engines admit."""
    load = max(1, chosen.concurrency_per_replica * gpus // chosen.engine.gpus)
    other = is_other or gpus != chosen.engine.gpus
    return min(load, engine.data_parallel_size * engine.max_num_seqs) if other and engine.max_num_seqs else load


def _fitted(chosen: Profile, server: Server, machine: Machine, gpus: int, *, is_other: bool) -> dict[str, Any]:
    """Changes of the profile, made for its model on eight B200, for other GPUs or models: ranks, and kernels and cache formats that may
    not be supported.
    """
    engine, changes = chosen.engine, dict[str, Any]()
    each = server.engine.get("tensorParallelSize", engine.tensor_parallel_size)
    if isinstance(each, int) and each > 0 and max(1, gpus // each) != engine.data_parallel_size:
        changes["dataParallelSize"] = max(1, gpus // each)
    ranks = server.engine.get("dataParallelSize", changes.get("dataParallelSize"))
    if isinstance(ranks, int) and engine.api_server_count is not None and engine.api_server_count > ranks >= 1:
        changes["apiServerCount"] = ranks
    if engine.attention_backend is not None and (is_other or machine.gpu.compute_capability != B200.compute_capability):
        changes["attentionBackend"] = None
    if engine.kv_cache_dtype is not None and (is_other or machine.gpu.compute_capability < LEAST_FP8_CACHE):
        changes["kvCacheDtype"] = None
    return changes


def _drafts_on_states(engine: Engine, server: Server, shape: ModelShape | None, left_out: Container[str]) -> bool:
    """Whether the server drafts with MTP on a model with linear layers, the reason for which profiles turn prefix caching off."""
    speculative = server.engine.get("speculative", None if "speculative" in left_out else engine.speculative)
    method = (
        speculative.get("method", "mtp") if isinstance(speculative, Mapping) else getattr(speculative, "method", None)
    )
    return shape is not None and LINEAR in shape.parts and method == "mtp"


def version_problems(subject: str, engine: Engine, tag: str, named_by: str) -> Iterator[Finding]:
    """An engine's version that is not that of its image. `named_by`: where the image's tag is written."""
    named = of_tag(tag)
    if named is not None and named.number != engine.release.number:
        yield _VERSION(subject, engine.version, f"{named.version}, as in {named_by}, or left out")


def _image(engine: Engine, choice: ImageChoice) -> tuple[Image | None, list[Finding]]:
    """The image of the engine's release, or problems."""
    release = engine.release
    wrong = list(version_problems("server.engine.version", engine, choice.tag or "", "server.image.tag"))
    tag = choice.tag or release.tag
    digest = choice.digest or (release.digest if tag == release.tag else None)
    by_tag = release.known and tag == release.tag and choice.repository == DEFAULT_REPOSITORY
    if not wrong and choice.tag is None and not release.known:
        allowed = f"{', '.join(VERSIONS)}, or another one with server.image.tag and server.image.digest"
        wrong = [_RELEASE("server.engine.version", engine.version, allowed)]
    elif not wrong and digest is None and not by_tag:
        wrong = [_NO_DIGEST("server.image.digest", None, f"the digest of {choice.repository}:{tag} in the registry")]
    return None if wrong else Image(repository=choice.repository, tag=tag, digest=digest), wrong


def _pinned(chosen: ChosenModel) -> Model:
    """The model with defaults from the catalog; `_incomplete` found nothing missing."""
    listed = CATALOGUE.get(chosen.id)
    given = {name: getattr(chosen, name) for name in ("id", "revision", "size_gb", "adapters")}
    known = {"revision": listed.revision, "size_gb": listed.size_gb} if listed else {}
    return Model.model_validate({**known, **{name: value for name, value in given.items() if value is not None}})


def _slots(own: ChosenModel, engine: Engine) -> tuple[str, ...]:
    """Flags for the model's adapters: a slot for each, with room for the largest rank. A stack may have fewer by `--max-loras`."""
    ranks = (adapter.rank for adapter in own.adapters)
    count = () if "max-loras" in parse(engine.extra_args) else (f"--max-loras={len(own.adapters)}",)
    return ("--enable-lora", *count, f"--max-lora-rank={max(ranks)}")


def _incomplete(chosen: ChosenModel, shape: ModelShape | None) -> Iterator[Finding]:
    """Problems with a model whose properties are neither in the stack file nor in the catalog."""
    listed = CATALOGUE.get(chosen.id)
    near = None if chosen.revision and chosen.size_gb else nearest(chosen.id, CATALOGUE)
    if listed is None and near is not None and near.lower() == chosen.id.lower():
        yield _MODEL("model.id", chosen.id, f"{near}, or another model with revision and sizeGb")
        return
    if chosen.revision is None and (listed is None or listed.revision is None):
        yield _NO_REVISION("model.revision", None, f"a commit id of {chosen.id}: 40 hexadecimal digits")
    if chosen.size_gb is None and listed is None:
        yield _NO_SIZE("model.sizeGb", None, "the size in GB (10**9 bytes) of what vLLM reads of the repository")
    if shape is None and chosen.kv_bytes_per_token is None:
        allowed = "the path of the model's config.json, relative to the stack file, or kvBytesPerToken for an unknown architecture"
        yield _NO_CONFIG("model.config", None, allowed)
    if shape is not None and chosen.kv_bytes_per_token is not None:
        yield _STATED(
            "model.kvBytesPerToken", chosen.kv_bytes_per_token, "left out with config or a model of the catalog"
        )


def _parsers(engine: Engine, own: ChosenModel) -> dict[str, str | None]:
    """Parsers in place of the profile's, by camelCase name: the catalog's if the profile has one; None for no parser. vLLM does not start
    with a parser whose tokens are missing in the tokenizer.
    """
    listed = CATALOGUE.get(own.id)
    choices = {
        "toolCallParser": (engine.tool_call_parser, listed.tool_parser if listed else None),
        "reasoningParser": (engine.reasoning_parser, listed.reasoning_parser if listed else None),
    }
    return {name: of_catalog for name, (of_profile, of_catalog) in choices.items() if of_profile}


def _for_another_architecture(engine: Engine, shape: ModelShape | None) -> tuple[str, ...]:
    """Names, in camelCase, of settings for parts that the model lacks."""
    parts = frozenset() if shape is None else shape.parts
    set_ = engine.model_dump(include=set(flag_fields()) - {"tool_call_parser", "reasoning_parser"})
    needed = {field: part_for(long_name(field), value) for field, value in set_.items()}
    return tuple(
        Engine.model_fields[field].alias or field for field, part in needed.items() if part and part not in parts
    )
