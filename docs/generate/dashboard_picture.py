"""Draws the dashboard as docs/img/dashboard.svg: real layout, titles, units, thresholds and legends, over synthetic series.

`python docs/generate/dashboard_picture.py` writes the picture; with `--check` it exits with 1 if the committed one is out of date.
Cloud Monitoring draws it differently.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from math import pi, sin
from pathlib import Path
from typing import Final

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from facts.signals.catalogue import Panel, Watched, catalogue  # noqa: E402
from infra.dashboard import COLUMNS, Tile, tiles  # noqa: E402

PICTURE = ROOT / "docs" / "img" / "dashboard.svg"
UNIT: Final = (21, 13)
"""Pixels of one column, and of one row."""
TOP: Final = 46
GAP: Final = 6
POINTS: Final = 97
COLOURS: Final = ("#1a73e8", "#e8710a", "#188038", "#9334e6", "#5f6368")
WATCHED: Final = Watched(
    server="qwen35-server",
    namespace="vllm-spot",
    stack="spot",
    engines_per_pod=8,
    max_replicas=12,
    speculative=True,
    prefix_caching=True,
    autoscaler="keda-hpa-qwen35-server",
    spot=True,
    spending=True,
    gateway_pool="qwen35-pool",
    node_usd_per_hour=34.07,
    planned_usd_per_million_output=0.31,
)
"""A fleet with every feature, so that every panel is drawn."""
PODS: Final = ("a", "b", "c")
DAY: Final[Mapping[str, tuple[tuple[float, float], ...]]] = {
    "Replicas": ((6, 12), (6, 12), (6, 12)),
    "Engines by pod": ((8, 8), (8, 8), (8, 8)),
    "Output tokens by engine": ((900, 3900), (850, 3800), (800, 3700)),
    "Failed and aborted requests": ((0.001, 0.002), (0.01, 0.03), (0.001, 0.002)),
    "Endpoint picker": ((6, 12), (0, 3)),
    "Time to first token": ((0.3, 0.5), (0.6, 1.1), (0.9, 2.2)),
    "Late first tokens": ((0.001, 0.008), (0.002, 0.006), (0.003, 0.005)),
    "Time per output token": ((0.02, 0.04), (0.03, 0.06), (0.04, 0.09)),
    "Slow output": ((0.001, 0.006), (0.002, 0.005), (0.003, 0.004)),
    "Requests in flight": ((1500, 21000), (0, 900)),
    "KV cache of the fullest engine": ((0.2, 0.85), (0.18, 0.8), (0.15, 0.78)),
    "Preemptions": ((0, 0.05), (0, 0.03), (0, 0.02)),
    "Autoscaler": ((6, 12), (12, 12)),
    "Busiest engine / mean": ((1.3, 1.1), (1.25, 1.1), (1.2, 1.08)),
    "Requests by pod": ((250, 1750), (240, 1720), (230, 1700)),
    "Accepted drafts": ((0.86, 0.84),),
    "Prefix cache hits": ((0.35, 0.5),),
    "Tokens": ((110e3, 1.05e6), (37e3, 350e3)),
    "Restarts": ((0, 0), (0, 0), (0, 0)),
    "Pending pods": ((0, 0),),
    "Scale-up failures and preemptions": ((0, 0), (0, 0)),
    "Hottest GPU": ((52, 71), (51, 70), (50, 69)),
    "GPU activity": ((0.3, 0.85), (0.28, 0.83), (0.25, 0.8)),
    "USD an hour": ((204, 409),),
    "USD per million output tokens": ((1.1, 0.33),),
    "Spend guard": ((0, 0),),
}
"""Synthetic values at night and at the busiest hour, for each line."""
EVENTS: Final[Mapping[str, tuple[tuple[int, float], ...]]] = {
    "Replicas": ((1, -1), (2, -1)),
    "Endpoint picker": ((0, -1),),
    "Failed and aborted requests": ((0, 0.03),),
    "Time to first token": ((2, 1.1),),
    "Late first tokens": ((0, 0.09),),
    "Requests in flight": ((1, 2500),),
    "Pending pods": ((0, 1),),
    "Scale-up failures and preemptions": ((0, 2), (1, 1)),
    "Spend guard": ((0, 1),),
}
"""Synthetic effect of a Spot preemption in the afternoon, by line."""


def main() -> int:
    """Write or check the picture."""
    drawn = picture()
    if "--check" in sys.argv[1:]:
        current = PICTURE.is_file() and PICTURE.read_text(encoding="utf-8") == drawn
        if not current:
            sys.stderr.write(f"{PICTURE.relative_to(ROOT)} is out of date; run: make picture\n")
        return 0 if current else 1
    PICTURE.write_text(drawn, encoding="utf-8")
    return 0


def picture() -> str:
    """The whole dashboard as SVG."""
    placed = list(tiles(catalogue(WATCHED)))
    width = COLUMNS * UNIT[0]
    height = TOP + max(one.y + one.height for one in placed) * UNIT[1] + GAP
    text = "Dashboard of a fleet with every feature. Layout, titles, units and thresholds (dashed) are real; the series are synthetic."
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
            ' font-family="Roboto, Arial, sans-serif" font-size="10" fill="#3c4043">',
            f"<title>{text}</title>",
            f'<rect width="{width}" height="{height}" fill="#f1f3f4"/>',
            f'<text x="{GAP}" y="20" font-size="15" font-weight="bold">vllm-fleet spot: qwen35-server</text>',
            f'<text x="{GAP}" y="37" font-size="12" fill="#b3261e">{text}</text>',
            *(line for one in placed for line in _tile(one)),
            "</svg>\n",
        )
    )


def _tile(tile: Tile) -> Iterator[str]:
    x, y = tile.x * UNIT[0], TOP + tile.y * UNIT[1]
    width, height = tile.width * UNIT[0], tile.height * UNIT[1]
    if tile.panel is None:
        yield f'<text x="{x + GAP}" y="{y + height - 14}" font-size="17">{escape(tile.title)}</text>'
        yield f'<path d="M{x + GAP} {y + height - 6}H{x + width - GAP}" stroke="#bdc1c6"/>'
        return
    left, top = x + GAP / 2, y + GAP / 2
    yield f'<g transform="translate({left:g} {top:g})">'
    yield f'<rect width="{width - GAP}" height="{height - GAP}" rx="4" fill="#fff" stroke="#dadce0"/>'
    yield f'<text x="8" y="16" font-size="12" font-weight="bold">{escape(tile.title)}</text>'
    yield f'<text x="{width - GAP - 8}" y="16" text-anchor="end" fill="#80868b">{escape(tile.panel.unit)}</text>'
    yield from _chart(tile.panel, width - GAP, height - GAP)
    yield "</g>"


def _chart(panel: Panel, width: int, height: int) -> Iterator[str]:
    legends = _legends(panel)
    lines = [_line(panel.title, number) for number in range(len(legends))]
    most = max(*(value for line in lines for value in line), *panel.thresholds, 1e-9)
    most = 1.15 * (most if most > 1e-6 else 1)
    x0, x1, y0, y1 = 40, width - 10, 24, height - 30

    def at(value: float) -> float:
        return y1 - (y1 - y0) * value / most

    for part in (0, 0.5, 1):
        value = most / 1.15 * part
        yield f'<path d="M{x0} {at(value):.1f}H{x1}" stroke="#e8eaed"/>'
        yield f'<text x="{x0 - 4}" y="{at(value) + 3:.1f}" text-anchor="end" fill="#80868b">{_number(value)}</text>'
    for value in panel.thresholds:
        yield f'<path d="M{x0} {at(value):.1f}H{x1}" stroke="#d93025" stroke-dasharray="5 3"/>'
        yield f'<text x="{x1}" y="{at(value) - 2:.1f}" text-anchor="end" fill="#d93025">{_number(value)}</text>'
    for number, line in enumerate(lines):
        points = " ".join(
            f"{x0 + (x1 - x0) * index / (POINTS - 1):.1f},{at(value):.1f}" for index, value in enumerate(line)
        )
        yield f'<polyline points="{points}" fill="none" stroke="{COLOURS[number]}" stroke-width="1.4"/>'
    for hour in (0, 6, 12, 18):
        yield f'<text x="{x0 + (x1 - x0) * hour / 24:.1f}" y="{y1 + 12}" fill="#80868b">{hour:02d}:00</text>'
    each = (width - 16) / len(legends)
    for number, legend in enumerate(legends):
        yield f'<rect x="{8 + number * each:.1f}" y="{height - 13}" width="8" height="3" fill="{COLOURS[number]}"/>'
        yield f'<text x="{19 + number * each:.1f}" y="{height - 9}">{escape(legend)}</text>'


def _legends(panel: Panel) -> list[str]:
    """Legends of the lines; a query that gives one line for each pod is drawn with three."""
    found: list[str] = []
    for query in panel.queries:
        if "{{" not in query.legend:
            found.append(query.legend)
        elif "{{step}}" in query.legend:
            found.append("warned")
        else:
            rest = query.legend.partition("}}")[2].replace("{{engine}}", "0")
            found += [f"{pod}{rest}" for pod in PODS]
    return found


def _line(title: str, number: int) -> Sequence[float]:
    night, busy = DAY[title][number]
    added = dict(EVENTS.get(title, ())).get(number, 0)
    whole = title in ("Replicas", "Autoscaler", "Engines by pod") or (night, busy) == (6, 12)
    line = []
    for index in range(POINTS):
        hour = index / 4
        value = night + (busy - night) * max(0.0, sin((hour - 6) / 16 * pi)) ** 0.7 * (6 <= hour <= 22)
        value = float(round(value)) if whole else value * (1 + 0.03 * sin(index * 2.1 + number))
        line.append(value + (added if 15 <= hour <= 15.75 else 0))
    return line


def _number(value: float) -> str:
    if value >= 1e6:
        return f"{value / 1e6:.3g}M"
    if value >= 1e4:
        return f"{value / 1e3:.3g}k"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


if __name__ == "__main__":
    sys.exit(main())
