"""Where a pod's secret file comes from; never the secret itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

SecretStore = Literal["kubernetes", "secret-manager"]
"""`kubernetes`: a Secret of the namespace. `secret-manager`: Secret Manager, through GKE's add-on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretManagerSecret:
    """A secret of Secret Manager, which a pod reads once, when it starts."""

    project: str
    """Google Cloud project that has the secret."""
    name: str
    """Name of the secret in that project."""
    version: int | None = None
    """The version that every pod reads; another one restarts them. None: the newest when a pod starts, and nothing restarts."""
