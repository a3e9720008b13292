"""Published rows of the article that are shown beside a measurement: same workload, model and machines only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from facts import figures
from facts.figures import Figure, Match, ServingShape
from fleet.bench.folder import Asked
from fleet.report.svg import Mark

WORKLOAD = "article"
RERUN = "cluster_ip_rerun"
ONE_NODE = "cluster_ip.nodes-1"
IN_FLIGHT_PER_NODE = 2_000
"""Source: the article, both runs."""
LIKE_LOAD = 0.05
"""Allowed difference of the load of a node for a comparison of latencies and efficiency; the options must be the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One run of the article."""

    title: str
    mark: Mark
    style: str


SERIES = {
    "cluster_ip": Series(title="published, first run", mark="ring", style="first-run"),
    "cluster_ip_rerun": Series(title="published, second run", mark="square", style="second-run"),
    "gateway": Series(title="published, behind the gateway", mark="diamond", style="gateway-run"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """The article's rows, or why there are none."""

    rows: tuple[Figure, ...] = ()
    """Rows with a rate, of every series, by nodes."""
    latency: Figure | None = None
    """The row of the second run with latency percentiles, nearest in nodes."""
    one_node: Figure | None = None
    unlike: tuple[str, ...] = ()
    """vLLM's version, options and environment that differ from those rows without a recorded justification."""
    why_not: str = ""


def series_of(figure: Figure) -> str:
    """Key of SERIES."""
    return figure.id.partition(".")[0]


def published(asked: Asked | None) -> Published:
    """What is shown beside this measurement."""
    if asked is None:
        return Published(
            why_not="`run.json` is missing, so workload, model and machines are unknown and no published row is shown."
        )
    row = figures.published(ONE_NODE)
    differences = tuple(_differences(asked, row))
    if differences:
        return Published(why_not=f"The article's rows are not shown: {'; '.join(differences)}.")
    rows = tuple(
        figure
        for figure in figures.all_figures()
        if series_of(figure) in SERIES and ".nodes-" in figure.id and figure.total_tokens_per_s
    )
    return Published(rows=rows, latency=_latency(asked.shape.replicas), one_node=row, unlike=tuple(_unlike(asked, row)))


def is_like_load(asked: Asked | None, connections: int) -> bool:
    """Whether a node holds about as many requests as the article's."""
    if asked is None:
        return False
    return abs(connections / asked.shape.replicas - IN_FLIGHT_PER_NODE) <= LIKE_LOAD * IN_FLIGHT_PER_NODE


def some_of(names: Sequence[str]) -> str:
    """The first three, and how many more there are."""
    *first, last = [*names[:3], f"{len(names) - 3} more"] if len(names) > 3 else names
    return f"{', '.join(first)} and {last}" if first else last


def match(asked: Asked) -> Match:
    """The published row nearest to the measured stack, and how near it is."""
    return figures.match(_shape(asked))


def _shape(asked: Asked) -> ServingShape:
    shape = asked.shape
    return ServingShape(
        model=shape.model,
        engine_version=shape.engine_version,
        machine_type=shape.machine_type,
        replicas=shape.replicas,
        gpus_per_replica=shape.gpus_per_replica,
        flags=shape.flags,
        env=shape.env,
        routing=shape.routing,
        workload=shape.workload,
        dataset=asked.workload.dataset,
    )


def _unlike(asked: Asked, row: Figure) -> Iterator[str]:
    """Differences beyond `_differences`. Routing is excluded: there are rows for both kinds."""
    for one in figures.compare(_shape(asked), row).unargued:
        if one.field != "routing":
            yield one.field.replace("engine_version", "vLLM's version")


def _differences(asked: Asked, row: Figure) -> Iterator[str]:
    names = dict.fromkeys((asked.workload.name, asked.shape.workload))
    for name in names:
        if name != WORKLOAD:
            yield f"their workload is `{WORKLOAD}` (512 to 1,024 tokens in, 256 to 512 out), this one's `{name}`"
    if asked.shape.model != row.shape.model:
        yield f"their model is {row.shape.model}, this one's {asked.shape.model}"
    if asked.shape.machine_type != row.shape.machine_type:
        yield f"their machines are {row.shape.machine_type}, these {asked.shape.machine_type}"
    if asked.shape.gpus_per_replica != row.shape.gpus_per_replica:
        yield f"their replicas have {row.shape.gpus_per_replica} GPUs, these {asked.shape.gpus_per_replica}"


def _latency(nodes: int) -> Figure | None:
    found = [figure for figure in figures.all_figures() if series_of(figure) == RERUN and "ttft_ms" in figure.details]
    return min(found, key=lambda figure: (abs(figure.shape.replicas - nodes), figure.shape.replicas), default=None)
