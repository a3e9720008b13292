"""RDMA network cards for a server that hands its cache over, or takes it: the pod's claim, and what NIXL is told. Creates no resource.

Tried against Kubernetes' own schemas and scheduler, with simulated cards. Needs a cloud: the driver, GPU memory registered by a pod without
IPC_LOCK, which Autopilot refuses, and as a user that is not root.
"""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, Final

from settings.shaped_engine import TRANSFER_HOST as HOST
from settings.shaped_engine import TRANSFER_PORT as PORT
from workloads.names import TRANSFER_PORT

if TYPE_CHECKING:
    from pulumi_kubernetes.core.v1 import ContainerPortArgsDict, EnvVarArgsDict, PodResourceClaimArgsDict
    from pulumi_kubernetes.resource.v1 import DeviceRequestArgsDict, ResourceClaimTemplateSpecArgsDict

DEVICE_CLASS: Final = "mrdma.google.com"
"""Class of the RDMA cards. Source: GKE docs, managed DRANET; GKE installs it."""
CLAIM: Final = "rdma"
"""Name of the claim in the pod."""
_UCX: Final = {
    # Without TCP: UCX takes it without an error where RDMA does not work, at a hundredth of the speed. A failure should be seen instead
    # (unverified).
    "UCX_TLS": "rc,cuda_copy,cuda_ipc,sm,self",
    # Cards of two nodes have different subnets. Source: llm-d, guides/pd-disaggregation, GKE.
    "UCX_IB_ROCE_REACHABILITY_MODE": "all",
}


def template_name(server: str) -> str:
    """Name of the ResourceClaimTemplate of `server`."""
    return f"{server}-{CLAIM}"


def template_spec() -> ResourceClaimTemplateSpecArgsDict:
    """All RDMA cards of a node, because the pod has all of its GPUs: each GPU has one beside it."""
    request: DeviceRequestArgsDict = {
        "name": CLAIM,
        "exactly": {"device_class_name": DEVICE_CLASS, "allocation_mode": "All"},
    }
    return {"spec": {"devices": {"requests": [request]}}}


def pod_claims(server: str) -> list[PodResourceClaimArgsDict]:
    """The pod's claims: Kubernetes creates one for each pod."""
    return [{"name": CLAIM, "resource_claim_template_name": template_name(server)}]


def environment(others: Container[str]) -> list[EnvVarArgsDict]:
    """What NIXL and UCX are told. `others`: names of variables that the stack file sets, which stay."""
    own: list[EnvVarArgsDict] = [
        # Decode asks prefill at this address, which is localhost by default.
        {"name": HOST, "value_from": {"field_ref": {"field_path": "status.podIP"}}},
        {"name": PORT, "value": str(TRANSFER_PORT)},
    ]
    own += [{"name": name, "value": value} for name, value in _UCX.items()]
    return [variable for variable in own if variable["name"] not in others]


def ports(engines: int) -> list[ContainerPortArgsDict]:
    """The ports where other servers ask for the addresses of the engines' caches."""
    return [
        {"name": f"transfer-{engine}", "container_port": TRANSFER_PORT + engine, "protocol": "TCP"}
        for engine in range(engines)
    ]
