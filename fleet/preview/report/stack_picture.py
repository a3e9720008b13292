"""A stack as a picture, read from its recording: who asks, the door, the servers with their GPUs, weights, what watches, and prices."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING, Any, Final

from facts.machines import MACHINES
from facts.texts import plural
from fleet.preview.compare.gpu_pods import gpu_pods, scalers
from fleet.preview.record.recording import STACK_REFERENCE_TYPE, RecordedResource, Recording
from fleet.preview.record.redact import Redactor
from fleet.preview.record.values import Value, transform
from fleet.preview.report.resource_facts import at, cloud_name, kind_of
from fleet.report.words import format_usd

if TYPE_CHECKING:
    from facts.cost import Bill, LineItem

_CLUSTER: Final = "pods of the cluster"
_VPC: Final = "in the VPC network"
MOST_NODES: Final = 24
"""Nodes that are drawn; the text says how many more there are."""
_SCALERS: Final[Mapping[str, str]] = {"ScaledObject": "KEDA", "HorizontalPodAutoscaler": "HPA"}
_PART_OF_ITEM: Final[Mapping[str, str]] = {
    **dict.fromkeys(("nodes", "reservation", "autopilot-premium", "boot-disk", "boot-disk-pd", "local-ssd"), "servers"),
    **dict.fromkeys(("hyperdisk-ml-capacity", "hyperdisk-ml-throughput", "disk-image"), "weights"),
    **dict.fromkeys(("epp", "load-balancer"), "door"),
    "benchmark": "benchmark",
    "keda": "scaler",
    "spending-guard": "guard",
}
"""Part by the id of a bill's item; every other item, or one whose part is not drawn, belongs to the cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """The nodes of one group of servers."""

    count: int
    fewest: int
    """Nodes at the autoscaler's minimum; `count` without one."""
    gpus: int
    """Of one node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A box of the picture."""

    id: str
    title: str
    lines: tuple[str, ...]
    price: str = ""
    nodes: tuple[Nodes, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StackPicture:
    """What the picture shows."""

    stack: str
    cluster: Part
    """The frame around the others."""
    owns_cluster: bool
    asked_from_outside: bool
    """Whether clients stand outside of the cluster."""
    parts: Mapping[str, Part]
    """By id, in order: clients, benchmark, door, servers, weights, scaler, watch, guard, budget; absent ones are left out."""
    total: str

    @property
    def title(self) -> str:
        """What is drawn."""
        return f"Stack {self.stack}: {self.total}"

    @property
    def description(self) -> str:
        """All of it as one sentence for each part."""
        return " ".join(_in_words(part) for part in (self.cluster, *self.parts.values()))


def stack_picture(recording: Recording, bill: Bill) -> StackPicture:
    """The picture of one recorded stack, with the price of each part."""
    read = _Reader(recording)
    found = (
        read.clients(),
        read.benchmark(),
        read.door(),
        read.servers(bill),
        read.weights(),
        read.scaler(),
        read.watch(),
        read.guard(),
        read.budget(),
    )
    parts = {part.id: part for part in found if part is not None}
    prices = _prices(bill, parts)
    return Redactor(recording.plaintexts).whole(
        StackPicture(
            stack=recording.stack,
            cluster=_priced(read.cluster(), prices),
            owns_cluster=bool(read.of_kind("container.Cluster")),
            asked_from_outside=read.clients_network() != _CLUSTER,
            parts={id_: _priced(part, prices) for id_, part in parts.items()},
            total=bill.format_hourly_total(),
        )
    )


class _Reader:
    """What the recording says of each part."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._resources: list[RecordedResource] = []
        self._by_kind: dict[str, list[RecordedResource]] = {}
        redactor = Redactor(recording.plaintexts)

        def hidden(leaf: Value) -> Value:
            return redactor.text(leaf) if isinstance(leaf, str) else leaf

        for resource in recording.resources:
            # Hidden before it is taken apart: a piece of a secret is not recognized as one.
            safe = replace(resource, inputs=transform(dict(resource.inputs), hidden))
            self._resources.append(safe)
            self._by_kind.setdefault(kind_of(resource.type), []).append(safe)

    def of_kind(self, *kinds: str) -> list[RecordedResource]:
        """The custom resources of these kinds, in the recording's order."""
        return [one for kind in kinds for one in self._by_kind.get(kind, ()) if one.custom]

    def clients(self) -> Part:
        """Who may ask, by the kind of the door."""
        return Part(id="clients", title="Clients", lines=(self.clients_network(),))

    def clients_network(self) -> str:
        """Where clients stand."""
        for gateway in self.of_kind("Gateway"):
            is_external = "external" in str(at(gateway.inputs, "spec.gatewayClassName"))
            return "on the internet" if is_external else _VPC
        balanced = any(at(service.inputs, "spec.type") == "LoadBalancer" for service in self._door_services())
        return _VPC if balanced else _CLUSTER

    def benchmark(self) -> Part | None:
        """The Job that measures."""
        for job in self.of_kind("Job"):
            if "benchmark" in job.name:
                pods = at(job.inputs, "spec.completions") or 1
                return Part(id="benchmark", title="Benchmark", lines=(f"Job of {plural(pods, 'client pod')}",))
        return None

    def door(self) -> Part | None:
        """The gateway with its endpoint picker, or the Service."""
        for gateway in self.of_kind("Gateway"):
            kind = at(gateway.inputs, "spec.gatewayClassName")
            port = at(gateway.inputs, "spec.listeners.0.port")
            pickers = [
                *(one for one in self.of_kind("Release") if "inferencepool" in str(at(one.inputs, "chart"))),
                *self.of_kind("InferencePool"),
            ]
            lines = [f"class {kind}", *("an endpoint picker chooses the replica" for _ in pickers[:1])]
            return Part(id="door", title=f"Gateway {cloud_name(gateway)}:{port}", lines=tuple(lines))
        for service in self._door_services():
            kind = at(service.inputs, "spec.type") or "ClusterIP"
            balanced = (
                "internal load balancer" if kind == "LoadBalancer" else f"{kind}, spreads connections over replicas"
            )
            port = at(service.inputs, "spec.ports.0.port")
            return Part(id="door", title=f"Service {cloud_name(service)}:{port}", lines=(balanced,))
        return None

    def _door_services(self) -> list[RecordedResource]:
        return [
            resource
            for resource in self.of_kind("Service")
            if at(resource.inputs, "spec.clusterIP") != "None" and resource.is_kubernetes
        ]

    def servers(self, bill: Bill) -> Part | None:
        """The Deployments whose pods have GPUs."""
        deployments = {resource.urn: resource for resource in self.of_kind("Deployment")}
        servers = list(gpu_pods(self._resources))
        if not servers:
            return None
        bounds = {scaler.target: scaler for scaler in scalers(self._resources)}
        lines: list[str] = []
        nodes: list[Nodes] = []
        for server in servers:
            deployment = deployments[server.urn]
            scaler = bounds.get((server.namespace, server.name))
            fewest, most = server.replicas or 0, server.replicas
            if most is None and scaler is not None:
                fewest, most = scaler.fewest, scaler.most
            engine = _engine(deployment)
            count = "replicas managed externally" if most is None else _span(fewest, most, "replica")
            if len(servers) > 1:
                count = f"{server.name}: {count}"
            lines.append(f"{count} of {engine}" if engine else count)
            if (model := _model(deployment)) and (not lines[:-1] or model not in lines):
                lines.append(model)
            drawn = 1 if most is None else most
            least = drawn if most is None else fewest
            count_of, least_of = (
                ceil(replicas * server.gpus_per_replica / server.gpus_per_node) for replicas in (drawn, least)
            )
            nodes.append(Nodes(count=count_of, fewest=least_of, gpus=server.gpus_per_node))
        gpu, bought = self._capacity(deployments[servers[0].urn], servers[0].capacity)
        gpus = servers[-1].gpus_per_replica
        each = f"{gpus} {gpu}" if gpu else plural(gpus, "GPU")
        lines.append(f"{each} each, {bill.nodes.name.partition(',')[0]}")
        lines.append(f"capacity: {bought}")
        return Part(id="servers", title="Servers", lines=tuple(lines), nodes=tuple(nodes))

    def _capacity(self, deployment: RecordedResource, bought: str) -> tuple[str, str]:
        """The GPU's name, and how its nodes are bought: by the rungs of a ComputeClass, else as the pods select."""
        selector = at(deployment.inputs, "spec.template.spec.nodeSelector") or {}
        by_key = {key.rpartition("/")[2]: value for key, value in selector.items()}
        for resource in self.of_kind("ComputeClass"):
            if cloud_name(resource) == by_key.get("compute-class"):
                rungs = at(resource.inputs, "spec.priorities") or ()
                by_rungs = ", then ".join(_rung(rung) for rung in rungs)
                return _gpu_name(next((at(rung, "gpu.type") for rung in rungs), None)), by_rungs
        return _gpu_name(by_key.get("gke-accelerator")), bought

    def weights(self) -> Part | None:
        """The volumes that every replica reads."""
        claims = [
            resource
            for resource in self.of_kind("PersistentVolumeClaim")
            if "ReadOnlyMany" in (at(resource.inputs, "spec.accessModes") or ())
        ]
        if not claims:
            return None
        classes = {cloud_name(resource): resource for resource in self.of_kind("StorageClass")}
        claim = claims[0]
        size = str(at(claim.inputs, "spec.resources.requests.storage") or "").replace("Gi", " GiB")
        parameters = classes[name].inputs if (name := at(claim.inputs, "spec.storageClassName")) in classes else {}
        disk = at(parameters, "parameters.type") or ""
        speed = str(at(parameters, "parameters.provisioned-throughput-on-create") or "").removesuffix("Mi")
        lines = [" ".join(filter(None, (size, disk))) + (f", {int(speed):,} MiB/s" if speed.isdigit() else "")]
        lines.append("read-only, mounted by every replica")
        if any("weights" in resource.name for resource in self.of_kind("Job")):
            lines.append("written once by a Job, then imaged")
        title = "Weights volume" if len(claims) == 1 else f"{len(claims)} weights volumes"
        return Part(id="weights", title=title, lines=tuple(lines))

    def scaler(self) -> Part | None:
        """What sets the number of server replicas: KEDA, or Kubernetes' own autoscaler."""
        resources = {resource.urn: resource for resource in self._resources}
        servers = {(server.namespace, server.name) for server in gpu_pods(self._resources)}
        of_servers = [scaler for scaler in scalers(self._resources) if scaler.target in servers]
        if not of_servers:
            return None
        lines = []
        for scaler in of_servers:
            by = " and ".join(_scaled_by(resources[scaler.urn]))
            bounds = _span(scaler.fewest, scaler.most, "replica") + (f" by {by}" if by else "")
            lines.append(bounds if len(of_servers) == 1 else f"{scaler.target[1]}: {bounds}")
        names = sorted({_SCALERS[kind_of(resources[scaler.urn].type)] for scaler in of_servers})
        return Part(id="scaler", title=f"Autoscaler ({', '.join(names)})", lines=tuple(lines))

    def watch(self) -> Part | None:
        """Metrics, rules, alerts and dashboard."""
        scraped = self.of_kind("PodMonitoring")
        if not scraped:
            return None
        rules = sum(
            len(at(group, "rules") or ())
            for resource in self.of_kind("Rules")
            for group in at(resource.inputs, "spec.groups") or ()
        )
        alerts = len(self.of_kind("monitoring.AlertPolicy"))
        channels = len(self.of_kind("monitoring.NotificationChannel"))
        interval = at(scraped[0].inputs, "spec.endpoints.0.interval")
        lines = [f"metrics every {str(interval).removesuffix('s')} s"] if interval else []
        if rules:
            lines.append(plural(rules, "recording rule"))
        if alerts:
            lines.append(f"{plural(alerts, 'alert')} to {plural(channels, 'channel')}")
        if self.of_kind("monitoring.Dashboard"):
            lines.append("dashboard")
        return Part(id="watch", title="Monitoring", lines=tuple(lines))

    def guard(self) -> Part | None:
        """The pod that keeps the sum spent."""
        for deployment in self.of_kind("Deployment"):
            if "spending" in deployment.name:
                return Part(id="guard", title="Spending guard", lines=(_limit(deployment),))
        return None

    def budget(self) -> Part | None:
        """The billing account's budget."""
        for budget in self.of_kind("billing.Budget"):
            units = at(budget.inputs, "amount.specifiedAmount.units")
            return Part(id="budget", title="Budget", lines=(f"${int(units):,} a month" if units else "",))
        return None

    def cluster(self) -> Part:
        """The stack's own cluster, or whose it is."""
        for cluster in self.of_kind("container.Cluster"):
            autopilot = "GKE Autopilot cluster" if at(cluster.inputs, "enableAutopilot") else "GKE cluster"
            where = at(cluster.inputs, "location")
            title = f"{autopilot} {cloud_name(cluster)}" + (f" in {where}" if where else "")
            return Part(id="cluster", title=title, lines=("cluster fee, network and storage",))
        for resource in self._recording.resources:
            if resource.type == STACK_REFERENCE_TYPE:
                name = str(at(resource.inputs, "name") or resource.name).rpartition("/")[2]
                return Part(id="cluster", title=f"Cluster of stack {name}", lines=("not part of this stack",))
        return Part(id="cluster", title="An existing cluster", lines=("not part of this stack",))


def _engine(deployment: RecordedResource) -> str:
    """`vLLM 0.18.1`, from the image's tag; empty if the image is unknown."""
    image = at(deployment.inputs, "spec.template.spec.containers.0.image")
    tag = str(image).partition("@")[0].rpartition("/")[2].partition(":")[2] if isinstance(image, str) else ""
    return f"vLLM {tag.removeprefix('v')}" if tag else ""


def _model(deployment: RecordedResource) -> str:
    flag = "--served-model-name="
    given = at(deployment.inputs, "spec.template.spec.containers.0.args") or ()
    return next((str(one).removeprefix(flag) for one in given if str(one).startswith(flag)), "")


def _gpu_name(accelerator: Any) -> str:
    """`B200`, from the accelerator's label."""
    return next((machine.gpu.name for machine in MACHINES.values() if machine.gpu.accelerator == accelerator), "")


def _scaled_by(scaler: RecordedResource) -> list[str]:
    """What a scaler follows: the triggers of KEDA, or the metrics of Kubernetes' own."""
    triggers = {str(at(trigger, "type")) for trigger in at(scaler.inputs, "spec.triggers") or ()}
    metrics = list(at(scaler.inputs, "spec.metrics") or ())
    used = [str(at(metric, "resource.name")).upper() for metric in metrics if at(metric, "type") == "Resource"]
    by_load = "prometheus" in triggers or len(used) < len(metrics)
    return [*(["load"] if by_load else []), *(["time of day"] if "cron" in triggers else []), *used]


def _rung(rung: Any) -> str:
    if (named := at(rung, "reservations.specific.0.name")) is not None:
        return f"reservation {named}"
    if at(rung, "flexStart") is not None:
        return "flex-start"
    return "Spot" if at(rung, "spot") else "on demand"


def _span(fewest: int, most: int | None, noun: str) -> str:
    return plural(most or 0, noun) if fewest == most else f"{fewest} to {plural(most or 0, noun)}"


def _limit(deployment: RecordedResource) -> str:
    """The guard's limit and what happens there, from the JSON that it is started with."""
    for text in at(deployment.inputs, "spec.template.spec.containers.0.command") or ():
        try:
            terms = json.loads(str(text).removeprefix("--config="))
        except ValueError:
            continue
        if isinstance(terms, dict) and terms.get("limit_usd") is not None:
            return f"limit ${terms['limit_usd']:,.0f}, then {terms.get('then', 'pause')}"
    return "counts what the nodes cost"


def _prices(bill: Bill, parts: Mapping[str, Part]) -> Mapping[str, tuple[list[LineItem], list[LineItem]]]:
    """Items of each part: at full size, and at the autoscaler's minimum."""
    full: dict[str, tuple[list[LineItem], list[LineItem]]] = {}
    smallest = bill.scaled.smallest if bill.scaled is not None else bill
    for place, items in enumerate((bill.items, smallest.items)):
        for item in items:
            id_ = _PART_OF_ITEM.get(item.id, "")
            full.setdefault(id_ if id_ in parts else "cluster", ([], []))[place].append(item)
    return full


def _priced(part: Part, prices: Mapping[str, tuple[list[LineItem], list[LineItem]]]) -> Part:
    if part.id not in prices:
        return part
    full, smallest = prices[part.id]
    return replace(part, price=format_part_price(full, smallest))


def format_part_price(full: Sequence[LineItem], smallest: Sequence[LineItem]) -> str:
    """`at least $408.88 an hour`; `price unknown` where no item has one."""
    most, least = (sum(one.usd_per_hour or 0.0 for one in items) for items in (full, smallest))
    missing = sum(one.usd_per_hour is None for one in full)
    if missing == len(full):
        return "price unknown"
    amount = format_usd(most) if abs(most - least) < 0.005 else f"{format_usd(least)} to {format_usd(most)}"
    return f"{'at least ' if missing else ''}{amount} an hour"


def _in_words(part: Part) -> str:
    return f"{part.title}: {', '.join(filter(None, (*part.lines, part.price)))}."
