"""A Secret Manager secret as a file in a pod, through GKE's add-on: the class that names it and the volume that mounts it."""

from __future__ import annotations

import json
from typing import Any, Final

DRIVER: Final = "secrets-store-gke.csi.k8s.io"
"""Source: GKE documentation, Secret Manager add-on; the upstream driver's name does not work with the add-on."""


def volume(name: str, provider_class: str) -> dict[str, Any]:
    """The pod's volume `name`, filled by the SecretProviderClass of that name."""
    return {
        "name": name,
        "csi": {"driver": DRIVER, "readOnly": True, "volumeAttributes": {"secretProviderClass": provider_class}},
    }


def provider_class_spec(project: str, secret: str, file: str) -> dict[str, Any]:
    """Spec of the SecretProviderClass that puts the newest version of `secret` into `file` when a pod starts."""
    version = f"projects/{project}/secrets/{secret}/versions/latest"
    return {
        "provider": "gke",
        # The add-on wants a YAML list in a string; JSON is YAML.
        "parameters": {"secrets": json.dumps([{"resourceName": version, "path": file}])},
    }
