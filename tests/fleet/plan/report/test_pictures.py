from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from facts.time_to_serve import Start, time_to_serve
from facts.workloads import Lengths, Workload
from fleet.plan import planning
from fleet.plan.economics import Duty
from fleet.plan.plan import Plan
from fleet.plan.question.goals import (
    CAPACITIES,
    Batch,
    Budget,
    PlanGoal,
    PlanImpossibleError,
    PlanQuestion,
    RequestsPerSecond,
    TokensPerSecond,
    Users,
)
from fleet.plan.question.profiles import profile_facts
from fleet.plan.report import drawn, memory_bar, prices, throughput, way_to_serve
from fleet.plan.report.prices import PriceRow
from fleet.report.charts import drawing
from fleet.report.rows import rows_drawing
from fleet.report.svg import Drawing, Format
from tests.fleet.plan.report.pages import Page, a_batch, a_plan, an_unpriced_plan, question, taken_apart

FORMATS: tuple[Format, Format] = ("wide", "narrow")


def pictures(plan: Plan) -> Iterator[Drawing]:
    parts, rows, shown = drawn.memory(plan), drawn.prices(plan, ()), drawn.throughput(plan)
    for format_ in FORMATS:
        yield drawing(throughput.plot(shown), format_)
        yield rows_drawing(prices.chart(rows), format_)
        yield rows_drawing(memory_bar.chart(parts, plan.maximum.memory, plan.deployment.gpu.name), format_)
        yield rows_drawing(way_to_serve.chart(plan.time_to_serve), format_)


def check(picture: Drawing) -> None:
    """Nothing leaves the drawing, no words lie on others."""
    found = taken_apart(picture.markup())
    assert found.labels
    for label in found.labels:
        assert label.left >= -0.5, (picture.id, label)
        assert label.right <= found.width + 0.5, (picture.id, label)
        assert label.top >= -0.5, (picture.id, label)
        assert label.bottom <= found.height + 0.5, (picture.id, label)
    for x, y in found.points:
        assert math.isfinite(x)
        assert math.isfinite(y)
        assert -1 <= x <= found.width + 1, (picture.id, x)
        assert -1 <= y <= found.height + 1, (picture.id, y)
    for one, other in combinations(found.labels, 2):
        assert not one.meets(other), (picture.id, one, other)


GOALS: st.SearchStrategy[PlanGoal] = st.one_of(
    st.builds(TokensPerSecond, total_tokens_per_s=st.floats(100, 3e7)),
    st.builds(Users, count=st.floats(1, 200_000)),
    st.builds(RequestsPerSecond, requests_per_s=st.floats(0.01, 20_000)),
    st.builds(Budget, usd_per_hour=st.floats(50, 50_000)),
    st.builds(Batch, documents=st.integers(1, 5_000_000), deadline_hours=st.none() | st.floats(1, 400)),
)


def lengths(most: int) -> st.SearchStrategy[Lengths]:
    return st.integers(1, most).map(Lengths.exactly)


QUESTIONS: st.SearchStrategy[PlanQuestion] = st.builds(
    question,
    goal=GOALS,
    profile=st.sampled_from(["record", "tuned", "serve-batch", "tp8", "dp8-131k", "no-mtp-095"]).map(profile_facts),
    workload=st.builds(Workload, input_tokens=lengths(1_500), output_tokens=lengths(1_000)),
    capacity=st.sampled_from([one for one in CAPACITIES if one != "on-demand"]),
    routing=st.sampled_from(["cluster-ip", "inference-gateway"]),
    duty=st.builds(Duty, hours_per_week=st.floats(1, 168)),
    starts_from=st.sampled_from(["nothing", "cluster", "weights"]),
    usd_per_node_hour=st.none() | st.floats(0.01, 5_000),
)


# A plan is small already: to shrink one takes minutes and says no more.
@pytest.mark.slow
@settings(phases=(Phase.explicit, Phase.generate))
@given(QUESTIONS)
def test_labels_of_any_plan_stay_inside_and_apart(asked: PlanQuestion) -> None:
    try:
        plan = planning.plan(asked)
    except PlanImpossibleError:
        return
    for picture in pictures(plan):
        check(picture)


@pytest.mark.parametrize("plan", [a_plan(), a_batch(), an_unpriced_plan()], ids=["rate", "batch", "unpriced"])
def test_every_drawing_says_what_it_is_to_those_who_do_not_see_it(plan: Plan) -> None:
    for picture in pictures(plan):
        page = Page(picture.markup())
        svg = page.all("svg")[0].attributes
        assert svg["role"] == "img"
        titled = next(one for one in page.all("title") if one.attributes.get("id") == svg["aria-labelledby"])
        described = next(one for one in page.all("desc") if one.attributes.get("id") == svg["aria-describedby"])
        assert titled.words == picture.title
        assert len(described.words) > 40


def test_published_points_are_drawn_where_the_ledger_has_them_and_named_as_published() -> None:
    shown = drawn.throughput(a_plan())
    of_run_1 = {one.nodes: one.total_tokens_per_s for one in shown.readings if one.series == "cluster_ip"}
    assert of_run_1 == {1: 95_317, 2: 190_000, 4: 376_074, 8: 740_192, 12: 1_103_941}
    assert {one.series for one in shown.readings} == {"cluster_ip", "cluster_ip_rerun", "gateway"}
    titles = [one.words for one in Page(drawing(throughput.plot(shown), "wide").markup()).all("title")]
    assert sum(title.startswith("12 nodes: 1,103,941 tok/s, published") for title in titles) == 2
    # The same 12 nodes on both panels; the band's middle is the model's, not the published point.
    curve = dict(shown.curve)
    assert curve[12].value != 1_103_941
    assert curve[12].holds(1_103_941)


def test_the_curve_goes_through_the_plan() -> None:
    plan = a_plan()
    shown = drawn.throughput(plan)
    assert dict(shown.curve)[plan.nodes].value == pytest.approx(plan.maximum.total_tokens_per_s.value)
    assert shown.curve[-1][0] > plan.nodes
    assert [nodes for nodes, _ in shown.curve] == sorted({nodes for nodes, _ in shown.curve})


def test_behind_the_gateway_the_curve_begins_at_two_nodes() -> None:
    plan = planning.plan(question(goal=TokensPerSecond(total_tokens_per_s=3e5), routing="inference-gateway"))
    assert drawn.throughput(plan).curve[0][0] == 2


def test_a_plan_of_a_thousand_nodes_is_drawn_with_few_points() -> None:
    plan = planning.plan(question(goal=TokensPerSecond(total_tokens_per_s=2e7)))
    shown = drawn.throughput(plan)
    assert plan.nodes > 1_000
    assert len(shown.curve) < 35


def test_unknown_prices_stand_in_words_without_a_mark() -> None:
    rows = (
        PriceRow(name="known", kind="fleet", usd_per_million=0.3, chosen=True),
        PriceRow(name="unknown", kind="fleet", usd_per_million=None),
    )
    page = Page(rows_drawing(prices.chart(rows), "wide").markup())
    assert [one.words for one in page.all("text")].count("price unknown") == 1
    assert "$0.00" not in page.words
    plan_marks = [one for one in page.all("polygon") if one.attributes["class"] == "plan"]
    assert len(plan_marks) == 2  # the row and the legend
    assert not [one for one in page.all("circle") if one.attributes["class"] == "fleet"]


def test_prices_of_nothing_known_need_no_axis() -> None:
    rows = (PriceRow(name="unknown", kind="fleet", usd_per_million=None, chosen=True),)
    for format_ in FORMATS:
        picture = rows_drawing(prices.chart(rows), format_)
        check(picture)
        assert "logarithmic axis" not in Page(picture.markup()).words


def test_ways_to_buy_without_a_price_share_a_row_and_the_plan_keeps_its_own() -> None:
    rows = drawn.prices(a_plan(), ())
    assert [row.chosen for row in rows] == [True, False, False, *[False] * 4]
    assert rows[0].usd_per_million == pytest.approx(a_plan().money.at_load.total_usd)  # type: ignore[union-attr]
    assert "calendar" in rows[1].name
    assert rows[2].usd_per_million is None
    assert rows[2].name.count(";") == 4
    own = drawn.prices(an_unpriced_plan(), ())
    assert [row.name for row in own if row.chosen] == ["a reservation, 13 nodes"]
    assert next(row for row in own if row.chosen).words == "price unknown"


def test_prices_of_alternatives_are_those_of_the_table() -> None:
    plan = a_plan()
    found = planning.compare(plan.question)
    with_them, without = drawn.prices(plan, found), drawn.prices(plan, ())
    assert [row.usd_per_million for row in with_them] == pytest.approx([row.usd_per_million for row in without])


def test_a_fleet_is_at_least_so_dear_where_items_have_no_price() -> None:
    assert drawn.prices(a_plan(), ())[0].words.startswith("at least $")


@pytest.mark.parametrize("profile", ["record", "tp8", "dp8-4096", "no-mtp-095", "serve-batch"])
def test_parts_of_a_gpu_add_up_to_it(profile: str) -> None:
    plan = planning.plan(question(profile=profile_facts(profile), goal=TokensPerSecond(total_tokens_per_s=1e5)))
    room = plan.maximum.memory
    parts = drawn.memory(plan)
    # Where graphs come on top of the budget they are outside it, and still of the same GPU.
    assert sum(part.gib for part in parts) == pytest.approx(room.gpu_gib)
    assert all(part.gib > 0 for part in parts)
    ids = [part.id for part in parts]
    assert len(set(ids)) == len(ids)
    assert ("draft" in ids) == (profile not in ("no-mtp-095",))


def test_the_bar_is_to_scale() -> None:
    plan = a_plan()
    parts = drawn.memory(plan)
    page = Page(rows_drawing(memory_bar.chart(parts, plan.maximum.memory, "B200"), "wide").markup())
    widths = {one.attributes["class"].split()[-1]: float(one.attributes["width"]) for one in page.all("rect")}
    budget = widths.pop("step")
    assert widths["weights"] / widths["state"] == pytest.approx(
        next(one.gib for one in parts if one.id == "weights") / next(one.gib for one in parts if one.id == "state"),
        rel=0.01,
    )
    assert budget / sum(widths.values()) == pytest.approx(
        plan.maximum.memory.budget_gib / plan.maximum.memory.gpu_gib, rel=0.01
    )


def test_steps_that_decide_are_marked_in_words_and_by_their_filling() -> None:
    way = time_to_serve(Start(weights_gb=29, volume_gib=48, volume_mibps=4_800, readers=12, gateway=True))
    page = Page(rows_drawing(way_to_serve.chart(way), "wide").markup())
    bars = [one for one in page.all("rect") if one.inside("svg") and "step" in one.attributes["class"]]
    critical = sum(step.critical for step in way.steps)
    assert critical < len(way.steps)
    assert sum("critical" in bar.attributes["class"] for bar in bars) == critical + 1  # and the legend's sign
    # The dot stands on the first line of each critical step, and in the legend.
    assert sum(one.words.startswith("● ") for one in page.all("text")) == critical + 1


def test_bars_begin_where_their_steps_begin() -> None:
    way = time_to_serve(Start(weights_gb=29, volume_gib=48, volume_mibps=4_800, readers=12))
    page = Page(rows_drawing(way_to_serve.chart(way), "wide").markup())
    bars = [one for one in page.all("rect") if "step" in one.attributes["class"]][: len(way.steps)]
    lefts = [float(bar.attributes["x"]) for bar in bars]
    scale = (lefts[-1] - lefts[0]) / way.steps[-1].begins_seconds
    for left, bar, step in zip(lefts, bars, way.steps, strict=True):
        assert left - lefts[0] == pytest.approx(step.begins_seconds * scale, abs=0.2)
        assert float(bar.attributes["width"]) == pytest.approx(max(1, step.likely_seconds * scale), abs=0.2)


def test_drawings_hold_whatever_a_profile_is_called() -> None:
    plan = a_plan()
    rows = drawn.prices(plan, ())
    long = (replace(rows[0], name="A" * 300), *rows[1:], replace(rows[-1], name="word " * 40))
    for format_ in FORMATS:
        check(rows_drawing(prices.chart(long), format_))


def test_a_batch_that_runs_at_full_load_has_one_point() -> None:
    for plan, points in ((a_plan(), 3), (a_batch(), 0)):
        page = Page(drawing(throughput.plot(drawn.throughput(plan)), "wide").markup())
        assert sum(one.attributes["class"] == "planned" for one in page.all("circle")) == points
