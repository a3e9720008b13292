"""Plain data in the Kubernetes API's own spelling, for what does not go through the SDK's types alone."""

from __future__ import annotations

from typing import Any, TypeAlias

Manifest: TypeAlias = Any
"""A Kubernetes object or a part of one, with camelCase keys: what `fleet bench run` sends by kubectl too, parts that its pods and
the SDK's share, and custom resources. A test holds them against the published schemas. All else is an `...ArgsDict` of the SDK,
whose fields mypy knows and the SDK spells in camelCase; at run time it is a dict and costs nothing."""
