"""The Hugging Face token for a gated model, mounted as a file in pods that download."""

from __future__ import annotations

from typing import TYPE_CHECKING

from settings.sections.secret_stores import SecretStore
from workloads import secret_files
from workloads.names import HF_TOKEN_DIR, HF_TOKEN_SECRET

if TYPE_CHECKING:
    from pulumi_kubernetes.core.v1 import VolumeArgsDict, VolumeMountArgsDict

_VOLUME = "hf-token"


def token_volume(store: SecretStore) -> VolumeArgsDict:
    """The pod volume with the token's file."""
    if store == "secret-manager":
        return secret_files.volume(_VOLUME, HF_TOKEN_SECRET)
    # 0444: the pods are not root, and the file is visible only in their mount namespace.
    return {"name": _VOLUME, "secret": {"secret_name": HF_TOKEN_SECRET, "default_mode": 0o444}}


def token_mount() -> VolumeMountArgsDict:
    """The container's mount of that volume; the token is at `names.HF_TOKEN_PATH`."""
    return {"name": _VOLUME, "mount_path": HF_TOKEN_DIR, "read_only": True}
