"""What KEDA's webhook refuses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fleet.preview.offline import open_stack
from lab.cloud.keda.admission import refusal, warnings
from lab.cloud.keda.triggers import trigger
from lab.control_plane.api import Manifest
from settings.derived.scaling import scaling_policy
from tests.lab.cloud.keda.played import QUERY, scaled_object
from workloads.autoscaling import cron_triggers, load_trigger, scaled_object_spec

ROOT = Path(__file__).parents[4]


def autoscaler(owner: str = "") -> Manifest:
    owners = [{"kind": "ScaledObject", "name": owner}] if owner else []
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "fleet"}
    return {"metadata": {"name": "hpa", "ownerReferences": owners}, "spec": {"scaleTargetRef": target}}


def test_one_that_stands_alone_is_taken() -> None:
    assert refusal(scaled_object(), [scaled_object()], [autoscaler("fleet")]) == ""
    assert warnings(scaled_object()) == []


@pytest.mark.parametrize(
    ("one", "hpas", "said"),
    [
        (scaled_object(minReplicaCount=9), [], "MinReplicaCount=9 must be less"),
        (scaled_object(fallback={"failureThreshold": -1, "replicas": 1}), [], "FailureThreshold=-1"),
        (scaled_object(), [autoscaler()], "already managed by the hpa 'hpa'"),
        (scaled_object(), [autoscaler("second")], "already managed by the hpa 'hpa'"),
    ],
)
def test_bounds_fallbacks_and_second_owners_are_refused(one: Manifest, hpas: list[Manifest], said: str) -> None:
    assert said in refusal(one, [], hpas)


def test_what_has_no_effect_above_zero_is_warned_of() -> None:
    assert len(warnings(scaled_object(pollingInterval=30, cooldownPeriod=300))) == 2
    assert warnings(scaled_object(minReplicaCount=0, pollingInterval=30, cooldownPeriod=300)) == []


@pytest.mark.parametrize("least", [0, 2])
def test_what_the_program_writes_is_taken_without_a_warning(least: int) -> None:
    policy = scaling_policy(open_stack(ROOT, "prod").settings)
    assert policy is not None
    policy = replace(policy, min=least)
    spec = scaled_object_spec("fleet", policy, [load_trigger(policy, "", QUERY), *cron_triggers(policy)])
    one = {**scaled_object(), "spec": spec}
    assert (refusal(one, [], []), warnings(one)) == ("", [])
    assert [trigger(index, found, "fleet").target for index, found in enumerate(spec["triggers"])] == [
        policy.target_in_flight,
        1,
    ]
