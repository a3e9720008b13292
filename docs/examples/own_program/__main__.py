"""One model on an Autopilot cluster in a Shared VPC that exists: a program of your own, with Google Cloud and Kubernetes parts."""

from __future__ import annotations

import pulumi
import pulumi_kubernetes as k8s

from facts.machines import find
from facts.signals.catalogue import Watched, catalogue
from infra.cluster import Cluster, ClusterArgs
from infra.identity import NodeIdentity, NodeIdentityArgs
from infra.image_registry import ImageRegistry, ImageRegistryArgs
from infra.naming import Place
from infra.network import ExistingNetwork
from infra.services import Services, ServicesArgs
from settings.derived.traffic import Traffic, VpcRanges
from settings.sections.capacity import OnDemand, placement
from settings.sections.engine import Engine
from settings.sections.model import Model
from settings.sections.network import ExistingVpc
from settings.sections.network import Network as Ranges
from settings.sections.weights import Weights as Volume
from workloads.monitoring import Monitoring, MonitoringArgs
from workloads.namespace import Namespace, NamespaceArgs
from workloads.server.server import Server, ServerArgs
from workloads.space import Space
from workloads.weights.weights import Weights, WeightsArgs

config, gcp = pulumi.Config(), pulumi.Config("gcp")
replicas = config.require_int("replicas")
place = Place(project=gcp.require("project"), region=gcp.require("region"), name_prefix="support-bot")
zones = (f"{place.region}-b",)

# Google Cloud: the cluster, in a subnet of the host project. Nothing of the network is created, changed or deleted.
apis = ("artifactregistry", "cloudresourcemanager", "compute", "container", "iam", "logging", "monitoring")
services = Services("apis", ServicesArgs(project=place.project, apis=[f"{api}.googleapis.com" for api in apis]))
after_services = pulumi.ResourceOptions(depends_on=[services])
network = ExistingNetwork(
    place=place,
    network=Ranges(
        node_cidr="10.1.0.0/20",
        pod_cidr="10.64.0.0/14",
        service_cidr="10.32.0.0/20",
        existing=ExistingVpc(
            project="host-project", vpc="office", subnet="gke-west4", pod_range="gke-pods", service_range="gke-services"
        ),
    ),
)
images = ImageRegistry("images", ImageRegistryArgs(place=place), after_services)
nodes = NodeIdentity("nodes", NodeIdentityArgs(place=place, images=images), after_services)
cluster = Cluster("cluster", ClusterArgs(network=network, nodes=nodes), after_services)
kubernetes = k8s.Provider("kubernetes", kubeconfig=cluster.kubeconfig, cluster_identifier=cluster.identity)
on_cluster = pulumi.ResourceOptions(providers={"kubernetes": kubernetes})

# The cluster's objects: a namespace with its policies, the weights on a volume, and one server for each replica.
ranges = VpcRanges(nodes="10.1.0.0/20", pods="10.64.0.0/14", services="10.32.0.0/20")
namespace = Namespace(
    "namespace",
    NamespaceArgs(name="support-bot", traffic=Traffic(server="support-bot", ranges=ranges), gpus=replicas),
    on_cluster,
)
space = Space(namespace=namespace.name, image_prefix=images.image_prefix)
guarded = pulumi.ResourceOptions(providers={"kubernetes": kubernetes}, depends_on=[namespace])
model = Model(id="Qwen/Qwen3.5-4B", revision="851bf6e806efd8d0a36b00ddf55e13ccb7b8cd0a", size_gb=9.5)
weights = Weights(
    "weights",
    WeightsArgs(
        space=space,
        model=model,
        zones=zones,
        class_prefix="support-bot",
        volume=Volume(size_gib=16, throughput_mibps=400),
    ),
    guarded,
)
server = Server(
    "server",
    ServerArgs(
        space=space,
        name="support-bot",
        replicas=replicas,
        model=model,
        engine=Engine(max_model_len=8192, max_num_seqs=32, gpu_memory_utilization=0.9, language_model_only=True),
        placement=placement(
            OnDemand(mode="on-demand"), namespace="support-bot", zones=zones, machine=find("g2-standard-12")
        ),
        weights=weights.mount,
        annotations={"vllm-fleet.dev/context-tokens": "8192", "vllm-fleet.dev/concurrency-per-replica": "32"},
    ),
    guarded,
)
signals = catalogue(Watched(server="support-bot", namespace="support-bot", stack="support-bot", engines_per_pod=1))
Monitoring("monitoring", MonitoringArgs(space=space, server=server, signals=signals), guarded)

pulumi.export("endpoint", server.endpoint)
pulumi.export("kubeconfig", cluster.kubeconfig)
