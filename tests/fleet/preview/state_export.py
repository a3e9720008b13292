"""Makes what `pulumi stack export` would write for a recorded program that is up, additions of the providers included."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fleet.preview.record.recording import STACK_REFERENCE_TYPE, RecordedResource, Recording
from fleet.preview.record.recording_json import SECRET, SIGNATURE
from fleet.preview.record.values import UNKNOWN, Secret

CIPHERTEXT = "AAABAKqG"


def write_state(
    recording: Recording,
    path: Path,
    *,
    sealed: bool = True,
    change: Callable[[dict[str, Any]], None] | None = None,
) -> Path:
    """Write the export of a known-mode recording. `sealed` encrypts its secrets; `change` may edit the document."""
    resources = [_entry(one, sealed) for one in recording.resources if one.type != STACK_REFERENCE_TYPE]
    for entry in resources:
        if entry["type"] == "pulumi:pulumi:Stack":
            entry["outputs"] = _value(dict(recording.outputs), sealed)
    provider = f"urn:pulumi:{recording.stack}::{recording.project}::pulumi:providers:gcp::default_10_2_0"
    resources.insert(1, {"urn": provider, "custom": True, "id": "1f2e", "type": "pulumi:providers:gcp", "inputs": {}})
    for entry in resources:
        if entry["type"].startswith("gcp:") and not entry.get("provider"):
            entry["provider"] = f"{provider}::1f2e"
    document = {
        "version": 3,
        "deployment": {
            "manifest": {"time": "2026-11-20T09:00:00.123456Z", "magic": "x", "version": "v3.272.0"},
            "secrets_providers": {"type": "passphrase", "state": {"salt": "v1:x"}},
            "resources": resources,
        },
    }
    if change is not None:
        change(document)
    path.write_text(json.dumps(document))
    return path


def _entry(one: RecordedResource, sealed: bool) -> dict[str, Any]:
    inputs = _value(dict(one.inputs), sealed)
    if one.type.startswith("gcp:"):
        inputs = {**inputs, "__defaults": ["filledIn"], "filledIn": True}
    if one.type.startswith("kubernetes:") and isinstance(inputs.get("metadata"), dict):
        annotations = {**inputs["metadata"].get("annotations", {}), "pulumi.com/autonamed": "true"}
        inputs = {**inputs, "metadata": {**inputs["metadata"], "annotations": annotations}}
    if one.type.startswith("kubernetes:helm.sh"):
        inputs = {**inputs, "checksum": "12ab", "resourceNames": {"Deployment": ["a"]}, "atomic": False}
    if one.type.startswith("pulumi:providers:"):
        inputs = {**inputs, "version": "4.34.2", "__internal": {}}
    entry = {
        "urn": one.urn,
        "custom": one.custom,
        "id": f"id-of-{one.name}" if one.custom else "",
        "type": one.type,
        "inputs": inputs,
        "outputs": _value(dict(one.outputs), sealed),
        "parent": one.parent,
        "protect": one.protect,
        "retainOnDelete": one.retain_on_delete,
        "dependencies": list(one.dependencies),
        "propertyDependencies": {
            **{key: [] for key in one.inputs},
            **{key: list(urns) for key, urns in one.property_dependencies.items()},
        },
        "provider": one.provider,
    }
    return {key: value for key, value in entry.items() if value not in ("", None, False)} | {"custom": one.custom}


def _value(value: Any, sealed: bool) -> Any:
    if value is UNKNOWN:  # nobody made it up; the cloud would have
        return "from-the-cloud"
    if isinstance(value, Secret):
        if sealed:
            return {SIGNATURE: SECRET, "ciphertext": CIPHERTEXT}
        return {SIGNATURE: SECRET, "plaintext": json.dumps(_value(value.value, sealed))}
    if isinstance(value, dict):
        return {key: _value(item, sealed) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_value(item, sealed) for item in value]
    return value
