"""Who the nodes are: a service account that may write telemetry and pull the fleet's images, nothing else."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
from pulumi_gcp import artifactregistry, projects, serviceaccount

from infra.image_registry import ImageRegistry
from infra.naming import MAX_ACCOUNT_ID, MAX_ACCOUNT_TITLE, name_of, title

NODE_ROLE = "roles/container.defaultNodeServiceAccount"
"""Logs and metrics, the least a GKE node works with. Source: GKE docs, least-privilege node service accounts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeIdentityArgs:
    """Arguments of `NodeIdentity`."""

    project: str
    """Id of the Google Cloud project."""
    region: str
    """Region of the repository that `images` is, e.g. "europe-west4"."""
    name_prefix: str
    """First part of the account's id: `<name_prefix>-vllm-nodes`, shortened to the 30 letters that IAM allows."""
    images: ImageRegistry
    """The repository that the nodes pull from."""
    display_name: str = "vLLM fleet nodes"
    """What people read in the console; cut at 100 letters."""


class NodeIdentity(pulumi.ComponentResource):
    """The nodes' service account. Pods do not act as it: they have Workload Identity, see `infra.workload_access`."""

    account: serviceaccount.Account
    email: pulumi.Output[str]

    def __init__(self, name: str, args: NodeIdentityArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:infra:NodeIdentity", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        self.account = serviceaccount.Account(
            f"{name}-account",
            account_id=name_of(args.name_prefix, "vllm-nodes", limit=MAX_ACCOUNT_ID),
            project=args.project,
            display_name=title(args.display_name, MAX_ACCOUNT_TITLE),
            opts=child,
        )
        # Without this role nodes register but send neither logs nor metrics.
        projects.IAMMember(
            f"{name}-telemetry", project=args.project, role=NODE_ROLE, member=self.account.member, opts=child
        )
        artifactregistry.RepositoryIamMember(
            f"{name}-pull",
            project=args.project,
            location=args.region,
            repository=args.images.repository.name,
            role="roles/artifactregistry.reader",
            member=self.account.member,
            opts=child,
        )
        self.email = self.account.email
        self.register_outputs({"email": self.email})
