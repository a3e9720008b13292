"""Tests of what a question leaves of the measured runs."""

from __future__ import annotations

import re
from dataclasses import fields, replace

import pytest

from facts.machines import H200
from facts.models import QWEN3_5_397B_NVFP4
from facts.workloads import Lengths, Workload, named_workload
from fleet.plan.model import departures as module
from fleet.plan.model.departures import departures
from fleet.plan.model.deployment import Deployment, EngineShape, record_fleet

ARTICLE = named_workload("article")


def test_the_record_leaves_nothing_at_its_load_or_near_it() -> None:
    for nodes in (1, 5, 12):
        assert departures(record_fleet(nodes), ARTICLE, 2_000) == ()
    assert departures(record_fleet(1), ARTICLE, 2_030) == ()
    assert departures(record_fleet(8, routing="inference-gateway"), ARTICLE, 2_000) == ()


@pytest.mark.parametrize(
    ("deployment", "reason"),
    [
        (record_fleet(13), "nodes: 1 to 12 .* cluster-ip .* 13$"),
        (record_fleet(1, routing="inference-gateway"), "nodes: 2 to 8 .* inference-gateway .* 1$"),
        (replace(record_fleet(1), gpu=H200), "GPU: eight B200 .* 8 H200$"),
        (
            replace(record_fleet(1), model=QWEN3_5_397B_NVFP4),
            r"model: Qwen/Qwen3.5-27B-FP8 .* Qwen3.5-397B-A17B \(NVFP4\)$",
        ),
        (
            Deployment(nodes=1, engine=replace(record_fleet(1).engine, prefix_caching=False)),
            "--enable-prefix-caching: on .* off$",
        ),
        (
            Deployment(nodes=1, engine=replace(record_fleet(1).engine, max_model_len_tokens=131_072)),
            "--max-model-len: 2,560 .* 131,072$",
        ),
        (
            Deployment(nodes=1, engine=replace(record_fleet(1).engine, running_limit=135)),
            "sequences running .* 135$",
        ),
    ],
)
def test_one_difference_is_one_reason(deployment: Deployment, reason: str) -> None:
    (found,) = departures(deployment, ARTICLE, 2_000)
    assert re.match(reason, found)


def test_other_lengths_and_a_shared_prefix_are_reasons() -> None:
    work = Workload(
        input_tokens=Lengths(min=1_000, mean=1_200, max=1_500),
        output_tokens=ARTICLE.output_tokens,
        shared_prefix_tokens=512,
    )
    lengths, shared, load = departures(record_fleet(1), work, 500)
    assert re.match("prompts: 512 to 1024 .* 768.* 1,000 to 1,500.* 1,200$", lengths)
    assert re.match("prompts: .* shared ", shared)
    assert re.match("load: 2,000 .* 500$", load)


def test_every_option_of_an_engine_has_a_name_to_be_blamed_by() -> None:
    assert {field.name for field in fields(EngineShape)} == set(module._OPTIONS)
