"""Tests of `fleet models`: what fits where, on paper and as a document."""

from __future__ import annotations

import io

import pytest

from facts import fit, machines
from facts.models import CATALOGUE
from facts.user_error import UserError
from fleet.plan.models.report import listed, outline
from fleet.report.as_text import print_text
from fleet.report.terminal import Paper
from tests.support.rows import each_row


def needed(model: str, machine: str) -> int | None:
    return fit.gpus_needed(CATALOGUE[model].shape, machines.find(machine))


@each_row(
    ("model", "machine", "gpus"),
    [
        ("Qwen/Qwen3.5-4B", "g2-standard-12", 1),
        ("meta-llama/Llama-3.1-8B-Instruct", "g2-standard-12", 1),
        ("Qwen/Qwen3-32B", "a3-highgpu-1g", 1),
        ("Qwen/Qwen3.5-27B-FP8", "a3-highgpu-1g", 1),
        ("Qwen/Qwen3.5-27B-FP8", "g2-standard-12", None),
        ("Qwen/Qwen3.5-27B-FP8", "g2-standard-24", 2),
        ("nvidia/Qwen3.5-397B-A17B-NVFP4", "a4-highgpu-8g", 2),
        ("deepseek-ai/DeepSeek-V3.1", "a3-highgpu-8g", None),
        ("deepseek-ai/DeepSeek-V3.1", "a3-ultragpu-8g", 8),
    ],
)
def test_the_fewest_gpus_that_hold_a_model(model: str, machine: str, gpus: int | None) -> None:
    assert needed(model, machine) == gpus


def test_heads_are_split_evenly_or_the_count_is_passed_over() -> None:
    glm = CATALOGUE["zai-org/GLM-4.7-Flash"].shape
    assert glm.attention_heads % 8
    assert all(needed(glm.name, machine) != 8 for machine in machines.MACHINES)


def test_more_gpus_hold_more_requests() -> None:
    shape, gpu = CATALOGUE["openai/gpt-oss-120b"].shape, machines.B200
    assert 0 < fit.requests_at_once(shape, gpu, 1) < fit.requests_at_once(shape, gpu, 2)


def test_a_gpu_without_the_formats_arithmetic_saves_memory_alone() -> None:
    fp8, nvfp4 = CATALOGUE["Qwen/Qwen3-32B-FP8"].shape, CATALOGUE["nvidia/Qwen3.5-397B-A17B-NVFP4"].shape
    assert [fit.computes_natively(fp8, gpu) for gpu in (machines.A100_80GB, machines.L4)] == [False, True]
    assert [fit.computes_natively(nvfp4, gpu) for gpu in (machines.H200, machines.B200)] == [False, True]


def test_the_list_has_a_line_for_each_model_and_a_column_for_each_gpu() -> None:
    rows, text = listed(None), io.StringIO()
    print_text(Paper(stream=text, width=140, styled=False), outline(rows))
    lines = {line.split()[0]: line for line in text.getvalue().splitlines() if "/" in line.split("  ")[0]}
    assert lines.keys() >= CATALOGUE.keys()
    assert {machines.find(one).accelerator for one in rows[0].gpus} >= {"nvidia-l4", "nvidia-b200", "nvidia-h200-141gb"}


@pytest.mark.parametrize("width", [60, 80, 100])
def test_an_id_is_never_cut(width: int) -> None:
    text = io.StringIO()
    print_text(Paper(stream=text, width=width, styled=False), outline(listed(None)))
    assert CATALOGUE.keys() <= {*text.getvalue().split()}


def test_the_document_has_what_a_stack_file_needs() -> None:
    document = outline(listed("a3-highgpu-1g")).data["models"]
    record = next(one for one in document if one["id"] == "Qwen/Qwen3.5-27B-FP8")
    assert record["gpus"] == {"a3-highgpu-1g": 1}
    assert (record["kind"], record["cacheBytesPerToken"], record["weightFormat"]) == ("hybrid", 65_536, "fp8")
    assert record["revision"] == CATALOGUE["Qwen/Qwen3.5-27B-FP8"].revision


def test_an_unknown_machine_is_refused_with_those_there_are() -> None:
    with pytest.raises(UserError, match=r"m5.xlarge: unknown; allowed: .*a4-highgpu-8g"):
        listed("m5.xlarge")
