"""The table turns the program's inputs into the requests that the provider sends."""

from __future__ import annotations

from typing import Any

from fleet.preview.record.values import Secret
from lab.providers.google.mapping import Rename, TypeMapping, table
from lab.providers.google.request import Node, api_path, build, names_in
from tests.lab.providers.google.samples import full_name, inputs_of


def plain(node: Node) -> Any:
    if node.kind == "value":
        return node.value
    if node.kind == "list":
        return [plain(one) for one in node.below.values()]
    return {getattr(step, "name", step): plain(value) for step, value in node.below.items()}


def sent(type_: str, **changed: Any) -> tuple[dict[str, Any], Any]:
    mapping = table().types[full_name(type_)]
    configured = {"project": "fleet-tests", "region": "europe-west4"}
    of_provider = {name: value for name, value in configured.items() if name in names_in(mapping)}
    request = build(mapping, of_provider | inputs_of(type_) | changed)
    return dict(request.parameters), plain(request.body)


def body_of(mapping: TypeMapping, inputs: dict[str, Any]) -> Any:
    return plain(build(mapping, inputs).body)


def test_a_nat_is_a_change_to_its_router() -> None:
    parameters, body = sent("routerNat:RouterNat")
    assert parameters == {"project": "fleet-tests", "region": "europe-west4", "router": "test-vllm-router"}
    (nat,) = body["nats"]
    assert nat["name"] == "test-vllm-nat"
    assert nat["subnetworks"][0]["sourceIpRangesToNat"] == ["ALL_IP_RANGES"]
    assert nat["logConfig"] == {"enable": True, "filter": "ERRORS_ONLY"}


def test_a_grant_is_one_binding_of_a_policy() -> None:
    parameters, body = sent("secretIamMember:SecretIamMember")
    assert parameters["resource"] == "projects/fleet-tests/secrets/docker-hub"
    (binding,) = body["policy"]["bindings"]
    assert binding["role"] == "roles/secretmanager.secretAccessor"
    assert len(binding["members"]) == 1


def test_policies_by_id_are_a_map() -> None:
    _, body = sent("repository:Repository")
    assert body["cleanupPolicies"]["keep-newest"] == {
        "action": "KEEP",
        "id": "keep-newest",
        "mostRecentVersions": {"keepCount": 5},
    }


def test_an_account_id_stands_beside_the_account() -> None:
    parameters, body = sent("account:Account")
    assert parameters == {"name": "projects/fleet-tests"}
    assert body == {
        "accountId": "test-vllm-nodes",
        "serviceAccount": {"displayName": "vLLM fleet nodes, stack test"},
    }


def test_a_clusters_inputs_go_where_gke_has_them_today() -> None:
    parameters, body = sent("cluster:Cluster")
    cluster = body["cluster"]
    assert parameters == {"parent": "projects/fleet-tests/locations/europe-west4"}
    assert cluster["autopilot"] == {"enabled": True}
    assert cluster["networkConfig"] == {
        "gatewayApiConfig": {"channel": "CHANNEL_STANDARD"},
        "defaultEnablePrivateNodes": True,
    }
    doors = cluster["controlPlaneEndpointsConfig"]["ipEndpointsConfig"]
    assert doors["authorizedNetworksConfig"]["cidrBlocks"][0]["cidrBlock"] == "203.0.113.0/24"
    assert cluster["autoscaling"]["autoprovisioningNodePoolDefaults"].keys() == {"serviceAccount", "oauthScopes"}
    assert cluster["maintenancePolicy"]["window"]["recurringWindow"].keys() == {"window", "recurrence"}
    # What GKE has replaced or never had.
    gone = {"privateClusterConfig", "masterAuthorizedNetworksConfig", "deletionProtection", "clusterAutoscaling"}
    assert not gone & cluster.keys()


def test_an_exclusion_is_an_entry_of_a_map_with_its_options_inside() -> None:
    exclusion = {
        "exclusionName": "launch",
        "startTime": "2026-12-01T00:00:00Z",
        "exclusionOptions": {"scope": "NO_UPGRADES"},
    }
    _, body = sent("cluster:Cluster", maintenancePolicy={"maintenanceExclusions": [exclusion]})
    assert body["cluster"]["maintenancePolicy"]["window"]["maintenanceExclusions"] == {
        "launch": {"startTime": "2026-12-01T00:00:00Z", "maintenanceExclusionOptions": {"scope": "NO_UPGRADES"}}
    }


def test_an_input_without_an_entry_keeps_its_name_and_its_place() -> None:
    mapping = TypeMapping(read=(), document="", method="", fields={"a": Rename(to="x.y"), "a.b.c": Rename(to="x.z")})
    assert api_path(mapping, "a.b.d") == "x.y.b.d"
    assert api_path(mapping, "a.b.c") == "x.z"
    assert body_of(mapping, {"a": {"b": {"c": 1, "d": 2}}, "e": [{"f": 3}, {"f": 4}]}) == {
        "x": {"y": {"b": {"d": 2}}, "z": 1},
        "e": [{"f": 3}, {"f": 4}],
    }


def test_items_of_a_renamed_list_stay_apart() -> None:
    mapping = TypeMapping(
        read=(),
        document="",
        method="",
        fields={"allows": Rename(to="allowed"), "allows.protocol": Rename(to="allowed.IP")},
    )
    assert body_of(mapping, {"allows": [{"protocol": "tcp", "ports": ["1"]}, {"protocol": "udp"}]}) == {
        "allowed": [{"IP": "tcp", "ports": ["1"]}, {"IP": "udp"}]
    }


def test_what_is_none_or_the_providers_alone_is_not_sent_and_what_is_empty_is() -> None:
    mapping = TypeMapping(read=(), document="", method="", provider_only={"forceDestroy": "why", "a.b": "why"})
    inputs = {"forceDestroy": True, "a": {"b": 1}, "none": None, "list": [], "map": {}}
    assert body_of(mapping, inputs) == {"list": [], "map": {}}


def test_only_the_first_of_a_list_is_sent_where_the_api_takes_one() -> None:
    mapping = TypeMapping(read=(), document="", method="", fields={"rays": Rename(to="ray", first="why")})
    assert body_of(mapping, {"rays": [{"enabled": True}, {"enabled": False}]}) == {"ray": {"enabled": True}}


def test_a_secret_is_sent_open_and_marked() -> None:
    mapping = TypeMapping(read=(), document="", method="")
    request = build(mapping, {"a": Secret({"b": "c"})})
    leaf = request.body.below["a"].below["b"]
    assert (leaf.value, leaf.secret, leaf.path) == ("c", True, "a.b")


def test_a_parameter_waits_for_all_its_inputs() -> None:
    mapping = TypeMapping(
        read=(), document="", method="", parameters={"parent": "projects/{project}/locations/{location}"}
    )
    assert build(mapping, {"project": "p"}).parameters == {"parent": None}
    assert build(mapping, {"project": "p", "location": Secret("l")}).parameters == {"parent": "projects/p/locations/l"}
