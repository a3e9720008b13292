"""RDMA network cards as managed DRANET offers them to pods: the DeviceClass that GKE installs, and each node's ResourceSlice."""

from __future__ import annotations

from typing import Final

from facts import machines
from lab.control_plane.api import NODE, ApiRefusedError, ClusterApi, Kind, Manifest
from workloads.server.rdma import DEVICE_CLASS

API: Final = "resource.k8s.io/v1"
RESOURCE_SLICE: Final = Kind(API, "ResourceSlice")
DRIVER: Final = "dra.net"
"""Source: kubernetes-sigs/dranet; that GKE's managed driver has the same name is assumed."""


def device_class() -> Manifest:
    """The class of RDMA cards. Only its name is documented."""
    selectors = [{"cel": {"expression": f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].rdma'}}]
    return {
        "apiVersion": API,
        "kind": "DeviceClass",
        "metadata": {"name": DEVICE_CLASS},
        "spec": {"selectors": selectors},
    }


def node_cards(node: Manifest, machine_type: str) -> Manifest:
    """What the driver on a node reports: a card for each GPU. It goes with the node."""
    name = node["metadata"]["name"]
    owner = {"apiVersion": NODE.api_version, "kind": NODE.kind, "name": name, "uid": node["metadata"]["uid"]}
    attributes = {f"{DRIVER}/rdma": {"bool": True}}
    return {
        "apiVersion": API,
        "kind": RESOURCE_SLICE.kind,
        "metadata": {"name": f"{name}-{DRIVER}", "ownerReferences": [owner]},
        "spec": {
            "driver": DRIVER,
            "nodeName": name,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": [
                {"name": f"gpu{number}rdma0", "attributes": attributes}
                for number in range(machines.find(machine_type).gpus)
            ],
        },
    }


def report(api: ClusterApi, node: str, machine_type: str) -> None:
    """Report the cards of a node that exists; one that is gone has none. Raises ApiRefusedError."""
    found = api.get(NODE, node)
    if found is None:
        return
    try:
        api.create(node_cards(found, machine_type))
    except ApiRefusedError as refusal:
        if refusal.status != 409:
            raise
