"""The key of a stack's compile cache. Pods with the same key share compiled files."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from facts.machines import DRIVER_VERSION
from facts.names import SERVER_ACCOUNT

if TYPE_CHECKING:
    import pulumi

    from settings.stack import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptCache:
    """Where the compile caches of one release are."""

    bucket: pulumi.Input[str]
    """Cloud Storage bucket."""
    key: str
    """Release key, 1 to 64 characters: equal for pods that can share compiled files, and the beginning of their objects' names."""
    account: str
    """Kubernetes service account that only pods of this key have, e.g. "vllm-server-0123456789ab"."""


FORMAT = 1
"""Version of the archive's format; increase it for an incompatible change."""
KEY_IN_A_NAME = 12
"""Characters of the key in an account's name: 48 bits are enough for the releases of one stack."""


def cache_key(settings: Settings) -> str | None:
    """SHA-256 of everything that can affect compilation: image, model, revision, location of the files, every engine setting, and the
    GPUs. None if the cache is disabled.

    It includes every setting, because a list of relevant ones would have to be maintained for each vLLM release; an irrelevant change only
    costs one cold start.
    """
    if not settings.server.compile_cache.enabled:
        return None
    model = settings.serving.model
    parts: dict[str, object] = {
        "format": FORMAT,
        "image": settings.serving.image.reference,
        "model": [model.id, model.revision],
        "mounted": settings.weights.has_volume,
        "engine": settings.serving.engine.model_dump(mode="json"),
        "machine": [settings.machine.type, settings.gpus_per_replica, DRIVER_VERSION],
    }
    if settings.has_rank_servers:  # a folder for each rank
        parts["ranks"] = settings.serving.engine.data_parallel_size
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def kept_caches(settings: Settings, bucket: pulumi.Input[str]) -> dict[str, KeptCache]:
    """The caches of a stack's servers and of its canary, by service account."""
    accounts = {server_account(one): cache_key(one) or "" for one in (settings, settings.as_canary) if one is not None}
    return {account: KeptCache(bucket=bucket, key=key, account=account) for account, key in accounts.items()}


def server_account(settings: Settings) -> str:
    """The servers' Kubernetes service account. With a compile cache each key has its own account, so that only pods of a release can
    store its files, and not those of the previous release during a rollout.
    """
    key = cache_key(settings)
    return SERVER_ACCOUNT if key is None else f"{SERVER_ACCOUNT}-{key[:KEY_IN_A_NAME]}"
