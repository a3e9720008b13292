"""Secrets mounted as files: from a Secret of the namespace, or from Secret Manager through GKE's add-on."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from settings.sections.secret_stores import SecretManagerSecret, SecretStore

if TYPE_CHECKING:
    import pulumi
    from pulumi_kubernetes.core.v1 import VolumeArgsDict
    from pulumi_kubernetes.meta.v1 import ObjectMetaArgsDict

DRIVER: Final = "secrets-store-gke.csi.k8s.io"
"""CSI driver of GKE's add-on; the upstream driver's name does not work. Source: GKE documentation, Secret Manager add-on."""


def volume(name: str, provider_class: str) -> VolumeArgsDict:
    """The pod's volume `name`, filled by the SecretProviderClass of that name."""
    return {
        "name": name,
        "csi": {"driver": DRIVER, "read_only": True, "volume_attributes": {"secretProviderClass": provider_class}},
    }


def provider_class_spec(secret: SecretManagerSecret, file: str) -> dict[str, Any]:
    """Spec of the SecretProviderClass that writes `secret`, at its version or the latest, to `file` when a pod starts."""
    version = f"projects/{secret.project}/secrets/{secret.name}/versions/{secret.version or 'latest'}"
    return {
        "provider": "gke",
        # The add-on expects a YAML list in a string; JSON is YAML.
        "parameters": {"secrets": json.dumps([{"resourceName": version, "path": file}])},
    }


def store_of(secret: pulumi.Output[str] | SecretManagerSecret | Stored) -> SecretStore:
    """Volume source for this secret."""
    if isinstance(secret, Stored):
        return secret.store
    return "secret-manager" if isinstance(secret, SecretManagerSecret) else "kubernetes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A secret stored for pods to mount."""

    object: pulumi.CustomResource
    """The object that the pods' volume refers to; pods that mount it depend on it."""
    store: SecretStore
    """Where the secret is."""
    version: pulumi.Input[str] | None
    """Changes with the secret; as a pod annotation it restarts pods that read the file once. None for the
    latest version of a Secret Manager secret, whose changes are not visible here.

    For a Secret it is the uid: the Secret is replaced when its content changes. A digest
    would allow guessing a short secret."""


def stored(
    secret: pulumi.Output[str] | SecretManagerSecret | Stored,
    *,
    key: str,
    secret_name: str,
    class_name: str,
    metadata: ObjectMetaArgsDict,
    opts: pulumi.ResourceOptions,
) -> Stored:
    """Creates the SecretProviderClass (resource `class_name`) or the Secret (resource `secret_name`), unless it is stored already."""
    import pulumi
    import pulumi_kubernetes as k8s

    if isinstance(secret, Stored):
        return secret
    if isinstance(secret, SecretManagerSecret):
        provider_class = k8s.apiextensions.CustomResource(
            class_name,
            api_version="secrets-store.csi.x-k8s.io/v1",
            kind="SecretProviderClass",
            metadata=metadata,
            spec=provider_class_spec(secret, key),
            opts=opts,
        )
        version = None if secret.version is None else str(secret.version)
        return Stored(object=provider_class, store="secret-manager", version=version)
    created = k8s.core.v1.Secret(secret_name, metadata=metadata, type="Opaque", string_data={key: secret}, opts=opts)
    # The id is unknown until the Secret exists; until then metadata has no uid.
    uid = pulumi.Output.all(created.id, created.metadata.uid).apply(lambda known: str(known[1]))
    return Stored(object=created, store="kubernetes", version=uid)
