"""Options of `pulumi` and of its providers that drills use."""

from __future__ import annotations

from typing import Final

SKIP_PREVIEW: Final = "--skip-preview"
UPSERT: Final = {"PULUMI_K8S_UPSERT_EXISTING_OBJECTS": "true"}
"""By which the Kubernetes provider takes over existing objects. Source: pulumi-kubernetes, provider/pkg/provider/provider.go."""
