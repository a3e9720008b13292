"""A network and an Autopilot cluster in your own program, without a vllm-fleet stack file."""

from __future__ import annotations

import pulumi
import pulumi_gcp as gcp

from infra.cluster import Cluster, ClusterArgs
from infra.identity import NodeIdentity, NodeIdentityArgs
from infra.image_registry import ImageRegistry, ImageRegistryArgs
from infra.network import Network, NetworkArgs, ProxyOnlySubnet, ProxyOnlySubnetArgs
from infra.services import Services, ServicesArgs
from settings.sections.cluster import AuthorizedNetwork, IpEndpoint
from settings.sections.cluster import Cluster as Autopilot

config = pulumi.Config("gcp")
project, region = config.require("project"), config.require("region")
google = gcp.Provider("google", project=project, region=region, default_labels={"team": "search"})

services = Services(
    "apis",
    ServicesArgs(
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
    pulumi.ResourceOptions(provider=google),
)
after_services = pulumi.ResourceOptions(provider=google, depends_on=[services])
network = Network(
    "network",
    NetworkArgs(node_cidr="10.20.0.0/22", pod_cidr="10.128.0.0/16", service_cidr="10.20.16.0/20"),
    after_services,
)
proxies = ProxyOnlySubnet("proxies", ProxyOnlySubnetArgs(network=network, cidr="10.20.8.0/23"), after_services)
images = ImageRegistry("images", ImageRegistryArgs(project=project, location=region), after_services)
nodes = NodeIdentity("nodes", NodeIdentityArgs(project=project, images=images), after_services)
cluster = Cluster(
    "cluster",
    ClusterArgs(
        project=project,
        location=region,
        network=network,
        nodes=nodes,
        cluster=Autopilot(
            name="search",
            release_channel="REGULAR",
            ip_endpoint=IpEndpoint(
                enabled=True, authorized_networks=(AuthorizedNetwork(name="office", cidr="203.0.113.0/24"),)
            ),
        ),
    ),
    pulumi.ResourceOptions(provider=google, depends_on=[services, proxies]),
)

pulumi.export("clusterName", cluster.name)
pulumi.export("kubeconfig", cluster.kubeconfig)
pulumi.export("imagePrefix", images.image_prefix)
