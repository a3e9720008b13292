"""A pull-through repository for the images that come from Docker Hub."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
from pulumi_gcp import artifactregistry, projects, secretmanager

from infra.naming import Place, name_of
from settings.sections.registry import Registry

KEPT_VERSIONS = 5
"""Newest versions of each image that stay whatever their age. Assumed: more than anyone rolls back through."""
UNUSED_AFTER_SECONDS = 90 * 24 * 3600
"""Age at which an older version goes; it comes back from Docker Hub when asked for. Assumed: one quarter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRegistryArgs:
    """Arguments of `ImageRegistry`."""

    place: Place
    """Project, region (that of the nodes which pull from it), labels; the repository's id is `<name_prefix>-docker-hub`."""
    account: Registry | None = None
    """A Docker Hub account, whose token is in Secret Manager. None reads Docker Hub anonymously."""
    project_number: pulumi.Input[str] | None = None
    """Number of the project, of which Artifact Registry's service agent is named. Raises ValueError where `account` comes without."""

    def __post_init__(self) -> None:
        if self.account is not None and self.project_number is None:
            raise ValueError(
                "ImageRegistryArgs.account needs project_number: the service agent that reads its token is named after it"
            )


class ImageRegistry(pulumi.ComponentResource):
    """An Artifact Registry remote repository in the fleet's region.

    Twelve nodes that start together would ask Docker Hub for the same ten gigabytes twelve times, through NAT and
    against its pull limits; here the first pull fills the repository, the rest are local and can be streamed.
    It holds no credentials: Docker Hub is read anonymously, or with a token that stays in Secret Manager.
    """

    repository: artifactregistry.Repository
    image_prefix: pulumi.Output[str]
    """What goes in front of `vllm/vllm-openai`: `LOCATION-docker.pkg.dev/PROJECT/REPOSITORY`."""

    def __init__(self, name: str, args: ImageRegistryArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:infra:ImageRegistry", name, None, opts)
        credentials, readable = _credentials(name, args, self)
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
                upstream_credentials=credentials,
                # The grant was made a second ago and takes minutes to be in force; the first pull is later than that.
                disable_upstream_validation=None if credentials is None else True,
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
            opts=pulumi.ResourceOptions(parent=self, depends_on=readable),
        )
        self.image_prefix = pulumi.Output.format(
            "{0}-docker.pkg.dev/{1}/{2}", args.place.region, args.place.project, self.repository.repository_id
        )
        self.register_outputs({"imagePrefix": self.image_prefix})


def _credentials(
    name: str, args: ImageRegistryArgs, parent: pulumi.Resource
) -> tuple[artifactregistry.RepositoryRemoteRepositoryConfigUpstreamCredentialsArgs | None, list[pulumi.Resource]]:
    """The account as the repository takes it, and the grant without which its token cannot be read; none without an account."""
    if args.account is None:
        return None, []
    project, secret = args.place.project, args.account.docker_hub_token_secret
    # A project has the agent only once it is asked for: a grant to one that is not there is refused.
    agent = projects.ServiceIdentity(
        f"{name}-service-agent",
        project=project,
        service="artifactregistry.googleapis.com",
        opts=pulumi.ResourceOptions(parent=parent),
    )
    grant = secretmanager.SecretIamMember(
        f"{name}-docker-hub-token",
        project=project,
        secret_id=secret,
        role="roles/secretmanager.secretAccessor",
        # Assembled, because the API may keep the agent's address to itself. Source: Artifact Registry docs, "Authenticate to Docker
        # Hub upstream sources"; terraform-provider-google-beta, resource_project_service_identity.go.
        member=pulumi.Output.format(
            "serviceAccount:service-{0}@gcp-sa-artifactregistry.iam.gserviceaccount.com", args.project_number
        ),
        opts=pulumi.ResourceOptions(
            parent=parent,
            depends_on=[agent],
            # The agent is the project's, so another stack's repository with the same secret lives on the same grant.
            retain_on_delete=True,
        ),
    )
    credentials = artifactregistry.RepositoryRemoteRepositoryConfigUpstreamCredentialsArgs(
        username_password_credentials=artifactregistry.RepositoryRemoteRepositoryConfigUpstreamCredentialsUsernamePasswordCredentialsArgs(
            username=args.account.docker_hub_user,
            password_secret_version=f"projects/{project}/secrets/{secret}/versions/latest",
        )
    )
    return credentials, [grant]
