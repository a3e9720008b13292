"""What the section `endpoint` refuses, and what it changes elsewhere."""

from __future__ import annotations

from typing import Any

from settings.derived.google_cloud_needs import secret_readers
from settings.derived.router import router_needs, router_vcpus
from settings.load import check
from tests.support.rows import each_row
from tests.support.settings import make_settings

IMAGE = f"europe-west4-docker.pkg.dev/fleet-tests/images/vllm-router:0.1.17@sha256:{'a' * 64}"
LEAST: dict[str, Any] = {"kind": "leastRequest"}
PREFIX: dict[str, Any] = {"kind": "prefixAware", "router": {"image": IMAGE}}
KEY = {"apiKeySecret": "k"}
CLIENT = {"name": "a", "secret": "key-of-a"}


def found(**sections: Any) -> set[str]:
    return {problem.id for problem in check(make_settings(**sections)) if problem.blocks}


@each_row(
    ("sections", "id_"),
    [
        ({"endpoint": {"kind": "inferenceGateway"}}, "endpoint-without-gateway"),
        ({"endpoint": {"router": {"replicas": 3}}}, "router-without-effect"),
        ({"endpoint": {"kind": "prefixAware"}}, "router-image"),
        ({"endpoint": {**LEAST, "router": {"image": IMAGE}}}, "router-image"),
        ({"endpoint": LEAST, "server": {"internalLoadBalancer": True}}, "load-balancer-bypasses-router"),
        ({"endpoint": LEAST, "server": {"replicas": 401}}, "router-too-many-servers"),
        ({"endpoint": {**LEAST, "router": {"clients": [CLIENT]}}}, "clients-without-server-key"),
        ({"endpoint": {**LEAST, "router": {"clients": [CLIENT, CLIENT]}}, "server": KEY}, "client-twice"),
        ({"endpoint": LEAST, "server": {"replicas": 100}}, "router-undersized"),
        (
            {
                "endpoint": LEAST,
                "gateway": {"enabled": True},
                "rollout": {"canary": {"engine": {"seed": 1}, "weight": 5}},
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
        {"endpoint": {**LEAST, "router": {"clients": [CLIENT]}}, "server": KEY},
        {"endpoint": LEAST, "gateway": {"enabled": True}},
        {"endpoint": {"kind": "clusterIp"}, "gateway": {"enabled": True}},
        {"endpoint": PREFIX},
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
    assert ("router", "k") in secret_readers(make_settings(endpoint=PREFIX, server=KEY))
    clients = make_settings(endpoint={**LEAST, "router": {"clients": [CLIENT]}}, server=KEY)
    assert {("router", "k"), ("router", "key-of-a")} <= set(secret_readers(clients))


def test_a_router_has_room_for_a_grown_fleet_and_is_billed() -> None:
    needs = router_needs(make_settings(endpoint={**LEAST, "router": {"memoryGib": 20}}, server={"replicas": 40}))
    assert needs is not None
    assert needs["slots"] == 80
    assert router_vcpus(make_settings(endpoint=LEAST)) == 4
    assert router_vcpus(make_settings()) == 0
