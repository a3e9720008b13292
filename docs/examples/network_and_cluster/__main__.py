"""A network and an Autopilot cluster in your own program, without a vllm-fleet stack file."""

from __future__ import annotations

import pulumi

from infra.cluster import Cluster, ClusterArgs
from infra.identity import NodeIdentity, NodeIdentityArgs
from infra.image_registry import ImageRegistry, ImageRegistryArgs
from infra.naming import Place
from infra.network import Network, NetworkArgs, ProxyOnlySubnet, ProxyOnlySubnetArgs
from infra.services import Services, ServicesArgs
from settings.sections.cluster import AuthorizedNetwork, IpEndpoint
from settings.sections.cluster import Cluster as Autopilot
from settings.sections.network import Network as Ranges

gcp = pulumi.Config("gcp")
place = Place(
    project=gcp.require("project"), region=gcp.require("region"), name_prefix="search", labels={"team": "search"}
)

services = Services(
    "apis",
    ServicesArgs(
        project=place.project,
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
        place=place,
        network=Ranges(
            node_cidr="10.20.0.0/22",
            pod_cidr="10.128.0.0/16",
            service_cidr="10.20.16.0/20",
        ),
    ),
    after_services,
)
in_network = pulumi.ResourceOptions(parent=network)
proxies = ProxyOnlySubnet("network", ProxyOnlySubnetArgs(network=network, cidr="10.20.8.0/23"), in_network)
images = ImageRegistry("images", ImageRegistryArgs(place=place), after_services)
nodes = NodeIdentity("nodes", NodeIdentityArgs(place=place, images=images), after_services)
cluster = Cluster(
    "cluster",
    ClusterArgs(
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
    after_services,
)

pulumi.export("clusterName", cluster.cluster.name)
pulumi.export("kubeconfig", cluster.kubeconfig)
pulumi.export("imagePrefix", images.image_prefix)
