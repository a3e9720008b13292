"""The Autopilot cluster, and the kubeconfig that reaches it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pulumi
from pulumi_gcp import container

from infra.identity import NodeIdentity
from infra.network import POD_RANGE, SERVICE_RANGE, Network
from settings.arguments import refuse, within_limits
from settings.checks.platform import endpoint_problems, maintenance_problems
from settings.sections import cluster as cluster_section
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
"""All of GKE's metric packages. The list is the whole truth: naming DCGM alone would switch every other one off.
Source: Terraform google provider, container_cluster, monitoring_config.enable_components."""

LOG_COMPONENTS = ("SYSTEM_COMPONENTS", "WORKLOADS")
"""GKE's own choice for Autopilot. The autoscaler's stock-out messages come with SYSTEM_COMPONENTS."""

NODE_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
"""IAM alone decides what a node may do. Without it auto-provisioned nodes get two scopes, for logs and metrics, and
pulls from Artifact Registry fail. Source: terraform-google-kubernetes-engine, pull request 639."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterArgs:
    """Arguments of `Cluster`. Raises ValueError for a name, an IP endpoint or a window that GKE or good sense refuses."""

    name: str
    """Name of the cluster in its project and region: small letters, digits and hyphens, up to 40."""
    network: Network
    """The VPC that the nodes join; the cluster is in its project and region."""
    nodes: NodeIdentity
    """The service account that the nodes run as."""
    release_channel: Literal["RAPID", "REGULAR", "STABLE"] = "RAPID"
    """Release channel; RAPID has new GPUs and the Inference Gateway's CRDs first."""
    deletion_protection: bool = True
    """Refuse to delete the cluster while true: both Pulumi's lock and the provider's."""
    ip_endpoint: IpEndpoint = field(default_factory=IpEndpoint)
    """The control plane's IP endpoint beside the DNS endpoint, off by default; with it, the only ranges that reach it:
    `IpEndpoint(enabled=True, authorized_networks=(AuthorizedNetwork(name="office", cidr="203.0.113.0/24"),))`."""
    maintenance: Maintenance = field(default_factory=Maintenance)
    """When GKE may upgrade; a node upgrade restarts the pods on it. Default: Saturdays and Sundays, 02:00 to 10:00 UTC."""
    description: str = "vLLM fleet"
    """What people read in the console."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of the cluster."""

    def __post_init__(self) -> None:
        within_limits(self, cluster_section.Cluster)
        endpoint = endpoint_problems("ip_endpoint.authorized_networks", self.ip_endpoint)
        refuse(self, (*endpoint, *maintenance_problems("maintenance", self.maintenance)))


class Cluster(pulumi.ComponentResource):
    """A regional GKE Autopilot cluster with private nodes, reached by its DNS endpoint.

    It has no node pools: Autopilot makes A4, C4 and C4A nodes from what the pods ask for and removes them again.
    Arguments of Standard clusters (node pools, network policy add-on, intranode visibility, shielded nodes,
    autoscaling limits) are left out, because the API refuses them here.
    """

    cluster: container.Cluster
    kubeconfig: pulumi.Output[str]
    """A kubeconfig, as JSON, without credentials of its own: `gke-gcloud-auth-plugin` brings the caller's."""
    workload_pool: pulumi.Output[str]
    """The pool that Kubernetes service accounts are principals of: `PROJECT.svc.id.goog`."""

    def __init__(self, name: str, args: ClusterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:infra:Cluster", name, None, opts)
        project, region = args.network.project, args.network.region
        pool = f"{project}.svc.id.goog"
        self.cluster = container.Cluster(
            f"{name}-autopilot",
            name=args.name,
            project=project,
            location=region,
            description=args.description,
            enable_autopilot=True,
            release_channel=container.ClusterReleaseChannelArgs(channel=args.release_channel),
            network=args.network.vpc.self_link,
            subnetwork=args.network.nodes.self_link,
            ip_allocation_policy=container.ClusterIpAllocationPolicyArgs(
                cluster_secondary_range_name=POD_RANGE, services_secondary_range_name=SERVICE_RANGE
            ),
            **_endpoints(args.ip_endpoint),
            # On Autopilot the node account is set here, and nowhere else; `enabled` and limits would be refused.
            cluster_autoscaling=container.ClusterClusterAutoscalingArgs(
                auto_provisioning_defaults=container.ClusterClusterAutoscalingAutoProvisioningDefaultsArgs(
                    service_account=args.nodes.email, oauth_scopes=[NODE_SCOPE]
                )
            ),
            # Always on in Autopilot; stated so that what the API answers is what was asked.
            workload_identity_config=container.ClusterWorkloadIdentityConfigArgs(workload_pool=pool),
            gateway_api_config=container.ClusterGatewayApiConfigArgs(channel="CHANNEL_STANDARD"),
            secret_manager_config=container.ClusterSecretManagerConfigArgs(enabled=True),
            cost_management_config=container.ClusterCostManagementConfigArgs(enabled=True),
            monitoring_config=container.ClusterMonitoringConfigArgs(
                enable_components=list(METRIC_COMPONENTS),
                managed_prometheus=container.ClusterMonitoringConfigManagedPrometheusArgs(
                    enabled=True,
                    # GKE's automatic monitoring knows vLLM and would scrape it a second time, beside our PodMonitoring:
                    # every sample twice, and paid twice.
                    auto_monitoring_config=container.ClusterMonitoringConfigManagedPrometheusAutoMonitoringConfigArgs(
                        scope="NONE"
                    ),
                ),
            ),
            logging_config=container.ClusterLoggingConfigArgs(enable_components=list(LOG_COMPONENTS)),
            maintenance_policy=_maintenance(args.maintenance),
            resource_labels=args.labels,
            deletion_protection=args.deletion_protection,
            opts=pulumi.ResourceOptions(
                parent=self,
                # One switch for both locks: Pulumi's refuses at preview, before anything else of the stack is gone;
                # the provider's would only refuse when it is the cluster's turn.
                protect=args.deletion_protection,
                # Nodes that start without the account's roles send no telemetry and cannot pull; nodes that outlive
                # NAT cannot finish what they are doing.
                depends_on=[args.nodes, args.network],
                # A regional control plane takes 8 to 15 minutes, an upgrade of it longer. Assumed: four times that.
                custom_timeouts=pulumi.CustomTimeouts(create="60m", update="60m", delete="60m"),
            ),
        )
        # The pool is made with the cluster, and IAM refuses principals of a pool that is not there: whoever grants them
        # a role has to wait for the cluster, so the name comes out of it.
        self.workload_pool = pulumi.Output.all(pool, self.cluster.id).apply(lambda known: str(known[0]))
        self.kubeconfig = pulumi.Output.secret(_kubeconfig(f"gke_{project}_{region}_{args.name}", self.cluster))
        self.register_outputs({"clusterName": self.cluster.name, "workloadPool": self.workload_pool})


def _endpoints(ip: IpEndpoint) -> dict[str, Any]:
    """The control plane's doors: DNS with IAM always, IP for the named networks or not at all."""
    doors: dict[str, Any] = {
        "private_cluster_config": container.ClusterPrivateClusterConfigArgs(enable_private_nodes=True),
        "control_plane_endpoints_config": container.ClusterControlPlaneEndpointsConfigArgs(
            # "External" means from outside the VPC: whoever runs Pulumi. Each request needs container.clusters.connect.
            dns_endpoint_config=container.ClusterControlPlaneEndpointsConfigDnsEndpointConfigArgs(
                allow_external_traffic=True
            ),
            ip_endpoints_config=container.ClusterControlPlaneEndpointsConfigIpEndpointsConfigArgs(enabled=ip.enabled),
        ),
    }
    if ip.enabled:
        doors["private_cluster_config"] = container.ClusterPrivateClusterConfigArgs(
            enable_private_nodes=True, enable_private_endpoint=False
        )
        # Always written: an empty list lets nobody in, a missing block everybody.
        doors["master_authorized_networks_config"] = container.ClusterMasterAuthorizedNetworksConfigArgs(
            gcp_public_cidrs_access_enabled=False,
            cidr_blocks=[
                container.ClusterMasterAuthorizedNetworksConfigCidrBlockArgs(
                    cidr_block=network.cidr, display_name=network.name
                )
                for network in ip.authorized_networks
            ],
        )
    return doors


def _maintenance(wanted: Maintenance) -> container.ClusterMaintenancePolicyArgs:
    return container.ClusterMaintenancePolicyArgs(
        recurring_window=container.ClusterMaintenancePolicyRecurringWindowArgs(
            start_time=wanted.start_time, end_time=wanted.end_time, recurrence=wanted.recurrence
        )
    )


def _kubeconfig(context: str, cluster: container.Cluster) -> pulumi.Output[str]:
    """The kubeconfig for the DNS endpoint, whether or not the IP endpoint is there too.

    It carries no certificate authority: the DNS endpoint shows a publicly trusted certificate, and gcloud accepts such
    an entry without one exactly when the server is not an IP address.
    Source: google-cloud-sdk, api_lib/container/kubeconfig handling (`ClusterConfig.Load`).
    """
    # The id is unknown until the cluster exists, and the endpoint with it: a planned cluster has no server to write.
    endpoint = cluster.control_plane_endpoints_config.dns_endpoint_config.endpoint
    server = pulumi.Output.all(cluster.id, endpoint).apply(lambda known: _server(known[1]))
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
                            "command": "gke-gcloud-auth-plugin",
                            "installHint": "gcloud components install gke-gcloud-auth-plugin",
                            "interactiveMode": "IfAvailable",
                            "provideClusterInfo": True,
                        }
                    },
                }
            ],
        }
    )


def _server(endpoint: str | None) -> str:
    if not endpoint:
        raise pulumi.RunError(
            "the cluster reports no DNS endpoint, so nothing can reach it: check controlPlaneEndpointsConfig with "
            "`gcloud container clusters describe`, then run `pulumi refresh`"
        )
    return f"https://{endpoint}"
