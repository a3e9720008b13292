"""A dashboard of the catalogue's panels in Cloud Monitoring."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import Any, Final

import pulumi
from pulumi_gcp import monitoring

from facts.signals.model import QUESTIONS, Catalogue, Panel

COLUMNS: Final = 48
"""Maximum of a mosaic. Source: Cloud Monitoring API v1, MosaicLayout.columns."""
HEIGHT: Final = 12
HEADER: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """Position of a panel or a section header."""

    x: int
    y: int
    width: int
    height: int
    title: str
    panel: Panel | None = None
    """None for a section header."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardArgs:
    """Arguments of `Dashboard`."""

    project: str
    """Id of the project, for the address."""
    signals: Catalogue
    """The catalogue with the panels."""


class Dashboard(pulumi.ComponentResource):
    """One dashboard with a section for each question of on-call. Free of charge."""

    url: pulumi.Output[str]
    """Its address in the console."""

    def __init__(self, name: str, args: DashboardArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:infra:Dashboard", name, None, opts)
        panels = monitoring.Dashboard(
            f"{name}-panels",
            dashboard_json=json.dumps(dashboard(args.signals, pulumi.get_stack()), sort_keys=True),
            opts=pulumi.ResourceOptions(parent=self),
        )
        console = "https://console.cloud.google.com/monitoring/dashboards/builder/"
        self.url = panels.id.apply(lambda full: f"{console}{full.rpartition('/')[2]}?project={args.project}")
        self.register_outputs({"url": self.url})


def tiles(signals: Catalogue) -> Iterator[Tile]:
    """The layout: each section's header over rows of four panels if that fills them, else three."""
    y = 0
    for section, title in QUESTIONS.items():
        own = [panel for panel in signals.panels if panel.section == section]
        if not own:
            continue
        yield Tile(x=0, y=y, width=COLUMNS, height=HEADER, title=title)
        y += HEADER
        in_row = 4 if len(own) % 4 == 0 else 3
        width = COLUMNS // in_row
        for number, panel in enumerate(own):
            row, column = divmod(number, in_row)
            x, down = column * width, row * HEIGHT
            yield Tile(x=x, y=y + down, width=width, height=HEIGHT, title=panel.title, panel=panel)
        y += HEIGHT * ceil(len(own) / in_row)


def dashboard(signals: Catalogue, name: str) -> dict[str, Any]:
    """The dashboard in the API's format. Source: monitoring-dashboard-samples, dashboards/vllm/vllm-prometheus-2.json."""
    return {
        "displayName": f"vllm-fleet {name}: {signals.watched.server}",
        "mosaicLayout": {
            "columns": COLUMNS,
            "tiles": [
                {"xPos": tile.x, "yPos": tile.y, "width": tile.width, "height": tile.height, "widget": _widget(tile)}
                for tile in tiles(signals)
            ],
        },
    }


def _widget(tile: Tile) -> dict[str, Any]:
    panel = tile.panel
    if panel is None:
        return {"title": tile.title, "sectionHeader": {"dividerBelow": True}}
    return {
        "title": tile.title,
        "xyChart": {
            "dataSets": [
                {
                    "timeSeriesQuery": {"prometheusQuery": query.expr, "unitOverride": panel.unit},
                    "plotType": "LINE",
                    "targetAxis": "Y1",
                    # A legend only for a single line; several lines show their labels.
                    "legendTemplate": "" if "{{" in query.legend else query.legend,
                }
                for query in panel.queries
            ],
            "thresholds": [{"value": value, "targetAxis": "Y1"} for value in panel.thresholds],
        },
    }
