"""What components hand to the Kubernetes SDK: plain data in the API's own spelling."""

from __future__ import annotations

from typing import Any, TypeAlias

Manifest: TypeAlias = Any
"""A Kubernetes object or a part of one, with camelCase keys. The SDK's own types spell keys in snake_case; these maps read
like the YAML they become, pass through it unchanged (a test), and are held against the published schemas instead."""
