"""Differences between a canary and the servers, for its weights and for promotion."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from settings.stack import Settings


def release(settings: Settings) -> dict[str, Any]:
    """Everything of a server's pod that a canary can change."""
    serving = settings.serving
    return {
        "image": serving.image.reference,
        "model": [serving.model.id, serving.model.revision],
        "engine": serving.engine.model_dump(mode="json", by_alias=True),
        "resources": asdict(settings.resources),
        **({} if settings.server.shape is None else {"shape": settings.server.shape.model_dump(mode="json")}),
    }


def has_own_weights(settings: Settings) -> bool:
    """Whether the canary has a volume of weights beside the servers'. It mounts theirs if the revision is the same."""
    canary, own = settings.canary, settings.serving.model
    if canary is None or not settings.weights.has_volume:
        return False
    return (canary.model.id, canary.model.revision) != (own.id, own.revision)
