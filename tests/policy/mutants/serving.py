"""Mutants of the model server: its flags, its image, its weights, its host, and what it declares."""

from __future__ import annotations

from typing import Any

from tests.policy.mutant import (
    CONTAINER,
    DEPLOYMENT,
    Edit,
    Mutant,
    Props,
    change,
    constant,
    flag,
    get,
    of_program,
    of_resource,
    put,
    result,
    returning,
    variable,
    without_flag,
)

_SPECULATION = '--speculative-config={{"method":"mtp","num_speculative_tokens":{}}}'
_MODEL = "/weights/Qwen/Qwen3.5-27B-FP8"
_REGISTRY = "europe-west4-docker.pkg.dev/offline-preview/dev-docker-hub"
_DIGEST = "sha256:228113d30448941e7a845f57ef0b3d3ea74ffda81be72ded4f8d6dfab0124fe6"


def _engine(rule: str, what: str, *, stack: str = "guest", **engine: Any) -> Mutant:
    """Other engine settings, by their names in the stack file."""
    return of_program(rule, what, stack=stack, settings={"server": {"engine": engine}})


def _mtp(tokens: int) -> dict[str, Any]:
    return {"method": "mtp", "numSpeculativeTokens": tokens}


def _image(tag: str) -> str:
    return f"{_REGISTRY}/vllm/vllm-openai:{tag}"


def _started(command: list[str], *args: str) -> Edit:
    """A server that somebody else starts in another way."""
    return change(DEPLOYMENT, lambda props: get(props, CONTAINER).update(command=command, args=list(args)))


def _silence(props: Props) -> None:
    """Nothing declared, on the pods and on the object."""
    del props["metadata"]["annotations"]
    del get(props, "spec.template.metadata")["annotations"]


PARALLELISM_AND_MEMORY = (
    _engine("tp8-on-one-gpu-model", "one engine over eight GPUs", tensorParallelSize=8, dataParallelSize=1),
    of_resource(
        "tp8-on-one-gpu-model",
        "four engines of two GPUs each",
        flag(DEPLOYMENT, "--tensor-parallel-size=2", "--data-parallel-size=4"),
        stack="cud",
    ),
    of_resource(
        "tp8-on-one-gpu-model",
        "the short form of the option",
        without_flag(DEPLOYMENT, "--data-parallel-size"),
        flag(DEPLOYMENT, "-tp=8"),
        stack="gateway",
    ),
    of_resource(
        "tp8-on-one-gpu-model",
        "the option in a shell's script",
        _started(["bash", "-c"], f"ulimit -n 65536 && exec vllm serve {_MODEL} --tensor-parallel-size 8"),
    ),
    of_resource(
        "tp8-on-one-gpu-model",
        "the option with underscores, under the module",
        _started(
            ["python3", "-m", "vllm.entrypoints.openai.api_server"], f"--model={_MODEL}", "--tensor_parallel_size=8"
        ),
    ),
    _engine("expert-parallel-on-dense-model", "expert parallelism", enableExpertParallel=True),
    of_resource(
        "expert-parallel-on-dense-model",
        "expert parallelism, by hand",
        flag(DEPLOYMENT, "--enable-expert-parallel"),
        stack="guest",
    ),
    _engine("mtp-above-one", "five draft tokens", speculative=_mtp(5)),
    of_resource("mtp-above-one", "three draft tokens", flag(DEPLOYMENT, _SPECULATION.format(3)), stack="cud"),
    of_resource(
        "mtp-above-one",
        "five draft tokens in dotted pieces",
        without_flag(DEPLOYMENT, "--speculative-config"),
        flag(DEPLOYMENT, "--speculative-config.method=mtp", "--speculative-config.num_speculative_tokens=5"),
        stack="spot",
    ),
    _engine("mtp-two-is-slower", "two draft tokens", speculative=_mtp(2)),
    of_resource(
        "mtp-two-is-slower", "two draft tokens, by hand", flag(DEPLOYMENT, _SPECULATION.format(2)), stack="guest"
    ),
    _engine(
        "utilisation-with-mtp", "0.95 with a bf16 cache", gpuMemoryUtilization=0.95, kvCacheDtype="auto", stack="dev"
    ),
    of_resource(
        "utilisation-with-mtp",
        "0.95 without the CUDA-graph estimate",
        flag(DEPLOYMENT, "--gpu-memory-utilization=0.95"),
        variable(DEPLOYMENT, "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS", None),
        stack="spot",
    ),
    _engine("utilisation-without-gain", "0.95 with an fp8 cache", gpuMemoryUtilization=0.95),
    of_resource(
        "utilisation-without-gain", "0.96, by hand", flag(DEPLOYMENT, "--gpu-memory-utilization=0.96"), stack="cud"
    ),
    _engine("cudagraph-estimate-unset", "the estimate switched off", estimateCudagraphs=False),
    of_resource(
        "cudagraph-estimate-unset",
        "the estimate's variable lost",
        variable(DEPLOYMENT, "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS", None),
        stack="guest",
    ),
)

CACHE_AND_ADMISSION = (
    _engine("hybrid-prefix-cache-flags", "prefix caching alone", mambaCacheMode=None, mambaBlockSize=None),
    of_resource(
        "hybrid-prefix-cache-flags",
        "prefix caching without the cache mode",
        without_flag(DEPLOYMENT, "--mamba-cache-mode"),
        stack="cud",
    ),
    _engine("mamba-flags-without-prefix-caching", "the block size stays behind", enablePrefixCaching=False),
    of_resource(
        "mamba-flags-without-prefix-caching",
        "prefix caching removed by hand",
        without_flag(DEPLOYMENT, "--enable-prefix-caching"),
        stack="cud",
    ),
    _engine("prefix-cache-never-hits", "1,500 tokens of context", stack="cud", maxModelLen=1_500),
    of_resource(
        "prefix-cache-never-hits",
        "1,000 tokens of context, by hand",
        flag(DEPLOYMENT, "--max-model-len=1000"),
        stack="guest",
    ),
    _engine("sequences-below-load", "100 sequences an engine for 2,000 requests", maxNumSeqs=100, stack="dev"),
    of_program(
        "sequences-below-load",
        "more requests than the profile is for",
        stack="cud",
        settings={"server": {"needs": {"concurrencyPerReplica": 4_000}}},
    ),
    of_resource("sequences-below-load", "64 sequences", flag(DEPLOYMENT, "--max-num-seqs=64"), stack="spot"),
    _engine("batch-below-sequences", "4,096 tokens a step for 8,192 sequences", maxNumBatchedTokens=4_096, stack="dev"),
    of_resource(
        "batch-below-sequences",
        "128 tokens a step",
        flag(DEPLOYMENT, "--max-num-batched-tokens=128"),
        stack="cud",
    ),
    _engine("block-above-batch", "512 tokens a step", maxNumBatchedTokens=512, maxNumSeqs=512),
    of_resource(
        "block-above-batch", "256 tokens a step", flag(DEPLOYMENT, "--max-num-batched-tokens=256"), stack="cud"
    ),
    _engine("max-num-seqs-above-state", "8,192 sequences of a chat server", stack="cud", maxNumSeqs=8_192),
    of_resource(
        "max-num-seqs-above-state",
        "the article's 8,192 sequences, copied",
        flag(DEPLOYMENT, "--max-num-seqs=8192"),
        stack="guest",
    ),
    of_program(
        "max-num-seqs-refused",
        "a release that counts states",
        stack="cud",
        settings={"server": {"image": {"tag": "v0.20.2"}, "engine": {"maxNumSeqs": 8_192}}},
    ),
    of_resource(
        "max-num-seqs-refused",
        "the record's flags on a release that counts states",
        put(DEPLOYMENT, f"{CONTAINER}.image", value=f"{_image('v0.20.2')}@{_DIGEST}"),
        stack="spot",
    ),
    of_program(
        "context-below-need",
        "requests longer than what is admitted",
        settings={"server": {"needs": {"contextTokens": 4_096}}},
    ),
    of_resource("context-below-need", "4K for requests of 8K", flag(DEPLOYMENT, "--max-model-len=4096"), stack="cud"),
    _engine("context-far-above-need", "the article's 131,072", maxModelLen=131_072, stack="dev"),
    of_resource(
        "context-far-above-need",
        "the article's 131,072 as 128K",
        flag(DEPLOYMENT, "--max-model-len=128K"),
    ),
    of_resource(
        "context-far-above-need",
        "no limit, so the model's own",
        without_flag(DEPLOYMENT, "--max-model-len"),
        stack="spot",
    ),
)

START = (
    of_program("deepgemm-accuracy", "0.18.0 on B200", settings={"server": {"image": {"tag": "v0.18.0"}}}),
    of_resource(
        "deepgemm-accuracy",
        "0.18.0 by hand, with the variable at 1",
        put(DEPLOYMENT, f"{CONTAINER}.image", value=f"{_image('v0.18.0')}@{_DIGEST}"),
        variable(DEPLOYMENT, "VLLM_USE_DEEP_GEMM", "1"),
        stack="gateway",
    ),
    of_program("image-not-checked", "0.19.0", settings={"server": {"image": {"tag": "v0.19.0"}}}, stack="guest"),
    of_resource(
        "image-not-checked",
        "a nightly",
        put(DEPLOYMENT, f"{CONTAINER}.image", value=f"{_image('nightly')}@{_DIGEST}"),
        stack="cud",
    ),
    of_program(
        "flags-vllm-refuses",
        "an option that vLLM does not have",
        result("workloads.vllm_args.args", lambda words: [*words, "--max-num-sequences=8192"]),
        stack="guest",
    ),
    of_resource(
        "flags-vllm-refuses", "a switch with a value", flag(DEPLOYMENT, "--enable-prefix-caching=true"), stack="cud"
    ),
    of_program(
        "image-not-pinned",
        "the tag alone",
        constant("settings.kubernetes.Image.reference", property(lambda image: f"{image.repository}:{image.tag}")),
        stack="guest",
    ),
    of_resource(
        "image-not-pinned",
        "the tag alone, by hand",
        put(DEPLOYMENT, f"{CONTAINER}.image", value=_image("v0.18.1")),
        stack="guest",
    ),
    of_program(
        "image-latest",
        "the writer runs latest",
        constant("workloads.weights.WRITER_IMAGE", "alpine/git:latest"),
        stack="guest",
    ),
    of_resource(
        "image-latest",
        "an image without a tag prepares the benchmark",
        put("benchmark-job", "spec.template.spec.initContainers.0.image", value="python"),
        stack="gateway",
    ),
    of_program(
        "model-not-pinned",
        "a download without a revision",
        result(
            "workloads.server_pod.arguments",
            lambda words: [word for word in words if not word.startswith("--revision")],
        ),
        settings={"weights": {"source": "huggingface"}},
        stack="guest",
    ),
    of_resource(
        "model-not-pinned",
        "the repository at a branch instead of the volume",
        put(DEPLOYMENT, f"{CONTAINER}.args.0", value="Qwen/Qwen3.5-27B-FP8"),
        flag(DEPLOYMENT, "--revision=main"),
        stack="spot",
    ),
    of_program(
        "needs-not-declared",
        "a server that declares nothing",
        returning("settings.declarations.declarations", {}),
        stack="guest",
    ),
    of_resource("needs-not-declared", "annotations removed", change(DEPLOYMENT, _silence), stack="cud"),
    of_program(
        "cpu-starves-engines", "8 CPUs for eight engines", settings={"server": {"resources": {"cpu": 8}}}, stack="guest"
    ),
    of_resource(
        "cpu-starves-engines",
        "4,000 millicores",
        put(DEPLOYMENT, f"{CONTAINER}.resources.requests.cpu", value="4000m"),
        stack="cud",
    ),
    _engine("engine-ready-timeout", "vLLM's own ten minutes", engineReadyTimeoutSeconds=600),
    of_resource(
        "engine-ready-timeout",
        "the variable lost",
        variable(DEPLOYMENT, "VLLM_ENGINE_READY_TIMEOUT_S", None),
        stack="guest",
    ),
)

ON_PURPOSE = (
    of_program(
        "repeated-on-purpose",
        "the article's first row, which repeats more lessons",
        settings={"server": {"profile": "tp8"}},
        stack="guest",
    ),
    of_resource(
        "repeated-on-purpose",
        "two draft tokens, declared as a repetition",
        flag(DEPLOYMENT, _SPECULATION.format(2)),
        put(DEPLOYMENT, "spec.template.metadata.annotations", "vllm-fleet.dev/on-purpose", value="mtp-above-one"),
        stack="spot",
    ),
)

MUTANTS = PARALLELISM_AND_MEMORY + CACHE_AND_ADMISSION + START + ON_PURPOSE
