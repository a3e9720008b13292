"""APIs, permissions and access to secrets and datasets that a stack needs in Google Cloud."""

from __future__ import annotations

from typing import TYPE_CHECKING

from facts.names import BATCH_ACCOUNT, BENCHMARK_ACCOUNT, ROUTER_APP, WRITER_ACCOUNT
from settings.derived.compile_cache import server_account

if TYPE_CHECKING:
    from settings.stack import Settings


def required_apis(settings: Settings) -> tuple[str, ...]:
    """Every API that this stack needs, sorted, except `serviceusage.googleapis.com`, which enables the others and is on in new projects."""
    needed: set[str] = set()
    if settings.owns_platform:
        needed |= {
            "artifactregistry.googleapis.com",  # the repository that vLLM's image is pulled through
            "cloudresourcemanager.googleapis.com",  # the project's number, and the node account's role on the project
            "compute.googleapis.com",  # network, NAT, disks, machines
            "container.googleapis.com",  # the cluster
            # Image streaming needs it; without it each node pulls the whole vLLM image first.
            # Source: GKE docs, "Use Image streaming", requirements.
            "containerfilesystem.googleapis.com",
            "iam.googleapis.com",  # the node service account
            "logging.googleapis.com",  # logs of nodes, pods and the autoscaler
            "monitoring.googleapis.com",  # managed Prometheus
            "storage.googleapis.com",  # the bucket for benchmark results
        }
    if settings.platform.kubeconfig is not None:
        needed.add("cloudresourcemanager.googleapis.com")  # the project's number
    if settings.server.compile_cache.enabled:
        needed.add("storage.googleapis.com")  # the bucket for compile caches
    if settings.batch.enabled:
        needed.add("storage.googleapis.com")  # the bucket for documents and results
    if settings.gateway.enabled:
        # Without it the Gateway stays at PROGRAMMED False without a message. Source: Inference Gateway guide v1.4.0.
        needed.add("networkservices.googleapis.com")
    if settings.gateway.makes_certificate:
        needed.add("certificatemanager.googleapis.com")
    named = (settings.hf_token_secret, settings.api_key_secret, settings.registry)
    if any(secret is not None for secret in named):
        # Pods, and the image repository, read the secrets that the stack file names.
        needed.add("secretmanager.googleapis.com")
    if settings.monitoring.alerts is not None:
        needed |= {"logging.googleapis.com", "monitoring.googleapis.com"}  # log-based metrics; policies, channels
    if settings.monitoring.has_dashboard:
        needed.add("monitoring.googleapis.com")
    if settings.budget is not None:
        needed.add("billingbudgets.googleapis.com")
    return tuple(sorted(needed))


def required_permissions(settings: Settings) -> dict[str, str]:
    """Every permission on the project that `pulumi up` of this stack needs, with a role that has it.

    Permissions to create and to grant; each of these roles can also read and change. A budget needs a permission on the billing account
    instead. Source: IAM docs, basic and predefined roles reference.
    """
    needed = {
        "serviceusage.services.enable": "roles/serviceusage.serviceUsageAdmin",
        "container.clusters.get": "roles/container.admin",
        "container.clusters.connect": "roles/container.admin",
        "container.namespaces.create": "roles/container.admin",
        "container.deployments.create": "roles/container.admin",
        "container.storageClasses.create": "roles/container.admin",
        "container.thirdPartyObjects.create": "roles/container.admin",
    }
    if settings.owns_platform:
        needed |= _network_permissions(settings, settings.project)
        needed |= {
            "container.clusters.create": "roles/container.admin",
            "iam.serviceAccounts.create": "roles/iam.serviceAccountAdmin",
            "iam.serviceAccounts.actAs": "roles/iam.serviceAccountUser",
            "artifactregistry.repositories.create": "roles/artifactregistry.admin",
            "artifactregistry.repositories.setIamPolicy": "roles/artifactregistry.admin",
            "storage.buckets.create": "roles/storage.admin",
            "resourcemanager.projects.get": "roles/resourcemanager.projectIamAdmin",
            "resourcemanager.projects.setIamPolicy": "roles/resourcemanager.projectIamAdmin",
        }
    if settings.gateway.makes_certificate:
        parts = ("certs", "dnsauthorizations")
        editor = "roles/certificatemanager.editor"
        needed |= dict.fromkeys((f"certificatemanager.{part}.create" for part in parts), editor)
    if settings.gateway.makes_address:
        kind = "create" if settings.gateway.is_public else "createInternal"
        role = "roles/compute.admin" if settings.owns_platform else "roles/compute.networkAdmin"
        needed[f"compute.addresses.{kind}"] = role
    if settings.platform.kubeconfig is not None:
        needed["resourcemanager.projects.get"] = "roles/browser"
    if settings.server.compile_cache.enabled or settings.batch.enabled:
        needed["storage.buckets.create"] = "roles/storage.admin"
    if settings.benchmark.enabled or settings.server.compile_cache.enabled or settings.batch.enabled:
        needed["storage.buckets.setIamPolicy"] = "roles/storage.admin"
    if "secretmanager.googleapis.com" in required_apis(settings):
        needed["secretmanager.secrets.setIamPolicy"] = "roles/secretmanager.admin"
    if settings.monitoring.has_dashboard:
        needed["monitoring.dashboards.create"] = "roles/monitoring.editor"
    if settings.monitoring.alerts is not None:
        kinds = ("alertPolicies", "notificationChannels")
        needed |= dict.fromkeys((f"monitoring.{kind}.create" for kind in kinds), "roles/monitoring.editor")
        needed["logging.logMetrics.create"] = "roles/logging.configWriter"
    return dict(sorted(needed.items()))


def _network_permissions(settings: Settings, project: str) -> dict[str, str]:
    """Permissions for the network in one project: to make it, or to use an existing one, and to make the proxy-only subnet."""
    needed: dict[str, str] = {}
    existing = settings.network.existing
    if existing is None:
        kinds = ("networks.create", "subnetworks.create", "routers.create", "routers.update")
        needed |= dict.fromkeys((f"compute.{kind}" for kind in kinds), "roles/compute.admin")
    elif project != (existing.project or settings.project):
        return {}
    else:
        needed["compute.subnetworks.use"] = "roles/compute.networkUser"
    if settings.makes_proxy_only_subnet:
        # `roles/compute.securityAdmin` has no right on subnets, `roles/compute.networkAdmin` none on firewall rules.
        needed |= dict.fromkeys(
            ("compute.firewalls.create", "compute.networks.updatePolicy", "compute.subnetworks.create")
            if existing is not None
            else ("compute.firewalls.create",),
            "roles/compute.admin",
        )
    return needed


def secret_readers(settings: Settings) -> tuple[tuple[str, str], ...]:
    """Pairs of a Kubernetes service account and the Secret Manager secret it reads, sorted."""
    readers: set[tuple[str, str]] = set()
    token, key = settings.hf_token_secret, settings.api_key_secret
    servers = {server_account(release) for release in (settings, settings.as_canary) if release is not None}
    if token is not None:
        # For downloads: the writer, or each server, and benchmark clients for the tokenizer.
        if settings.weights.is_written:
            readers.add((WRITER_ACCOUNT, token.name))
        elif not settings.weights.has_volume:
            readers |= {(account, token.name) for account in servers}
    if key is not None:
        readers |= {(account, key.name) for account in servers}
        # The pods' router checks no key.
        if settings.has_router and settings.server.shape is not None:
            readers.add((ROUTER_APP, key.name))
    if settings.benchmark.enabled:
        readers |= {(BENCHMARK_ACCOUNT, secret.name) for secret in (token, key) if secret is not None}
    if settings.batch.enabled and key is not None:
        readers.add((BATCH_ACCOUNT, key.name))
    return tuple(sorted(readers))


def dataset_object(settings: Settings) -> tuple[str, str] | None:
    """Bucket and object of the benchmark's dataset; None without a dataset in Cloud Storage."""
    dataset = settings.benchmark.dataset
    return dataset.bucket_and_object if settings.benchmark.enabled and dataset is not None else None
