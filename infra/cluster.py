"""The GKE Autopilot cluster and its kubeconfig."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import pulumi
import pulumi_kubernetes as k8s
from pulumi_gcp import container

from facts.gke_releases import minor
from facts.names import CREDENTIALS_PLUGIN, cluster_name
from infra.bucket import Bucket
from infra.existing_cluster import ClusterOutputs
from infra.identity import NodeIdentity
from infra.image_registry import ImageRegistry
from infra.network import ExistingNetwork, Network
from settings.derived.traffic import VpcRanges
from settings.sections.cluster import Cluster as ClusterSection
from settings.sections.cluster import IpEndpoint, Maintenance

METRIC_COMPONENTS = (
    "SYSTEM_COMPONENTS",
    "APISERVER",
    "SCHEDULER",
    "CONTROLLER_MANAGER",
    "STORAGE",
    "HPA",
    "POD",
    "DAEMONSET",
    "DEPLOYMENT",
    "STATEFULSET",
    "KUBELET",
    "CADVISOR",
    "DCGM",
    "JOBSET",
)
"""All of GKE's metric packages. The list is exhaustive: naming DCGM alone would disable every other one.
Source: Terraform google provider, container_cluster, monitoring_config.enable_components."""

LOG_COMPONENTS = ("SYSTEM_COMPONENTS", "WORKLOADS")
"""GKE's default for Autopilot. SYSTEM_COMPONENTS includes the autoscaler's stock-out messages."""

NODE_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
"""Leaves authorization to IAM. Without it, auto-provisioned nodes get two scopes, for logs and metrics, and
pulls from Artifact Registry fail. Source: terraform-google-kubernetes-engine, pull request 639."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterArgs:
    """Arguments of `Cluster`."""

    project: str
    """Id of the project."""
    location: str
    """Region of the cluster."""
    network: Network | ExistingNetwork
    """VPC of the nodes."""
    nodes: NodeIdentity
    """Service account of the nodes."""
    cluster: ClusterSection = field(default_factory=ClusterSection)
    """Name (default: `vllm-inference-cluster-<stack>`), release channel, deletion protection, access to the control plane by
    IP endpoint in addition to the DNS endpoint, and maintenance window. `keda` is ignored here."""


class Cluster(pulumi.ComponentResource):
    """A regional GKE Autopilot cluster with private nodes and a DNS endpoint.

    It has no node pools: Autopilot creates and removes nodes according to the pods' requests.
    Arguments of Standard clusters (node pools, network policy add-on, intranode visibility, shielded nodes,
    autoscaling limits) are omitted, because the API refuses them for Autopilot.
    """

    name: pulumi.Output[str]
    kubernetes: k8s.Provider
    """Kubernetes provider for every object on the cluster."""
    kubeconfig: pulumi.Output[str]
    """A kubeconfig, as JSON, without credentials: `gke-gcloud-auth-plugin` adds the caller's."""
    identity: pulumi.Output[str]
    """Different for a later cluster of the same name: objects are replaced when it changes, and not when the kubeconfig does."""
    workload_pool: pulumi.Output[str]
    """Workload identity pool: `PROJECT.svc.id.goog`."""

    def __init__(self, name: str, args: ClusterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:infra:Cluster", name, None, opts)
        cluster, stack = args.cluster, pulumi.get_stack()
        pool = f"{args.project}.svc.id.goog"
        called = cluster.name or cluster_name(stack)
        autopilot = container.Cluster(
            f"{name}-autopilot",
            name=called,
            location=args.location,
            description=f"vLLM fleet, stack {stack}",
            enable_autopilot=True,
            release_channel=container.ClusterReleaseChannelArgs(channel=cluster.release_channel),
            min_master_version=None if cluster.min_version is None else minor(cluster.min_version),
            network=args.network.network,
            subnetwork=args.network.subnetwork,
            ip_allocation_policy=container.ClusterIpAllocationPolicyArgs(
                cluster_secondary_range_name=args.network.pod_range,
                services_secondary_range_name=args.network.service_range,
            ),
            **_endpoints(cluster.ip_endpoint),
            # On Autopilot the node account can only be set here; `enabled` and limits would be refused.
            cluster_autoscaling=container.ClusterClusterAutoscalingArgs(
                auto_provisioning_defaults=container.ClusterClusterAutoscalingAutoProvisioningDefaultsArgs(
                    service_account=args.nodes.email, oauth_scopes=[NODE_SCOPE]
                )
            ),
            # Always on in Autopilot; set to avoid a permanent diff.
            workload_identity_config=container.ClusterWorkloadIdentityConfigArgs(workload_pool=pool),
            gateway_api_config=container.ClusterGatewayApiConfigArgs(channel="CHANNEL_STANDARD"),
            secret_manager_config=container.ClusterSecretManagerConfigArgs(enabled=True),
            cost_management_config=container.ClusterCostManagementConfigArgs(enabled=True),
            monitoring_config=container.ClusterMonitoringConfigArgs(
                enable_components=list(METRIC_COMPONENTS),
                managed_prometheus=container.ClusterMonitoringConfigManagedPrometheusArgs(
                    enabled=True,
                    # GKE's automatic monitoring detects vLLM and would scrape it in addition to our PodMonitoring:
                    # every sample would be stored and billed twice.
                    auto_monitoring_config=container.ClusterMonitoringConfigManagedPrometheusAutoMonitoringConfigArgs(
                        scope="NONE"
                    ),
                ),
            ),
            logging_config=container.ClusterLoggingConfigArgs(enable_components=list(LOG_COMPONENTS)),
            maintenance_policy=_maintenance(cluster.maintenance),
            deletion_protection=cluster.deletion_protection,
            opts=pulumi.ResourceOptions(
                parent=self,
                # One setting for both protections, and for `DeletionProtection`, which covers what is on the cluster: these two
                # refuse only when the cluster itself is deleted.
                protect=cluster.deletion_protection,
                # Nodes without the account's roles send no telemetry and cannot pull images; nodes that outlive
                # NAT lose their connections.
                depends_on=[args.nodes, *([args.network] if isinstance(args.network, Network) else [])],
                # A regional control plane takes 8 to 15 minutes, an upgrade of it longer. Assumed: four times that.
                custom_timeouts=pulumi.CustomTimeouts(create="60m", update="60m", delete="60m"),
            ),
        )
        self.name = autopilot.name
        # The pool is created with the cluster, and IAM refuses principals of a missing pool. The name depends on the
        # cluster, so that grants wait for it.
        self.workload_pool = pulumi.Output.all(pool, autopilot.id).apply(lambda known: str(known[0]))
        self.kubeconfig = pulumi.Output.secret(_kubeconfig(f"gke_{args.project}_{args.location}_{called}", autopilot))
        self.identity = _dns_endpoint(autopilot).apply(_digest)
        # Every object on the cluster depends on its provider, and so on what this component depends on. On destroy the network,
        # including the proxy-only subnet, therefore goes after the last Gateway; a load balancer in that subnet would block its deletion.
        self.kubernetes = k8s.Provider(
            f"{name}-kubernetes",
            kubeconfig=self.kubeconfig,
            cluster_identifier=self.identity,
            opts=pulumi.ResourceOptions(parent=self, depends_on=[autopilot]),
        )
        self.register_outputs({"clusterName": self.name, "workloadPool": self.workload_pool})

    def outputs(
        self,
        *,
        project_number: pulumi.Input[str],
        images: ImageRegistry,
        results: Bucket,
        ranges: VpcRanges,
        keda: str,
    ) -> ClusterOutputs:
        """What stacks need of this cluster."""
        return ClusterOutputs(
            name=self.name,
            identity=self.identity,
            kubeconfig=self.kubeconfig,
            project_number=project_number,
            workload_pool=self.workload_pool,
            image_prefix=images.image_prefix,
            results_bucket=results.name,
            ranges=ranges,
            keda=keda,
        )


def _endpoints(ip: IpEndpoint) -> dict[str, Any]:
    """Control-plane endpoints: DNS with IAM always, IP only for the authorized networks."""
    endpoints: dict[str, Any] = {
        "private_cluster_config": container.ClusterPrivateClusterConfigArgs(enable_private_nodes=True),
        "control_plane_endpoints_config": container.ClusterControlPlaneEndpointsConfigArgs(
            # "External" means outside the VPC, where Pulumi runs. Each request needs container.clusters.connect.
            dns_endpoint_config=container.ClusterControlPlaneEndpointsConfigDnsEndpointConfigArgs(
                allow_external_traffic=True
            ),
            ip_endpoints_config=container.ClusterControlPlaneEndpointsConfigIpEndpointsConfigArgs(enabled=ip.enabled),
        ),
    }
    if ip.enabled:
        endpoints["private_cluster_config"] = container.ClusterPrivateClusterConfigArgs(
            enable_private_nodes=True, enable_private_endpoint=False
        )
        # Always set: an empty list admits no network, a missing block admits all.
        endpoints["master_authorized_networks_config"] = container.ClusterMasterAuthorizedNetworksConfigArgs(
            gcp_public_cidrs_access_enabled=False,
            cidr_blocks=[
                container.ClusterMasterAuthorizedNetworksConfigCidrBlockArgs(
                    cidr_block=network.cidr, display_name=network.name
                )
                for network in ip.authorized_networks
            ],
        )
    return endpoints


def _maintenance(wanted: Maintenance) -> container.ClusterMaintenancePolicyArgs:
    return container.ClusterMaintenancePolicyArgs(
        recurring_window=container.ClusterMaintenancePolicyRecurringWindowArgs(
            start_time=wanted.start_time, end_time=wanted.end_time, recurrence=wanted.recurrence
        ),
    )


def _kubeconfig(context: str, cluster: container.Cluster) -> pulumi.Output[str]:
    """The kubeconfig for the DNS endpoint.

    It has no certificate authority: the DNS endpoint has a publicly trusted certificate, and gcloud accepts such
    an entry without one when the server is not an IP address.
    Source: google-cloud-sdk, api_lib/container/kubeconfig handling (`ClusterConfig.Load`).
    """
    server = _dns_endpoint(cluster).apply("https://{}".format)
    return pulumi.Output.json_dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": context,
            "contexts": [{"name": context, "context": {"cluster": context, "user": context}}],
            "clusters": [{"name": context, "cluster": {"server": server}}],
            "users": [
                {
                    "name": context,
                    "user": {
                        "exec": {
                            "apiVersion": "client.authentication.k8s.io/v1beta1",
                            "command": CREDENTIALS_PLUGIN,
                            "installHint": f"gcloud components install {CREDENTIALS_PLUGIN}",
                            "interactiveMode": "IfAvailable",
                            "provideClusterInfo": True,
                        }
                    },
                }
            ],
        }
    )


def _dns_endpoint(cluster: container.Cluster) -> pulumi.Output[str]:
    """Host name of the DNS endpoint, which GKE assigns at creation and never changes."""
    # The id is unknown until the cluster exists, and so is the endpoint.
    endpoint = cluster.control_plane_endpoints_config.dns_endpoint_config.endpoint
    return pulumi.Output.all(cluster.id, endpoint).apply(lambda known: _there(known[1]))


def _there(endpoint: str | None) -> str:
    if not endpoint:
        raise pulumi.RunError(
            "the cluster reports no DNS endpoint: its creation was interrupted or failed, or the endpoint was "
            "disabled. Check its status with `gcloud container clusters list`. PROVISIONING or RUNNING: run `pulumi refresh`, "
            "then `pulumi up`. ERROR: see docs/first-up.md"
        )
    return endpoint


def _digest(endpoint: str) -> str:
    """A hash that identifies the endpoint without revealing it: outputs have more readers than the kubeconfig."""
    return hashlib.sha256(endpoint.encode()).hexdigest()[:32]
