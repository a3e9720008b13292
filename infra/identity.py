"""The nodes' service account: it may write telemetry and pull the fleet's images, nothing else."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
from pulumi_gcp import artifactregistry, projects, serviceaccount

from infra.image_registry import ImageRegistry
from infra.naming import MAX_ACCOUNT_ID, MAX_ACCOUNT_TITLE, name_of, title

NODE_ROLE = "roles/container.defaultNodeServiceAccount"
"""Logs and metrics, the minimum for a GKE node. Source: GKE docs, least-privilege node service accounts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeIdentityArgs:
    """Arguments of `NodeIdentity`."""

    project: str
    """Id of the project."""
    images: ImageRegistry
    """Repository that the nodes pull from."""


class NodeIdentity(pulumi.ComponentResource):
    """The nodes' service account. Pods do not use it: they have Workload Identity, see `infra.workload_access`."""

    account: serviceaccount.Account
    email: pulumi.Output[str]

    def __init__(self, name: str, args: NodeIdentityArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:infra:NodeIdentity", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        self.account = serviceaccount.Account(
            f"{name}-account",
            account_id=name_of(pulumi.get_stack(), "vllm-nodes", limit=MAX_ACCOUNT_ID),
            display_name=title(f"vLLM fleet nodes, stack {pulumi.get_stack()}", MAX_ACCOUNT_TITLE),
            opts=child,
        )
        # Without this role, nodes register but send no logs or metrics.
        projects.IAMMember(
            f"{name}-telemetry", project=args.project, role=NODE_ROLE, member=self.account.member, opts=child
        )
        artifactregistry.RepositoryIamMember(
            f"{name}-pull",
            location=args.images.repository.location,
            repository=args.images.repository.name,
            role="roles/artifactregistry.reader",
            member=self.account.member,
            opts=child,
        )
        self.email = self.account.email
        self.register_outputs({"email": self.email})
