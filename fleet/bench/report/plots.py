"""Every plot of a measurement, in the page's order; what was not collected has none."""

from __future__ import annotations

from collections.abc import Iterator

from fleet.bench.report import plots_balance, plots_latency, plots_load, plots_time
from fleet.bench.report.article import Published, is_like_load
from fleet.bench.report.shown import Shown, has_steady, window_name
from fleet.report.charts import Plot


def plots_of(shown: Shown, published: Published) -> tuple[Plot, ...]:
    """All plots that there is data for."""
    return tuple(_plots(shown, published))


def _plots(shown: Shown, published: Published) -> Iterator[Plot]:
    measurement, run = shown.measurement, shown.run
    if shown.nodes is not None and published.rows:
        yield plots_load.against_nodes(shown, published, shown.nodes)
    if sum(has_steady(measurement, point) for point in measurement.points) > 1:
        yield plots_load.against_load(shown)
    like = is_like_load(measurement.asked, shown.point.connections) and not published.unlike
    yield plots_latency.distributions(shown.point.latencies, published.latency if like else None)
    if run.timeline.at:
        yield plots_time.throughput(run)
        yield plots_time.in_flight(run)
    drawn = plots_time.runs_drawn(shown)
    if len(drawn) > 1 and any(one.timeline.at for one in drawn):
        yield plots_time.runs(shown)
    yield plots_balance.clients(run)
    if run.server is not None and run.server.engines:
        yield plots_balance.engines(run.server, window_name(run))
        if run.server.timeline.at:
            yield plots_time.cache_and_queue(run, run.server)
    if run.gpus is not None and (power := plots_time.power(run, run.gpus)) is not None:
        yield power
