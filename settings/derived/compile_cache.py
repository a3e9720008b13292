"""The key of a stack's compile caches: what a pod must have in common with the one that compiled to be given its files."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from facts.machines import DRIVER_VERSION
from settings.names import SERVER_ACCOUNT

if TYPE_CHECKING:
    from settings.stack import Settings

FORMAT = 1
"""Of the archive; another number for one that older programs would misread."""
KEY_IN_A_NAME = 12
"""Characters of the key in an account's name: 48 bits tell the releases of one stack apart."""


def cache_key(settings: Settings) -> str | None:
    """SHA-256 over all that bears on what a server compiles: image, model, revision, where its files are, every engine setting, and
    the GPUs. None where caches are not kept.

    Every setting, not a list of those that compilers read: such a list would be one more thing to keep true for each vLLM release, and
    a change that compiles nothing new costs one cold start.
    """
    if not settings.server.compile_cache.enabled:
        return None
    model = settings.serving.model
    parts = {
        "format": FORMAT,
        "image": settings.serving.image.reference,
        "model": [model.id, model.revision],
        "mounted": settings.weights.has_volume,
        "engine": settings.serving.engine.model_dump(mode="json"),
        "machine": [settings.machine.type, settings.gpus_per_replica, DRIVER_VERSION],
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def server_account(settings: Settings) -> str:
    """The servers' Kubernetes service account. Where caches are kept, each key has its own: the right to store under a key goes
    to the pods of that key alone, and not to those of the release before, which run on while the next one is rolled out.
    """
    key = cache_key(settings)
    return SERVER_ACCOUNT if key is None else f"{SERVER_ACCOUNT}-{key[:KEY_IN_A_NAME]}"
