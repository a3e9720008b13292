"""The runner of alert rules, built from the module proxy."""

from __future__ import annotations

import pytest

from lab.drills.alerts.evaluate import Fired, Question, Sampled, ask, evaluate

pytestmark = pytest.mark.slow

RULE = {"alert": "Stands", "expr": "rate(x_total[5m]) == 0", "for": "2m", "labels": {"severity": "page"}}
RULES = {"groups": [{"name": "g", "rules": [RULE]}]}


def test_an_alert_is_pending_fires_and_resolves() -> None:
    labels = {"pod": "a", "severity": "page"}
    expected = Fired(alert="Stands", labels=labels, pending_at=900.0, firing_at=1020.0, resolved_at=1560.0)
    assert evaluate(RULES, ['x_total{pod="a"} 0+1x20 20x29 20+1x20'], interval_seconds=30, minutes=30) == [expected]
    samples = [*map(float, range(21)), *[20.0] * 30, *map(float, range(20, 41))]
    sampled = Sampled({"__name__": "x_total", "pod": "a"}, samples)
    assert evaluate(RULES, [sampled], interval_seconds=30, minutes=30) == [expected]


def test_a_gap_is_no_zero_and_values_are_told() -> None:
    series = Sampled({"__name__": "x"}, [1.0, None, 3.0])
    [answer] = ask(
        [Question(rules={"groups": []}, series=[series], interval_seconds=600, minutes=20, expressions=["x * 2"])]
    )
    assert answer.values == {"x * 2": [{"labels": {}, "samples": [[0, 2], [1200, 6]]}]}


def test_an_expression_has_the_value_of_every_moment() -> None:
    """The program parses it once."""
    expected = {
        "x": [[0, 1], [600, 2], [1200, 4]],
        "sum(late)": [[600, 5], [1200, 6]],
        "x offset 10m": [[600, 1], [1200, 2]],
        "sum(max_over_time(x[15m:10m]))": [[0, 1], [600, 2], [1200, 4]],
        "sum(min_over_time(x[15m]))": [[0, 1], [600, 1], [1200, 2]],
    }
    series = [Sampled({"__name__": "x"}, [1, 2, 4]), Sampled({"__name__": "late"}, [None, 5, 6])]
    asked = Question(rules={"groups": []}, series=series, interval_seconds=600, minutes=20, expressions=tuple(expected))
    [answer] = ask([asked])
    assert not answer.error
    assert {text: told[0]["samples"] for text, told in answer.values.items()} == expected


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ({**RULE, "expr": "rate(x_total[5m]"}, "unclosed"),
        ({**RULE, "severity": "page"}, "severity"),
        ({**RULE, "expr": '{pod="a"} > 0'}, "metric's name"),
        ({**RULE, "expr": "x_total > on (pod) y"}, "many-to-many"),
    ],
)
def test_what_prometheus_refuses_is_an_error(rule: dict[str, object], said: str) -> None:
    rules = {"groups": [{"name": "g", "rules": [rule]}]}
    series = ['x_total{pod="a"} 1', 'y{pod="a",n="1"} 0', 'y{pod="a",n="2"} 0']
    with pytest.raises(ValueError, match=said):
        evaluate(rules, series, interval_seconds=30, minutes=1)
