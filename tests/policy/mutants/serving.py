"""Mutants of the model server: every case of the lessons that breaks one, other spellings, and what only a resource shows."""

from __future__ import annotations

from collections.abc import Iterator

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
from tests.support.lessons import CASES

_SPECULATION = '--speculative-config={{"method":"mtp","num_speculative_tokens":{}}}'
_MODEL = "/weights/Qwen/Qwen3.5-27B-FP8"
_REGISTRY = "europe-west4-docker.pkg.dev/offline-preview/dev-docker-hub"
_DIGEST = "sha256:228113d30448941e7a845f57ef0b3d3ea74ffda81be72ded4f8d6dfab0124fe6"


def _of_cases() -> Iterator[Mutant]:
    """Every case of the lessons that breaks one: through the stack file, and in the rendered Deployment."""
    for case in CASES:
        if case.broken:
            yield of_program(case.lesson, case.what, stack=case.stack, settings={"server": case.server})
            yield of_resource(case.lesson, case.what, change(DEPLOYMENT, case.lay_over), stack=case.stack)


def _image(tag: str) -> str:
    return f"{_REGISTRY}/vllm/vllm-openai:{tag}"


def _started(command: list[str], *args: str) -> Edit:
    """A server that somebody else starts in another way."""
    return change(DEPLOYMENT, lambda props: get(props, CONTAINER).update(command=command, args=list(args)))


def _silence(props: Props) -> None:
    """Nothing declared, on the pods and on the object."""
    del props["metadata"]["annotations"]
    del get(props, "spec.template.metadata")["annotations"]


SPELLED_OTHERWISE = (
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
    of_resource(
        "mtp-above-one",
        "five draft tokens in dotted pieces",
        without_flag(DEPLOYMENT, "--speculative-config"),
        flag(DEPLOYMENT, "--speculative-config.method=mtp", "--speculative-config.num_speculative_tokens=5"),
        stack="spot",
    ),
    of_resource("context-far-above-need", "the article's 131,072 as 128K", flag(DEPLOYMENT, "--max-model-len=128K")),
    of_resource(
        "image-not-checked",
        "a nightly",
        put(DEPLOYMENT, f"{CONTAINER}.image", value=f"{_image('nightly')}@{_DIGEST}"),
        stack="cud",
    ),
    of_resource(
        "cpu-starves-engines",
        "4,000 millicores",
        put(DEPLOYMENT, f"{CONTAINER}.resources.requests.cpu", value="4000m"),
        stack="cud",
    ),
    of_resource(
        "engine-ready-timeout",
        "the variable lost",
        variable(DEPLOYMENT, "VLLM_ENGINE_READY_TIMEOUT_S", None),
        stack="guest",
    ),
)

OF_RESOURCES = (
    of_program(
        "flags-vllm-refuses",
        "an option that vLLM does not have",
        result("workloads.server.vllm_args.args", lambda words: [*words, "--max-num-sequences=8192"]),
        stack="guest",
    ),
    of_resource(
        "flags-vllm-refuses", "a switch with a value", flag(DEPLOYMENT, "--enable-prefix-caching=true"), stack="cud"
    ),
    of_program(
        "image-not-pinned",
        "the tag alone",
        constant("settings.sections.server.Image.reference", property(lambda image: f"{image.repository}:{image.tag}")),
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
        constant("workloads.weights.weights.WRITER_IMAGE", "alpine/git:latest"),
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
            "workloads.server.pod.arguments",
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
        returning("settings.checks.declarations.declarations", {}),
        stack="guest",
    ),
    of_resource("needs-not-declared", "annotations removed", change(DEPLOYMENT, _silence), stack="cud"),
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

MUTANTS = (*_of_cases(), *SPELLED_OTHERWISE, *OF_RESOURCES, *ON_PURPOSE)
