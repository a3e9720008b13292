"""What tells a canary from the servers beside it: for who names weights, or promotes."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from settings.stack import Settings

ENDING_DIGITS = 7
"""Of a revision, behind the names of the objects of its weights."""


def release(settings: Settings) -> dict[str, Any]:
    """All that a pod of a stack's servers is made of, and a canary may have otherwise."""
    serving = settings.serving
    return {
        "image": serving.image.reference,
        "model": [serving.model.id, serving.model.revision],
        "engine": serving.engine.model_dump(mode="json", by_alias=True),
        "resources": asdict(settings.resources),
    }


def weights_ending(settings: Settings) -> str | None:
    """What ends the names of the canary's own weights: the first digits of their revision, and never what ends the servers'. None
    where it mounts the servers' weights, or downloads its own.
    """
    canary, own = settings.canary, settings.serving.model
    if canary is None or not settings.weights.has_volume:
        return None
    if (canary.model.id, canary.model.revision) == (own.id, own.revision):
        return None
    first, second = (canary.model.revision[at : at + ENDING_DIGITS] for at in (0, ENDING_DIGITS))
    return second if first == settings.weights.name_ending else first
