"""Where workloads are made: what every one of their objects on the cluster is told alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pulumi


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """A namespace on a cluster."""

    namespace: pulumi.Input[str]
    """Name of the namespace: `Namespace.name`, which waits for it, or that of one that is there."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of every object; where an object belongs to one workload, `app` is that workload's name whatever it is here."""
    image_prefix: pulumi.Input[str] | None = None
    """`LOCATION-docker.pkg.dev/PROJECT/REPOSITORY`: the repository that Docker Hub's images are pulled through,
    `ImageRegistry.image_prefix`. None: from Docker Hub itself."""

    def image(self, reference: str) -> pulumi.Input[str]:
        """What a pod names as its image."""
        prefix = self.image_prefix
        if prefix is None or isinstance(prefix, str):
            return reference if prefix is None else f"{prefix}/{reference}"
        return pulumi.Output.concat(prefix, "/", reference)
