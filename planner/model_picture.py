"""The picture beside the model: throughput of a node on the left, the error of every predicted row on the right."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from planner import baseline, figures
from planner.deployment import Routing, measured_load, named_workload, record_fleet
from planner.errors import Error, errors
from planner.performance import estimate

_WIDTH, _HEIGHT = 1000, 430
_LEFT = (70, 50, 500, 375)
"""Frame of the throughput plot: left, top, right, bottom."""
_RIGHT = (735, 50, 975, 375)
_MOST_NODES = 13
# Thousand tokens a second of one node: the axis, which does not begin at 0.
_LOWEST, _HIGHEST = 50, 105
_MOST_PERCENT = 13.0
_MODEL, _LINE, _POINT, _SECOND, _GREY = "#1a56a8", "#b3541e", "#111111", "#777777", "#d9d9d9"


def picture() -> str:
    """An SVG document. Colours differ in lightness too, so that it reads in print."""
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" font-size="12">',
        "<title>Throughput of a node over nodes, and the error of every predicted row</title>",
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>',
        *_throughput(),
        *_errors(),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _throughput() -> Iterator[str]:
    left, _, right, bottom = _LEFT
    yield _text(left, 24, "Thousand total tokens a second per node (axis from 50)", bold=True)
    for thousand in range(_LOWEST, _HIGHEST + 1, 10):
        y = _y(thousand)
        yield f'<line x1="{left}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" stroke="{_GREY}"/>'
        yield _text(left - 8, y + 4, str(thousand), anchor="end")
    for nodes in (1, 2, 4, 8, 12):
        yield _text(_x(nodes), bottom + 18, str(nodes), anchor="middle")
    yield _text((left + right) / 2, bottom + 36, "nodes", anchor="middle")
    yield from _model("cluster-ip", range(1, 14))
    yield from _model("inference-gateway", range(2, 10))
    yield _text(_x(10.4), _y(97), "ClusterIP")
    yield _text(_x(9.4), _y(58), "Inference Gateway")
    for file, colour in (("cluster_ip", _POINT), ("cluster_ip_rerun", _SECOND), ("gateway", _POINT)):
        for figure in figures.all_figures():
            if figure.id.startswith(f"{file}.nodes-") and figure.total_tokens_per_s:
                x, y = _x(figure.shape.replicas), _y(figure.total_tokens_per_s / figure.shape.replicas / 1e3)
                yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="#ffffff" stroke="{colour}" stroke-width="2"/>'
    for row, (label, colour, dashes) in enumerate(
        (("model, with its interval", _MODEL, ""), ("straight line", _LINE, "6 4"))
    ):
        y = _y(84) + 18 * row
        yield f'<line x1="{left + 12}" y1="{y}" x2="{left + 42}" y2="{y}" stroke="{colour}" stroke-width="2" stroke-dasharray="{dashes}"/>'
        yield _text(left + 50, y + 4, label)
    for row, (label, colour) in enumerate((("published, first run", _POINT), ("published, second run", _SECOND))):
        y = _y(84) + 36 + 18 * row
        yield f'<circle cx="{left + 27}" cy="{y}" r="4" fill="#ffffff" stroke="{colour}" stroke-width="2"/>'
        yield _text(left + 50, y + 4, label)


def _model(routing: Routing, nodes: range) -> Iterator[str]:
    workload = named_workload("article")
    answers = [
        (count, estimate(record_fleet(count, routing=routing), workload, measured_load(count)).total_tokens_per_s)
        for count in nodes
    ]
    band = [(count, answer.high) for count, answer in answers] + [(count, answer.low) for count, answer in answers][
        ::-1
    ]
    yield f'<polygon points="{_points(band)}" fill="{_MODEL}" fill-opacity="0.15"/>'
    line = [(count, baseline.total_tokens_per_s(record_fleet(count, routing=routing))) for count in nodes]
    yield f'<polyline points="{_points(line)}" fill="none" stroke="{_LINE}" stroke-width="2" stroke-dasharray="6 4"/>'
    values = [(count, answer.value) for count, answer in answers]
    yield f'<polyline points="{_points(values)}" fill="none" stroke="{_MODEL}" stroke-width="2"/>'


def _errors() -> Iterator[str]:
    left, top, _, bottom = _RIGHT
    found = [error for error in errors("predicted") if error.row.metric != "ttft_ms"]
    yield _text(left - 185, 24, "Error on predicted rows, per cent (dot: the straight line)", bold=True)
    for percent in (-10, -3, 0, 3, 10):
        x = _error_x(percent)
        yield f'<line x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{bottom}" stroke="{_GREY}"/>'
        yield _text(x, bottom + 18, f"{percent:+d}" if percent else "0", anchor="middle")
    step = (bottom - top) / len(found)
    for index, error in enumerate(found):
        y = top + step * (index + 0.5)
        yield _text(left - 8, y + 4, _name(error), anchor="end", size=10)
        start, end = sorted((_error_x(0), _error_x(error.percent)))
        yield f'<rect x="{start:.1f}" y="{y - 4:.1f}" width="{max(1.0, end - start):.1f}" height="8" fill="{_MODEL}"/>'
        if error.line_percent is not None:
            yield f'<circle cx="{_error_x(error.line_percent):.1f}" cy="{y:.1f}" r="3" fill="{_LINE}"/>'


def _name(error: Error) -> str:
    names = {
        "total_tokens_per_s": "tok/s",
        "requests_per_s": "requests/s",
        "tpot_ms": "TPOT",
        "running_peak_per_engine": "running",
        "kv_cache_peak_percent": "KV cache",
    }
    file = error.row.id.partition(".")[0]
    run = {"cluster_ip": "run 1", "cluster_ip_rerun": "run 2", "gateway": "gateway", "users": "users"}[file]
    nodes = error.row.deployment.nodes
    return f"{run}, {nodes} {'node' if nodes == 1 else 'nodes'}: {names[error.row.metric]}"


def _points(values: list[tuple[int, float]]) -> str:
    return " ".join(f"{_x(count):.1f},{_y(value / count / 1e3):.1f}" for count, value in values)


def _x(nodes: float) -> float:
    left, _, right, _ = _LEFT
    return left + (right - left) * nodes / _MOST_NODES


def _y(thousand: float) -> float:
    _, top, _, bottom = _LEFT
    return bottom - (bottom - top) * (thousand - _LOWEST) / (_HIGHEST - _LOWEST)


def _error_x(percent: float) -> float:
    left, _, right, _ = _RIGHT
    return left + (right - left) * (percent + _MOST_PERCENT) / (2 * _MOST_PERCENT)


def _text(x: float, y: float, words: str, *, anchor: str = "start", bold: bool = False, size: int = 12) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}"{weight}>{escape(words)}</text>'
