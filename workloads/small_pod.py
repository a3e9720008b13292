"""A small pod that runs a program of this project on Python's own image: the spending guard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pulumi
    from pulumi_kubernetes.core.v1 import (
        ContainerArgsDict,
        PodSpecArgsDict,
        ProbeArgsDict,
        VolumeArgsDict,
        VolumeMountArgsDict,
    )

IMAGE: Final = (
    "library/python:3.13.14-alpine3.24@sha256:399babc8b49529dabfd9c922f2b5eea81d611e4512e3ed250d75bd2e7683f4b0"
)
"""Python and its standard library, about 20 MB; the servers' image has 10 GB. Source: Docker Hub, as ten public repositories pin it."""
NONROOT: Final = 65532


def small_pod(
    *,
    image: pulumi.Input[str],
    app: str,
    command: Sequence[pulumi.Input[str]],
    vcpus: float,
    ready: ProbeArgsDict,
    mounts: Sequence[VolumeMountArgsDict],
    volumes: Sequence[VolumeArgsDict],
) -> PodSpecArgsDict:
    """Spec of a pod with one container, without rights in its node. `image`: `IMAGE` with its registry. `app`: also its service account,
    whose token is mounted.
    """
    amounts = {"cpu": f"{vcpus * 1000:.0f}m", "memory": "128Mi", "ephemeral-storage": "32Mi"}
    container: ContainerArgsDict = {
        "name": app,
        "image": image,
        "command": list(command),
        "resources": {"requests": amounts, "limits": dict(amounts)},
        "security_context": {
            "allow_privilege_escalation": False,
            "read_only_root_filesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "readiness_probe": ready,
        "volume_mounts": list(mounts),
    }
    return {
        "service_account_name": app,
        "automount_service_account_token": True,
        "enable_service_links": False,
        "security_context": {
            "run_as_non_root": True,
            "run_as_user": NONROOT,
            "seccomp_profile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": list(volumes),
    }
