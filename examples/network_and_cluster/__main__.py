"""A network and an Autopilot cluster for somebody else's program: no stack file and no settings of vllm-fleet."""

from __future__ import annotations

import pulumi

from infra.cluster import Cluster, ClusterArgs
from infra.identity import NodeIdentity, NodeIdentityArgs
from infra.image_registry import ImageRegistry, ImageRegistryArgs
from infra.network import Network, NetworkArgs
from infra.services import Services, ServicesArgs
from settings.sections.cluster import AuthorizedNetwork, IpEndpoint

gcp = pulumi.Config("gcp")
project, region = gcp.require("project"), gcp.require("region")
labels = {"team": "search"}

services = Services(
    "apis",
    ServicesArgs(
        project=project,
        apis=[
            "artifactregistry.googleapis.com",
            "cloudresourcemanager.googleapis.com",
            "compute.googleapis.com",
            "container.googleapis.com",
            "containerfilesystem.googleapis.com",
            "iam.googleapis.com",
            "logging.googleapis.com",
            "monitoring.googleapis.com",
        ],
    ),
)
after_services = pulumi.ResourceOptions(depends_on=[services])
network = Network(
    "network",
    NetworkArgs(
        project=project,
        region=region,
        name_prefix="search",
        node_range="10.20.0.0/22",
        pod_range="10.128.0.0/16",
        service_range="10.20.16.0/20",
        proxy_only_range="10.20.8.0/23",
    ),
    after_services,
)
images = ImageRegistry(
    "images",
    ImageRegistryArgs(project=project, region=region, name_prefix="search", labels=labels),
    after_services,
)
nodes = NodeIdentity(
    "nodes",
    NodeIdentityArgs(project=project, region=region, name_prefix="search", images=images),
    after_services,
)
cluster = Cluster(
    "cluster",
    ClusterArgs(
        name="search",
        network=network,
        nodes=nodes,
        release_channel="REGULAR",
        ip_endpoint=IpEndpoint(
            enabled=True, authorized_networks=(AuthorizedNetwork(name="office", cidr="203.0.113.0/24"),)
        ),
        description="Search",
        labels=labels,
    ),
    after_services,
)

pulumi.export("clusterName", cluster.cluster.name)
pulumi.export("kubeconfig", cluster.kubeconfig)
pulumi.export("imagePrefix", images.image_prefix)
