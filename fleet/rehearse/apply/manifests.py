"""Kubernetes manifests of recorded resources, without secrets."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

from fleet.preview.record.recording import RecordedResource, Recording
from fleet.preview.record.redact import Redactor
from fleet.preview.record.synthesis_kubernetes import CLUSTER_SCOPED, RELEASE_TYPE
from fleet.preview.record.values import paths_of_unknowns, reveal
from fleet.rehearse.api import Manifest
from fleet.rehearse.results import RehearsalError

_KUBERNETES: Final = "kubernetes:"
_DEFAULT_NAMESPACE: Final = "default"
HELM_MANAGER: Final = "helm"
"""Field manager of a chart's objects."""


def is_object(resource: RecordedResource) -> bool:
    """Whether the resource is a Kubernetes object."""
    return resource.custom and resource.type.startswith(_KUBERNETES) and resource.type != RELEASE_TYPE


def is_release(resource: RecordedResource) -> bool:
    """Whether the resource is a Helm release."""
    return resource.type == RELEASE_TYPE


def kind_and_name(resource: RecordedResource) -> str:
    """`Kind/name`."""
    metadata = resource.inputs.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else resource.inputs.get("name")
    kind = resource.type.rpartition(":")[2]
    return f"{kind}/{name if isinstance(name, str) else resource.name}"


class Manifests:
    """Turns the resources of one recording into objects."""

    def __init__(self, recording: Recording) -> None:
        """Raises RehearsalError unless the recording is in known mode."""
        if recording.mode != "known":
            raise RehearsalError("only a known-mode recording can be applied: a preview recording has unknown values")
        self._recording = recording
        self._redactor = Redactor(recording.plaintexts)

    def of(self, resource: RecordedResource) -> Manifest:
        """The object to apply. Raises RehearsalError for values that are unknown without a cloud."""
        unknowns = paths_of_unknowns(dict(resource.inputs))
        if unknowns:
            raise RehearsalError(
                f"{kind_and_name(resource)} cannot be applied: unknown without a cloud: {', '.join(unknowns[:3])}"
            )
        manifest: Manifest = self._redactor.manifest(resource.type, resource.inputs)
        metadata = dict(manifest.get("metadata") or {})
        metadata.setdefault("name", (resource.outputs.get("metadata") or {}).get("name", resource.name))
        if manifest["kind"] not in CLUSTER_SCOPED:
            metadata["namespace"] = metadata.get("namespace") or self.namespace(resource)
        manifest["metadata"] = metadata
        return manifest

    def namespace(self, resource: RecordedResource) -> str:
        """Default namespace: the provider's, else "default"."""
        provider = self._recording.by_urn.get(resource.provider.rpartition("::")[0])
        given: Any = reveal(provider.inputs.get("namespace")) if provider else None
        return given if isinstance(given, str) and given else _DEFAULT_NAMESPACE

    def text(self, text: str) -> str:
        """The text without the program's secrets."""
        return self._redactor.text(text)


def field_manager(resource: RecordedResource) -> str:
    """Field manager of a resource: `pulumi-kubernetes-` and eight digits, as in the provider.

    It makes two resources, or two stacks, conflict when they set a field to different values.
    """
    # The provider draws random digits and stores them in the state; a digest needs no storage.
    return f"pulumi-kubernetes-{hashlib.sha256(resource.urn.encode()).hexdigest()[:8]}"
