from __future__ import annotations

import pytest

from fleet.preview.compare.changes import PropertyChange
from fleet.preview.compare.engine_words import engine_words
from tests.fleet.preview.sample_changes import change, edited, sample_changes

ARGS = "spec.template.spec.containers[vllm].args"
ENV = "spec.template.spec.containers[vllm].env"


def words(*edits: PropertyChange, kind: str = "kubernetes:apps/v1:Deployment") -> str:
    resources = (change(kind, "server", "", "update", properties=edits),)
    return ", ".join(engine_words(sample_changes(resources=resources, outputs=())))


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (edited("spec.replicas", 12, 16), "replicas 12 → 16"),
        (
            edited(f"{ARGS}[--max-model-len]", "--max-model-len=2560", "--max-model-len=4096"),
            "max-model-len 2560 → 4096",
        ),
        (edited(f"{ARGS}[--max-num-seqs]", None, "--max-num-seqs=512", "added"), "max-num-seqs 512 added"),
        (edited(f"{ARGS}[--mamba-block-size]", "--mamba-block-size=8", None, "removed"), "mamba-block-size removed"),
        (
            edited(f"{ENV}[VLLM_USE_DEEP_GEMM]", None, {"name": "VLLM_USE_DEEP_GEMM", "value": "0"}, "added"),
            "VLLM_USE_DEEP_GEMM 0 added",
        ),
        (edited(f"{ENV}[A].value", "1", "2"), "A 1 → 2"),
        (edited(f"{ENV}[TOKEN].value", "[secret]", "[secret]", secret=True), "TOKEN (a secret)"),
        (
            edited("spec.template.spec.containers[vllm].image", "r:5000/vllm:v0.18.0@sha256:a", "r:5000/vllm:v0.19.0"),
            "vLLM 0.18.0 → 0.19.0",
        ),
        (
            edited("spec.template.spec.containers[vllm].image", "vllm:v0.18.1@sha256:a", "vllm:v0.18.1@sha256:b"),
            "another image of vLLM 0.18.1",
        ),
        (
            edited("spec.template.spec.containers[vllm].image", "a.dev/o/vllm:v0.18.1", "b.dev/p/o/vllm:v0.18.1"),
            "vLLM 0.18.1 from another registry",
        ),
        (
            edited('spec.template.metadata.annotations["vllm-fleet.dev/model-revision"]', "a" * 40, "b" * 40),
            "model revision aaaaaaaaaaaa → bbbbbbbbbbbb",
        ),
        (edited("metadata.labels.team", "a", "b"), ""),
    ],
)
def test_a_change_of_a_server_is_said_in_the_engines_words(edit: PropertyChange, said: str) -> None:
    assert words(edit) == said


def test_an_option_and_its_opposite_are_told_once() -> None:
    off = edited(f"{ARGS}[--no-enable-prefix-caching]", None, "--no-enable-prefix-caching", "added")
    on = edited(f"{ARGS}[--enable-prefix-caching]", "--enable-prefix-caching", None, "removed")
    assert words(off, on) == "prefix caching off"


def test_another_region_is_said_and_a_new_stacks_is_not() -> None:
    moved, new = edited("region", "a", "b"), edited("region", None, "b", "added")
    said = [engine_words(sample_changes(resources=(), outputs=(one,))) for one in (moved, new)]
    assert said == [("region a → b",), ()]


def test_other_workloads_are_none_of_the_engines() -> None:
    assert words(edited("spec.replicas", 1, 2), kind="kubernetes:apps/v1:StatefulSet") == ""
