"""Between a resource's properties and its object in the cluster. Pure functions.

Source: pulumi-kubernetes of July 2026, provider/pkg/provider/provider.go and provider/pkg/metadata/naming.go.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

from fleet.preview.record.synthesis_kubernetes import CLUSTER_SCOPED
from fleet.preview.record.values import Secret, Value
from lab.control_plane.api import Kind, Manifest

AUTONAMED: Final = "pulumi.com/autonamed"
MANAGER: Final = "__fieldManager"
"""Output that holds the field manager of a resource, as in the provider's own state."""
_DEFAULT_NAMESPACE: Final = "default"
_SERVER_FILLS: Final = ("creationTimestamp", "generation", "managedFields", "resourceVersion", "uid")
"""Metadata that only the API server writes."""


def id_of(manifest: Manifest) -> str:
    """A resource's id."""
    metadata = manifest["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}" if metadata.get("namespace") else str(metadata["name"])


def named(name: str, seed: bytes, old: Mapping[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The inputs with a name: the program's, the one drawn before, or one drawn now."""
    metadata = _opened(new.get("metadata"))
    if metadata.get("name") is not None:
        return new
    before = _opened(old.get("metadata"))
    drawn = before.get("name") if is_autonamed(old) else f"{name}-{hashlib.sha256(seed).hexdigest()[:8]}"
    annotations = {**_opened(metadata.get("annotations")), AUTONAMED: "true"}
    return {**new, "metadata": {**metadata, "name": drawn, "annotations": annotations}}


def is_autonamed(inputs: Mapping[str, Any]) -> bool:
    """Whether the provider drew the name."""
    annotations = _opened(_opened(inputs.get("metadata")).get("annotations"))
    return annotations.get(AUTONAMED) == "true"


def reuses_name(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether a replacement gets the old object's name, so that this one must go first."""
    before, after = _opened(old.get("metadata")), _opened(new.get("metadata"))
    same = [one.get("namespace") or _DEFAULT_NAMESPACE for one in (before, after)]
    return not is_autonamed(new) and before.get("name") == after.get("name") and same[0] == same[1]


def placed(kind: Kind, manifest: Manifest) -> Manifest:
    """The manifest with its API version, kind and namespace."""
    metadata = dict(manifest["metadata"])
    if kind.kind not in CLUSTER_SCOPED:
        metadata["namespace"] = metadata.get("namespace") or _DEFAULT_NAMESPACE
    return {
        **manifest,
        "apiVersion": manifest.get("apiVersion", kind.api_version),
        "kind": kind.kind,
        "metadata": metadata,
    }


def outputs_of(live: Manifest, inputs: Mapping[str, Any], manager: str) -> dict[str, Any]:
    """What the state holds of an object: itself, with the program's secrets as secrets.

    Without `managedFields`: nothing reads them in the state, and they are half of an object's size.
    """
    found = _with_secrets(live, dict(inputs))
    found["metadata"] = {key: value for key, value in found["metadata"].items() if key != "managedFields"}
    if live["kind"] == "Secret" and "data" in found:
        found["data"] = Secret(found["data"])
    return {**found, MANAGER: manager}


def imported(live: Manifest) -> dict[str, Any]:
    """An existing object as inputs, for `pulumi import`."""
    kept = {key: value for key, value in live.items() if key != "status"}
    return {**kept, "metadata": {key: value for key, value in live["metadata"].items() if key not in _SERVER_FILLS}}


def _with_secrets(live: Value, inputs: Value) -> Value:
    if isinstance(inputs, Secret):
        return inputs
    if isinstance(live, dict) and isinstance(inputs, dict):
        return {key: _with_secrets(value, inputs.get(key)) for key, value in live.items()}
    if isinstance(live, list) and isinstance(inputs, list) and len(live) == len(inputs):
        return [_with_secrets(one, given) for one, given in zip(live, inputs, strict=True)]
    return live


def _opened(value: Value) -> dict[str, Any]:
    """A map, opened where it is a secret; an empty one for anything else."""
    value = value.value if isinstance(value, Secret) else value
    return dict(value) if isinstance(value, Mapping) else {}
