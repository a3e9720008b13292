"""Settings as the planner sees them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from facts.machines import H100, MACHINES
from fleet.plan.from_settings import deployment_of, facts_of_stack
from fleet.plan.model.deployment import record_fleet
from fleet.plan.question.profiles import profile_facts
from settings.checks.declared_server import DeclaredServer
from settings.derived.figures import serving_shape
from settings.profiles import NAMES
from tests.support.rows import each_row
from tests.support.settings import make_settings

B200, H100_NODE = {}, {"machine": "a3-highgpu-8g"}
BF16 = {"model": {"id": "Qwen/Qwen3.5-27B"}}


@each_row(
    ("machine", "profile", "engine", "slow"),
    [
        (B200, "record", {}, None),  # 0.18.0, with DeepGEMM
        (B200, "record", {"useDeepGemm": False}, "unaligned-fp8-rows-b200"),
        (B200, "record", {"version": "0.18.1"}, "unaligned-fp8-rows-b200"),
        # It stays off for this model, whatever the variable says.
        (B200, "tuned", {"version": "0.18.1", "useDeepGemm": True}, "unaligned-fp8-rows-b200"),
        (B200, "tuned", {}, None),
        (B200, "tuned", {"useDeepGemm": False}, None),
        (B200 | BF16, "record", {"version": "0.18.1"}, None),
        (H100_NODE, "tuned", {}, None),
        (H100_NODE, "tuned", {"version": "0.18.1", "useDeepGemm": False}, None),
        (H100_NODE, "tuned", {"useDeepGemm": False}, "unaligned-fp8-rows-hopper"),
        (H100_NODE, "tuned", {"extraArgs": ["--linear-backend=cutlass"]}, "unaligned-fp8-rows-hopper"),
    ],
)
def test_the_planner_sees_a_slow_release_where_the_lesson_does(
    machine: dict[str, Any], profile: str, engine: dict[str, Any], slow: str | None
) -> None:
    settings = make_settings(**machine, server={"replicas": 1, "profile": profile, "engine": engine})
    planned = facts_of_stack(settings).slow_product
    assert planned is DeclaredServer(settings).slow_product
    assert deployment_of(settings).slow_product is planned
    assert (planned and planned.id) == slow


@each_row("name", NAMES)
def test_no_profile_runs_a_slow_release(name: str) -> None:
    for machine in MACHINES.values():
        assert replace(profile_facts(name), gpu=machine.gpu).slow_product is None


@each_row("name", NAMES)
def test_a_stack_with_a_plain_profile_is_that_profile(name: str) -> None:
    expected, own = profile_facts(name), {}
    if expected.weights_gb is None:  # no revision is published with the profile: a stack names its own
        own = {"model": {"id": expected.model, "revision": "0" * 40, "sizeGb": 20}}
        expected = replace(expected, weights_gb=20)
    assert facts_of_stack(make_settings(server={"profile": name}, **own)) == expected


def test_the_model_is_asked_about_the_same_flags_as_the_published_figures() -> None:
    settings = make_settings(server={"replicas": 2, "profile": "tuned", "engine": {"maxNumSeqs": 200}})
    facts, shape = facts_of_stack(settings), serving_shape(settings)
    assert facts.flags == shape.flags
    assert facts.env == shape.env
    assert facts.shape.max_num_seqs == 200


def test_a_stack_becomes_the_fleet_that_the_article_measured() -> None:
    assert deployment_of(make_settings()) == record_fleet(12)
    gateway = make_settings(server={"replicas": 8}, gateway={"enabled": True})
    assert deployment_of(gateway) == record_fleet(8, routing="inference-gateway")


def test_a_stack_has_its_own_machine_and_api_servers() -> None:
    small = make_settings(
        machine="a3-highgpu-2g",
        capacity={"mode": "spot"},
        server={"engine": {"dataParallelSize": 2, "apiServerCount": 1, "attentionBackend": None}},
    )
    fleet = deployment_of(small)
    assert (fleet.gpu, fleet.gpus_per_node, fleet.engine.http_processes) == (H100, 2, 1)
