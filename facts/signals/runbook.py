"""Sections of the runbook, for the alerts' messages."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final

from facts.capacity import FLEX_START_WAIT_SECONDS
from facts.names import ROUTER_APP, epp_name, spending_namespace
from facts.signals.model import Watched

FILE: Final = Path(__file__).with_name("runbook.md")
MOST_CHARACTERS: Final = 8192
"""Source: Cloud Monitoring API v3, Documentation.content."""
LABEL: Final = "${{metric_or_resource.label.{}}}"
"""Cloud Monitoring replaces it with a label of the firing series, `(none)` if missing. Source: Google Cloud CLI, `monitoring policies
migrate`, for Prometheus' `{{ $labels.NAME }}`."""
_HEADING: Final = re.compile(r"^## (\w+)\n", re.MULTILINE)


@cache
def sections() -> dict[str, str]:
    """Text under each heading, in the file's order."""
    parts = _HEADING.split(FILE.read_text(encoding="utf-8"))
    return {name: text.strip() + "\n" for name, text in zip(parts[1::2], parts[2::2], strict=True)}


def section(alert: str, watched: Watched) -> str:
    """The section of one alert for one fleet, with its names filled in. Raises KeyError for an unknown alert."""
    named = _names(watched)
    return re.sub(rf"\b({'|'.join(named)})\b", lambda word: named[word[1]], sections()[alert])


def _names(watched: Watched) -> dict[str, str]:
    """What the words of the runbook stand for."""
    pool = watched.gateway.pool if watched.gateway is not None else None
    return {
        "END_UPDATE": "end a `pulumi up` that still runs (Ctrl-C, once; `pulumi cancel --stack STACK` only if its process is gone): it "
        "waits for the pod until its timeout and holds the stack's lock".replace("STACK", watched.stack),
        # Never `kubectl rollout undo`: an earlier release's account, volume and caches may be gone.
        "UNDO": "end an update that still runs, then `git checkout COMMIT && pulumi up --stack STACK` with the commit before the change "
        "(while a canary is declared: docs/rollout.md)".replace("STACK", watched.stack),
        "NAMESPACE": watched.namespace,
        "SERVER": watched.server,
        "STACK": watched.stack,
        "PROJECT": watched.project or "$(gcloud config get project)",
        "ROUTER": ROUTER_APP,
        "PICKER": epp_name(pool or ""),
        "GUARD_NAMESPACE": spending_namespace(watched.namespace),
        "POD": LABEL.format("pod"),
        "NODE": LABEL.format("node"),
        "REASON": LABEL.format("reason"),
        "STEP": LABEL.format("step"),
        "FLEX_WAIT": str(FLEX_START_WAIT_SECONDS // 60),
        "GRACE": str(watched.grace_seconds),
        "START": str(watched.start_seconds // 60),
        "IDLE": str(watched.idle_hours + 1),
    }
