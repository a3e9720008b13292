"""Published rows of the article that are shown beside a measurement: same workload, model and machines only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from facts import figures
from facts.figures import Figure
from fleet.bench.folder import Asked

WORKLOAD: Final = "article"
RERUN: Final = "cluster_ip_rerun"
ONE_NODE: Final = "cluster_ip.nodes-1"
SERIES: Final = {
    "cluster_ip": "published, first run",
    RERUN: "published, second run",
    "gateway": "published, behind the gateway",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """The article's rows, or why there are none."""

    rows: tuple[Figure, ...] = ()
    """Rows with a rate, of every series, by nodes."""
    latency: Figure | None = None
    """The row of the second run with latency percentiles, nearest in nodes."""
    why_not: str = ""


def series_of(figure: Figure) -> str:
    """Key of SERIES."""
    return figure.id.partition(".")[0]


def published(asked: Asked) -> Published:
    """What is shown beside this measurement."""
    row = figures.published(ONE_NODE)
    differences = tuple(_differences(asked, row))
    if differences:
        return Published(why_not=f"The article's rows are not shown, for another {', '.join(differences)}.")
    every = figures.all_figures()
    latencies = [figure for figure in every if series_of(figure) == RERUN and "ttft_ms" in figure.details]
    nodes = asked.shape.replicas
    return Published(
        rows=tuple(
            figure
            for figure in every
            if series_of(figure) in SERIES and ".nodes-" in figure.id and figure.total_tokens_per_s
        ),
        latency=min(latencies, key=lambda one: (abs(one.shape.replicas - nodes), one.shape.replicas), default=None),
    )


def _differences(asked: Asked, row: Figure) -> Iterator[str]:
    if {asked.workload.name, asked.shape.workload} != {WORKLOAD}:
        yield "workload"
    if asked.shape.model != row.shape.model:
        yield "model"
    if (asked.shape.machine_type, asked.shape.gpus_per_replica) != (row.shape.machine_type, row.shape.gpus_per_replica):
        yield "machine"
