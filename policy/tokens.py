"""Every type token, label and name that rules compare with, in one place: whoever renames one changes it here alone.

Each rule's cases run on recordings of the program (tests/policy/cases), where a token that was left behind finds nothing and fails.
"""

from __future__ import annotations

from typing import Final

STACK: Final = "pulumi:pulumi:Stack"
GOOGLE_PROVIDER: Final = "pulumi:providers:gcp"
KUBERNETES_PROVIDER: Final = "pulumi:providers:kubernetes"
DELETION_PROTECTION: Final = "vllm-fleet:infra:DeletionProtection"
"""Component that is protected for the whole stack: `pulumi destroy` must delete it first."""

# Google Cloud.
ALERT_POLICY: Final = "gcp:monitoring/alertPolicy:AlertPolicy"
API: Final = "gcp:projects/service:Service"
API_KEY: Final = "gcp:projects/apiKey:ApiKey"
BUCKET: Final = "gcp:storage/bucket:Bucket"
BUDGET: Final = "gcp:billing/budget:Budget"
CHANNEL: Final = "gcp:monitoring/notificationChannel:NotificationChannel"
CLUSTER: Final = "gcp:container/cluster:Cluster"
DASHBOARD: Final = "gcp:monitoring/dashboard:Dashboard"
DISK: Final = "gcp:compute/disk:Disk"
FIREWALL: Final = "gcp:compute/firewall:Firewall"
FORWARDING_RULES: Final = (
    "gcp:compute/forwardingRule:ForwardingRule",
    "gcp:compute/globalForwardingRule:GlobalForwardingRule",
)
INSTANCES: Final = (
    "gcp:compute/instance:Instance",
    "gcp:compute/instanceTemplate:InstanceTemplate",
    "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate",
)
KEYS: Final = ("gcp:serviceaccount/key:Key", "gcp:storage/hmacKey:HmacKey")
NODE_POOL: Final = "gcp:container/nodePool:NodePool"
RESERVATION: Final = "gcp:compute/reservation:Reservation"
SERVICE_ATTACHMENT: Final = "gcp:compute/serviceAttachment:ServiceAttachment"
SUBNET: Final = "gcp:compute/subnetwork:Subnetwork"
WIDE_GRANTS: Final = ("gcp:projects/", "gcp:folder/", "gcp:organizations/", "gcp:billing/")
"""How tokens of grants begin that hold for a whole project, folder, organization or billing account."""
SECRET_STORES: Final = {
    "kubernetes:core/v1:Secret": ("data", "stringData"),
    "gcp:secretmanager/secretVersion:SecretVersion": ("secretData", "secretDataWo"),
    "gcp:secretmanager/regionalSecretVersion:RegionalSecretVersion": ("secretData", "secretDataWo"),
}
"""Keys that may contain a secret, by token."""

# Kubernetes.
RELEASE: Final = "kubernetes:helm.sh/v3:Release"
SECRET: Final = "kubernetes:core/v1:Secret"  # noqa: S105 - a type
RBAC: Final = "kubernetes:rbac.authorization.k8s.io/"
GATEWAY_API: Final = "gateway.networking.k8s.io"
GKE_API: Final = "networking.gke.io"
KEDA: Final = "keda.sh"
ROUTES: Final = ("HTTPRoute", "GRPCRoute")
PICKER_CHART: Final = "inferencepool"
RECORDINGS: Final = ("Rules", "ClusterRules", "GlobalRules")
"""Kinds with Prometheus rules. Source: Google Managed Service for Prometheus."""

# Labels of GKE's nodes.
GPU: Final = "nvidia.com/gpu"
ACCELERATOR: Final = "cloud.google.com/gke-accelerator"
ACCELERATOR_COUNT: Final = "cloud.google.com/gke-accelerator-count"
COMPUTE_CLASS: Final = "cloud.google.com/compute-class"
FLEX_START: Final = "cloud.google.com/gke-flex-start"
INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
PROVISIONING: Final = "cloud.google.com/gke-provisioning"
RESERVATION_AFFINITY: Final = "cloud.google.com/reservation-affinity"
RESERVATION_NAME: Final = "cloud.google.com/reservation-name"
RUN_DURATION: Final = "cloud.google.com/gke-max-run-duration-seconds"
SPOT: Final = "cloud.google.com/gke-spot"
ZONE: Final = "topology.kubernetes.io/zone"

# Labels and annotations of this program; those of servers are in facts/lessons/words.py.
MODEL_ANNOTATION: Final = "vllm-fleet.dev/model"
ON_PURPOSE: Final = "vllm-fleet.dev/on-purpose"
"""Comma-separated names of the rules that a workload deliberately breaks, of those in facts/lessons/deliberate.py."""
REPRODUCES: Final = "vllm-fleet.dev/reproduces"
"""The published result that a workload reproduces. Required for `ON_PURPOSE`."""
