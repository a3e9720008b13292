"""Sections of the runbook, for the alerts' messages."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final

from facts.names import spending_namespace
from facts.signals.model import Watched

FILE: Final = Path(__file__).with_name("runbook.md")
MOST_CHARACTERS: Final = 8192
"""Source: Cloud Monitoring API v3, Documentation.content."""
POD: Final = "${{metric_or_resource.label.{}}}"
"""Cloud Monitoring replaces it with a label of the firing series, `(none)` if missing. Source: Google Cloud CLI, `monitoring policies
migrate`, for Prometheus' `{{ $labels.NAME }}`."""
_HEADING: Final = re.compile(r"^## (\w+)\n", re.MULTILINE)


@cache
def sections() -> dict[str, str]:
    """Text under each heading, in the file's order."""
    parts = _HEADING.split(FILE.read_text(encoding="utf-8"))
    return {name: text.strip() + "\n" for name, text in zip(parts[1::2], parts[2::2], strict=True)}


def section(alert: str, watched: Watched) -> str:
    """The section of one alert with the fleet's names filled in. Raises KeyError for an unknown alert."""
    text = sections()[alert]
    named = {"NAMESPACE": watched.namespace, "SERVER": watched.server, "STACK": watched.stack}
    named["GUARD_NAMESPACE"] = spending_namespace(watched.namespace)
    named["POD"] = POD.format("pod_name" if alert == "Restarted" else "pod")
    for word, value in named.items():
        text = re.sub(rf"\b{word}\b", value, text)
    return text
