"""A pull-through repository for Docker Hub images."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
from pulumi_gcp import artifactregistry, projects, secretmanager

from infra.naming import name_of
from settings.sections.registry import Registry

KEPT_VERSIONS = 5
"""Newest versions of each image to keep at any age. Assumed: enough for any rollback."""
UNUSED_AFTER_SECONDS = 90 * 24 * 3600
"""Age at which older versions are deleted; a later pull fetches them again. Assumed: one quarter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRegistryArgs:
    """Arguments of `ImageRegistry`."""

    project: str
    """Id of the project."""
    location: str
    """Region of the repository, the nodes'."""
    account: Registry | None = None
    """A Docker Hub account with its token in Secret Manager. None: anonymous pulls."""
    project_number: pulumi.Input[str] | None = None
    """Project number, part of the service agent's name; required with `account`."""


class ImageRegistry(pulumi.ComponentResource):
    """An Artifact Registry remote repository in the fleet's region.

    Without it, twelve nodes would pull the same ten gigabytes twelve times, through NAT and
    against Docker Hub's limits. The first pull fills the repository; later ones are local and can be streamed.
    It stores no credentials: pulls are anonymous, or use a token in Secret Manager.
    """

    repository: artifactregistry.Repository
    image_prefix: pulumi.Output[str]
    """Prefix of image names: `LOCATION-docker.pkg.dev/PROJECT/REPOSITORY`."""

    def __init__(self, name: str, args: ImageRegistryArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:infra:ImageRegistry", name, None, opts)
        credentials, readable = _credentials(name, args, self)
        self.repository = artifactregistry.Repository(
            f"{name}-docker-hub",
            repository_id=name_of(pulumi.get_stack(), "docker-hub"),
            location=args.location,
            description="Docker Hub, pulled through by the vLLM fleet",
            format="DOCKER",
            mode="REMOTE_REPOSITORY",
            remote_repository_config=artifactregistry.RepositoryRemoteRepositoryConfigArgs(
                docker_repository=artifactregistry.RepositoryRemoteRepositoryConfigDockerRepositoryArgs(
                    public_repository="DOCKER_HUB"
                ),
                upstream_credentials=credentials,
                # The grant takes minutes to apply; the first pull is later than that.
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
                # Keep rules take precedence over delete rules.
                artifactregistry.RepositoryCleanupPolicyArgs(
                    id="keep-newest",
                    action="KEEP",
                    most_recent_versions=artifactregistry.RepositoryCleanupPolicyMostRecentVersionsArgs(
                        keep_count=KEPT_VERSIONS
                    ),
                ),
            ],
            opts=pulumi.ResourceOptions(parent=self, depends_on=readable),
        )
        self.image_prefix = pulumi.Output.format(
            "{0}-docker.pkg.dev/{1}/{2}", args.location, args.project, self.repository.repository_id
        )
        self.register_outputs({"imagePrefix": self.image_prefix})

    def image(self, reference: str) -> pulumi.Output[str]:
        """Full name of a Docker Hub image, pulled through this repository."""
        return pulumi.Output.concat(self.image_prefix, "/", reference)


def _credentials(
    name: str, args: ImageRegistryArgs, parent: pulumi.Resource
) -> tuple[artifactregistry.RepositoryRemoteRepositoryConfigUpstreamCredentialsArgs | None, list[pulumi.Resource]]:
    """The account's credentials argument and the grant that lets the agent read the token; both empty without an account."""
    if args.account is None:
        return None, []
    project, secret = args.project, args.account.docker_hub_token_secret
    # The agent must exist before the grant, or IAM refuses it.
    agent = projects.ServiceIdentity(
        f"{name}-service-agent",
        service="artifactregistry.googleapis.com",
        opts=pulumi.ResourceOptions(parent=parent),
    )
    grant = secretmanager.SecretIamMember(
        f"{name}-docker-hub-token",
        secret_id=secret,
        role="roles/secretmanager.secretAccessor",
        # Assembled, because the API may not return the agent's address. Source: Artifact Registry docs, "Authenticate to Docker
        # Hub upstream sources"; terraform-provider-google-beta, resource_project_service_identity.go.
        member=pulumi.Output.format(
            "serviceAccount:service-{0}@gcp-sa-artifactregistry.iam.gserviceaccount.com", args.project_number
        ),
        opts=pulumi.ResourceOptions(
            parent=parent,
            depends_on=[agent],
            # The agent is project-wide: another stack's repository with the same secret depends on the same grant.
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
