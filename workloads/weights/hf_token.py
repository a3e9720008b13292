"""The Hugging Face token for a gated model, mounted as a file in pods that download."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi

from settings.sections.secret_stores import SecretManagerSecret, SecretStore
from workloads import secret_files
from workloads.manifest import Manifest
from workloads.names import HF_TOKEN_DIR, HF_TOKEN_KEY, HF_TOKEN_SECRET
from workloads.space import Space

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


@dataclass(frozen=True, slots=True, kw_only=True)
class HfTokenArgs:
    """Arguments of `HfToken`."""

    space: Space
    """Namespace of the pods that mount the token; labels."""
    token: pulumi.Output[str] | SecretManagerSecret
    """The token, or the Secret Manager secret with it."""


class HfToken(pulumi.ComponentResource):
    """Store of the token: a Secret, or Secret Manager through GKE's add-on."""

    stored: secret_files.Stored
    """The stored object and the token's version."""

    def __init__(self, name: str, args: HfTokenArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:workloads:HfToken", name, None, opts)
        self.stored = secret_files.stored(
            args.token,
            key=HF_TOKEN_KEY,
            secret_name=f"{name}-secret",
            class_name=f"{name}-class",
            metadata={"name": HF_TOKEN_SECRET, "namespace": args.space.namespace, "labels": dict(args.space.labels)},
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.register_outputs({})
