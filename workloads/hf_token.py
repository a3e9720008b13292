"""The Hugging Face token, for a gated model: one file in the pods that download, whichever store holds it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from settings.settings import Settings
from workloads import secret_manager
from workloads.manifest import Manifest
from workloads.names import HF_TOKEN_DIR, HF_TOKEN_KEY, HF_TOKEN_SECRET, labels

_VOLUME = "hf-token"


def needs_token(settings: Settings) -> bool:
    """Whether this stack sets a token at all; Qwen3.5-27B-FP8 is public and needs none."""
    return settings.has_hf_token or settings.weights.token_secret is not None


def token_volume(settings: Settings) -> dict[str, Any] | None:
    """The pod volume with the token's file, or None."""
    if settings.weights.token_secret is not None:
        return secret_manager.volume(_VOLUME, HF_TOKEN_SECRET)
    if settings.has_hf_token:
        # 0444: the pods are not root, and the file is in their own mount namespace alone.
        return {"name": _VOLUME, "secret": {"secretName": HF_TOKEN_SECRET, "defaultMode": 0o444}}
    return None


def token_mount() -> dict[str, Any]:
    """The container's mount of that volume; the token is then at `names.HF_TOKEN_PATH`."""
    return {"name": _VOLUME, "mountPath": HF_TOKEN_DIR, "readOnly": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class HfTokenArgs:
    """Arguments of `HfToken`."""

    settings: Settings
    namespace: pulumi.Input[str]
    hf_token: pulumi.Output[str] | None
    """The secret config value, where the token does not come from Secret Manager."""


class HfToken(pulumi.ComponentResource):
    """Where the pods' token volume gets the token from: a Secret, or Secret Manager through GKE's add-on."""

    store: pulumi.CustomResource
    """The object that the volume names; pods that mount it depend on it."""

    def __init__(self, name: str, args: HfTokenArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:workloads:HfToken", name, None, opts)
        settings = args.settings
        child = pulumi.ResourceOptions(parent=self)
        metadata: Manifest = {
            "name": HF_TOKEN_SECRET,
            "namespace": args.namespace,
            "labels": labels(settings, settings.server.name),
        }
        secret = settings.weights.token_secret
        if secret is not None:
            self.store = k8s.apiextensions.CustomResource(
                f"{name}-class",
                api_version="secrets-store.csi.x-k8s.io/v1",
                kind="SecretProviderClass",
                metadata=metadata,
                spec=secret_manager.provider_class_spec(settings.project, secret, HF_TOKEN_KEY),
                opts=child,
            )
        elif args.hf_token is not None:
            self.store = k8s.core.v1.Secret(
                f"{name}-secret",
                metadata=metadata,
                type="Opaque",
                string_data={HF_TOKEN_KEY: args.hf_token},
                opts=child,
            )
        else:
            raise ValueError("HfToken needs hf_token or settings.weights.token_secret; see hf_token.needs_token")
        self.register_outputs({})
