"""The Google Cloud APIs that a stack calls."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
from pulumi_gcp import projects

from settings.settings import Settings


def required_apis(settings: Settings) -> tuple[str, ...]:
    """Every API this stack needs and none it does not, sorted.

    `serviceusage.googleapis.com` is not among them: it is what enables the others, and new projects have it.
    """
    needed: set[str] = set()
    if settings.owns_platform:
        needed |= {
            "artifactregistry.googleapis.com",  # the repository that vLLM's image is pulled through
            "cloudresourcemanager.googleapis.com",  # the project's number, and the node account's role on the project
            "compute.googleapis.com",  # network, NAT, disks, A4 machines
            "container.googleapis.com",  # the cluster
            # Autopilot streams images only with it; without it each node pulls all of vLLM's image before it starts.
            # Source: GKE docs, "Use Image streaming", requirements.
            "containerfilesystem.googleapis.com",
            "iam.googleapis.com",  # the node service account
            "logging.googleapis.com",  # logs of nodes, pods and the autoscaler
            "monitoring.googleapis.com",  # managed Prometheus
            "storage.googleapis.com",  # the bucket for benchmark results
        }
    if settings.gateway.enabled:
        # Without it the Gateway stays at PROGRAMMED False and says nothing. Source: Inference Gateway guide v1.4.0.
        needed.add("networkservices.googleapis.com")
    if settings.weights.token_secret is not None or settings.server.api_key_secret is not None:
        needed.add("secretmanager.googleapis.com")  # the pods read the secrets that the stack file names
    if settings.budget is not None:
        needed.add("billingbudgets.googleapis.com")
    return tuple(sorted(needed))


@dataclass(frozen=True, slots=True, kw_only=True)
class ServicesArgs:
    """Arguments of `Services`."""

    settings: Settings
    """The stack."""


class Services(pulumi.ComponentResource):
    """The APIs of `required_apis`, switched on. Nothing here ever switches one off."""

    enabled: list[projects.Service]

    def __init__(self, name: str, args: ServicesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:infra:Services", name, None, opts)
        self.enabled = [
            projects.Service(
                f"{name}-{api.removesuffix('.googleapis.com')}",
                service=api,
                project=args.settings.project,
                # Others in the project may use the API by the time this stack goes; two stacks may list the same one.
                disable_on_destroy=False,
                opts=pulumi.ResourceOptions(
                    parent=self,
                    # A first activation of compute or container in a new project has been slower than ten minutes.
                    custom_timeouts=pulumi.CustomTimeouts(create="20m"),
                ),
            )
            for api in required_apis(args.settings)
        ]
        self.register_outputs({})
