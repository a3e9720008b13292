"""What a stack that has a cluster tells the others, and what a stack that joins one requires of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi

from settings.problems import Problem
from settings.settings import Settings

_KEYS = {
    "clusterName": "cluster_name",
    "project": "project",
    "projectNumber": "project_number",
    "region": "region",
    "namespace": "namespace",
    "workloadPool": "workload_pool",
    "imagePrefix": "image_prefix",
    "resultsBucket": "results_bucket",
    "network": "network",
    "proxyOnlySubnet": "proxy_only_subnet",
}
"""Keys of the stack output `platform`, and the fields they fill. Renaming one breaks every stack that joined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformOutputs:
    """A cluster and what stands around it, made by this stack or by another."""

    cluster_name: pulumi.Output[str]
    project: pulumi.Output[str]
    """Project id of the cluster."""
    project_number: pulumi.Output[str]
    region: pulumi.Output[str]
    namespace: pulumi.Output[str]
    """Namespace that the stack with the cluster uses itself; a guest must not share it."""
    workload_pool: pulumi.Output[str]
    image_prefix: pulumi.Output[str]
    """`LOCATION-docker.pkg.dev/PROJECT/REPOSITORY`, in front of a Docker Hub image's name."""
    results_bucket: pulumi.Output[str]
    """Name of the bucket for benchmark results."""
    network: pulumi.Output[str]
    """Self link of the VPC."""
    proxy_only_subnet: pulumi.Output[str]
    """Self link of the proxy-only subnet; empty where there is none."""
    kubeconfig: pulumi.Output[str]
    """Secret: it opens nothing by itself, but it says where the control plane is."""

    def export(self) -> dict[str, pulumi.Output[str]]:
        """The stack output `platform`: everything but the kubeconfig, which is a secret output of its own."""
        return {key: getattr(self, field) for key, field in _KEYS.items()}

    @classmethod
    def from_reference(cls, reference: pulumi.StackReference, stack: str, settings: Settings) -> PlatformOutputs:
        """The outputs of the stack `stack`, refused where they are missing or where `settings` cannot live on them."""
        accepted = reference.get_output("platform").apply(lambda given: accept(stack, given, settings))
        # After `accepted`, so that a stack that is not up yet is refused with one message, always the same.
        both = pulumi.Output.all(accepted, reference.get_output("kubeconfig"))
        kubeconfig = both.apply(lambda given: _kubeconfig(stack, given[1]))

        def field(key: str) -> pulumi.Output[str]:
            return accepted.apply(lambda values: values[key])

        return cls(
            kubeconfig=pulumi.Output.secret(kubeconfig), **{attribute: field(key) for key, attribute in _KEYS.items()}
        )


def accept(stack: str, given: object, settings: Settings) -> Mapping[str, str]:
    """The other stack's `platform` output, if this stack can join it. Raises pulumi.RunError with what to do."""
    if not isinstance(given, Mapping):
        raise _refusal(
            settings,
            allowed="a stack of this project that is up and has a cluster",
            why=f"stack {stack} has no output `platform`: it has not been brought up yet, or it is another program's",
            write=f"pulumi up --stack {stack}, then this stack again",
        )
    missing = sorted(key for key in _KEYS if not isinstance(given.get(key), str))
    if missing:
        raise _refusal(
            settings,
            allowed=f"a stack whose output `platform` has {', '.join(_KEYS)}",
            why=f"stack {stack} lacks {', '.join(missing)}: an older version of this program brought it up",
            write=f"pulumi up --stack {stack}, then this stack again",
        )
    if given["project"] != settings.project:
        raise _refusal(
            settings,
            allowed=f"gcp:project {given['project']}, where the cluster of {stack} is",
            why=f"this stack says {settings.project}; secrets and reservations of one project do not serve the other's pods",
            write=f"gcp:project: {given['project']}",
        )
    if given["region"] != settings.region:
        raise _refusal(
            settings,
            allowed=f"gcp:region {given['region']}, where the cluster of {stack} is",
            why=f"this stack says {settings.region}; its pods would ask for zones that the cluster has no nodes in",
            write=f"gcp:region: {given['region']}, and zones of that region",
        )
    if given["namespace"] == settings.namespace:
        raise _refusal(
            settings,
            allowed="a namespace of its own for each stack on a cluster",
            why=f"{stack} uses {settings.namespace} itself; destroying this stack would delete that namespace "
            "with everything in it",
            write=f"vllm-fleet:namespace: {settings.namespace}-2, or a name that says what this stack serves",
        )
    if settings.gateway.enabled and not given["proxyOnlySubnet"]:
        raise _refusal(
            settings,
            allowed="a stack whose network has a proxy-only subnet",
            why=f"{stack} has none, and the Gateway of this stack would stay unprogrammed without a message",
            write=f"vllm-fleet:network: {{proxyOnly: {{enabled: true}}}} in {stack}, and pulumi up there first",
        )
    return {key: str(given[key]) for key in _KEYS}


def _kubeconfig(stack: str, given: object) -> str:
    if not isinstance(given, str):
        raise pulumi.RunError(f"stack {stack} has no output `kubeconfig`: run `pulumi up --stack {stack}` first")
    return given


def _refusal(settings: Settings, *, allowed: str, why: str, write: str) -> pulumi.RunError:
    problem = Problem(
        id="platform-stack",
        path="vllm-fleet:platform.stack",
        value=settings.platform.stack,
        allowed=allowed,
        why=why,
        write=write,
    )
    return pulumi.RunError(problem.text())
