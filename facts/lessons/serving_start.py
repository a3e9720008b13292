"""Rules for the start of a vLLM server: image, CPU, kernels, timeouts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import ceil
from typing import Final

from facts import experts
from facts.engines import CORES_PER_API_SERVER, CORES_PER_ENGINE, DEFAULT_READY_SECONDS, mistakes
from facts.lessons.lesson import Breach, Lesson, Limits, Setting
from facts.lessons.served import READY_TIMEOUT, Served
from facts.model_config import EXPERTS
from facts.models import part_for
from facts.releases import CURRENT, CUTLASS, DEFECTS, INSTEAD, USE_DEEP_GEMM

_SLOW: Final = next(defect for defect in DEFECTS if defect.id == "unaligned-fp8-rows-b200")


def _accuracy(server: Served, _: Limits) -> Iterator[Breach]:
    if (
        not server.is_of_qwen35
        or not server.has_fp8_weights
        or not server.is_on_b200
        or server.env(USE_DEEP_GEMM) == "0"
    ):
        return
    if server.release is not None and server.release.number < (0, 18, 1):
        yield Breach(
            option="image-tag",
            value=server.tag,
            allowed=f"v{CURRENT}, or v0.18.0 with {{{USE_DEEP_GEMM}=false}}, which is slow",
            because=f"{{{USE_DEEP_GEMM}}} is not disabled",
        )


def _slow_product(server: Served, _: Limits) -> Iterator[Breach]:
    release, gpu, defect = server.release, server.gpu, server.slow_product
    if release is None or gpu is None or defect is None:
        return
    by_backend = server.flags.text("linear-backend") == CUTLASS
    wanted = server.wants_deep_gemm
    low, high = defect.throughput_kept
    cause = "linear-backend" if by_backend else USE_DEEP_GEMM
    mended = "" if defect.fixed is None else f"v{'.'.join(map(str, defect.fixed))} or later"
    # With Qwen3.5 on B200, DeepGEMM is no way out: it reduces accuracy.
    by_choice = wanted is False and not (server.is_on_b200 and server.is_of_qwen35)
    yield Breach(
        option=cause if by_choice else "image-tag",
        value=server.flags.text(cause) if by_backend and by_choice else False if by_choice else server.tag,
        allowed=f"left out{f', or {mended}' if mended else ''}" if by_choice else mended,
        because=f"vLLM {release.version} runs the products of {server.model} on {gpu.name} without DeepGEMM",
        why=f"{defect.what}; {low:.0%} to {high:.0%} of the throughput remains (derived). {defect.source}",
        changes={cause: None} if by_choice else {},
    )


def _for_another_architecture(server: Served, _: Limits) -> Iterator[Breach]:
    parts = server.parts
    if parts is None:
        return
    for option, value in server.flags.options.items():
        part = part_for(option, value)
        # vLLM itself refuses experts of a dense model.
        if part is not None and part != EXPERTS and part not in parts:
            yield Breach(
                option=option,
                value=value["method"] if isinstance(value, Mapping) else value,
                allowed="left out",
                because=f"it is for models with {part}; {server.model} has none",
                changes={option: None},
            )


def _experts_write_into_the_image(server: Served, _: Limits) -> Iterator[Breach]:
    if not experts.has_trtllm(server.gpu):
        return
    release, form = server.read_as, server.expert_format
    chosen = (server.flags.text("moe-backend") or "auto").lower().replace("-", "_")
    by_itself = experts.chosen_by_vllm(release, form, server.env)
    because = f"vLLM {release.version} chooses {experts.TRTLLM} for {server.model}"
    other = experts.WITHOUT_TRTLLM.get(form, "flashinfer_cutlass")
    if by_itself and experts.ignores_backend(release, form):
        yield Breach(
            option="image-tag",
            value=server.tag,
            allowed=f"v{CURRENT} with {{moe-backend={other}}}",
            because=f"{because}, whatever {{moe-backend}} says",
        )
    elif chosen == experts.TRTLLM or (chosen == "auto" and by_itself):
        yield Breach(
            option="moe-backend",
            value=None if chosen == "auto" else chosen,
            allowed=other,
            because=because if chosen == "auto" else "",
            changes={"moe-backend": other},
        )


def _of_another_release(server: Served, _: Limits) -> Iterator[Breach]:
    release = server.release
    if release is None or not release.known:
        return
    for wrong in mistakes(server.flags, release):
        yield Breach(
            option=wrong.option,
            value=wrong.value,
            allowed=wrong.allowed,
            because=wrong.because,
            why=f"the server exits at startup; {INSTEAD.get(wrong.option, 'correct or remove the option')}",
            changes={wrong.option: None},
        )


def _starved(server: Served, limits: Limits) -> Iterator[Breach]:
    if not server.gpus:
        return
    cores, engines, api_servers = server.cores, server.flags.engines, server.flags.api_servers
    needed = ceil(engines * limits["coresPerEngine"] + api_servers * limits["coresPerApiServer"] + 1)
    if cores is None or cores < needed:
        yield Breach(
            option="cpu",
            value=cores,
            allowed=f"{needed} or more",
            because=f"{engines} engine(s) and {api_servers} API server(s) need {needed}",
            changes={"cpu": needed},
        )


def _ready_timeout(server: Served, _: Limits) -> Iterator[Breach]:
    budget = server.startup_seconds
    if budget is None:
        return
    seconds = server.ready_seconds
    if seconds is not None and seconds < budget:
        yield Breach(
            option=READY_TIMEOUT,
            value=int(seconds),
            allowed=f"{budget:g} or more",
            because=f"{{start-up}} allows {budget:g} seconds"
            + (", and this is vLLM's default" if server.env(READY_TIMEOUT) is None else ""),
            changes={READY_TIMEOUT: int(budget)},
        )


LESSONS: Final[tuple[Lesson[Served], ...]] = (
    Lesson(
        name="deepgemm-accuracy",
        statement="Qwen3.5 on B200 does not use DeepGEMM.",
        evidence="0.18.0 runs Qwen3.5 on B200 with DeepGEMM, whose scales reduce accuracy; 0.18.1 and later run "
        "CUTLASS instead (source of both releases), which is slow until 0.31",
        level_reason="every response is affected without any error",
        fix=f"{{image-tag=v{CURRENT}}} and its digest; {{{USE_DEEP_GEMM}=false}} is as accurate and slow",
        level="mandatory",
        severity="critical",
        judge=_accuracy,
    ),
    Lesson(
        name="fp8-product-slow",
        statement="Block-wise FP8 products run with a kernel that is fast for every number of rows.",
        evidence=f"{_SLOW.what} ({_SLOW.source}). 0.18.1 and later switch DeepGEMM off for Qwen3.5 on B200",
        level_reason="the server answers correctly, at a fraction of its speed",
        fix=f"{{image-tag=v{CURRENT}}} and its digest",
        level="advisory",
        severity="high",
        judge=_slow_product,
    ),
    Lesson(
        name="flags-of-another-architecture",
        statement="A server's options match its model's architecture.",
        evidence="vLLM raises 'Unsupported speculative method' at startup for a model without a draft layer and method mtp "
        "(vllm/config/speculative.py, read); other options have no effect, and a parser of another format leaves tool calls in the text",
        level_reason="the server does not start, or ignores the option",
        fix="remove the option",
        level="mandatory",
        severity="high",
        judge=_for_another_architecture,
    ),
    Lesson(
        name="experts-write-into-image",
        statement="The experts' kernels start without root, with a read-only root file system and without internet access.",
        evidence="FlashInfer downloads the headers of its TRT-LLM experts from an NVIDIA server into its package folder: "
        "'Read-only file system: .../flashinfer_cubin/cubins/flashinfer' (run with 0.6.6, vLLM 0.18.1's; no variable moves that folder; "
        "flashinfer-ai/flashinfer#2834 is Qwen3.5-397B-A17B-FP8)",
        level_reason="the server never starts, and its GPUs are billed",
        fix="{moe-backend=flashinfer_cutlass} for NVFP4, {moe-backend=triton} for BF16, FP8 and MXFP4",
        level="mandatory",
        severity="high",
        judge=_experts_write_into_the_image,
    ),
    Lesson(
        name="flags-vllm-refuses",
        statement="Every option is valid in this vLLM release.",
        evidence="vLLM exits with code 2 for an unknown option, a switch with a value, and an invalid choice (the parsers of 0.18.1 and "
        "0.33.0, run)",
        level_reason="no replica becomes ready",
        fix="correct or remove the option; switches are --x and --no-x",
        level="mandatory",
        severity="high",
        judge=_of_another_release,
    ),
    Lesson(
        name="cpu-starves-engines",
        statement="Engines and API servers request the cores they use.",
        evidence="one engine uses 1.1 to 1.3 cores (measured on an H200); without enough CPU its GPU waits",
        level_reason="cores cost a hundredth of the GPUs that wait for them",
        fix="request more CPU; the default depends on the machine type, up to 20 vCPU per GPU",
        level="mandatory",
        severity="medium",
        settings=(
            Setting(
                name="coresPerEngine",
                type="number",
                unit="cores",
                default=CORES_PER_ENGINE,
                why="cores that one engine uses",
            ),
            Setting(
                name="coresPerApiServer",
                type="number",
                unit="cores",
                default=CORES_PER_API_SERVER,
                why="cores that one API server uses",
            ),
        ),
        judge=_starved,
    ),
    Lesson(
        name="engine-ready-timeout",
        statement="The API servers wait for their engines as long as the startup probe does.",
        evidence="the API servers exit if the engines are still loading after this time; vLLM's default of "
        f"{DEFAULT_READY_SECONDS} s is as long as the article's whole startup",
        level_reason="a slow start becomes a crash loop",
        fix=f"set {{{READY_TIMEOUT}}} to the time that {{start-up}} allows",
        level="mandatory",
        severity="medium",
        judge=_ready_timeout,
    ),
)
