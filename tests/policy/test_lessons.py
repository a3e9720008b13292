"""The lessons, held against rendered resources: the same table as for stack files, and what only a resource can say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from engines import Engine
from facts.engines import parse
from facts.lessons.engine_lessons import ENGINE_LESSONS
from facts.lessons.served import Served
from facts.lessons.verdict import decode
from fleet.preview.record.values import reveal
from pods import servers
from rule import Resource
from tests.policy.case import DEPLOYMENT, edited, find
from tests.policy.cases.serving import lay_over
from tests.policy.samples import DIGEST, ENVIRONMENT, found, only, server
from tests.support.lessons import CASES, ESTIMATE, READY, Case
from tests.support.rows import each_row

L4 = {"cloud.google.com/gke-accelerator": "nvidia-l4"}
GB200 = {"cloud.google.com/gke-accelerator": "nvidia-gb200"}
NEW = {"image": f"vllm/vllm-openai:v0.33.0{DIGEST}"}
BF16 = "Qwen/Qwen3.5-35B-A3B"
LARGE = "/weights/nvidia/Qwen3.5-397B-A17B-NVFP4"
MTP5 = '--speculative-config={"method":"mtp","num_speculative_tokens":5}'
CACHING = ("--enable-prefix-caching", "--mamba-cache-mode=align", "--mamba-block-size=8")


def rendered(case: Case) -> Resource:
    """The stack's servers, as the program makes them, with the case's options."""
    resources = {one.name: one for one in edited(case.stack, lay_over(case)).resources}
    one = resources[find(resources, DEPLOYMENT)]
    return Resource(type=one.type, props=reveal(dict(one.inputs)), name="server", urn=one.urn)


def broken(subject: Served) -> set[str]:
    return {lesson.name for lesson in ENGINE_LESSONS for _ in lesson.judge(subject, lesson.defaults)}


@each_row("case", CASES)
def test_a_rendered_server_breaks_what_its_stack_file_breaks(case: Case) -> None:
    (pod,) = servers(rendered(case))
    assert broken(Engine(pod)) == broken(case.declared)


@each_row("case", {case.lesson: case for case in CASES if case.broken}.values())
def test_a_verdict_says_where_why_and_what_to_write_in_flags(case: Case) -> None:
    text = only(case.lesson, rendered(case))
    finding = decode(text, policy=case.lesson, subject="", severity="error")
    assert finding.found.startswith("Deployment server, container vllm: ")
    assert finding.allowed
    assert finding.why
    assert "{" not in finding.found + finding.why
    written = [word for word in finding.write.replace(",", " ").split() if word.startswith("--") and "=" in word]
    assert parse(written).positional == ()


@each_row(
    ("rule", "said", "limits", "is_broken"),
    [
        # Spelled otherwise.
        ("tp8-on-one-gpu-model", {"flags": ("-tp", "8"), "without": ("data-parallel-size",)}, {}, True),
        ("context-far-above-need", {"flags": ("--max-model-len=16k",)}, {}, True),
        ("mtp-above-one", {"flags": (MTP5.replace("5}", "2}"),), "kind": "StatefulSet"}, {}, True),
        # A team's own figures.
        ("tp8-on-one-gpu-model", {"args": ("org/own-13b", "-tp=2")}, {}, False),
        ("tp8-on-one-gpu-model", {"args": ("org/own-13b", "-tp=2")}, {"weightsGb": {"own-13b": 26.0}}, True),
        ("tp8-on-one-gpu-model", {"args": ("org/own-13b", "-tp=2")}, {"weightsGb": {"own-13b": 300.0}}, False),
        ("mtp-above-one", {"flags": (MTP5,)}, {"mostTokens": 5.0}, False),
        ("cudagraph-estimate-unset", {"flags": ("--gpu-memory-utilization=0.9",), "env": {}}, {"fromUtilisation": 0.9}, True),
        ("context-far-above-need", {"flags": ("--max-model-len=8192",)}, {"slack": 6.0}, False),
        ("context-far-above-need", {"flags": ("--max-model-len=8192",)}, {"slack": 5.0}, True),
        ("cpu-starves-engines", {"cpu": "18"}, {"coresPerEngine": 2.0}, True),
        ("cpu-starves-engines", {"cpu": "9"}, {"coresPerEngine": 0.5, "coresPerApiServer": 0.5}, False),
        # Other models and machines, of which nothing was measured.
        ("tp8-on-one-gpu-model", {"args": (LARGE, "-tp=8")}, {}, False),
        ("tp8-on-one-gpu-model", {"flags": ("-tp=8",), "selector": L4}, {}, False),
        ("tp8-on-one-gpu-model", {"flags": ("-tp=8", "--gpu-memory-utilization=1.5")}, {}, False),
        ("mtp-above-one", {"args": ("deepseek-ai/DeepSeek-V3", MTP5)}, {}, False),
        ("deepgemm-accuracy", {"image": f"vllm/vllm-openai:v0.18.0{DIGEST}", "selector": {}}, {}, False),
        ("deepgemm-accuracy", {"image": f"vllm/vllm-openai:v0.18.0{DIGEST}", "args": ("meta-llama/Llama",)}, {}, False),
        ("hybrid-prefix-cache-flags", {"args": ("meta-llama/Llama-3.1-8B",)}, {}, False),
        ("prefix-cache-never-hits", {"args": ("Qwen/Qwen3.5-9B", *CACHING, "--max-model-len=512")}, {}, True),
        ("prefix-cache-never-hits", {"args": ("some/model", *CACHING, "--max-model-len=512")}, {}, False),
        ("prefix-cache-never-hits", {"flags": (*CACHING, "--max-model-len=auto")}, {}, False),
        # Experts: the model's name or the flags say that there are some, and in which format.
        ("experts-write-into-image", {"args": (LARGE, "-tp=8", "-ep")}, {}, True),
        ("experts-write-into-image", {"args": (LARGE, "-tp=8")}, {}, True),
        ("experts-write-into-image", {"args": ("Qwen/Qwen3.5-35B-A3B-FP8",)}, {}, True),
        ("experts-write-into-image", {"args": (LARGE, "-tp=8", "-ep", "--moe-backend=flashinfer-cutlass")}, {}, False),
        ("experts-write-into-image", {"args": (LARGE, "-tp=8", "-ep"), "env": {"VLLM_USE_FLASHINFER_MOE_FP4": "0"}}, {}, False),
        ("experts-write-into-image", {"args": ("Qwen/Qwen3.5-397B-A17B", "-tp=8", "-ep")}, {}, False),
        ("experts-write-into-image", {"args": (LARGE, "-tp=8", "-ep"), "selector": L4}, {}, False),
        ("experts-write-into-image", {"args": ("Qwen/Qwen3.5-35B-A3B-FP8",), "selector": GB200}, {}, True),
        # Of BF16 and MXFP4, 0.18.1 chooses by variables; 0.33.0 by --moe-backend alone.
        ("experts-write-into-image", {"args": (BF16,)}, {}, False),
        ("experts-write-into-image", {"args": (BF16,), "env": {"VLLM_USE_FLASHINFER_MOE_FP16": "1"}}, {}, True),
        ("experts-write-into-image", {"args": (BF16,), **NEW}, {}, True),
        ("experts-write-into-image", {"args": (BF16,), **NEW, "env": {"VLLM_USE_FLASHINFER_MOE_FP16": "0"}}, {}, True),
        ("experts-write-into-image", {"args": (BF16, "--moe-backend=triton"), **NEW}, {}, False),
        ("experts-write-into-image", {"args": (BF16,), **NEW, "selector": L4}, {}, False),
        ("experts-write-into-image", {"args": ("google/gemma-4-26B-A4B-it",), **NEW}, {}, False),
        ("experts-write-into-image", {"args": ("openai/gpt-oss-120b",)}, {}, True),
        ("experts-write-into-image", {"args": ("openai/gpt-oss-120b", "--moe-backend=triton")}, {}, True),
        ("experts-write-into-image",
         {"args": ("openai/gpt-oss-120b",), "env": {"VLLM_USE_FLASHINFER_MOE_MXFP4_MXFP8_CUTLASS": "1"}}, {}, False),
        ("experts-write-into-image", {"args": ("openai/gpt-oss-120b",), **NEW}, {}, True),
        ("experts-write-into-image", {"args": ("openai/gpt-oss-120b", "--moe-backend=triton"), **NEW}, {}, False),
        ("experts-write-into-image", {"args": ("some/own-moe-A3B-MXFP4", "--moe-backend=triton"), **NEW}, {}, False),
        ("experts-write-into-image", {"args": ("some/own-moe-A3B-MXFP4",), **NEW}, {}, True),
        ("experts-write-into-image", {"args": (LARGE, "-tp=8"), **NEW, "env": {"VLLM_USE_FLASHINFER_MOE_FP4": "0"}}, {}, True),
        ("experts-write-into-image",
         {"args": ("Qwen/Qwen3.5-35B-A3B-FP8",), **NEW, "env": {"VLLM_USE_FLASHINFER_MOE_FP8": "0"}}, {}, True),
        ("experts-write-into-image", {"args": (LARGE, "-tp=8", "--moe-backend=flashinfer_cutlass"), **NEW}, {}, False),
        # Nothing declared, or nothing that is a number.
        ("sequences-below-load", {"flags": ("--max-num-seqs=1",), "annotations": {}}, {}, False),
        ("context-below-need", {"flags": ("--max-model-len=1",), "annotations": {}}, {}, False),
        ("context-far-above-need", {"annotations": {"vllm-fleet.dev/context-tokens": "long"}}, {}, False),
        ("cpu-starves-engines", {"cpu": "17500m"}, {}, True),
        ("cpu-starves-engines", {"cpu": "1", "gpus": 0}, {}, False),
    ],
)  # fmt: skip
def test_what_only_a_resource_can_say(
    rule: str, said: dict[str, Any], limits: Mapping[str, Any], is_broken: bool
) -> None:
    subject = server(*said.get("flags", ()), **{name: value for name, value in said.items() if name != "flags"})
    assert bool(found(rule, subject, **limits)) is is_broken


@each_row(("decode", "is_broken"), [(0, False), (6, True), (7, False)])
def test_the_load_is_held_against_the_engines_of_decode(decode: int, is_broken: bool) -> None:
    subject = server("--max-num-seqs=300")
    router = {"name": "vllm-router", "command": ["vllm-router", *("--decode", "http://127.0.0.1:8003") * decode]}
    subject.props["spec"]["template"]["spec"]["containers"].append(router)
    assert bool(found("sequences-below-load", subject)) is is_broken


def test_a_server_that_asks_for_no_cpu_is_found() -> None:
    subject = server()
    for part in subject.props["spec"]["template"]["spec"]["containers"][0]["resources"].values():
        del part["cpu"]
    assert only("cpu-starves-engines", subject)


def test_one_slip_is_told_once() -> None:
    crowded = server("--gpu-memory-utilization=0.95", env={ESTIMATE: "0"})
    assert found("cudagraph-estimate-unset", crowded) == []
    assert only("utilisation-with-mtp", crowded)


@pytest.mark.parametrize(
    ("probe", "early"),
    [
        ({"periodSeconds": 10, "failureThreshold": 60}, False),
        ({"periodSeconds": 10, "failureThreshold": 61}, True),
        ({"failureThreshold": 60}, False),
        ({"failureThreshold": 60, "initialDelaySeconds": 1}, True),
        (None, False),
    ],
)
def test_vllms_own_patience_is_held_against_the_start_up_probe(probe: dict[str, int] | None, early: bool) -> None:
    env = {name: value for name, value in ENVIRONMENT.items() if name != READY}
    assert bool(found("engine-ready-timeout", server(env=env, container={"startupProbe": probe}))) is early


def test_a_time_out_from_elsewhere_is_not_known() -> None:
    elsewhere = [{"name": READY, "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}}]
    assert found("engine-ready-timeout", server(container={"env": elsewhere})) == []
