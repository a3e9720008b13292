from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fleet.bench.measurement import Distribution, Histogram, Measurement, Run
from fleet.bench.report import article
from fleet.bench.report.plots import plots_of
from fleet.bench.report.plots_balance import clients, engines
from fleet.bench.report.plots_latency import MOST_POINTS, cumulative, distributions
from fleet.bench.report.plots_time import MOST_RUNS, cache_and_queue, in_flight, power, runs, runs_drawn, throughput
from fleet.bench.report.shown import shown
from fleet.report.charts import Plot
from tests.fleet.bench.measurements import (
    FLAGS,
    RUN_SECONDS,
    TAIL_SECONDS,
    WARM_UP_SECONDS,
    a_bare_measurement,
    a_measurement,
    a_run,
    a_sweep,
    an_asked,
    latencies,
)


def plots(measurement: Measurement) -> dict[str, Plot]:
    return {plot.id: plot for plot in plots_of(shown(measurement), article.published(measurement.asked))}


def one_run(**changes: object) -> Run:
    return a_run(an_asked(), 0, 0).model_copy(update=changes)


def test_what_was_not_collected_has_no_plot() -> None:
    assert list(plots(a_bare_measurement())) == ["latency", "throughput-time", "in-flight", "clients"]


def test_the_load_with_the_highest_rate_is_shown_and_its_repeat_nearest_to_the_mean() -> None:
    sweep = a_sweep()
    found = shown(sweep)
    assert found.point.connections == max(point.connections for point in sweep.points)
    mean = found.point.total_tokens_per_s.mean
    distances = [abs(run.steady.total_tokens_per_s - mean) for run in found.runs if run.steady]
    assert found.run.steady is not None
    assert abs(found.run.steady.total_tokens_per_s - mean) == min(distances)


def test_a_load_without_a_steady_window_is_not_the_one_that_is_shown() -> None:
    sweep = a_sweep()
    last = sweep.points[-1].point
    unsteady = tuple(run.model_copy(update={"steady": None}) if run.point == last else run for run in sweep.runs)
    assert shown(sweep.model_copy(update={"runs": unsteady})).point.point != last


def test_warm_up_steady_window_and_tail_follow_each_other_over_the_whole_run() -> None:
    stretches = throughput(one_run()).panels[0].stretches
    assert [one.words for one in stretches] == ["warm-up", "steady window", "tail"]
    assert [(one.low, one.high) for one in stretches] == [
        (0, WARM_UP_SECONDS),
        (WARM_UP_SECONDS, RUN_SECONDS - TAIL_SECONDS),
        (RUN_SECONDS - TAIL_SECONDS, RUN_SECONDS),
    ]


def test_without_a_steady_window_nothing_is_shaded_and_the_plot_says_so() -> None:
    plot = throughput(one_run(steady=None))
    assert not plot.panels[0].stretches
    assert not plot.panels[0].levels
    assert "second" not in plot.description


def test_moments_count_from_the_first_request_whatever_the_clock() -> None:
    run = one_run()
    moved = {
        name: window.model_copy(
            update={"began": window.began - run.whole.began, "ended": window.ended - run.whole.began}
        )
        for name in ("whole", "steady")
        if (window := getattr(run, name)) is not None
    }
    assert throughput(run.model_copy(update=moved)).panels[0].stretches == throughput(run).panels[0].stretches


def test_the_article_s_rows_keep_their_series_and_are_never_joined() -> None:
    plot = plots(a_measurement())["throughput-nodes"]
    for panel in plot.panels:
        assert not panel.lines
        assert [dot.style for dot in panel.dots].count("first-run") == 5
        assert [dot.style for dot in panel.dots].count("second-run") == 3
        assert [dot.style for dot in panel.dots].count("gateway-run") == 3
        assert [dot.style for dot in panel.dots][-2:] == ["planned", "plan"]
    assert {dot.y for dot in plot.panels[0].dots if dot.style == "first-run"} == {
        95_317,
        190_000,
        376_074,
        740_192,
        1_103_941,
    }
    assert all("published, vLLM 0.18.0" in dot.title for dot in plot.panels[0].dots if dot.style.endswith("-run"))


def test_another_workload_has_nothing_of_the_article_in_its_plots() -> None:
    found = plots(a_measurement(an_asked(workload="vllm-1024-512")))
    assert "throughput-nodes" not in found, "two marks at one place on the axis say nothing"
    assert not any(dot.style == "second-run" for panel in found["latency"].panels for dot in panel.dots)
    assert not any("published" in entry.words for plot in found.values() for entry in plot.legend)


def test_published_percentiles_stand_beside_a_like_load_only() -> None:
    def published(in_flight: int) -> int:
        plot = plots(a_measurement(an_asked(replicas=4, in_flight_per_node=(in_flight,), repeats=1)))["latency"]
        return sum(dot.style == "second-run" for panel in plot.panels for dot in panel.dots)

    assert published(2_000) == 6
    assert published(1_000) == 0


def test_published_percentiles_do_not_stand_beside_other_options() -> None:
    shape = an_asked(replicas=4).shape.model_copy(update={"flags": {**FLAGS, "gpu-memory-utilization": 0.8}})
    plot = plots(a_measurement(an_asked(replicas=4, repeats=1, shape=shape)))["latency"]
    assert not [dot for panel in plot.panels for dot in panel.dots if dot.style == "second-run"]


def test_percentiles_are_marked_where_the_curve_passes_them() -> None:
    plot = distributions(latencies(), None)
    for panel, one in zip(
        plot.panels, (latencies().ttft, latencies().tpot, latencies().itl, latencies().e2e), strict=True
    ):
        assert one is not None
        factor = 1_000 if one.p50 >= 1_000 else 1
        assert [(dot.x * factor, dot.y) for dot in panel.dots] == [(one.p50, 0.5), (one.p90, 0.9), (one.p99, 0.99)]
        assert panel.x.low <= one.p50 / factor <= one.p99 / factor <= panel.x.high


def test_a_long_tail_gets_a_logarithmic_axis() -> None:
    by_title = {panel.title: panel.x.is_log for panel in distributions(latencies(), None).panels}
    assert by_title == {
        "First token (TTFT)": False,
        "Time per token after it (TPOT)": False,
        "Between two chunks (ITL)": True,
        "Whole request (E2E)": False,
    }


@given(
    counts=st.lists(st.integers(min_value=0, max_value=10_000), min_size=1, max_size=500).filter(any),
    first=st.floats(min_value=0, max_value=100),
    inside=st.floats(min_value=0.01, max_value=1),
)
def test_a_cumulative_curve_rises_from_none_to_all(counts: list[int], first: float, inside: float) -> None:
    edges = tuple(first + number for number in range(len(counts) + 1))
    values = dict.fromkeys(("mean", "std", "min", "p10", "p50", "p90", "p95", "p99", "p999", "max"), first + inside)
    histogram = Histogram(edges=edges, counts=tuple(counts))
    one = Distribution.model_validate({**values, "count": sum(counts), "histogram": histogram})
    points = list(cumulative(one))
    assert len(points) <= MOST_POINTS + 1 + 6
    assert (points[0][0], points[-1][0]) == (edges[0], edges[-1])
    assert points[0][1] == 0
    assert [x for x, _ in points] == sorted(x for x, _ in points)
    assert abs(points[-1][1] - 1) < 1e-12
    assert [y for _, y in points] == sorted(y for _, y in points)


def test_wide_bins_leave_the_percentiles_where_they_are() -> None:
    histogram = Histogram(edges=(0.0, 100.0, 200.0, 3_000.0), counts=(96, 2, 2))
    percentiles = {"p10": 20.0, "p50": 30.0, "p90": 45.0, "p95": 60.0, "p99": 1_500.0, "p999": 2_900.0}
    one = Distribution(count=100, mean=60, std=9, min=0.0, max=3_000.0, histogram=histogram, **percentiles)
    itl = latencies().model_copy(update={"itl": one})
    panel = next(panel for panel in distributions(itl, None).panels if "ITL" in panel.title)
    assert panel.x.is_log
    assert [dot.x for dot in panel.dots] == [30.0, 45.0, 1_500.0]
    assert {(30.0, 0.5), (45.0, 0.9), (1_500.0, 0.99)} <= set(panel.lines[0].points)
    rising = [y for _, y in panel.lines[0].points]
    assert rising == sorted(rising)


def test_a_starved_engine_and_an_idle_client_are_drawn_as_odd_and_named() -> None:
    run = one_run()
    assert run.server is not None
    starved = list(run.server.engines)
    starved[37] = starved[37].model_copy(update={"generation_tokens": 0.0})
    plot = engines(run.server.model_copy(update={"engines": tuple(starved)}))
    assert [len(panel.bars) for panel in plot.panels] == [96] * 4
    odd = [bar.title for bar in plot.panels[0].bars if "odd" in bar.style]
    assert odd == ["10.8.4.7, rank 5: 0"]
    assert "0 to " in plot.description
    slow = list(run.clients)
    slow[3] = slow[3].model_copy(update={"total_tokens_per_s": 1.0})
    bars = clients(run.model_copy(update={"clients": tuple(slow)})).panels[0].bars
    assert [bar.title for bar in bars if "odd" in bar.style] == ["client 3: 1 total tok/s"]
    assert not any("odd" in bar.style for bar in clients(run).panels[0].bars)


def test_one_bad_client_or_engine_among_few_does_not_make_the_others_odd() -> None:
    run = a_run(an_asked(replicas=1, engines=4), 0, 0)
    assert run.server is not None
    starved = [one.model_copy(update={"generation_tokens": 100.0}) for one in run.server.engines]
    starved[1] = starved[1].model_copy(update={"generation_tokens": 0.0})
    plot = engines(run.server.model_copy(update={"engines": tuple(starved)}))
    assert [bar.title for bar in plot.panels[0].bars if "odd" in bar.style] == ["10.8.0.7, rank 1: 0"]
    assert plot.panels[0].levels[0].value == 100.0
    slow = [one.model_copy(update={"total_tokens_per_s": 4_600.0}) for one in (run.clients * 2)[:4]]
    slow[2] = slow[2].model_copy(update={"total_tokens_per_s": 2_300.0})
    bars = clients(run.model_copy(update={"clients": tuple(slow)})).panels[0].bars
    assert ["odd" in bar.style for bar in bars] == [False, False, True, False]


def test_where_most_engines_got_nothing_those_that_worked_are_odd() -> None:
    run = a_run(an_asked(replicas=1, engines=4), 0, 0)
    assert run.server is not None
    one, *idle = run.server.engines
    idle = [each.model_copy(update={"generation_tokens": 0.0}) for each in idle]
    bars = engines(run.server.model_copy(update={"engines": (one, *idle)})).panels[0].bars
    assert ["odd" in bar.style for bar in bars] == [True, False, False, False]


def test_cpu_and_cache_have_the_whole_as_their_axis() -> None:
    run = one_run()
    assert run.server is not None
    assert clients(run).panels[1].y.high == 1.0
    assert engines(run.server).panels[3].y.high == 1.0
    busy = run.clients[0].model_copy(update={"cpu_share_peak": 1.3})
    assert clients(run.model_copy(update={"clients": (busy, *run.clients[1:])})).panels[1].y.high > 1.3


def test_servers_are_in_the_order_of_their_addresses_and_ranks_in_that_of_numbers() -> None:
    run = a_run(an_asked(replicas=11, engines=12), 0, 0)
    assert run.server is not None
    shuffled = run.server.model_copy(update={"engines": run.server.engines[::-1]})
    titles = [bar.title.partition(":")[0] for bar in engines(shuffled).panels[0].bars]
    assert titles[:12] == [f"10.8.0.7, rank {rank}" for rank in range(12)]
    assert titles[-1] == "10.8.10.7, rank 11"


def test_clients_without_witnesses_have_their_rates_alone() -> None:
    plot = clients(a_bare_measurement().runs[0])
    assert [panel.title for panel in plot.panels] == ["Total tokens a second"]


def test_many_runs_leave_those_of_the_shown_load() -> None:
    asked = an_asked(replicas=1, in_flight_per_node=tuple(range(100, 1_000, 100)), repeats=3)
    many = a_measurement(asked, collected=False)
    assert len(many.runs) > MOST_RUNS
    assert [run.name for run in runs_drawn(shown(many))] == list(shown(many).point.runs)


def test_power_is_that_of_one_gpu() -> None:
    run = one_run()
    assert run.gpus is not None
    assert run.gpus.timeline is not None
    plot = power(run, run.gpus)
    assert plot is not None
    assert 500 < max(y for _, y in plot.panels[0].lines[0].points) < 1_000
    assert power(run, run.gpus.model_copy(update={"timeline": None})) is None
    assert power(run, run.gpus.model_copy(update={"readings": ()})) is None


def test_the_mean_of_a_second_is_drawn_in_its_middle() -> None:
    run = one_run()
    line = run.timeline
    short = line.model_copy(
        update={
            "at": (0.0, 1.0, 2.0),
            "total_tokens_per_s": (5.0, 6.0, 7.0),
            "output_tokens_per_s": (1.0, 2.0, 3.0),
            "in_flight": (8.0, 9.0, 9.0),
        }
    )
    run = run.model_copy(update={"timeline": short})
    assert throughput(run).panels[0].lines[0].points == ((0.5, 5.0), (1.5, 6.0), (2.5, 7.0))
    assert in_flight(run).panels[0].lines[0].points == ((0.5, 8.0), (1.5, 9.0), (2.5, 9.0))
    small = runs(shown(a_measurement(an_asked(repeats=2), collected=False)))
    assert {panel.lines[0].points[0][0] for panel in small.panels} == {0.5}


def test_samples_from_before_the_first_request_are_not_drawn() -> None:
    run = one_run()
    assert run.server is not None
    line = run.server.timeline
    early = line.model_copy(update={"at": tuple(at - 3 for at in line.at)})
    plot = cache_and_queue(run, run.server.model_copy(update={"timeline": early}))
    assert all(x >= 0 for panel in plot.panels for drawn in panel.lines for x, _ in drawn.points)


def test_the_axis_of_engines_names_what_its_ticks_count() -> None:
    def axis(replicas: int, ranks: int) -> tuple[str, list[str]]:
        run = a_run(an_asked(replicas=replicas, engines=ranks), 0, 0)
        assert run.server is not None
        across = engines(run.server).panels[0].x
        return across.title, [words for _, words in across.ticks or ()]

    assert axis(1, 4) == ("rank", ["0", "1", "2", "3"])
    assert axis(1, 1) == ("rank", ["0"])
    for ranks, servers in ((2, 3), (1, 2)):
        title, ticks = axis(servers, ranks)
        assert title.startswith("server")
        assert ticks == [str(number) for number in range(1, servers + 1)]
