"""What an API server calls in the cluster arrives at the lab's socket, and nowhere else."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lab.control_plane.api import NAMESPACE, SERVICE, ApiRefusedError, Kind
from tests.support.waiting import within

if TYPE_CHECKING:
    from lab.control_plane.cluster import ControlPlane

API_SERVICE = Kind("apiregistration.k8s.io/v1", "APIService")
WEBHOOK = Kind("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration")
NAME = "metrics"


def service(namespace: str) -> dict[str, Any]:
    spec = {"ports": [{"port": 443}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": NAME, "namespace": namespace}, "spec": spec}


def endpoints(namespace: str) -> dict[str, Any]:
    """A pod behind the Service, without which the API server does not even dial it."""
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": NAME, "namespace": namespace, "labels": {"kubernetes.io/service-name": NAME}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.64.0.9"], "conditions": {"ready": True}}],
        "ports": [{"port": 443, "protocol": "TCP"}],
    }


def dialled() -> set[str]:
    """Remote addresses of this machine's TCP connections, whatever their state, that are not loopback."""
    found = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        address = bytes.fromhex(line.split()[2].partition(":")[0])[::-1]
        found.add(".".join(map(str, address)))
    return {one for one in found if one.startswith(("10.96.", "10.64."))}


@pytest.mark.slow
def test_the_api_server_sends_its_calls_to_services_to_the_socket(control_plane: ControlPlane) -> None:
    api, namespace = control_plane.api, "called"
    api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    made = api.apply(service(namespace))
    address = made["spec"]["clusterIP"]
    api.apply(endpoints(namespace))
    reference = {"name": NAME, "namespace": namespace, "port": 443}
    group = {"group": "example.dev", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 100}
    api.apply(
        {
            "apiVersion": API_SERVICE.api_version,
            "kind": "APIService",
            "metadata": {"name": "v1.example.dev"},
            "spec": {**group, "service": reference},
        }
    )
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    api.apply(
        {
            "apiVersion": WEBHOOK.api_version,
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "called"},
            "webhooks": [
                {
                    "name": "called.example.dev",
                    "clientConfig": {"service": {**reference, "path": "/judge"}},
                    "rules": [rule],
                    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                    "sideEffects": "None",
                    "admissionReviewVersions": ["v1"],
                }
            ],
        }
    )
    try:
        assert within(30, lambda: _is_available(api.get(API_SERVICE, "v1.example.dev")))
        assert api.raw("GET", "/apis/example.dev/v1")["resources"] == []
        config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": namespace}}
        time.sleep(1.0)  # webhooks are in force within a second
        with pytest.raises(ApiRefusedError, match=r"called\.example\.dev"):
            api.create(config_map)
        assert set(control_plane.cluster_side.asked) == {f"{address}:443"}
        assert dialled() == set()
    finally:
        api.delete(WEBHOOK, "called")
        api.delete(API_SERVICE, "v1.example.dev")
        api.delete(SERVICE, NAME, namespace)
        api.delete(NAMESPACE, namespace)
    # An aggregated API that does not answer would keep it Terminating.
    assert within(60, lambda: api.get(NAMESPACE, namespace) is None)


def _is_available(one: Any) -> bool:
    conditions = ((one or {}).get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Available" and each["status"] == "True" for each in conditions)
