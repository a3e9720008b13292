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
_CASE: Final = re.compile(r"<!-- (with|without) (\w+) -->\n(.*?)<!-- end -->\n", re.DOTALL)
"""Text for some stacks only."""


@cache
def sections() -> dict[str, str]:
    """Text under each heading, in the file's order."""
    parts = _HEADING.split(FILE.read_text(encoding="utf-8"))
    return {name: text.strip() + "\n" for name, text in zip(parts[1::2], parts[2::2], strict=True)}


def section(alert: str, watched: Watched) -> str:
    """The section of one alert for one fleet: its cases, with its names filled in. Raises KeyError for an unknown alert."""
    has = _cases(watched)
    text = _CASE.sub(lambda case: case[3] if has[case[2]] is (case[1] == "with") else "", sections()[alert])
    named = {
        "UNDO": _undo(watched),
        "MORE": _more(watched),
        "FEWER": _fewer(watched),
        "RESUME": _resume(watched),
        "ELSEWHERE": _elsewhere(watched),
        "NAMESPACE": watched.namespace,
        "SERVER": watched.server,
        "STACK": watched.stack,
        "PROJECT": watched.project or "$(gcloud config get project)",
    }
    named["ROUTER"] = ROUTER_APP
    named["PICKER"] = epp_name(watched.gateway_pool or "")
    named["GUARD_NAMESPACE"] = spending_namespace(watched.namespace)
    named["POD"] = LABEL.format("pod_name" if alert == "Restarted" else "pod")
    named |= {"NODE": LABEL.format("node"), "REASON": LABEL.format("reason"), "NOTICE": str(watched.notice_seconds)}
    named |= {"GRACE": str(watched.grace_seconds), "START": str(watched.start_seconds // 60)}
    named["FLEX_WAIT"] = str(FLEX_START_WAIT_SECONDS // 60)
    named["IDLE"] = str(watched.idle_hours + 1)
    for word, value in named.items():
        text = re.sub(rf"\b{word}\b", value, text)
    return text


def _cases(watched: Watched) -> dict[str, bool]:
    """What the sections tell apart."""
    is_unused = not watched.reserved and not watched.only_batches
    return {
        "batches": watched.only_batches,
        "drafts": watched.speculative,
        "flex": watched.flex_start,
        "gateway": watched.gateway,
        "ladder": watched.ladder,
        "lingering": watched.only_batches and not watched.reserved,
        "measuring": watched.measures_on_update and is_unused,
        "nightly": watched.autoscaler is not None and is_unused,
        "pause": watched.spending == "pause",
        "pausing": not watched.measures_on_update and is_unused,
        "picker": watched.gateway_pool is not None,
        "prefixes": watched.prefix_caching,
        "reserved": watched.reserved,
        "routers": watched.routers,
        "scaled": watched.autoscaler is not None,
        "several": watched.max_replicas not in (0, 1),
        "shared": watched.canary_has_users,
        "spot": watched.spot,
        "unused": is_unused,
    }


def _undo(watched: Watched) -> str:
    """How to take a change back. Never `kubectl rollout undo`: an earlier release's account, volume and caches may be gone."""
    # An update that waits for a replica holds the stack's lock until its timeout.
    first = "end an update that still runs (Ctrl-C where it runs), "
    if watched.canary:
        return (
            f"{first}`git checkout COMMIT -- Pulumi.STACK.yaml && pulumi up --stack STACK` with the commit of `fleet rollout start`, then "
            "`fleet rollout abort --stack STACK && pulumi up --stack STACK`: that takes back a promotion. If the change is older than "
            "the canary, then also commit the stack file and `git checkout COMMIT && pulumi up --stack STACK` with the "
            "commit before the change"
        )
    return f"{first}`git checkout COMMIT && pulumi up --stack STACK` with the commit before it (`git log --oneline`)"


def _elsewhere(watched: Watched) -> str:
    """Where there may be a machine when the stack's own capacity has none."""
    words = {
        "zone": "another zone",
        "region": "another region",
        "rung": "another rung of the ladder",
        "larger": "a larger reservation",
        "reservation": "a reservation in the ladder" if watched.ladder else "a reservation",
        "ladder": "a capacity ladder",
    }
    *others, last = (words[place] for place in watched.elsewhere)
    return f"{', '.join(others)} or {last}" if others else last


def _more(watched: Watched) -> str:
    """Which setting adds replicas."""
    if watched.only_batches:
        return "raise `server.scaling.max` in the stack file, then `pulumi up --stack STACK`"
    if watched.autoscaler is not None:
        return "raise `server.scaling.max` once it is reached (AtMaximum)"
    if watched.max_replicas is None:
        return "add replicas where they are managed"
    # With weights from the hub, a second replica is refused.
    volume = " and write `weights.source: hyperdisk`" if watched.downloads else ""
    return f"raise `server.replicas` in the stack file{volume}"


def _fewer(watched: Watched) -> str:
    """Which setting removes replicas."""
    if watched.only_batches:
        return "`fleet batch cancel --stack STACK`, a lower `server.scaling.max`, and the same `fleet batch run`"
    if watched.autoscaler is not None:
        return "lower `server.scaling.max`, and its windows and `min` with it"
    if watched.max_replicas is None:
        return "remove replicas where they are managed"
    return "lower `server.replicas` in the stack file"


def _resume(watched: Watched) -> str:
    """How to end the pause. Beside an autoscaler no other number than 0 is taken."""
    if watched.autoscaler is not None:
        return "`pulumi config rm --path vllm-fleet:server.replicas --stack STACK && pulumi up --stack STACK`"
    return "set what you changed back (docs/operate.md), then `pulumi up --stack STACK`"
