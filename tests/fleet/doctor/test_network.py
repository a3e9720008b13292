"""An existing VPC and a Shared VPC: what is asked, and what the answers mean.

Forms: Compute API v1, Subnetwork, Router, Project; Resource Manager v1, Project, Policy.
"""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from facts.finding import Finding
from fleet.doctor import questions, rest
from fleet.doctor.gcloud import NoAnswerError
from fleet.doctor.judge import judge
from settings.derived.google_cloud_needs import host_permissions
from settings.stack import Settings
from tests.fleet.doctor.replies import FakeGcloud
from tests.fleet.doctor.test_judge import _spoilt, answered
from tests.support.rows import each_row
from tests.support.settings import make_settings

_COMPUTE = "https://www.googleapis.com/compute/v1/projects/host-project"
NUMBER = "123456789"
GKE = f"serviceAccount:service-{NUMBER}@container-engine-robot.iam.gserviceaccount.com"
APIS = f"serviceAccount:{NUMBER}@cloudservices.gserviceaccount.com"
NAMES = {"vpc": "office", "subnet": "gke-west", "podRange": "gke-pods", "serviceRange": "gke-services"}
RANGES = {"nodeCidr": "10.1.0.0/20", "podCidr": "10.64.0.0/14", "serviceCidr": "10.32.0.0/20"}


def settings_of(*, shared: bool = True, proxies: str | None = None, **sections: Any) -> Settings:
    existing = NAMES | ({"project": "host-project"} if shared else {})
    existing |= {} if proxies is None else {"proxyOnlySubnet": proxies}
    network = {**RANGES, "existing": existing, "proxyOnly": {"cidr": "10.9.0.0/23"}}
    return make_settings(network=network, **sections)


SHARED = settings_of()
GATEWAY = settings_of(gateway={"enabled": True})
NAMED = settings_of(proxies="proxies", gateway={"enabled": True})


def subnet(name: str, cidr: str, **changed: Any) -> dict[str, Any]:
    return {
        "name": name,
        "network": f"{_COMPUTE}/global/networks/office",
        "region": f"{_COMPUTE}/regions/europe-west4",
        "ipCidrRange": cidr,
        "purpose": "PRIVATE",
        "privateIpGoogleAccess": True,
        **changed,
    }


def replies() -> dict[str, Any]:
    """What Google says of a host project that has everything."""
    secondary = [
        {"rangeName": "gke-pods", "ipCidrRange": RANGES["podCidr"]},
        {"rangeName": "gke-services", "ipCidrRange": RANGES["serviceCidr"]},
    ]
    return {
        "subnets": [
            subnet("gke-west", RANGES["nodeCidr"], secondaryIpRanges=secondary),
            subnet("proxies", "10.9.0.0/23", purpose="REGIONAL_MANAGED_PROXY", role="ACTIVE"),
        ],
        "routers": [
            {
                "name": "office-router",
                "network": f"{_COMPUTE}/global/networks/office",
                "region": f"{_COMPUTE}/regions/europe-west4",
                "nats": [{"name": "office-nat", "sourceSubnetworkIpRangesToNat": "ALL_SUBNETWORKS_ALL_IP_RANGES"}],
            }
        ],
        "host project": {"name": "host-project", "kind": "compute#project", "xpnProjectStatus": "HOST"},
        "network agents": {
            "project": {"projectId": "fleet-tests", "projectNumber": NUMBER},
            "host policy": {
                "bindings": [{"role": "roles/container.hostServiceAgentUser", "members": [GKE]}],
                "etag": "BwX",
                "version": 1,
            },
            "subnet policy": {"bindings": [{"role": "roles/compute.networkUser", "members": [GKE, APIS]}]},
        },
        "host permissions": {"permissions": ["compute.subnetworks.use"]},
    }


def rows(settings: Settings = SHARED, **changed: Any) -> dict[str, Finding]:
    said = replies() | {"host permissions": {"permissions": list(host_permissions(settings))}}
    said |= {name.replace("_", " "): answer for name, answer in changed.items()}
    answers = {**answered_of_project(settings), **{name: said[name] for name in questions._of_network(settings)}}
    return {row.subject: row for row in judge(settings, answers) if row.id == "network"}


def answered_of_project(settings: Settings) -> dict[str, Any]:
    """What the rest of the questions get."""
    everything = make_settings(gateway={"enabled": settings.gateway.enabled})
    return answered(everything) | {"permissions": {"permissions": list(questions.required_permissions(settings))}}


def test_a_host_project_with_everything_is_ready() -> None:
    found = rows(NAMED)
    assert {row.severity for row in found.values()} == {"passed"}
    assert set(found) == {
        "nodes of gke-west",
        "pods of gke-west",
        "Services of gke-west",
        "Private Google Access of gke-west",
        "proxy-only subnet in europe-west4",
        "Cloud NAT of gke-west",
        "host project of fleet-tests",
        f"roles/container.hostServiceAgentUser for {GKE.partition(':')[2]}",
        f"roles/compute.networkUser for {GKE.partition(':')[2]}",
        f"roles/compute.networkUser for {APIS.partition(':')[2]}",
        "permissions on host-project",
    }


def test_a_vpc_of_the_stacks_own_project_needs_no_host() -> None:
    own = settings_of(shared=False)
    assert list(questions._of_network(own)) == ["subnets", "routers"]
    assert {row.severity for row in rows(own).values()} == {"passed"}


def test_a_network_that_the_stack_makes_is_not_asked_about() -> None:
    assert questions._of_network(make_settings()) == {}
    guest = make_settings(platform={"stack": "base"}, namespace="other")
    assert questions._of_network(guest) == {}


def _subnets(**changed: Any) -> list[dict[str, Any]]:
    first, *others = deepcopy(replies()["subnets"])
    return [{**first, **changed}, *others]


def _secondary(**ranges: str) -> list[dict[str, str]]:
    return [{"rangeName": f"gke-{name}", "ipCidrRange": block} for name, block in ranges.items()]


@each_row(
    ("changed", "subject", "granted", "write"),
    {
        "no such subnet": ({"subnets": []}, "subnet gke-west", "none", "existing"),
        "another region": (
            {"subnets": _subnets(region=f"{_COMPUTE}/regions/us-central1")},
            "subnet gke-west",
            "none",
            "existing",
        ),
        "another VPC": ({"subnets": _subnets(network=f"{_COMPUTE}/global/networks/x")}, "subnet gke-west", "none", ""),
        "no range of pods": (
            {"subnets": _subnets(secondaryIpRanges=_secondary(services="10.32.0.0/20"))},
            "pods of gke-west",
            "gke-services",
            "--add-secondary-ranges=gke-pods=10.64.0.0/14",
        ),
        "no secondary ranges": (
            {"subnets": _subnets(secondaryIpRanges=[])},
            "Services of gke-west",
            "none",
            "--add-secondary-ranges=gke-services",
        ),
        "too few pods": (
            {"subnets": _subnets(secondaryIpRanges=_secondary(pods="10.64.0.0/24", services="10.32.0.0/20"))},
            "pods of gke-west",
            "10.64.0.0/24",
            "larger range",
        ),
        "other pods than written": (
            {"subnets": _subnets(secondaryIpRanges=_secondary(pods="10.80.0.0/14", services="10.32.0.0/20"))},
            "pods of gke-west",
            "10.80.0.0/14",
            "vllm-fleet:network: {podCidr: 10.80.0.0/14}",
        ),
        "too few nodes": (
            {"subnets": _subnets(ipCidrRange="10.1.0.0/29")},
            "nodes of gke-west",
            "10.1.0.0/29",
            "large",
        ),
        "no private access": (
            {"subnets": _subnets(privateIpGoogleAccess=False)},
            "Private Google Access of gke-west",
            "off",
            "--enable-private-ip-google-access",
        ),
        "no NAT": ({"routers": []}, "Cloud NAT of gke-west", "none", "routers nats create"),
        "not attached": ({"host_project": None}, "host project of fleet-tests", "none", "associated-projects add"),
        "attached elsewhere": (
            {"host_project": {"name": "another"}},
            "host project of fleet-tests",
            "another",
            "--host-project=host-project",
        ),
        "no permission": (
            {"host_permissions": {}},
            "permissions on host-project",
            0,
            "subnets add-iam-policy-binding gke-west",
        ),
    }.values(),
)
def test_what_is_missing_is_told_with_the_command_that_mends_it(
    changed: dict[str, Any], subject: str, granted: object, write: str
) -> None:
    row = rows(**changed)[subject]
    assert (row.severity, row.found) == ("error", granted)
    assert write in row.write


def test_an_agent_without_its_role_is_named_with_the_grant() -> None:
    agents = replies()["network agents"] | {"host policy": {"etag": "ACAB"}}
    row = rows(network_agents=agents)[f"roles/container.hostServiceAgentUser for {GKE.partition(':')[2]}"]
    assert row.severity == "error"
    assert row.write == (
        f"gcloud projects add-iam-policy-binding host-project --member={GKE} "
        "--role=roles/container.hostServiceAgentUser"
    )
    conditional = {"role": "roles/compute.networkUser", "members": [GKE, APIS], "condition": {"expression": "false"}}
    agents = replies()["network agents"] | {"subnet policy": {"bindings": [conditional]}}
    row = rows(network_agents=agents)[f"roles/compute.networkUser for {APIS.partition(':')[2]}"]
    assert row.severity == "error"
    assert "subnets add-iam-policy-binding gke-west --region=europe-west4 --project=host-project" in row.write


PROXIES = "proxy-only subnet in europe-west4"


@each_row(
    ("settings", "subnets", "state", "write"),
    {
        "named and there": (NAMED, replies()["subnets"], "passed", ""),
        "named and not there": (NAMED, replies()["subnets"][:1], "error", "proxyOnlySubnet"),
        "named and not active": (
            NAMED,
            [replies()["subnets"][0], {**replies()["subnets"][1], "role": "BACKUP"}],
            "error",
            "proxyOnlySubnet",
        ),
        "of another range": (
            NAMED,
            [replies()["subnets"][0], {**replies()["subnets"][1], "ipCidrRange": "10.10.0.0/23"}],
            "error",
            "{proxyOnly: {cidr: 10.10.0.0/23}}",
        ),
        "to be made": (GATEWAY, replies()["subnets"][:1], "note", ""),
        "another is active": (GATEWAY, replies()["subnets"], "error", "{existing: {proxyOnlySubnet: proxies}"),
        "made already": (
            GATEWAY,
            [replies()["subnets"][0], {**replies()["subnets"][1], "name": "test-vllm-proxy-only"}],
            "passed",
            "",
        ),
        "its range is taken": (
            GATEWAY,
            [replies()["subnets"][0], subnet("printers", "10.9.0.0/24")],
            "error",
            "proxyOnly.cidr",
        ),
    }.values(),
)
def test_the_proxy_only_subnet_is_there_or_can_be_made(
    settings: Settings, subnets: Any, state: str, write: str
) -> None:
    row = rows(settings, subnets=subnets)[PROXIES]
    assert row.severity == state
    assert write in row.write
    assert bool(row.write) == (state == "error")


def _listing(subnet: str, *options: str, secondary: tuple[str, ...] = ()) -> dict[str, Any]:
    names = {"secondaryIpRangeNames": list(secondary)} if secondary else {}
    name = f"{_COMPUTE}/regions/europe-west4/subnetworks/{subnet}"
    return {"name": name, "sourceIpRangesToNat": list(options), **names}


def _nat(*listed: dict[str, Any], name: str = "nat", **changed: Any) -> dict[str, Any]:
    of_list = {"sourceSubnetworkIpRangesToNat": "LIST_OF_SUBNETWORKS", "subnetworks": list(listed)}
    return {"name": name, "type": "PUBLIC", **of_list, **changed}


UPDATE = "gcloud compute routers nats update nat --router=office-router --region=europe-west4 --project=host-project "
SECONDARY = "LIST_OF_SECONDARY_IP_RANGES"
OTHERS = (_listing("desks", "PRIMARY_IP_RANGE", SECONDARY, secondary=("phones",)), _listing("lab", "ALL_IP_RANGES"))


@each_row(
    ("nats", "granted", "write"),
    {
        "the whole subnet": ([_nat(_listing("gke-west", "ALL_IP_RANGES"))], "nat for nodes and pods", ""),
        "nodes and pods": (
            [_nat(_listing("gke-west", "PRIMARY_IP_RANGE", SECONDARY, secondary=("gke-pods",)))],
            "nat for nodes and pods",
            "",
        ),
        "a NAT for each": (
            [
                _nat(_listing("gke-west", "PRIMARY_IP_RANGE")),
                _nat(_listing("gke-west", SECONDARY, secondary=("gke-pods",)), name="of-pods"),
            ],
            "nat for nodes, of-pods for pods",
            "",
        ),
        "the primary range alone": (
            [_nat(*OTHERS, _listing("gke-west", "PRIMARY_IP_RANGE"))],
            "nat for nodes",
            f"{UPDATE}--nat-custom-subnet-ip-ranges=desks,desks:phones,lab:ALL,gke-west,gke-west:gke-pods",
        ),
        "another secondary range": (
            [_nat(_listing("gke-west", "PRIMARY_IP_RANGE", SECONDARY, secondary=("gke-services",)))],
            "nat for nodes",
            f"{UPDATE}--nat-custom-subnet-ip-ranges=gke-west,gke-west:gke-services,gke-west:gke-pods",
        ),
        "pods alone": (
            [_nat(_listing("gke-west", SECONDARY, secondary=("gke-pods",)))],
            "nat for pods",
            f"{UPDATE}--nat-custom-subnet-ip-ranges=gke-west:gke-pods,gke-west",
        ),
        "every subnet's primary range": (
            [_nat(sourceSubnetworkIpRangesToNat="ALL_SUBNETWORKS_ALL_PRIMARY_IP_RANGES")],
            "nat for nodes",
            f"{UPDATE}--nat-all-subnet-ip-ranges",
        ),
        "another subnet": ([_nat(*OTHERS)], "none", "routers nats create"),
        "between networks": ([_nat(_listing("gke-west", "ALL_IP_RANGES"), type="PRIVATE")], "none", "nats create"),
    }.values(),
)
def test_a_nat_serves_nodes_and_pods_or_is_told_with_the_command_that_adds_them(
    nats: list[dict[str, Any]], granted: str, write: str
) -> None:
    row = rows(routers=[{**replies()["routers"][0], "nats": nats}])["Cloud NAT of gke-west"]
    assert (row.severity, row.found) == ("error" if write else "passed", granted)
    assert write in row.write
    assert bool(row.write) == bool(write)


def test_a_question_without_an_answer_is_unknown_and_never_ready() -> None:
    for name in questions._of_network(SHARED):
        found = rows(**{name.replace(" ", "_"): NoAnswerError("no answer within 30 s", "timeout")})
        unknown = [row for row in found.values() if row.severity == "unknown"]
        assert len(unknown) == 1, name
        assert unknown[0].write


@pytest.mark.slow
def test_no_answer_of_whatever_form_ends_the_look() -> None:
    for name, answer in replies().items():
        for odd in _spoilt(answer):
            try:
                found = rows(NAMED, **{name.replace(" ", "_"): odd})
            except Exception as error:
                raise AssertionError(f"{name}: {odd!r}") from error
            assert all(row.write for row in found.values() if row.severity in ("error", "unknown"))


class _Iam(http.server.BaseHTTPRequestHandler):
    """`testIamPermissions`: on the project nothing is granted, on the subnet all that is asked."""

    asked: list[tuple[str, list[str]]] = []

    def do_POST(self) -> None:
        wanted = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["permissions"]
        self.asked.append((self.path, wanted))
        body = json.dumps({"permissions": wanted} if "/subnetworks/" in self.path else {}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Not a word."""


@pytest.fixture
def google(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Iam)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    url = f"http://127.0.0.1:{server.server_address[1]}"
    monkeypatch.setattr(questions, "RESOURCE_MANAGER", f"{url}/crm")
    monkeypatch.setattr(rest, "COMPUTE", f"{url}/compute")
    monkeypatch.setenv("GOOGLE_OAUTH_ACCESS_TOKEN", "a-token")
    _Iam.asked.clear()
    yield
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.usefixtures("google")
def test_the_questions_reach_gcloud_and_googles_addresses_and_only_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeGcloud(tmp_path / "bin")
    said = replies()
    for words, answer in {
        "compute networks subnets list": said["subnets"],
        "compute routers list": said["routers"],
        "compute shared-vpc get-host-project fleet-tests": said["host project"],
        "projects describe fleet-tests": said["network agents"]["project"],
        "projects get-iam-policy host-project": said["network agents"]["host policy"],
        "compute networks subnets get-iam-policy gke-west": said["network agents"]["subnet policy"],
    }.items():
        fake.says(words, json.dumps(answer))
    monkeypatch.setenv("PATH", fake.path)
    answers = {name: ask() for name, ask in questions._of_network(GATEWAY).items()}
    assert {name: answers[name] for name in answers if name != "host permissions"} == {
        name: said[name] for name in answers if name != "host permissions"
    }
    assert answers["host permissions"] == {"permissions": ["compute.subnetworks.use"]}
    asked = dict(_Iam.asked)
    subnet_path = "/compute/v1/projects/host-project/regions/europe-west4/subnetworks/gke-west/testIamPermissions"
    assert asked[subnet_path] == ["compute.subnetworks.use"]
    assert "compute.firewalls.create" in asked["/crm/v1/projects/host-project:testIamPermissions"]
    of_host = [line for line in fake.asked if line.startswith(("compute networks", "compute routers"))]
    assert [line for line in of_host if "--project=host-project" not in line] == []
    short = rows(GATEWAY, host_permissions=answers["host permissions"])["permissions on host-project"]
    assert (short.severity, short.found) == ("error", 1)
    assert "--role=roles/compute.admin" in short.write
