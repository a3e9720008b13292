"""What a program's resources cost an hour, where they say it: for programs without a stack file of this project."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from facts import cost
from facts.cost import Bill, FleetShape, LineItem, WeightsShape
from facts.machines import MACHINES, Machine, of_accelerator
from facts.names import ROUTER_APP
from facts.node_room import boot_disk_of, first_with_room
from fleet.preview.compare.gpu_pods import GpuPods, gpu_pods
from fleet.preview.record.recording import RecordedResource
from fleet.preview.record.values import reveal
from fleet.preview.report.resource_facts import at, kind_of

_GKE: Final = "cloud.google.com"
_UNITS: Final = {"": 1.0, "m": 1e-3, "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "M": 1e6, "G": 1e9}
_GIB: Final = 2.0**30
_WITHOUT_CHARGE: Final = frozenset(
    {
        "compute.Network",
        "compute.Subnetwork",
        "compute.Router",
        "compute.Firewall",
        "serviceaccount.Account",
        "billing.Budget",
        "projects.Service",
        "monitoring.Dashboard",
        "secretmanager.SecretIamMember",
    }
)
"""Kinds of Google Cloud's that have no price by themselves. Grants, which end with IAMMember, have none either."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedBill:
    """A bill made of resources, and what they do not say."""

    bill: Bill | None
    """None where the region is unknown."""
    unknown: tuple[str, ...]
    """What cannot be known from the program, a sentence each."""


def recorded_bill(resources: Sequence[RecordedResource], region: str | None) -> RecordedBill:
    """The bill of a recording with placeholders. `region`: what the configuration says; else the resources are asked."""
    region = region or _region(resources)
    unknown = list(_unknown(resources))
    if region is None:
        unknown.insert(
            0, "The region, and with it every price: neither gcp:region, a cluster nor a zone of a volume says it."
        )
        return RecordedBill(bill=None, unknown=tuple(unknown))
    items: list[LineItem] = []
    nodes, hidden = 0, []
    for pods in gpu_pods(resources):
        resource = next(one for one in resources if one.urn == pods.urn)
        placed = _placed(resource, resources, pods)
        if placed is None:
            hidden.append(pods.name)
            continue
        machine, capacity = placed
        nodes += pods.nodes
        local_ssd = _selector(resource).get(f"{_GKE}/gke-ephemeral-storage-local-ssd") == "true"
        local_ssd = local_ssd and machine.local_ssd == "optional"
        pod_disk_gib = sum(_asked(one, "ephemeral-storage") for one in _containers(resource)) / _GIB
        node_disk_gib = pods.gpus_per_node // pods.gpus_per_replica * pod_disk_gib
        shape = FleetShape(
            nodes=pods.nodes,
            machine=machine,
            local_ssd=local_ssd,
            boot_disk_gib=boot_disk_of(machine, requested_gib=node_disk_gib, local_ssd=local_ssd),
            region=region,
            capacity=capacity,
            cluster=False,
        )
        items += (replace(one, name=f"{one.name}, {pods.namespace}/{pods.name}") for one in _priced(shape))
        if pods.replicas is None:
            counted = f"{pods.most} replicas, its autoscaler's maximum" if pods.most else "one replica"
            unknown.append(f"How many replicas of {pods.name} run: another owner decides; the bill has {counted}.")
    if hidden:
        unknown.append(f"The machine, and so the price, of {', '.join(hidden)}: its pods select none that is known.")
    items += _priced(
        _platform(resources, region, nodes), without={"nodes", "autopilot-premium", "boot-disk", "boot-disk-pd"}
    )
    excluded = cost.bill(FleetShape(nodes=0, region=region, capacity="on-demand")).excluded
    return RecordedBill(bill=Bill(region=region, items=tuple(items), excluded=excluded), unknown=tuple(unknown))


def _priced(shape: FleetShape, without: Iterable[str] = ()) -> list[LineItem]:
    return [one for one in cost.bill(shape).items if one.quantity and one.id not in without]


def _platform(resources: Sequence[RecordedResource], region: str, nodes: int) -> FleetShape:
    """Everything that is not a node: cluster, NAT, load balancers, volumes."""
    kinds = Counter(resource.type for resource in resources)
    balancers = kinds["kubernetes:gateway.networking.k8s.io/v1:Gateway"] + sum(
        resource.type == "kubernetes:core/v1:Service" and at(resource.inputs, "spec.type") == "LoadBalancer"
        for resource in resources
    )
    return FleetShape(
        nodes=nodes,
        region=region,
        capacity="on-demand",
        cluster=bool(kinds["gcp:container/cluster:Cluster"]),
        nat_gateways=kinds["gcp:compute/routerNat:RouterNat"],
        load_balancers=balancers,
        router_vcpus=sum(_vcpus(one) for one in resources if at(one.inputs, "metadata.labels.app") == ROUTER_APP),
        weights=_volumes(resources),
    )


def _vcpus(resource: RecordedResource) -> float:
    """Of a Deployment's pods, sidecars included; 0 of another resource."""
    if resource.type != "kubernetes:apps/v1:Deployment":
        return 0.0
    sidecars = at(resource.inputs, "spec.template.spec.initContainers") or ()
    asked = sum(_asked(one, "cpu") for one in (*_containers(resource), *sidecars))
    return asked * float(at(resource.inputs, "spec.replicas") or 1)


def _volumes(resources: Sequence[RecordedResource]) -> WeightsShape | None:
    """All claims of Hyperdisk ML as one volume: price follows their sums."""
    classes = {
        str(at(one.inputs, "metadata.name")): at(one.inputs, "parameters")
        for one in resources
        if one.type == "kubernetes:storage.k8s.io/v1:StorageClass"
    }
    gib = mibps = 0.0
    for claim in resources:
        parameters = classes.get(str(at(claim.inputs, "spec.storageClassName")))
        if claim.type == "kubernetes:core/v1:PersistentVolumeClaim" and isinstance(parameters, Mapping):
            if parameters.get("type") != "hyperdisk-ml":
                continue
            gib += _quantity(at(claim.inputs, "spec.resources.requests.storage")) / _GIB
            mibps += _quantity(parameters.get("provisioned-throughput-on-create")) / _UNITS["Mi"]
    return WeightsShape(size_gib=round(gib), throughput_mibps=round(mibps)) if gib else None


def _placed(
    resource: RecordedResource, resources: Sequence[RecordedResource], pods: GpuPods
) -> tuple[Machine, str] | None:
    """The machine that GKE creates for these pods, and the key of its price; None where nothing says it."""
    selector = _selector(resource)
    if (class_ := selector.get(f"{_GKE}/compute-class")) is not None:
        machine = _of_class(str(class_), resources)
        return None if machine is None else (machine, "ladder")
    capacity = "on-demand"
    if selector.get(f"{_GKE}/reservation-name"):
        capacity = "reservation"
    elif selector.get(f"{_GKE}/gke-spot") == "true":
        capacity = "spot"
    elif selector.get(f"{_GKE}/gke-flex-start") == "true":
        capacity = "flex-start"
    named = selector.get("node.kubernetes.io/instance-type")
    if named is not None:
        return (MACHINES[str(named)], capacity) if str(named) in MACHINES else None
    same = of_accelerator(str(selector.get(f"{_GKE}/gke-accelerator")))
    fitting = [one for one in same if one.gpus == pods.gpus_per_node]
    machine = first_with_room(
        fitting,
        cpu_milli=1000 * sum(_asked(one, "cpu") for one in _containers(resource)),
        memory_bytes=sum(_asked(one, "memory") for one in _containers(resource)),
    )
    machine = machine or next(iter(fitting), None)
    return None if machine is None else (machine, capacity)


def _of_class(name: str, resources: Sequence[RecordedResource]) -> Machine | None:
    """The machine of a ComputeClass that the program registers."""
    for resource in resources:
        if resource.type.endswith(":ComputeClass") and at(resource.inputs, "metadata.name") == name:
            rungs = at(resource.inputs, "spec.priorities") or ()
            return next((MACHINES[str(one)] for rung in rungs if (one := at(rung, "machineType")) in MACHINES), None)
    return None


def _selector(resource: RecordedResource) -> Mapping[str, Any]:
    selector = reveal(at(resource.inputs, "spec.template.spec.nodeSelector"))
    return selector if isinstance(selector, Mapping) else {}


def _containers(resource: RecordedResource) -> Sequence[Any]:
    return at(resource.inputs, "spec.template.spec.containers") or ()


def _asked(container: Any, what: str) -> float:
    requests = at(container, "resources.requests") or at(container, "resources.limits")
    return _quantity(at(requests, what))


def _quantity(text: Any) -> float:
    """A Kubernetes quantity; 0 for what is none."""
    found = re.fullmatch(r"([0-9.]+)([A-Za-z]*)", str(text))
    return float(found[1]) * _UNITS.get(found[2], 0) if found else 0


def _region(resources: Sequence[RecordedResource]) -> str | None:
    for resource in resources:
        if resource.type == "gcp:container/cluster:Cluster" and (place := at(resource.inputs, "location")):
            return _of_place(str(place))
    for resource in resources:
        for topology in at(resource.inputs, "allowedTopologies") or ():
            if zone := at(topology, "matchLabelExpressions.0.values.0"):
                return _of_place(str(zone))
    return None


def _of_place(place: str) -> str:
    """The region of a region or zone: "europe-west4" of "europe-west4-b"."""
    return re.sub(r"(-[a-z]+[0-9]+)-[a-z]$", r"\1", place)


def _unknown(resources: Sequence[RecordedResource]) -> Iterator[str]:
    yield (
        "Throughput and the price of a million tokens: they follow from a stack file's model, profile and traffic, which this program "
        "does not have. `fleet plan` answers them for a model and a machine."
    )
    other = Counter(
        kind
        for resource in resources
        if resource.custom and resource.type.startswith("gcp:") and _costs(kind := kind_of(resource.type))
    )
    if other:
        names = ", ".join(f"{name} × {count}" if count > 1 else name for name, count in sorted(other.items()))
        yield f"What these cost, by use or at all: {names}."
    if charts := sorted(one.name for one in resources if one.type == "kubernetes:helm.sh/v3:Release"):
        yield f"The objects of Helm charts, which only the provider renders: {', '.join(charts)}."
    yield "Pods without GPUs, which Autopilot bills by their requests while they run."


def _costs(kind: str) -> bool:
    priced = ("container.Cluster", "compute.RouterNat")
    return kind not in _WITHOUT_CHARGE and kind not in priced and not kind.lower().endswith("iammember")
