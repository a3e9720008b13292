"""What can be told of an expression without its series; what each rule makes of it is in the cases."""

from __future__ import annotations

import pytest

from facts.signals.catalogue import Watched, catalogue
from promql import Reading, is_constant, never_fires, seconds, values
from tests.facts.signals.fleets import FLEETS
from tests.support.rows import each_row

MAY_FIRE = (
    "absent(up)",
    "up == 0 or vector(0) > 1",
    "histogram_quantile(0.99, sum by (le) (rate(ttft_bucket[5m]))) > 2.5",
    "hour() > 8 and on () up == 0",
    "topk(3, sum by (pod) (queue)) >= 5",
    "max by (pod) (a) / on (pod) group_left (node) b > bool 1.5",
    "up{job=~\"a|b\"}[5m:1m] offset -5m @ end() > 0",
    "-temperature < -80 # a comment",
    "label_replace(up, 'a', '$1', 'b', '(.*)') == 0",
    "predict_linear(disk_free_bytes[1h], 4 * 3600) < 0",
)  # fmt: skip
NEVER = (
    "day_of_week() > 6",
    "time() < 0",
    "vector(1) == 0",
    "absent(vector(1))",
    "up > +Inf",
    "up == NaN",
    "a != a",
    "count(a) > 1e7",
    "-up > 1",
    "(up == 0) / 0x0 > 1 and 0 > 1",
)


@each_row("query", MAY_FIRE)
def test_an_expression_that_may_be_true_is_left_alone(query: str) -> None:
    assert values(query) is not None
    assert never_fires(query) == ""


@each_row("query", NEVER)
def test_an_expression_that_cannot_be_true_is_found(query: str) -> None:
    assert never_fires(query)


@pytest.mark.parametrize("query", ["sum(up", "up ==", "up{", "== 1", "a b", "(" * 5000, "1 / 0 %%"])
def test_what_cannot_be_read_is_not_judged(query: str) -> None:
    assert values(query) is None
    assert never_fires(query) == ""


@pytest.mark.parametrize("fleet", FLEETS.values(), ids=FLEETS)
def test_every_expression_of_a_fleet_can_be_read_and_may_be_true(fleet: Watched) -> None:
    every = catalogue(fleet)
    queries = [one.expr for one in (*every.alerts, *every.recordings)]
    assert [query for query in queries if values(query) is None or never_fires(query)] == []


def test_a_constant_is_told_from_a_load() -> None:
    queries = (
        "1",
        "vector(3) * 2",
        "sum(queue) * 0",
        "clamp_max(vector(1), 1)",
        "queue == 3",
        "queue + 1",
        "time() % 60",
    )
    assert [is_constant(query) for query in queries] == [True, True, True, True, True, False, False]


def test_its_series_and_what_their_labels_select_are_told() -> None:
    found = values('sum(a{b="c", d=~"e|f"}) > 1 unless on () {f!="g"}')
    assert found is not None
    first, second = found.readings
    assert first == Reading(metric="a", labels=(("b", "=", "c"), ("d", "=~", "e|f")))
    assert (first.exact("b"), first.exact("d")) == ("c", "")
    assert (first.chosen("d", "efg"), second.chosen("f", "gh"), second.chosen("x", "y")) == ({"e", "f"}, {"h"}, {"y"})


def test_durations() -> None:
    assert [seconds(text) for text in ("90s", "1h30m", "250ms", "2d", None, "")] == [90, 5400, 0.25, 172_800, 0, 0]
