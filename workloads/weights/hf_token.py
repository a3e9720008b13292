"""The Hugging Face token for a gated model, mounted as a file in pods that download."""

from __future__ import annotations

from settings.sections.secret_stores import SecretStore
from workloads import secret_files
from workloads.manifest import Manifest
from workloads.names import HF_TOKEN_DIR, HF_TOKEN_SECRET

_VOLUME = "hf-token"


def token_volume(store: SecretStore) -> Manifest:
    """The pod volume with the token's file."""
    if store == "secret-manager":
        return secret_files.volume(_VOLUME, HF_TOKEN_SECRET)
    # 0444: the pods are not root, and the file is visible only in their mount namespace.
    return {"name": _VOLUME, "secret": {"secretName": HF_TOKEN_SECRET, "defaultMode": 0o444}}


def token_mount() -> Manifest:
    """The container's mount of that volume; the token is at `names.HF_TOKEN_PATH`."""
    return {"name": _VOLUME, "mountPath": HF_TOKEN_DIR, "readOnly": True}
