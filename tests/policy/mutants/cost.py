"""Mutants that cost money."""

from __future__ import annotations

from typing import Any

from tests.policy.mutant import (
    DEPLOYMENT,
    Props,
    arguments,
    new,
    of_program,
    of_resource,
    options,
    put,
    result,
    set_at,
)

_ORDER = "kept-window"
_ORDER_TYPE = "gcp:compute/futureReservation:FutureReservation"
WINDOW = {
    "capacity": {
        "mode": "calendar",
        "reservation": "window",
        "usdPerNodeHour": 65.0,
        "create": {"startTime": "2027-01-04T06:00:00Z", "durationDays": 7, "nodes": 1, "totalUsd": 10_920.0},
    }
}
"""A window that is ordered, not only drafted."""


def _order(**props: Any) -> Any:
    """An order as another program would make it."""
    return new(
        _ORDER,
        _ORDER_TYPE,
        {
            "name": "window",
            "planningStatus": "SUBMITTED",
            "specificReservationRequired": True,
            "timeWindow": {"startTime": "2027-01-04T06:00:00Z", "duration": {"seconds": "604800"}},
            "specificSkuProperties": {
                "totalCount": "12",
                "instanceProperties": {"machineType": "a4-highgpu-8g"},
            },
            **props,
        },
        beside="platform-network-vpc",
    )


def _unprotected(given: Props) -> None:
    given["opts"].protect = None


MUTANTS = (
    of_program(
        "future-reservation-without-total",
        "an order that does not say what it costs",
        arguments("infra.capacity.compute.FutureReservation", lambda given: given.update(description="vLLM fleet")),
        settings=WINDOW,
    ),
    of_resource(
        "future-reservation-without-total",
        "twelve machines for a week, by hand",
        _order(description="twelve machines"),
        options(_ORDER, protect=True),
    ),
    of_program(
        "future-reservation-unprotected",
        "an order that a changed property replaces",
        arguments("infra.capacity.compute.FutureReservation", _unprotected),
        settings=WINDOW,
    ),
    of_resource(
        "future-reservation-unprotected",
        "an order by hand, submitted by default",
        _order(planningStatus=None, description="total $131,040.00"),
    ),
    of_program(
        "hourly-cost-above-ceiling",
        "a thirteenth replica",
        stack="spot",
        settings={"server": {"replicas": 13}},
        policy_config={"maxUsdPerHour": 400},
    ),
    of_resource(
        "hourly-cost-above-ceiling",
        "a zero too many",
        put(DEPLOYMENT, "spec.replicas", value=120),
        stack="spot",
        policy_config={"maxUsdPerHour": 400},
    ),
    of_program(
        "gpu-quota-above-plan",
        "room for a hundred nodes",
        result(
            "workloads.namespace.gpu_quota", lambda quota: set_at(quota, "hard", "requests.nvidia.com/gpu", value="800")
        ),
        stack="guest",
    ),
    of_resource(
        "gpu-quota-above-plan",
        "replicas taken away, their quota left",
        put(DEPLOYMENT, "spec.replicas", value=2),
        stack="spot",
    ),
    of_program(
        "benchmark-in-production",
        "the benchmark switched on in production",
        stack="cud",
        settings={"benchmark": {"enabled": True}},
    ),
    of_resource(
        "benchmark-in-production",
        "a fleet that went into production with its benchmark",
        put(DEPLOYMENT, "metadata.labels.environment", value="production"),
        stack="gateway",
    ),
)
