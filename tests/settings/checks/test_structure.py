"""Limits of Google Cloud and plain arithmetic, said before anything is created."""

from __future__ import annotations

from typing import Any

import pytest

from facts.cost import Bill
from facts.finding import Finding
from settings.derived.figures import figures
from settings.load import check
from tests.fleet.verify.stacks import settings_of
from tests.support.rows import each_row
from tests.support.settings import make_settings


def found(**sections: Any) -> dict[str, Finding]:
    return {problem.id: problem for problem in check(make_settings(**sections))}


def refused(**sections: Any) -> set[str]:
    return {id_ for id_, problem in found(**sections).items() if problem.severity == "error"}


def test_ranges_that_overlap_are_refused_by_both_names() -> None:
    problem = found(network={"nodeCidr": "10.64.0.0/20"})["ranges-overlap"]
    assert problem.subject == "vllm-fleet:network.podCidr"
    assert "nodeCidr" in problem.allowed


@pytest.mark.parametrize("field", ["nodeCidr", "podCidr"])
def test_a_range_too_small_for_the_replicas_is_refused_with_the_prefix_that_is_not(field: str) -> None:
    problem = found(network={field: "10.200.0.0/28"}, server={"replicas": 128})["range-too-small"]
    assert problem.subject == f"vllm-fleet:network.{field}"


def test_a_proxy_only_range_below_the_minimum_is_refused() -> None:
    assert "range-too-small" in refused(network={"proxyOnly": {"cidr": "10.8.0.0/27"}}, gateway={"enabled": True})


@pytest.mark.parametrize(
    "networks",
    [
        [],
        [{"name": "all", "cidr": "0.0.0.0/0"}],
        [{"name": "half", "cidr": "0.0.0.0/1"}, {"name": "the other half", "cidr": "128.0.0.0/1"}],
        [{"name": "half", "cidr": "128.0.0.0/1"}],
        [{"name": str(number), "cidr": f"{number}.0.0.0/8"} for number in range(64)],
    ],
)
def test_an_ip_endpoint_open_to_everybody_is_refused(networks: list[dict[str, str]]) -> None:
    assert "open-control-plane" in refused(cluster={"ipEndpoint": {"enabled": True, "authorizedNetworks": networks}})


def test_an_ip_endpoint_for_named_networks_is_accepted() -> None:
    office = [{"name": "office", "cidr": "203.0.113.0/24"}]
    assert refused(cluster={"ipEndpoint": {"enabled": True, "authorizedNetworks": office}}) == set()


@each_row(
    ("sections", "expected"),
    [
        ({"region": "us-centrl1", "zones": ["us-central1-a"]}, {"no-such-region": "error"}),
        ({"zones": ["europe-west4-z"]}, {"no-such-zone": "error", "zone-without-machine": "warning"}),
        ({"zones": ["us-central1-b"]}, {"zone-outside-region": "error", "zone-without-machine": "warning"}),
        ({"region": "europe-west1", "zones": ["europe-west1-b"]}, {"region-without-machine": "warning"}),
    ],
)
def test_a_place_without_the_machine_is_told(sections: dict[str, Any], expected: dict[str, str]) -> None:
    told = {id_: one.severity for id_, one in found(**sections).items() if "region" in id_ or "zone" in id_}
    assert told == expected


def test_downloads_per_replica_are_for_one_replica_only() -> None:
    assert "download-per-replica" in refused(weights={"source": "huggingface"}, server={"replicas": 2})
    assert refused(weights={"source": "huggingface"}, server={"replicas": 1}) == set()


@pytest.mark.parametrize(
    ("size_gb", "ephemeral_gib", "is_refused"), [(600, None, True), (500, None, False), (29, 48, False), (29, 47, True)]
)
def test_a_download_that_the_pods_disk_does_not_hold_is_refused(
    size_gb: int, ephemeral_gib: int | None, is_refused: bool
) -> None:
    resources = {} if ephemeral_gib is None else {"resources": {"ephemeralStorageGib": ephemeral_gib}}
    model = {"id": "Qwen/Qwen3.5-27B-FP8", "revision": "0" * 40, "sizeGb": size_gb}
    found = refused(weights={"source": "huggingface"}, server={"replicas": 1, **resources}, model=model)
    assert ("download-exceeds-disk" in found) == is_refused


@pytest.mark.parametrize(
    ("weights", "is_refused"),
    [
        ({"source": "image"}, True),
        ({"image": "projects/models/global/images/a"}, True),
        ({"source": "huggingface", "image": "projects/models/global/images/a"}, True),
        ({"source": "image", "image": "projects/models/global/images/a"}, False),
    ],
)
def test_an_image_belongs_to_the_source_image(weights: dict[str, Any], *, is_refused: bool) -> None:
    assert ("weights-image" in refused(weights=weights, server={"replicas": 1})) is is_refused


def test_a_volume_too_small_for_the_clone_is_refused_with_the_size() -> None:
    problem = found(weights={"sizeGib": 28})["weights-volume-too-small"]
    assert problem.found == 28


def test_throughput_below_what_many_readers_need_is_refused() -> None:
    assert "hyperdisk-limit" in refused(weights={"throughputMibps": 400}, server={"replicas": 21})


def test_a_guest_stack_refuses_sections_of_the_platform() -> None:
    problem = found(platform={"stack": "o/vllm-fleet/spot"}, cluster={"name": "mine"})["without-effect"]
    assert problem.subject == "vllm-fleet:cluster"


def test_a_compute_class_needs_a_priority_and_spot_alone_needs_a_version_that_gives_it_a_longer_notice() -> None:
    alone = {"mode": "compute-class", "flexStartSeconds": None}
    stable = {"releaseChannel": "STABLE"}
    assert "compute-class-without-priorities" in refused(capacity={**alone, "spot": False})
    assert "compute-class-without-priorities" in refused(capacity=alone, cluster=stable)
    assert "compute-class-without-priorities" not in refused(
        capacity=alone, cluster=stable | {"minVersion": "1.35.1-gke.1000000"}
    )
    assert "compute-class-without-priorities" not in refused(capacity=alone)
    assert "compute-class-without-priorities" in refused(capacity=alone, cluster={"minVersion": "1.34.0-gke.1626000"})


def test_a_reservation_smaller_than_the_fleet_is_refused() -> None:
    reservation = {"mode": "reservation", "name": "cal", "nodes": 8}
    assert "reservation-too-small" in refused(capacity=reservation, server={"replicas": 12})
    assert refused(capacity=reservation, server={"replicas": 8}, labels={"environment": "test"}) == set()


@each_row(("nodes", "replicas"), [(4, 0), (4, 1), (4, 4), (4, 6), (None, 0), (None, 2)])
def test_a_compute_class_reservation_is_paid_for_whether_its_nodes_run_or_not(nodes: int | None, replicas: int) -> None:
    def bill(size: int | None) -> Bill:
        sized = {} if size is None else {"nodes": size}
        compute_class = {"mode": "compute-class", "usdPerNodeHour": 30.0, "reservation": {"name": "cal", **sized}}
        return figures(
            make_settings(capacity=compute_class, server={"replicas": replicas, "profile": "serve-chat"})
        ).bill

    reserved = nodes or 0
    counted, bare = bill(nodes), bill(None)
    idle = max(0, reserved - replicas)
    assert counted.usd_per_hour_known == pytest.approx(bare.usd_per_hour_known + 30 * idle)
    assert counted.residual_usd_per_hour == pytest.approx(bare.residual_usd_per_hour + 30 * reserved)
    assert counted.residual_usd_per_hour <= counted.usd_per_hour_known
    assert counted.nodes.quantity == replicas


@each_row(("stack", "reserved"), [("prod", 2), ("cud", 12)])
def test_a_paused_stack_is_priced_with_its_reservation(stack: str, reserved: int) -> None:
    running, paused = (figures(of_stack).bill for of_stack in (settings_of(stack), settings_of(stack, replicas=0)))
    assert reserved * 88.93 < paused.usd_per_hour_known < running.usd_per_hour_known
    assert running.residual_usd_per_hour > reserved * 88.93


EXTERNAL = {"enabled": True, "gatewayClass": "gke-l7-regional-external-managed"}


def test_a_public_gateway_asks_for_a_key() -> None:
    assert "open-to-the-internet" in refused(gateway=EXTERNAL)
    assert refused(gateway=EXTERNAL, server={"replicas": 8, "apiKeySecret": "key"}) == set()


def test_a_key_says_what_it_does_not_guard() -> None:
    server = {"replicas": 1, "apiKeySecret": "key"}
    assert found(server=server)["key-guards-v1-alone"].subject == "vllm-fleet:gateway.enabled"
    balanced = found(server={**server, "internalLoadBalancer": True})["key-guards-v1-alone"]
    assert balanced.subject == "vllm-fleet:server.internalLoadBalancer"
    assert "key-guards-v1-alone" not in found(server=server, gateway={"enabled": True})
    assert "key-guards-v1-alone" not in found(server={"replicas": 1, "internalLoadBalancer": True})


@pytest.mark.parametrize(
    ("server", "is_short"),
    [
        ({"drainSeconds": 5}, True),
        ({"drainSeconds": 24}, False),
        ({"drainSeconds": 5, "engine": {"apiServerCount": 1}}, True),
        ({}, False),
    ],
)
def test_a_planned_end_leaves_a_request_its_time(server: dict[str, Any], is_short: bool) -> None:
    told = found(capacity={"mode": "compute-class"}, server={"replicas": 1, **server})
    assert ("drain-below-request" in told) is is_short


@pytest.mark.parametrize("name", ["runDurationSeconds", "flexStartSeconds"])
@pytest.mark.parametrize(
    ("seconds", "is_refused"), [(600, True), (3_600, True), (4_200, True), (7_200, False), (604_800, False)]
)
def test_a_flex_start_node_outlives_its_start(name: str, seconds: int, is_refused: bool) -> None:
    mode = "flex-start" if name == "runDurationSeconds" else "compute-class"
    problem = found(capacity={"mode": mode, name: seconds}).get("run-too-short")
    assert (problem is not None) == is_refused
    if problem is not None:
        assert (problem.subject, problem.severity) == (f"vllm-fleet:capacity.{name}", "error")


def test_a_stated_price_fills_the_bill() -> None:
    prices = {"hyperdisk-ml-capacity": 0.1}
    (item,) = [one for one in figures(make_settings(prices=prices)).bill.items if one.id == "hyperdisk-ml-capacity"]
    assert item.unit_price_usd == 0.1
    assert item.note == "price from the stack file"
    unknown = {one.name for one in figures(make_settings()).bill.items if one.usd_per_hour is None}
    assert item.name in unknown
    assert item.name not in figures(make_settings(prices=prices)).bill.unknown


def test_a_price_of_nothing_on_the_bill_is_refused_with_the_names_there_are() -> None:
    problem = found(prices={"hyperdisk": 0.1})["unknown-price"]
    assert problem.subject == "vllm-fleet:prices.hyperdisk"
    assert "hyperdisk-ml-capacity (USD per GiB-month)" in problem.allowed
