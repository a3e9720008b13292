"""How the Kubernetes provider names objects. Pure functions.

Source: pulumi-kubernetes of July 2026, provider/pkg/provider/provider.go and provider/pkg/metadata/naming.go.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

from fleet.preview.record.values import Secret, Value

AUTONAMED: Final = "pulumi.com/autonamed"
_DEFAULT_NAMESPACE: Final = "default"


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


def _opened(value: Value) -> dict[str, Any]:
    """A map, opened where it is a secret; an empty one for anything else."""
    value = value.value if isinstance(value, Secret) else value
    return dict(value) if isinstance(value, Mapping) else {}
