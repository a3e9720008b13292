"""A pull-through repository for the images that come from Docker Hub."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
from pulumi_gcp import artifactregistry

from infra.naming import Place, name_of

KEPT_VERSIONS = 5
"""Newest versions of each image that stay whatever their age. Assumed: more than anyone rolls back through."""
UNUSED_AFTER_SECONDS = 90 * 24 * 3600
"""Age at which an older version goes; it comes back from Docker Hub when asked for. Assumed: one quarter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRegistryArgs:
    """Arguments of `ImageRegistry`."""

    place: Place
    """Project, region (that of the nodes which pull from it), labels; the repository's id is `<name_prefix>-docker-hub`."""


class ImageRegistry(pulumi.ComponentResource):
    """An Artifact Registry remote repository in the fleet's region.

    Twelve nodes that start together would ask Docker Hub for the same ten gigabytes twelve times, through NAT and
    against its pull limits; here the first pull fills the repository, the rest are local and can be streamed.
    It holds no credentials: Docker Hub is read anonymously.
    """

    repository: artifactregistry.Repository
    image_prefix: pulumi.Output[str]
    """What goes in front of `vllm/vllm-openai`: `LOCATION-docker.pkg.dev/PROJECT/REPOSITORY`."""

    def __init__(self, name: str, args: ImageRegistryArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:infra:ImageRegistry", name, None, opts)
        self.repository = artifactregistry.Repository(
            f"{name}-docker-hub",
            repository_id=name_of(args.place.name_prefix, "docker-hub"),
            project=args.place.project,
            location=args.place.region,
            description="Docker Hub, pulled through by the vLLM fleet",
            format="DOCKER",
            mode="REMOTE_REPOSITORY",
            remote_repository_config=artifactregistry.RepositoryRemoteRepositoryConfigArgs(
                docker_repository=artifactregistry.RepositoryRemoteRepositoryConfigDockerRepositoryArgs(
                    public_repository="DOCKER_HUB"
                ),
            ),
            cleanup_policy_dry_run=False,
            cleanup_policies=[
                artifactregistry.RepositoryCleanupPolicyArgs(
                    id="delete-old",
                    action="DELETE",
                    condition=artifactregistry.RepositoryCleanupPolicyConditionArgs(
                        tag_state="ANY", older_than=f"{UNUSED_AFTER_SECONDS}s"
                    ),
                ),
                # A rule that keeps wins over one that deletes.
                artifactregistry.RepositoryCleanupPolicyArgs(
                    id="keep-newest",
                    action="KEEP",
                    most_recent_versions=artifactregistry.RepositoryCleanupPolicyMostRecentVersionsArgs(
                        keep_count=KEPT_VERSIONS
                    ),
                ),
            ],
            labels=args.place.labels,
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.image_prefix = pulumi.Output.format(
            "{0}-docker.pkg.dev/{1}/{2}", args.place.region, args.place.project, self.repository.repository_id
        )
        self.register_outputs({"imagePrefix": self.image_prefix})
