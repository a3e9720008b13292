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


WINDOW = {"startTime": "2026-02-01T00:00:00Z", "endTime": "2026-02-01T12:00:00Z", "recurrence": "FREQ=DAILY"}


@each_row(
    ("cluster", "made"),
    [
        ({"name": "search"}, {"name": "search"}),
        # A minor version: GKE withdraws patches.
        *(({"minVersion": asked}, {"minMasterVersion": "1.35"}) for asked in ("1.35", "1.35.2", "1.35.0-gke.1171000")),
        ({"maintenance": WINDOW}, {"maintenancePolicy": {"recurringWindow": WINDOW}}),
        # An IP endpoint opens to the named networks alone.
        (
            OFFICE,
            {
                "controlPlaneEndpointsConfig": {
                    "ipEndpointsConfig": {"enabled": True},
                    "dnsEndpointConfig": {"allowExternalTraffic": True},
                },
                "masterAuthorizedNetworksConfig": {
                    "gcpPublicCidrsAccessEnabled": False,
                    "cidrBlocks": [{"cidrBlock": "203.0.113.0/24", "displayName": "office"}],
                },
            },
        ),
        # What the fleet uses is on, and nodes run as their own service account.
        (
            {},
            {
                "gatewayApiConfig": {"channel": "CHANNEL_STANDARD"},
                "secretManagerConfig": {"enabled": True},
                "costManagementConfig": {"enabled": True},
                "workloadIdentityConfig": {"workloadPool": "fleet-tests.svc.id.goog"},
                "loggingConfig": {"enableComponents": ["SYSTEM_COMPONENTS", "WORKLOADS"]},
                "clusterAutoscaling": {
                    "autoProvisioningDefaults": {
                        "serviceAccount": "test-vllm-nodes@fleet-tests.iam.gserviceaccount.com",
                        "oauthScopes": ["https://www.googleapis.com/auth/cloud-platform"],
                    }
                },
            },
        ),
    ],
)
def test_a_cluster_is_as_its_section_says(cluster: dict[str, Any], made: dict[str, Any]) -> None:
    assert _cluster(cluster=cluster).items() >= made.items()


def test_nothing_is_given_that_autopilot_refuses() -> None:
    for section in ({}, OFFICE):
        assert _cluster(cluster=section).keys() & {*REFUSED_BY_AUTOPILOT, "minMasterVersion"} == set()


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
