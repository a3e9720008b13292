"""What Google Cloud's answers mean for a stack."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.clients.errors import LiveError
from fleet.clients.google_api import VARIABLE
from fleet.doctor.google import Google
from fleet.doctor.live import neighbours
from settings.stack import Settings
from tests.fleet.doctor.fake_project import (
    ADVICE,
    B200,
    HOST,
    PROJECT,
    QUOTAS,
    TOKEN,
    FakeProject,
    answers,
    limit,
    quota,
    reservation,
    rows,
    subnet,
)
from tests.support.rows import each_row
from tests.support.settings import make_settings

SPOT = make_settings()
RESERVED = make_settings(capacity={"mode": "reservation", "name": "b200-production"})
GPU_ROW = "Spot and flex-start B200 GPUs, europe-west4"
MACHINE = f"{PROJECT}/zones/europe-west4-b/machineTypes/a4-highgpu-8g"
HELD = f"{PROJECT}/zones/europe-west4-b/reservations/b200-production"


def chances(obtainability: float) -> dict[str, Any]:
    """Of Spot machines."""
    return {"recommendations": [{"scores": {"obtainability": obtainability}}]}


def test_a_project_with_everything_is_ready_and_was_only_asked() -> None:
    project = FakeProject()
    found = rows(SPOT, project)
    # An image by its tag: nothing is in the registry yet.
    assert [row.id for row in found.values() if row.severity != "passed"] == ["images"]
    assert [row.id for row in found.values() if row.write] == ["images"]
    assert (found[GPU_ROW].allowed, found[GPU_ROW].found) == ("at least 96", 96)
    questions = {where.rpartition("/")[2].rpartition(":")[2] for method, where, _ in project.asked if method == "POST"}
    assert questions == {"testIamPermissions", "capacity", "capacityHistory"}
    assert {method for method, _, _ in project.asked} == {"GET", "HEAD", "POST"}


@each_row(
    ("settings", "path", "said", "subject", "state"),
    [
        (SPOT, MACHINE, 404, "a4-highgpu-8g", "error"),
        (SPOT, MACHINE, 403, "a4-highgpu-8g", "unknown"),
        (SPOT, MACHINE, 302, "a4-highgpu-8g", "unknown"),
        (RESERVED, HELD, 404, "b200-production", "error"),
        (RESERVED, HELD, reservation(status="CREATING"), "b200-production", "error"),
        (RESERVED, HELD, reservation(specificReservationRequired=False), "b200-production", "error"),
        (RESERVED, HELD, reservation(specificReservation=None), "b200-production", "unknown"),
        (SPOT, f"{QUOTAS}/{B200}", 404, GPU_ROW, "unknown"),
        (SPOT, f"{QUOTAS}/{B200}", quota(B200, limit(None)), GPU_ROW, "error"),  # a zero is left out
        (SPOT, f"{QUOTAS}/{B200}", quota(B200, limit(-1)), GPU_ROW, "passed"),
        (SPOT, f"{QUOTAS}/{B200}", quota(B200, limit(96, "us-central1")), GPU_ROW, "unknown"),
        (SPOT, f"{QUOTAS}/{B200}", quota(B200, limit(200, gpu_family="NVIDIA_H100")), GPU_ROW, "unknown"),
        (SPOT, f"{QUOTAS}/{B200}", quota(B200, limit(8, region="europe-west4"), limit(400)), GPU_ROW, "error"),
        (SPOT, f"{QUOTAS}/{B200}", {"quotaId": B200, "dimensionsInfos": "64"}, GPU_ROW, "unknown"),
        (SPOT, f"{ADVICE}/capacity", 400, "a4-highgpu-8g on Spot", "unknown"),
        (SPOT, f"{ADVICE}/capacity", chances(7), "a4-highgpu-8g on Spot", "unknown"),
        (SPOT, f"{ADVICE}/capacity", chances(0.4), "a4-highgpu-8g on Spot, europe-west4-b", "note"),
        (SPOT, f"{ADVICE}/capacity", {}, "a4-highgpu-8g on Spot, europe-west4-b", "note"),
    ],
)  # fmt: skip
def test_one_answer_decides_one_row(settings: Settings, path: str, said: Any, subject: str, state: str) -> None:
    found = rows(settings, FakeProject({path: said}))
    assert found[subject].severity == state
    assert bool(found[subject].write) == (state != "passed")
    others = {row.severity for name, row in found.items() if name != subject and row.id != "images"}
    assert others == {"passed"}


@each_row(
    ("changed", "state"),
    [
        ({"count": "8"}, "error"),
        ({"instanceProperties": {"machineType": "a3-ultragpu-8g"}}, "error"),
        ({"inUseCount": "1"}, "unknown"),  # by this stack, perhaps
    ],
)
def test_a_reservation_must_be_of_this_machine_and_free(changed: dict[str, Any], state: str) -> None:
    held = reservation()
    held["specificReservation"] |= changed
    assert rows(RESERVED, FakeProject({HELD: held}))["b200-production"].severity == state


def test_reserved_machines_ask_for_no_gpu_quota() -> None:
    assert GPU_ROW not in rows(RESERVED)
    compute_class = make_settings(capacity={"mode": "compute-class", "reservation": {"name": "b200-production"}})
    assert {"b200-production", GPU_ROW} <= rows(compute_class).keys()


def test_quota_that_is_too_low_is_requested_by_its_name_region_and_sum() -> None:
    closed = {"ineligibilityReason": "NO_VALID_BILLING_ACCOUNT"}
    low = quota(B200, limit(64), quotaIncreaseEligibility=closed)
    row = rows(SPOT, FakeProject({f"{QUOTAS}/{B200}": low}))[GPU_ROW]
    assert (row.severity, row.allowed, row.found) == ("error", "at least 96", 64)
    wanted = {f"--quota-id={B200}", "--dimensions=region=europe-west4", "--preferred-value=96"}
    assert wanted <= set(row.write.split())
    assert "NO_VALID_BILLING_ACCOUNT" in row.why


def test_the_limit_of_another_family_or_region_is_not_this_ones() -> None:
    found = rows(make_settings(benchmark={"enabled": True}))
    assert (found["C4A vCPU, europe-west4"].found, found["C4A vCPU, europe-west4"].severity) == (64, "passed")
    c4 = found["C4 vCPU, europe-west4"]
    assert (c4.allowed, c4.found, c4.severity) == ("at least 32", 24, "error")
    assert "--dimensions=region=europe-west4,vm_family=C4" in c4.write.split()


def test_no_limit_in_a_zones_copy_is_no_grant() -> None:
    name, id_ = "Hyperdisk ML throughput, europe-west4", "HDML-TOTAL-THROUGHPUT-per-project"
    for value, state in ((-1, "unknown"), (400, "error")):
        copy = quota(f"{id_}-zone", limit(value, "europe-west4-b", zone="europe-west4-b"))
        project = FakeProject({f"{QUOTAS}/{id_}-region": 404, f"{QUOTAS}/{id_}-zone": copy})
        assert rows(SPOT, project)[name].severity == state


def test_apis_that_are_off_are_no_obstacle_and_missing_permissions_are() -> None:
    project = FakeProject()
    project.off, project.denied = {"container.googleapis.com"}, {"container.clusters.create"}
    found = rows(SPOT, project)
    assert (found["APIs"].severity, "container.googleapis.com" in found["APIs"].write) == ("note", True)
    denied = found["permissions on the project"]
    assert (denied.severity, "container.clusters.create" in denied.why) == ("error", True)
    assert "--role=roles/container.admin" in denied.write


def test_a_tag_gets_the_digest_of_all_platforms(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = make_settings(server={"replicas": 12, "engine": {"version": "0.33.0"}})
    digest, name = f"sha256:{'1' * 64}", "vllm/vllm-openai:v0.33.0"
    asked = []

    def header(_: Google, url: str, name: str, *, accept: str) -> str | None:
        asked.append((url, name, accept.partition(",")[0]))
        return digest

    assert rows(settings)[name].found == "no such image or repository yet"
    monkeypatch.setattr(Google, "header", header)
    row = rows(settings)[name]
    assert (row.severity, row.found, digest in row.write) == ("note", digest, True)
    image = "/v2/fleet-tests/test-docker-hub/vllm/vllm-openai/manifests/v0.33.0"
    kind = "application/vnd.oci.image.index.v1+json"
    assert asked == [(f"https://europe-west4-docker.pkg.dev{image}", "Docker-Content-Digest", kind)]


def test_other_stacks_of_the_project_are_mentioned() -> None:
    dev = make_settings("dev", server={"replicas": 1})
    elsewhere = make_settings("away", region="us-central1", zones=["us-central1-b"])
    foreign = make_settings("foreign", project="another-project")
    first, second = neighbours(SPOT, [SPOT, dev, elsewhere, foreign])
    assert first.startswith("stack dev takes 8 Spot and flex-start B200 GPUs, 8 GPUs of all regions, ")
    assert "B200" not in second  # another region's
    assert "GPUs of all regions" in second


@pytest.mark.parametrize("odd", [None, [], {}, "text", [None], {"items": [{}], "services": [{}]}], ids=repr)
def test_no_answer_of_whatever_form_ends_the_look(odd: Any) -> None:
    project = FakeProject(dict.fromkeys(answers(), odd))
    for settings in (SPOT, RESERVED, NAMED):
        found = rows(settings, project)
        assert all(row.write for row in found.values() if row.severity in ("error", "unknown"))


def test_without_a_login_nothing_is_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LiveError) as caught:
        Google()
    assert caught.value.reason == "missing program"


def test_the_token_is_in_no_finding() -> None:
    found = rows(SPOT, FakeProject(dict.fromkeys(answers(), 401)))
    unknown = [row for row in found.values() if row.severity == "unknown"]
    assert {row.write for row in unknown} == {"gcloud auth login --update-adc"}
    assert TOKEN not in str(unknown)


# An existing VPC

NAMES = {
    "project": "host-project",
    "vpc": "office",
    "subnet": "gke-west",
    "podRange": "gke-pods",
    "serviceRange": "gke-services",
}
RANGES = {"nodeCidr": "10.1.0.0/20", "podCidr": "10.64.0.0/14", "serviceCidr": "10.32.0.0/20"}
SUBNETS, ROUTERS = (f"{HOST}/regions/europe-west4/{kind}" for kind in ("subnetworks", "routers"))


def in_vpc(proxies: str | None = None, **sections: Any) -> Settings:
    existing = NAMES | ({} if proxies is None else {"proxyOnlySubnet": proxies})
    network = {**RANGES, "existing": existing, "proxyOnly": {"cidr": "10.9.0.0/23"}}
    return make_settings(network=network, **sections)


GATEWAY = in_vpc(gateway={"enabled": True})
NAMED = in_vpc("proxies", gateway={"enabled": True})
NODES, PROXIES = answers()[SUBNETS]["items"]
PROXY_ROW, RANGE_ROW, NAT_ROW = "proxy-only subnet in europe-west4", "ranges of gke-west", "Cloud NAT of office"


def test_a_vpc_with_everything_has_five_rows_that_are_ready() -> None:
    found = {name: row.severity for name, row in rows(NAMED).items() if row.id == "network"}
    assert found == dict.fromkeys(
        ("subnet gke-west", RANGE_ROW, "Private Google Access of gke-west", PROXY_ROW, NAT_ROW), "passed"
    )
    assert not [row for row in rows(SPOT).values() if row.id == "network"]


@each_row(
    ("settings", "path", "items", "subject", "state"),
    [
        (NAMED, SUBNETS, [PROXIES], "subnet gke-west", "error"),
        (NAMED, SUBNETS, [{**NODES, "network": "lab"}, PROXIES], "subnet gke-west", "error"),
        (NAMED, SUBNETS, [{**NODES, "ipCidrRange": "10.2.0.0/20"}, PROXIES], RANGE_ROW, "error"),
        (NAMED, SUBNETS, [{**NODES, "secondaryIpRanges": []}, PROXIES], RANGE_ROW, "error"),
        (NAMED, SUBNETS, [{**NODES, "privateIpGoogleAccess": False}, PROXIES], "Private Google Access of gke-west", "error"),
        (NAMED, SUBNETS, [NODES], PROXY_ROW, "error"),
        (NAMED, SUBNETS, [NODES, {**PROXIES, "role": "BACKUP"}], PROXY_ROW, "error"),
        (NAMED, SUBNETS, [NODES, {**PROXIES, "ipCidrRange": "10.10.0.0/23"}], PROXY_ROW, "error"),
        (GATEWAY, SUBNETS, [NODES], PROXY_ROW, "note"),
        (GATEWAY, SUBNETS, [NODES, PROXIES], PROXY_ROW, "error"),
        (GATEWAY, SUBNETS, [NODES, {**PROXIES, "name": "test-vllm-proxy-only"}], PROXY_ROW, "passed"),
        (NAMED, ROUTERS, [], NAT_ROW, "error"),
        (NAMED, ROUTERS, [{"network": "x/office", "nats": [{"name": "n", "type": "PRIVATE"}]}], NAT_ROW, "error"),
        (NAMED, ROUTERS, [{"network": "x/lab", "nats": [{"name": "n"}]}], NAT_ROW, "error"),
    ],
)  # fmt: skip
def test_what_a_vpc_lacks_is_told(settings: Settings, path: str, items: list[Any], subject: str, state: str) -> None:
    row = rows(settings, FakeProject({path: {"items": items}}))[subject]
    assert row.severity == state
    assert bool(row.write) == (state == "error")


def test_subnets_of_other_names_are_offered() -> None:
    found = rows(NAMED, FakeProject({SUBNETS: {"items": [subnet("desks", "10.3.0.0/20")]}}))
    assert found["subnet gke-west"].found == "desks"
