"""The plan's arithmetic of an HPA, held against the controller of kube-controller-manager."""

from __future__ import annotations

import copy
import itertools
import time
from typing import Any

import pytest

from fleet.plan.day.hpa import Behavior, Hpa, Metric, Rate
from lab.cloud.keda.endpoints import NAMESPACE, endpoints
from lab.cloud.keda.operator import AUTOSCALER
from lab.cloud.keda.triggers import TriggerError
from lab.control_plane.api import DEPLOYMENT, Manifest
from lab.control_plane.build import Binaries
from lab.control_plane.cluster import ControlPlane

pytestmark = pytest.mark.slow
TARGET, LEAST, MOST = 100, 1, 9
SCRIPT: list[tuple[float, float | None]] = [
    (3, 150),
    (4, 1080),
    (2, None),
    (3, 620),
    (6, 240),
    (3, 410),
    (9, 60),
    (4, 108),
    (3, 111),
]
"""Seconds, and what the metric says; None is an answer with an error."""
UP = Behavior(
    window_seconds=1,
    rates=(Rate(type="Percent", value=50, period_seconds=2), Rate(type="Pods", value=2, period_seconds=2)),
)
DOWN = Behavior(window_seconds=4, rates=(Rate(type="Pods", value=1, period_seconds=2),))


def test_the_plan_and_the_real_controller_ask_for_the_same_numbers(
    binaries: Binaries, quick_stages: list[Manifest]
) -> None:
    asked: list[tuple[float, float | None, int]] = []
    began = time.monotonic()

    with ControlPlane(binaries, stages=quick_stages, autoscaler_wall_seconds=0.25) as plane:

        def metric(_namespace: str, _owner: str, _name: str) -> float:
            found = plane.api.get(DEPLOYMENT, "fleet", "default")
            assert found is not None
            value = value_at(time.monotonic() - began)
            asked.append((time.monotonic(), value, found["spec"]["replicas"]))
            if value is None:
                raise TriggerError("gone")
            return value

        with endpoints(metric, lambda _: ("", [])) as manifests:
            plane.api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
            for manifest in (*manifests, deployment(), autoscaler()):
                plane.api.apply(manifest, force=True)
            deadline = time.monotonic() + 60
            while not asked:
                assert time.monotonic() < deadline, plane.api.get(AUTOSCALER, "fleet", "default")
                time.sleep(0.05)
            began = time.monotonic()
            time.sleep(sum(seconds for seconds, _ in SCRIPT))

    hpa, earlier = Hpa(least=LEAST, most=MOST, up=UP, down=DOWN), 0.0
    for (at, value, current), (later, _, following) in itertools.pairwise(asked):
        # The controller measures its windows some time between two questions: at their edge either is right.
        possible = {}
        for moment in (at + earlier, at - earlier, later, at):
            tried = copy.deepcopy(hpa)
            possible[tried.replicas(moment, current, [Metric(value=value, target=TARGET)])] = tried
        assert following in possible, (round(at - began, 2), value, current)
        hpa, earlier = possible[following], (later - at) / 2
    numbers = [current for _, _, current in asked]
    assert max(numbers) >= 6
    assert numbers[-1] == 2
    assert sum(a != b for a, b in itertools.pairwise(numbers)) >= 5


def value_at(seconds: float) -> float | None:
    if seconds < 0:
        return SCRIPT[0][1]
    for lasts, value in SCRIPT:
        if seconds < lasts:
            return value
        seconds -= lasts
    return SCRIPT[-1][1]


def deployment() -> Manifest:
    labels = {"app": "fleet"}
    pod = {"containers": [{"name": "vllm", "image": "vllm"}]}
    template = {"metadata": {"labels": labels}, "spec": pod}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "fleet", "namespace": "default"},
        "spec": spec,
    }


def autoscaler() -> Manifest:
    def rules(of: Behavior) -> dict[str, Any]:
        policies = [{"type": rate.type, "value": rate.value, "periodSeconds": rate.period_seconds} for rate in of.rates]
        return {"stabilizationWindowSeconds": of.window_seconds, "policies": policies}

    target = {"type": "AverageValue", "averageValue": str(TARGET)}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "fleet", "namespace": "default"},
        "spec": {
            "minReplicas": LEAST,
            "maxReplicas": MOST,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "fleet"},
            "metrics": [{"type": "External", "external": {"metric": {"name": "load"}, "target": target}}],
            "behavior": {"scaleUp": rules(UP), "scaleDown": rules(DOWN)},
        },
    }
