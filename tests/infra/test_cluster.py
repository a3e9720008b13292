from __future__ import annotations

import json
from typing import Any

import pytest

from fleet.preview.record.recorder import Secret
from tests.support.recorded import named, only, recorded_platform
from tests.support.rows import each_row

OFFICE = {"ipEndpoint": {"enabled": True, "authorizedNetworks": [{"name": "office", "cidr": "203.0.113.0/24"}]}}

REFUSED_BY_AUTOPILOT = {
    "initialNodeCount",
    "nodeConfig",
    "nodePools",
    "nodePoolDefaults",
    "nodeVersion",
    "networkPolicy",
    "removeDefaultNodePool",
    "enableIntranodeVisibility",
    "enableShieldedNodes",
    "enableTpu",
    "enableKubernetesAlpha",
    "enableLegacyAbac",
    "defaultMaxPodsPerNode",
    "datapathProvider",
    "networkingMode",
    "clusterIpv4Cidr",
    "addonsConfig",
    "verticalPodAutoscaling",
    "podSecurityPolicyConfig",
}


def _cluster(**sections: Any) -> dict[str, Any]:
    return dict(only(recorded_platform(**sections), "container/cluster:Cluster").inputs)


def test_a_cluster_may_have_a_name_of_its_own() -> None:
    assert _cluster(cluster={"name": "search"})["name"] == "search"


@each_row("asked", ["1.35", "1.35.2", "1.35.0-gke.1171000"])
def test_a_cluster_is_asked_for_a_minor_version_whose_patches_gke_withdraws(asked: str) -> None:
    assert _cluster(cluster={"minVersion": asked})["minMasterVersion"] == "1.35"
    assert "minMasterVersion" not in _cluster()


def test_nothing_is_given_that_autopilot_refuses() -> None:
    for sections in ({}, {"cluster": OFFICE}):
        cluster = _cluster(**sections)
        assert cluster.keys() & REFUSED_BY_AUTOPILOT == set()
        assert cluster["clusterAutoscaling"].keys() == {"autoProvisioningDefaults"}


def test_nodes_run_as_their_own_service_account() -> None:
    assert _cluster()["clusterAutoscaling"]["autoProvisioningDefaults"] == {
        "serviceAccount": "test-vllm-nodes@fleet-tests.iam.gserviceaccount.com",
        "oauthScopes": ["https://www.googleapis.com/auth/cloud-platform"],
    }


def test_an_ip_door_opens_to_the_named_networks_alone() -> None:
    cluster = _cluster(cluster=OFFICE)
    assert cluster["controlPlaneEndpointsConfig"]["ipEndpointsConfig"] == {"enabled": True}
    assert cluster["controlPlaneEndpointsConfig"]["dnsEndpointConfig"] == {"allowExternalTraffic": True}
    assert cluster["masterAuthorizedNetworksConfig"] == {
        "gcpPublicCidrsAccessEnabled": False,
        "cidrBlocks": [{"cidrBlock": "203.0.113.0/24", "displayName": "office"}],
    }


def test_the_add_ons_that_the_fleet_uses_are_on() -> None:
    cluster = _cluster()
    assert cluster["gatewayApiConfig"] == {"channel": "CHANNEL_STANDARD"}
    assert cluster["secretManagerConfig"] == {"enabled": True}
    assert cluster["costManagementConfig"] == {"enabled": True}
    assert cluster["workloadIdentityConfig"] == {"workloadPool": "fleet-tests.svc.id.goog"}
    assert cluster["loggingConfig"] == {"enableComponents": ["SYSTEM_COMPONENTS", "WORKLOADS"]}


def test_upgrades_keep_to_the_maintenance_window() -> None:
    window = {"startTime": "2026-02-01T00:00:00Z", "endTime": "2026-02-01T12:00:00Z", "recurrence": "FREQ=DAILY"}
    assert _cluster(cluster={"maintenance": window})["maintenancePolicy"] == {"recurringWindow": window}


@pytest.mark.parametrize("cluster", [{}, OFFICE])
def test_the_kubeconfig_is_secret_names_the_dns_endpoint_and_carries_no_credential(cluster: dict[str, Any]) -> None:
    recording = recorded_platform(cluster=cluster)
    secret = recording.outputs["kubeconfig"]
    assert isinstance(secret, Secret)
    config = json.loads(secret.value)
    (entry,) = config["clusters"]
    # No certificate authority: the DNS endpoint's certificate is publicly trusted, the cluster's own is not its issuer.
    assert entry["cluster"].keys() == {"server"}
    assert entry["cluster"]["server"].startswith("https://gke-")
    assert entry["cluster"]["server"].endswith(".europe-west4.gke.goog")
    (user,) = config["users"]
    assert user["user"].keys() == {"exec"}
    assert user["user"]["exec"]["command"] == "gke-gcloud-auth-plugin"
    assert config["current-context"] == "gke_fleet-tests_europe-west4_vllm-inference-cluster-test"
    assert config["current-context"] == config["contexts"][0]["name"] == entry["name"] == user["name"]


def test_another_cluster_has_another_identity_and_the_same_one_keeps_its_own() -> None:
    def identity(**sections: Any) -> str:
        return str(recorded_platform(**sections).outputs["clusterIdentity"])

    assert identity() == identity(cluster=OFFICE)
    assert identity() != identity(stack="other")
    assert repr(named(recorded_platform("preview"), "cluster-kubernetes").inputs["clusterIdentifier"]) == "[unknown]"


def test_a_cluster_that_is_only_planned_has_an_unknown_kubeconfig_not_one_that_says_none() -> None:
    recording = recorded_platform("preview")
    assert repr(recording.outputs["kubeconfig"]) == "[secret]"
    assert repr(recording.outputs["kubeconfig"].value) == "[unknown]"
    assert repr(named(recording, "cluster-kubernetes").inputs["kubeconfig"].value) == "[unknown]"
