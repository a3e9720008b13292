"""One model on an Autopilot cluster in a Shared VPC that exists: a program of your own, with Google Cloud and Kubernetes parts."""

from __future__ import annotations

import pulumi
import pulumi_gcp as gcp

from facts.machines import find
from facts.signals.catalogue import Watched, catalogue
from infra.cluster import Cluster, ClusterArgs
from infra.identity import NodeIdentity, NodeIdentityArgs
from infra.image_registry import ImageRegistry, ImageRegistryArgs
from infra.network import ExistingNetwork
from infra.services import Services, ServicesArgs
from settings.derived.traffic import Traffic, VpcRanges
from settings.sections.capacity import OnDemand, placement
from settings.sections.engine import Engine
from settings.sections.model import Model
from settings.sections.network import ExistingVpc
from settings.sections.server import Image, Resources
from settings.sections.weights import Weights as Volume
from workloads.monitoring import Monitoring, MonitoringArgs
from workloads.namespace import Namespace, NamespaceArgs
from workloads.network_policies import NetworkPolicies, NetworkPoliciesArgs
from workloads.server.server import Server, ServerArgs
from workloads.weights.weights import WRITER_IMAGE, Weights, WeightsArgs

replicas = pulumi.Config().require_int("replicas")
project, region = (pulumi.Config("gcp").require(key) for key in ("project", "region"))
zones = (f"{region}-b",)

# Google Cloud: the cluster, in a subnet of the host project. Nothing of the network is created, changed or deleted.
apis = ("artifactregistry", "cloudresourcemanager", "compute", "container", "iam", "logging", "monitoring")
google = gcp.Provider("google", project=project, region=region)
services = Services(
    "apis",
    ServicesArgs(apis=[f"{api}.googleapis.com" for api in apis]),
    pulumi.ResourceOptions(provider=google),
)
after_services = pulumi.ResourceOptions(provider=google, depends_on=[services])
network = ExistingNetwork(
    project="host-project",
    region=region,
    names=ExistingVpc(vpc="office", subnet="gke-west4", pod_range="gke-pods", service_range="gke-services"),
    pod_cidr="10.64.0.0/14",
)
images = ImageRegistry("images", ImageRegistryArgs(project=project, location=region), after_services)
nodes = NodeIdentity("nodes", NodeIdentityArgs(project=project, images=images), after_services)
cluster = Cluster(
    "cluster", ClusterArgs(project=project, location=region, network=network, nodes=nodes), after_services
)
on_cluster = pulumi.ResourceOptions(provider=cluster.kubernetes)

# The cluster's objects: a namespace with its policies, the weights on a volume, and one server for each replica.
ranges = VpcRanges(nodes="10.1.0.0/20", pods="10.64.0.0/14", services="10.32.0.0/20")
namespace = Namespace("namespace", NamespaceArgs(name="support-bot", gpu_quota=replicas), on_cluster)
connections = NetworkPoliciesArgs(namespace=namespace.name, traffic=Traffic(server="support-bot", ranges=ranges))
policies = NetworkPolicies("network-policies", connections, on_cluster)
in_namespace = pulumi.ResourceOptions(provider=cluster.kubernetes, depends_on=[namespace, policies])
machine = find("g2-standard-12")
model = Model(id="Qwen/Qwen3.5-4B", revision="851bf6e806efd8d0a36b00ddf55e13ccb7b8cd0a", size_gb=9.5)
weights = Weights(
    "weights",
    WeightsArgs(
        namespace=namespace.name,
        image=images.image(WRITER_IMAGE),
        model=model,
        zones=zones,
        class_prefix="support-bot",
        volume=Volume(size_gib=16, throughput_mibps=400),
    ),
    in_namespace,
)
server = Server(
    "server",
    ServerArgs(
        namespace=namespace.name,
        name="support-bot",
        image=images.image(Image().reference),
        replicas=replicas,
        model=model,
        engine=Engine(max_model_len=8192, max_num_seqs=32, gpu_memory_utilization=0.9, language_model_only=True),
        placement=placement(OnDemand(mode="on-demand"), namespace="support-bot", zones=zones, machine=machine),
        resources=Resources().of_pod(machine, machine.gpus),
        weights=weights.mount,
        annotations={"vllm-fleet.dev/context-tokens": "8192", "vllm-fleet.dev/concurrency-per-replica": "32"},
    ),
    in_namespace,
)
signals = catalogue(Watched(server="support-bot", namespace="support-bot", stack="support-bot", engines_per_pod=1))
Monitoring("monitoring", MonitoringArgs(server=server, signals=signals), in_namespace)

pulumi.export("endpoint", server.endpoint)
pulumi.export("kubeconfig", cluster.kubeconfig)
