"""What KEDA's webhook refuses."""

from __future__ import annotations

import pytest

from fleet.rehearse.api import Manifest
from fleet.rehearse.keda.admission import refusal, warnings
from tests.fleet.rehearse.keda.played import scaled_object


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
