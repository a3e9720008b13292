"""KEDA's own arithmetic, beside the HPA's."""

from __future__ import annotations

from typing import Any

import pytest

from lab.cloud.keda.replicas import fallback_value, own_replicas
from tests.support.rows import each_row


@pytest.mark.parametrize(
    ("behavior", "replicas"),
    [("static", 3), ("currentReplicas", 5), ("currentReplicasIfHigher", 5), ("currentReplicasIfLower", 3)],
)
def test_a_fallback_is_the_metric_for_its_replicas(behavior: str, replicas: int) -> None:
    assert fallback_value(behavior, 3, 700, 5) == 700 * replicas


INACTIVE: dict[str, Any] = {
    "active": False,
    "failing": False,
    "fallback": None,
    "current": 3,
    "least": 0,
    "idle_seconds": 301,
    "cooldown": 300,
}


@each_row(
    ("state", "replicas"),
    [
        ({}, 0),
        ({"idle_seconds": 300}, 3),  # cooling down
        ({"least": 1}, 3),  # the HPA scales down
        ({"least": 5}, 5),
        ({"failing": True}, 3),  # unknown is not idle
        ({"failing": True, "fallback": 2}, 3),
        ({"failing": True, "fallback": 0}, 0),
        ({"active": True}, 3),
        ({"active": True, "current": 0}, 1),
        ({"active": True, "current": 0, "least": 2}, 2),
    ],
)
def test_keda_itself_scales_from_zero_to_zero_and_to_its_minimum(state: dict[str, Any], replicas: int) -> None:
    assert own_replicas(**INACTIVE | state) == replicas
