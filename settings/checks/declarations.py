"""Annotations that describe a server, for policies and for people who read the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from settings.checks.lessons import repeated_on_purpose
from settings.derived.scaling import load_of_a_server

if TYPE_CHECKING:
    from settings.stack import Settings


def declarations(settings: Settings) -> dict[str, str]:
    """Annotations of the servers' Deployment and pods: model, profile, expected traffic, and deliberate exceptions, which policies
    do not count as mistakes.
    """
    serving = settings.serving
    declared = {
        "vllm-fleet.dev/profile": serving.profile.name,
        "vllm-fleet.dev/model": serving.model.id,
        "vllm-fleet.dev/model-revision": serving.model.revision,
        "vllm-fleet.dev/context-tokens": str(serving.context_tokens),
        "vllm-fleet.dev/concurrency-per-replica": str(load_of_a_server(settings)),
    }
    reproduces = serving.profile.reproduces
    if reproduces is not None and (repeated := repeated_on_purpose(settings)):
        declared |= {"vllm-fleet.dev/reproduces": reproduces, "vllm-fleet.dev/on-purpose": ",".join(repeated)}
    return declared
