"""Type of Kubernetes objects as plain data."""

from __future__ import annotations

from typing import Any, TypeAlias

Manifest: TypeAlias = Any
"""A Kubernetes object or part of one, with camelCase keys: objects that `fleet bench run` also sends with kubectl, parts shared with
the SDK, and custom resources. A test validates them against the published schemas. Everything else is an `...ArgsDict` of the SDK,
which mypy checks and which costs nothing at run time."""
