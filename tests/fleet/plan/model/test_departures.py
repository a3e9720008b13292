"""Tests of what a question leaves of the measured runs."""

from __future__ import annotations

import re
from dataclasses import fields, replace

import pytest

from facts.machines import H200
from facts.models import CATALOGUE
from facts.workloads import Lengths, Workload, named_workload
from fleet.plan.from_settings import deployment_of
from fleet.plan.model import departures as module
from fleet.plan.model.departures import departures
from fleet.plan.model.deployment import Deployment, EngineShape, record_fleet
from fleet.plan.model.measured import PHASES, TP8_IN_FLIGHT
from tests.support.phases import PHASES as SETTINGS
from tests.support.rows import each_row
from tests.support.settings import make_settings

ARTICLE = named_workload("article")


def test_the_record_leaves_nothing_at_its_load_or_near_it() -> None:
    for nodes in (1, 5, 12):
        assert departures(record_fleet(nodes), ARTICLE, 2_000) == ()
    assert departures(record_fleet(1), ARTICLE, 2_030) == ()
    assert departures(record_fleet(8, routing="inference-gateway"), ARTICLE, 2_000) == ()


@each_row(
    ("deployment", "reason"),
    [
        (record_fleet(13), "nodes: 13 .*cluster-ip.* 1 to 12$"),
        (record_fleet(1, routing="inference-gateway"), "nodes: 1 .*inference-gateway.* 2 to 8$"),
        (replace(record_fleet(1), gpu=H200), "GPU: 8 H200 .* 8 B200$"),
        (
            replace(record_fleet(1), model=CATALOGUE["nvidia/Qwen3.5-397B-A17B-NVFP4"].shape),
            r"model: nvidia/Qwen3.5-397B-A17B-NVFP4; .* Qwen/Qwen3.5-27B-FP8$",
        ),
        (
            Deployment(nodes=1, engine=replace(record_fleet(1).engine, prefix_caching=False)),
            "--enable-prefix-caching: off; .* on$",
        ),
        (
            Deployment(nodes=1, engine=replace(record_fleet(1).engine, max_model_len_tokens=8_192)),
            "--max-model-len: 8,192; .* 2,560$",
        ),
        (
            Deployment(nodes=1, engine=replace(record_fleet(1).engine, max_model_len_tokens=131_072)),
            "--max-model-len: 131,072; .* 2,560$",
        ),
        (replace(PHASES["phases.dp8"], nodes=2), "nodes: 2 .* 1$"),
        (
            Deployment(nodes=1, engine=replace(PHASES["phases.dp8"].engine, gpu_memory_utilization=0.91)),
            "--gpu-memory-utilization: 0.91; .* 0.9$",
        ),
    ],
)
def test_one_difference_is_one_reason(deployment: Deployment, reason: str) -> None:
    (found,) = departures(deployment, ARTICLE, 2_000)
    assert re.match(reason, found)


@pytest.mark.parametrize("figure", [*PHASES, "phases.mtp1-095"])
def test_a_phase_leaves_nothing_at_its_own_load(figure: str) -> None:
    stack = make_settings(server={"replicas": 1, "engine": SETTINGS[figure]})
    in_flight = TP8_IN_FLIGHT if figure == "phases.tp8" else 2_000
    assert departures(deployment_of(stack), ARTICLE, in_flight) == ()


def test_other_lengths_and_a_shared_prefix_are_reasons() -> None:
    work = Workload(
        input_tokens=Lengths(min=1_000, mean=1_200, max=1_500),
        output_tokens=ARTICLE.output_tokens,
        shared_prefix_tokens=512,
    )
    lengths, shared, load = departures(record_fleet(1), work, 500)
    assert re.match("prompts: 1,000 to 1,500 .*1,200.* 512 to 1,024 .*768", lengths)
    assert re.match("prompts: shared ", shared)
    assert re.match("load: 500 .* 2,000$", load)


def test_every_option_of_an_engine_has_a_name_to_be_blamed_by() -> None:
    assert {field.name for field in fields(EngineShape)} == set(module._OPTIONS)
