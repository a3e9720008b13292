"""One table of what breaks a lesson and what does not: tried on stack files, on rendered resources, and as mutants of real stacks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from facts.engines import render
from settings.checks.declared_server import DeclaredServer, stack_file
from settings.stack import Settings
from tests.support.settings import make_settings

PROFILES = {"dev": "record", "cud": "serve-chat", "code": "serve-code"}
"""The stacks that cases start from, one of them in a guide (`tests.support.stacks`). Two lessons are excused in the record's, so their
mutants are of the others."""
ESTIMATE = "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS"
READY = "VLLM_ENGINE_READY_TIMEOUT_S"
DEEP_GEMM = "VLLM_USE_DEEP_GEMM"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A server of one of the stacks with other options."""

    lesson: str
    what: str
    stack: str = "dev"
    options: Mapping[str, Any] = field(default_factory=dict)
    """By long name or variable; None leaves one out."""
    tag: str = ""
    cpu: int | None = None
    needs: Mapping[str, int] = field(default_factory=dict)
    """`contextTokens`, `concurrencyPerReplica`."""
    model: str = ""
    """A model instead of the profile's."""
    broken: bool = True
    is_advisory: bool = False
    """Whether the breach is milder than the lesson's level."""

    @property
    def server(self) -> dict[str, Any]:
        """As the stack file's section has it."""
        section: dict[str, Any] = {
            "engine": dict(_setting(*one) for one in self.options.items() if not _is_dropped(*one))
        }
        section |= {"image": {"tag": self.tag, "digest": f"sha256:{'0' * 64}"}} if self.tag else {}
        section |= {"resources": {"cpu": self.cpu}} if self.cpu else {}
        return section | ({"needs": dict(self.needs)} if self.needs else {})

    @property
    def sections(self) -> dict[str, Any]:
        """What the stack file says of server and model."""
        model = {"id": self.model, "revision": "a" * 40}
        return {"server": self.server, **({"model": model} if self.model else {})}

    @property
    def settings(self) -> Settings:
        """Of a stack with one replica."""
        of_stack = {"profile": PROFILES[self.stack], "replicas": 1}
        return make_settings(**{**self.sections, "server": {**of_stack, **self.server}})

    @property
    def declared(self) -> DeclaredServer:
        return DeclaredServer(self.settings)

    def lay_over(self, props: dict[str, Any]) -> None:
        """The same change in a rendered Deployment."""
        template = props["spec"]["template"]
        container = template["spec"]["containers"][0]
        for option, value in self.options.items():
            if option.isupper():
                others = [one for one in container["env"] if one["name"] != option]
                container["env"] = others + ([] if value is None else [{"name": option, "value": _text(value)}])
                continue
            spelled = (f"--{option}", f"--no-{option}")
            words = [word for word in container["args"] if word.partition("=")[0] not in spelled]
            container["args"] = words + render({option: value})
        if self.model:
            container["args"][0] = f"/weights/{self.model}"
            template["metadata"]["annotations"]["vllm-fleet.dev/model"] = self.model
            container["args"] = [word for word in container["args"] if not word.startswith("--served-model-name")]
        if self.tag:
            name, _, digest = container["image"].partition("@")
            container["image"] = f"{name.rpartition(':')[0]}:{self.tag}@{digest or f'sha256:{0:064}'}"
        if self.cpu:
            container["resources"]["requests"]["cpu"] = str(self.cpu)
        for name, number in self.needs.items():
            annotation = re.sub(r"([A-Z])", lambda match: f"-{match[1].lower()}", name)
            template["metadata"]["annotations"][f"vllm-fleet.dev/{annotation}"] = str(number)


def _is_dropped(option: str, value: Any) -> bool:
    return value is None and stack_file().path(option).startswith("server.engine.extra")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else str(int(value))


def _setting(option: str, value: Any) -> tuple[str, Any]:
    name = stack_file().name(option)
    if name.startswith("extraEnv."):
        return "extraEnv", {option: _text(value)}
    if stack_file().is_extra(option):
        return "extraArgs", render({option: value})
    if isinstance(value, Mapping):
        return name, {"method": value["method"], "numSpeculativeTokens": value["num_speculative_tokens"]}
    return name, value


def _mtp(tokens: int, method: str = "mtp") -> dict[str, Any]:
    return {"speculative-config": {"method": method, "num_speculative_tokens": tokens}}


def _caching(block: int | None = 8, mode: str | None = "align") -> dict[str, Any]:
    return {"enable-prefix-caching": True, "mamba-cache-mode": mode, "mamba-block-size": block}


NO_CACHING: Mapping[str, Any] = {"enable-prefix-caching": None, "mamba-cache-mode": None, "mamba-block-size": None}
_OF_LINEAR = {"mamba-cache-mode": None, "mamba-block-size": None}
_NO_MTP = {"speculative-config": None}
_FP8 = {"kv-cache-dtype": "fp8_e4m3"}
_PLAIN = "Qwen/Qwen3-32B"


def _connector(name: str = "NixlConnector") -> dict[str, Any]:
    return {"kv-transfer-config": {"kv_connector": name, "kv_role": "kv_both"}}


_AT_095 = {"gpu-memory-utilization": 0.95}


def _broken(lesson: str, what: str, options: Mapping[str, Any] | None = None, **more: Any) -> Case:
    return Case(lesson=lesson, what=what, options=options or {}, **more)


def _sound(lesson: str, what: str, options: Mapping[str, Any] | None = None, **more: Any) -> Case:
    return Case(lesson=lesson, what=what, options=options or {}, broken=False, **more)


CASES = (
    _broken("tp8-on-one-gpu-model", "one engine over eight", {"tensor-parallel-size": 8, "data-parallel-size": 1}),
    _broken("tp8-on-one-gpu-model", "four of two", {"tensor-parallel-size": 2, "data-parallel-size": 4}, stack="cud"),
    _sound("tp8-on-one-gpu-model", "eight engines"),
    _sound(
        "tp8-on-one-gpu-model",
        "no room",
        {"tensor-parallel-size": 8, "data-parallel-size": 1, "gpu-memory-utilization": 0.18},
    ),
    _broken("mtp-above-one", "five draft tokens", _mtp(5), stack="code"),
    _broken("mtp-above-one", "three draft tokens", _mtp(3), stack="cud"),
    _sound("mtp-above-one", "eight tokens found in the prompt", _mtp(8, "ngram")),
    _broken("mtp-above-one", "two draft tokens", _mtp(2), stack="code", is_advisory=True),
    _sound("mtp-above-one", "one draft token", _mtp(1)),
    _sound("mtp-above-one", "two tokens found in the prompt", _mtp(2, "ngram")),
    _broken("utilisation-with-mtp", "a bf16 cache", {**_AT_095, "kv-cache-dtype": "auto"}),
    _broken("utilisation-with-mtp", "uncounted graphs", {**_AT_095, ESTIMATE: None}),
    _sound("utilisation-with-mtp", "no speculation", {**_AT_095, "kv-cache-dtype": "auto", "speculative-config": None}),
    _broken("utilisation-with-mtp", "an fp8 cache", _AT_095, is_advisory=True),
    _broken("utilisation-with-mtp", "0.96", {"gpu-memory-utilization": 0.96}, stack="cud", is_advisory=True),
    _broken(
        "utilisation-with-mtp",
        "bf16 at 0.93",
        {"gpu-memory-utilization": 0.93, "kv-cache-dtype": "auto"},
        is_advisory=True,
    ),
    _sound("utilisation-with-mtp", "bf16 at 0.90", {"gpu-memory-utilization": 0.90, "kv-cache-dtype": "auto"}),
    _sound("utilisation-with-mtp", "0.94", {"gpu-memory-utilization": 0.94}),
    _broken("cudagraph-estimate-unset", "left out", {ESTIMATE: None}),
    _broken("cudagraph-estimate-unset", "switched off", {ESTIMATE: False}, stack="code"),
    _sound("cudagraph-estimate-unset", "0.91", {"gpu-memory-utilization": 0.91, ESTIMATE: None}),
    _sound("cudagraph-estimate-unset", "no graphs", {"enforce-eager": True, ESTIMATE: None}),
    _sound("cudagraph-estimate-unset", "said by utilisation-with-mtp", {**_AT_095, ESTIMATE: None}),
    _sound("cudagraph-estimate-unset", "0.20 counts by itself", {ESTIMATE: None}, tag="v0.20.0"),
    _broken("cudagraph-estimate-unset", "0.20 told not to", {ESTIMATE: False}, tag="v0.20.0"),
    _broken("streamed-calls-cut", "0.18.1", {"stream-interval": 10}, stack="cud", tag="v0.18.1"),
    _broken("streamed-calls-cut", "two tokens a chunk", {"stream-interval": 2}, stack="code", tag="v0.18.1"),
    _broken(
        "streamed-calls-cut",
        "a parser that was not rewritten",
        {"stream-interval": 10, "tool-call-parser": "hermes"},
        stack="cud",
        is_advisory=True,
    ),
    _sound("streamed-calls-cut", "0.33", {"stream-interval": 10}, stack="cud"),
    _sound("streamed-calls-cut", "no gathering", {"stream-interval": 1}, stack="cud", tag="v0.18.1"),
    _sound("streamed-calls-cut", "no tool calls", {"stream-interval": 10}),
    _broken("hybrid-prefix-cache-flags", "neither flag", _caching(None, None), stack="cud", tag="v0.18.1"),
    _sound("hybrid-prefix-cache-flags", "a release that caches by itself", NO_CACHING, stack="cud", tag="v0.33.0"),
    _sound("hybrid-prefix-cache-flags", "such a release, asked to", _caching(None, None), stack="cud", tag="v0.33.0"),
    _sound("hybrid-prefix-cache-flags", "no block size", {"mamba-block-size": None}, stack="cud"),
    _sound("hybrid-prefix-cache-flags", "said by prefix-cache-never-hits", _caching(None, None)),
    _sound("hybrid-prefix-cache-flags", "both flags", _caching(), stack="cud"),
    _sound("hybrid-prefix-cache-flags", "no caching", NO_CACHING),
    _broken("mamba-flags-without-prefix-caching", "caching left out", {"enable-prefix-caching": None}),
    _broken("mamba-flags-without-prefix-caching", "switched off", {"mamba-block-size": 8}, stack="cud"),
    _sound("mamba-flags-without-prefix-caching", "the mode alone", {**NO_CACHING, "mamba-cache-mode": "align"}),
    _broken("prefix-cache-never-hits", "1,500 tokens of context", {**_caching(), "max-model-len": 1_500}, stack="cud"),
    _broken("prefix-cache-never-hits", "a token too short", {"max-model-len": 1_568}, stack="code"),
    _sound("prefix-cache-never-hits", "just long enough", {"max-model-len": 3_169}),
    _sound(
        "prefix-cache-never-hits", "one block, without drafts", {"max-model-len": 1_569, "speculative-config": None}
    ),
    _sound("prefix-cache-never-hits", "the model's own context", {"max-model-len": None}),
    _sound("prefix-cache-never-hits", "no caching", NO_CACHING),
    _broken("prefix-caching-with-mtp", "8K of context", _caching(), stack="cud"),
    _broken("prefix-caching-with-mtp", "drafts for long prompts", _mtp(1), stack="code"),
    _broken("prefix-caching-with-mtp", "just long enough", {"max-model-len": 3_169}),
    _broken("prefix-caching-with-mtp", "a release that caches by itself", NO_CACHING, tag="v0.33.0"),
    _broken("prefix-caching-with-mtp", "a release that matches shorter pieces", tag="v0.28.0"),
    _sound("prefix-caching-with-mtp", "no prompt can hit"),
    _sound("prefix-caching-with-mtp", "MTP alone", stack="cud", tag="v0.33.0"),
    _sound("prefix-caching-with-mtp", "caching alone", stack="code", tag="v0.33.0"),
    _sound("prefix-caching-with-mtp", "tokens found in the prompt", _mtp(2, "ngram"), stack="code"),
    _broken("sequences-below-load", "100 an engine", {"max-num-seqs": 100}),
    _broken("sequences-below-load", "twice the load", stack="cud", needs={"concurrencyPerReplica": 4_000}),
    _broken("sequences-below-load", "vLLM's own number", {"max-num-seqs": None, "data-parallel-size": 1}),
    _sound("sequences-below-load", "just enough", {"max-num-seqs": 250}),
    _sound("sequences-below-load", "vLLM's own number eight times", {"max-num-seqs": None}),
    _broken("max-num-seqs-refused", "a release that counts", {"max-num-seqs": 2_601}, stack="cud", tag="v0.20.2"),
    _sound("max-num-seqs-refused", "the record on it", tag="v0.20.2"),
    _sound("max-num-seqs-refused", "within the estimate's margin", {"max-num-seqs": 2_400}, tag="v0.20.2"),
    _sound("max-num-seqs-refused", "0.18.1 accepts it", {"max-num-seqs": 8_192}),
    _sound("max-num-seqs-refused", "no graphs", {"max-num-seqs": 8_192, "enforce-eager": True}, tag="v0.20.2"),
    _sound("max-num-seqs-refused", "no whole steps", {"max-num-seqs": 8_192, "optimization-level": 1}, tag="v0.20.2"),
    _broken("context-below-need", "longer requests", stack="code", needs={"contextTokens": 200_000}),
    _broken("context-below-need", "4K for 8K", {"max-model-len": 4_096}, stack="cud"),
    _sound("context-below-need", "as long", {"max-model-len": 1_536}),
    _broken("context-far-above-need", "the article's 131,072", {"max-model-len": 131_072}),
    _broken("context-far-above-need", "the model's own", {"max-model-len": None}),
    _broken("context-far-above-need", "a token more than four times", {"max-model-len": 6_145}),
    _sound("context-far-above-need", "four times", {"max-model-len": 6_144}),
    _broken("deepgemm-accuracy", "0.18.0", tag="v0.18.0", stack="cud"),
    _broken("deepgemm-accuracy", "switched on", {DEEP_GEMM: True}, tag="v0.18.0", stack="code"),
    _sound("deepgemm-accuracy", "switched off", {DEEP_GEMM: False}, tag="v0.18.0"),
    _sound("deepgemm-accuracy", "0.18.1", tag="v0.18.1"),
    _sound("deepgemm-accuracy", "weights of 16 bits", tag="v0.18.0", stack="cud", model="Qwen/Qwen3.5-27B"),
    _broken("kv-connector-on-hybrid", "0.18.1", _connector(), tag="v0.18.1"),
    _broken("kv-connector-on-hybrid", "0.29 with MTP", _connector(), tag="v0.29.0", stack="cud"),
    _broken("kv-connector-on-hybrid", "0.25 without MTP", _connector(), tag="v0.25.0", stack="code"),
    _broken("kv-connector-on-hybrid", "LMCache", _connector("LMCacheConnectorV1"), stack="cud"),
    _sound("kv-connector-on-hybrid", "0.33.0 with MTP", _connector(), stack="cud"),
    _sound("kv-connector-on-hybrid", "0.26 without MTP", _connector(), tag="v0.26.0", stack="code"),
    _sound(
        "kv-connector-on-hybrid",
        "another model",
        {**_NO_MTP, **_OF_LINEAR, **_connector()},
        tag="v0.18.1",
        model=_PLAIN,
    ),
    _broken("fp8-product-slow", "0.18.1", tag="v0.18.1", stack="cud"),
    _broken("fp8-product-slow", "0.30.0", tag="v0.30.0", stack="code"),
    _broken("fp8-product-slow", "0.18.0 without DeepGEMM", {DEEP_GEMM: False}, tag="v0.18.0"),
    _broken(
        "fp8-product-slow",
        "another model without DeepGEMM",
        {**_NO_MTP, **_OF_LINEAR, DEEP_GEMM: False},
        tag="v0.18.1",
        model="Qwen/Qwen3-32B-FP8",
    ),
    _sound("fp8-product-slow", "0.18.0 with DeepGEMM", tag="v0.18.0"),
    _sound("fp8-product-slow", "0.31.0", tag="v0.31.0", stack="cud"),
    _sound("fp8-product-slow", "0.33.0 without DeepGEMM", {DEEP_GEMM: False}, tag="v0.33.0", stack="cud"),
    _sound("fp8-product-slow", "weights of 16 bits", tag="v0.18.1", stack="cud", model="Qwen/Qwen3.5-27B"),
    _sound(
        "fp8-product-slow",
        "another model with DeepGEMM",
        {**_NO_MTP, **_OF_LINEAR},
        tag="v0.18.1",
        model="Qwen/Qwen3-32B-FP8",
    ),
    _broken("flags-of-another-architecture", "a draft layer", {**_mtp(1), **_OF_LINEAR, **_FP8}, model=_PLAIN),
    _broken(
        "flags-of-another-architecture",
        "a parser",
        {**_NO_MTP, **_OF_LINEAR, "tool-call-parser": "qwen3_coder"},
        model=_PLAIN,
    ),
    _sound(
        "flags-of-another-architecture", "none", {**_NO_MTP, **_OF_LINEAR, "reasoning-parser": "qwen3"}, model=_PLAIN
    ),
    _sound("flags-of-another-architecture", "ngram", {**_mtp(1, "ngram"), **_OF_LINEAR, **_FP8}, model=_PLAIN),
    *(
        _broken("server-opened", name, {name: "x"})
        for name in (
            "VLLM_SERVER_DEV_MODE",
            "VLLM_ALLOW_INSECURE_SERIALIZATION",
            "VLLM_ALLOW_RUNTIME_LORA_UPDATING",
            "LD_PRELOAD",
            "PYTHONPATH",
        )
    ),
    _broken("server-opened", "a middleware", {"middleware": "x.Y"}),
    _broken("server-opened", "a connector's module", {"kv-transfer-config": {"kv_connector_module_path": "x"}}),
    _broken("server-opened", "all files for clients", {"allowed-local-media-path": "/"}, stack="code"),
    _sound("server-opened", "one kind of executor", {"distributed-executor-backend": "mp"}),
    _sound("server-opened", "development switched off", {"VLLM_SERVER_DEV_MODE": 0}),
    _broken("experts-write-into-image", "asked for", {"moe-backend": "flashinfer_trtllm"}),
    _broken("experts-write-into-image", "for no experts", {"moe-backend": "flashinfer_trtllm"}, stack="cud"),
    _sound("experts-write-into-image", "FlashInfer's others", {"moe-backend": "flashinfer_cutlass"}),
    _sound("experts-write-into-image", "a dense model's own choice", {"moe-backend": "auto"}),
    _broken("flags-vllm-refuses", "a word that is gone", {"mamba-cache-mode": "all"}, stack="code", tag="v0.33.0"),
    _broken("flags-vllm-refuses", "a word to come", {"gdn-prefill-backend": "cutedsl"}, stack="cud", tag="v0.18.1"),
    _sound("flags-vllm-refuses", "a word of its own", {"gdn-prefill-backend": "cutedsl"}, stack="cud", tag="v0.33.0"),
    _sound("flags-vllm-refuses", "a release that is not known", {"mamba-cache-mode": "all"}, tag="v0.25.0"),
    _broken("cpu-starves-engines", "8 CPUs", cpu=8, stack="code"),
    _broken("cpu-starves-engines", "one less than needed", cpu=17),
    _sound("cpu-starves-engines", "just enough", cpu=18),
    _sound("cpu-starves-engines", "one API server", {"api-server-count": 1}, cpu=13),
    _broken("engine-ready-timeout", "vLLM's ten minutes", {READY: 600}),
    _broken("engine-ready-timeout", "a second less", {READY: 1_799}, stack="code"),
    _sound("engine-ready-timeout", "as long", {READY: 1_800}),
)
