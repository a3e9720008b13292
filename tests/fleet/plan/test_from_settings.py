"""Settings as the planner sees them."""

from __future__ import annotations

from dataclasses import replace

from facts.machines import H100
from fleet.plan.from_settings import deployment_of, facts_of_stack
from fleet.plan.model.deployment import record_fleet
from fleet.plan.question.profiles import profile_facts
from settings.derived.figures import serving_shape
from settings.profiles import NAMES
from tests.support.rows import each_row
from tests.support.settings import make_settings


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


def test_an_override_ends_what_a_profile_reproduces() -> None:
    changed = facts_of_stack(make_settings(server={"engine": {"maxNumSeqs": 300}}))
    assert changed.reproduces is None
    assert changed.shape.max_num_seqs == 300
    assert profile_facts("record").reproduces == "phases.mtp1-092"


def test_a_stack_becomes_the_fleet_that_the_article_measured() -> None:
    assert deployment_of(make_settings()) == record_fleet(12)
    gateway = make_settings(server={"replicas": 8}, gateway={"enabled": True})
    assert deployment_of(gateway) == record_fleet(8, routing="inference-gateway")


def test_a_stack_has_its_own_machine_and_api_servers() -> None:
    small = make_settings(
        machine="a3-highgpu-2g",
        capacity={"mode": "spot"},
        server={"engine": {"dataParallelSize": 2, "entrypoint": "module", "attentionBackend": None}},
    )
    fleet = deployment_of(small)
    assert (fleet.gpu, fleet.gpus_per_node, fleet.engine.http_processes) == (H100, 2, 1)
