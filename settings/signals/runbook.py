"""The runbook, cut into its sections: what each alert's message carries."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final

from settings.signals.model import Watched

FILE: Final = Path(__file__).with_name("runbook.md")
MOST_CHARACTERS: Final = 8192
"""Source: Cloud Monitoring API v3, Documentation.content."""
POD: Final = "${{metric_or_resource.label.{}}}"
"""Filled in by Cloud Monitoring with a label of the series that fired. Source: Google Cloud CLI, `monitoring policies migrate`, which makes
this of Prometheus' `{{ $labels.NAME }}`; a label that is not there becomes `(none)`."""
_HEADING: Final = re.compile(r"^## (\w+)\n", re.MULTILINE)


@cache
def sections() -> dict[str, str]:
    """Text under each heading, in the file's order."""
    parts = _HEADING.split(FILE.read_text(encoding="utf-8"))
    return {name: text.strip() + "\n" for name, text in zip(parts[1::2], parts[2::2], strict=True)}


def section(alert: str, watched: Watched) -> str:
    """The section of one alert, its commands ready to paste for that fleet. Raises KeyError for an alert without one."""
    text = sections()[alert]
    named = {"NAMESPACE": watched.namespace, "SERVER": watched.server, "STACK": watched.stack}
    named["POD"] = POD.format("pod_name" if alert == "Restarted" else "pod")
    for word, value in named.items():
        text = re.sub(rf"\b{word}\b", value, text)
    return text
