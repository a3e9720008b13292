"""A secret as a file in a pod: from a Secret of the namespace, or from Secret Manager through GKE's add-on."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from settings.sections.secret_stores import SecretManagerSecret, SecretStore
from workloads.manifest import Manifest

if TYPE_CHECKING:
    import pulumi
    from pulumi_kubernetes.meta.v1 import ObjectMetaArgsDict

DRIVER: Final = "secrets-store-gke.csi.k8s.io"
"""Source: GKE documentation, Secret Manager add-on; the upstream driver's name does not work with the add-on."""


def volume(name: str, provider_class: str) -> Manifest:
    """The pod's volume `name`, filled by the SecretProviderClass of that name."""
    return {
        "name": name,
        "csi": {"driver": DRIVER, "readOnly": True, "volumeAttributes": {"secretProviderClass": provider_class}},
    }


def provider_class_spec(secret: SecretManagerSecret, file: str) -> dict[str, Any]:
    """Spec of the SecretProviderClass that puts `secret`, its version or the newest, into `file` when a pod starts."""
    version = f"projects/{secret.project}/secrets/{secret.name}/versions/{secret.version or 'latest'}"
    return {
        "provider": "gke",
        # The add-on wants a YAML list in a string; JSON is YAML.
        "parameters": {"secrets": json.dumps([{"resourceName": version, "path": file}])},
    }


def store_of(secret: pulumi.Output[str] | SecretManagerSecret) -> SecretStore:
    """Where a pod's volume finds this secret."""
    return "secret-manager" if isinstance(secret, SecretManagerSecret) else "kubernetes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A secret where pods find it."""

    object: pulumi.CustomResource
    """What the pods' volume names; pods that mount it depend on it."""
    version: pulumi.Input[str] | None
    """Another text for another secret, for an annotation of pods that read the file once: it restarts them. None where nobody here
    sees a new version, that is for the newest of a Secret Manager secret.

    A Secret is replaced when its content changes, and the API server draws its uid anew; nothing of the content is in it. A digest
    would let a short secret be guessed."""


def stored(
    secret: pulumi.Output[str] | SecretManagerSecret,
    *,
    key: str,
    secret_name: str,
    class_name: str,
    metadata: ObjectMetaArgsDict,
    opts: pulumi.ResourceOptions,
) -> Stored:
    """Makes what the pods' volume names: `class_name` is the resource of a SecretProviderClass, `secret_name` that of a Secret."""
    import pulumi
    import pulumi_kubernetes as k8s

    if isinstance(secret, SecretManagerSecret):
        provider_class = k8s.apiextensions.CustomResource(
            class_name,
            api_version="secrets-store.csi.x-k8s.io/v1",
            kind="SecretProviderClass",
            metadata=metadata,
            spec=provider_class_spec(secret, key),
            opts=opts,
        )
        return Stored(object=provider_class, version=None if secret.version is None else str(secret.version))
    made = k8s.core.v1.Secret(secret_name, metadata=metadata, type="Opaque", string_data={key: secret}, opts=opts)
    # The id is unknown until the Secret exists; metadata alone is what the program gives until then, without a uid.
    return Stored(object=made, version=pulumi.Output.all(made.id, made.metadata.uid).apply(lambda known: str(known[1])))
