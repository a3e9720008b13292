"""Sources of a pod's secrets, without the secrets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

SecretStore = Literal["kubernetes", "secret-manager"]
"""`kubernetes`: a Secret in the namespace. `secret-manager`: Secret Manager, with GKE's add-on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretManagerSecret:
    """A Secret Manager secret, which a pod reads once at startup."""

    project: str
    """Google Cloud project of the secret."""
    name: str
    """Name of the secret in that project."""
    version: int | None = None
    """Version that every pod reads; changing it restarts the pods. None: the latest when a pod starts, without restarts."""
