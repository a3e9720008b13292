"""Namespace, labels and image source shared by a stack's workloads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pulumi


def once_created(resource: pulumi.Resource, name: str) -> pulumi.Output[str]:
    """`name`, after `resource` was created; known already in a first preview.

    Outputs of Kubernetes objects, their names included, are unknown while the cluster does not exist, and policies cannot
    judge what refers to them. The URN is known.
    """
    return resource.urn.apply(lambda _: name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """A namespace with common labels and an image prefix."""

    namespace: pulumi.Input[str]
    """Name of the namespace: `Namespace.name`, which waits for it, or an existing one."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of every object. For an object of one workload, `app` is always the workload's name."""
    image_prefix: pulumi.Input[str] | None = None
    """`LOCATION-docker.pkg.dev/PROJECT/REPOSITORY`: pull-through repository of Docker Hub,
    `ImageRegistry.image_prefix`. None: from Docker Hub itself."""

    def image(self, reference: str) -> pulumi.Input[str]:
        """The full image name for a pod."""
        prefix = self.image_prefix
        if prefix is None or isinstance(prefix, str):
            return reference if prefix is None else f"{prefix}/{reference}"
        return pulumi.Output.concat(prefix, "/", reference)
