"""What the section `endpoint` refuses, and what it changes elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from settings.derived.google_cloud_needs import secret_readers
from settings.derived.router import router_needs, router_vcpus
from settings.load import check
from settings.problems import SettingsError
from tests.support.rows import each_row
from tests.support.settings import make_settings

LEAST: dict[str, Any] = {"kind": "leastRequest"}
KEY = {"apiKeySecret": "k"}
IMAGE = f"host.example/images/vllm-router:0.1.17@sha256:{'a' * 64}"
SPLIT: dict[str, Any] = {"profile": "tuned", "shape": {"prefillGpus": 2, "decodeGpus": 6, "router": {"image": IMAGE}}}


def found(**sections: Any) -> set[str]:
    return {problem.id for problem in check(make_settings(**sections)) if problem.blocks}


@each_row(
    ("sections", "id_"),
    [
        ({"endpoint": {"kind": "inferenceGateway"}}, "endpoint-without-gateway"),
        ({"endpoint": {"router": {"replicas": 3}}}, "without-effect"),
        ({"endpoint": LEAST, "server": {"internalLoadBalancer": True}}, "load-balancer-bypasses-router"),
        ({"endpoint": LEAST, "server": {"replicas": 401}}, "router-too-many-servers"),
        ({"endpoint": LEAST, "server": {"replicas": 100}}, "router-undersized"),
        (
            {
                "endpoint": LEAST,
                "gateway": {"enabled": True},
                "rollout": {"engine": {"seed": 1}, "weight": 5},
            },
            "canary-weight-without-gateway",
        ),
    ],
)
def test_what_cannot_work_is_refused(sections: dict[str, Any], id_: str) -> None:
    assert id_ in found(**sections)


@each_row(
    "sections",
    [
        {"endpoint": LEAST},
        {"endpoint": LEAST, "server": KEY},
        {"endpoint": LEAST, "gateway": {"enabled": True}},
        {"endpoint": {"kind": "clusterIp"}, "gateway": {"enabled": True}},
    ],
)
def test_what_works_is_not_refused(sections: dict[str, Any]) -> None:
    assert found(**sections) == set()


def test_the_gateway_alone_keeps_its_picker_and_another_kind_has_none() -> None:
    alone = make_settings(gateway={"enabled": True})
    assert (alone.has_picker, alone.pickers, alone.routing) == (True, 1, "inference-gateway")
    before = make_settings(gateway={"enabled": True}, endpoint=LEAST)
    assert (before.has_picker, before.pickers, before.routing) == (False, 0, "router")
    assert make_settings(gateway={"enabled": True}, endpoint={"kind": "clusterIp"}).routing == "load-balancer"


def test_routers_read_only_the_keys_that_they_check() -> None:
    assert ("router", "k") not in secret_readers(make_settings(endpoint=LEAST, server=KEY))
    assert ("router", "k") in secret_readers(make_settings(endpoint=LEAST, server={**KEY, **SPLIT}))


def test_a_router_has_room_for_a_grown_fleet_and_is_billed() -> None:
    needs = router_needs(make_settings(endpoint={**LEAST, "router": {"memoryGib": 20}}, server={"replicas": 40}))
    assert needs is not None
    assert needs["max_servers"] == 80
    assert router_vcpus(make_settings(endpoint=LEAST)) == 4
    assert router_vcpus(make_settings()) == 0


def test_a_queue_for_no_request_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"replicas"):
        make_settings(endpoint={**LEAST, "router": {"replicas": 0}})


@each_row("kind", ["clusterIp", "leastRequest"])
def test_a_picker_is_set_only_where_there_is_one(kind: str) -> None:
    door = {"enabled": True, "epp": {"cpu": 12}}
    assert "without-effect" in found(gateway=door, endpoint={"kind": kind})
    assert "without-effect" not in found(gateway=door)
