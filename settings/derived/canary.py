"""Differences between a canary and the servers, for the names of weights and for promotion."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from settings.stack import Settings

ENDING_DIGITS = 7
"""Digits of a revision in the names of its weights' objects."""


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


def weights_ending(settings: Settings) -> str | None:
    """Suffix of the names of the canary's weights: digits of their revision, different from the servers' suffix. None if it mounts the
    servers' weights or has no volume.
    """
    canary, own = settings.canary, settings.serving.model
    if canary is None or not settings.weights.has_volume:
        return None
    if (canary.model.id, canary.model.revision) == (own.id, own.revision):
        return None
    first, second = (canary.model.revision[at : at + ENDING_DIGITS] for at in (0, ENDING_DIGITS))
    return second if first == settings.weights.name_ending else first
