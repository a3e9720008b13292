"""Every alert of the catalogue fires over the series that it is for and over no others, by Prometheus' own engine."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

import pytest

from facts.signals.catalogue import catalogue
from facts.signals.model import Watched
from tests.facts.signals import rules
from tests.facts.signals.alert_cases import APART, BY_REPLICAS, CASES, EIGHT, RUNNING, SHAPES, Case, dear, of, one
from tests.support.promtool import Expectation, wrong

ASKED = {
    shape: {one.name for one in catalogue(watched).alerts if shape != APART or "role=" in one.expr}
    for shape, watched in SHAPES.items()
}


def test_every_alert_has_a_case_that_fires_and_one_that_does_not() -> None:
    for fires in (True, False):
        assert {one.alert for one in CASES if one.fires is fires} == set().union(*ASKED.values())


def others(watched: Watched) -> tuple[Watched, Watched]:
    """A server of the same name elsewhere, and another one of the namespace whose name begins with this one's."""
    return replace(watched, namespace="elsewhere"), replace(watched, server=f"{watched.server}-canary")


def series(case: Case, watched: Watched) -> list[str]:
    """The case's own; around it, others do the opposite."""
    alike = (case.alert, case.every, case.apart)
    opposite = next(one for one in CASES if (one.alert, one.every, one.apart) == alike and one.fires is not case.fires)
    decoys = others(watched)[: 2 if case.decoys else 1]
    around = [one.series(other) for other in decoys for one in opposite.series if not one.metric.startswith("logging")]
    if watched.prefill_engines:
        swap = {"prefill": "decode", "decode": "prefill"}
        around += [replace(one, role=swap[one.asked]).series(watched) for one in opposite.series]
    own = (one.series(watched) for one in case.series)
    return [f"{name} {values}" for name, values in dict(chain(*around, *own)).items()]


def expectation(case: Case, watched: Watched, exprs: Sequence[str] = ()) -> Expectation:
    """One alert, or one for each of the given expressions in place of its own, with the recordings it reads, of others too.

    Evaluated as often as where it is deployed.
    """
    [rule] = [one for one in rules.alerts(catalogue(watched)) if one["alert"] == case.alert]
    [every_seconds] = [one.every_seconds for one in catalogue(watched).alerts if one.name == case.alert]
    alerts = [{**rule, "alert": f"{case.alert}_{number}", "expr": expr} for number, expr in enumerate(exprs)] or [rule]
    records = (one for server in (watched, *others(watched)) for one in rules.recordings(catalogue(server)))
    return Expectation(
        recordings=[one for one in records if any(one["record"] in alert["expr"] for alert in alerts)],
        alerts=alerts,
        series=series(case, watched),
        interval_seconds=case.every,
        evaluated_seconds=max(case.every, every_seconds),
        minutes=case.minutes,
        fires=case.fires,
        since_minutes=case.since,
    )


def applies(case: Case, shape: str) -> bool:
    watched = SHAPES[shape]
    fits = case.spending in (None, watched.spending) and case.apart in (None, shape == APART)
    return case.alert in ASKED[shape] and fits and (not case.engines or watched.engines_per_pod > 1)


@pytest.mark.slow
def test_alerts_fire_when_they_should_and_only_then() -> None:
    asked = [expectation(case, SHAPES[shape]) for shape in SHAPES for case in CASES if applies(case, shape)]
    once = {repr(one): one for one in asked}.values()  # a fifth is the same in two shapes
    assert [one for one, otherwise in zip(once, wrong([*once]), strict=True) if otherwise] == []


@pytest.mark.slow
def test_the_guards_price_decides_where_it_is_counted() -> None:
    """By the guard's price Spot is no reason for a ticket, and a reservation that stands idle is one: replicas cost 80 dollars an hour."""
    told = [(EIGHT, 31, False), (EIGHT, 190, True), (BY_REPLICAS, 31, True), (BY_REPLICAS, 190, False)]
    cases = [
        (watched, Case("GpusIdle", fires, dear(usd, "5x160", 450_000 if usd == 31 else 900_000), minutes=80))
        for watched, usd, fires in told
    ]
    assert wrong([expectation(case, watched) for watched, case in cases]) == [set()] * len(cases)


@pytest.mark.slow
def test_without_an_autoscaler_two_hours_are_idle() -> None:
    fixed = replace(EIGHT, autoscaler=None)
    idle = [of(RUNNING, "0x42")]
    cases = [
        Case("GpusIdle", True, idle, minutes=140, every=300),
        Case("GpusIdle", False, idle, minutes=110, every=300),
        Case("GpusIdle", False, [*idle, *one(RUNNING, "0x20 1x1 0x21")], minutes=140, every=300),
    ]
    assert wrong([expectation(case, fixed) for case in cases]) == [set()] * len(cases)


def test_every_selector_names_a_metric() -> None:
    """Cloud Monitoring refuses one without."""
    every = [catalogue(watched) for watched in SHAPES.values()]
    exprs = [one.expr for each in every for one in (*each.recordings, *each.alerts)]
    assert [one for one in exprs if re.search(r"(?<![\w:]){", re.sub(r'"[^"]*"', "", one))] == []


Change = tuple[str, str, int]
"""An alert, another expression for it, and how many engines only prefill."""


def mutants(expr: str) -> Iterator[str]:
    """The expression with one threshold moved, one comparison turned, or one label or arm left out, wherever it stands."""
    yield from without_an_arm(expr)
    for number in sorted(set(re.findall(r"(?<=[<>=] )[\d.e-]+|[\d.]+(?= \* )", expr))):
        if float(number):
            for factor in (0.5, 2):
                yield re.sub(rf"(?<![\w.]){re.escape(number)}(?![\w.])", f"{float(number) * factor:g}", expr)
    turned = {">": "<", "<": ">", "==": "!=", ">=": "<"}
    for text in sorted(set(re.findall(r"(?:[<>]=?|==) [^ )]+", expr))):
        operator = text.split()[0]
        yield expr.replace(f" {text}", f" {text.replace(operator, turned[operator], 1)}")
    # The resource selects nothing: Cloud Monitoring asks for it with every metric of its own.
    for label in sorted(set(re.findall(r'(?!monitored_resource)\b\w+(?:=~?|!=)"[^"]*"', expr))):
        whole = rf"(?<!\w){re.escape(label)}"
        yield re.sub(rf",{whole}|{whole},|{whole}", "", expr)


def without_an_arm(expr: str) -> Iterator[str]:
    """The expression without one operand of an `or`, or without one condition of an `and` or `unless`."""
    groups = [[(0, "or")]]
    for found in re.finditer(r'"[^"]*"|[()]|, | (?:or|and|unless) |$', expr):
        match found[0]:
            case "(":
                groups.append([(found.end(), "or")])
            case ")" | ", " | "":
                marks = [*groups.pop(), (found.start(), "or")]
                for number, (begin, operator) in enumerate(marks[:-1]):
                    ends = (at for at, after in marks[number + 1 :] if operator != "or" or after == "or")
                    end = next(ends)
                    if number:
                        yield expr[:begin] + expr[end:]
                    elif end < found.start():
                        yield expr[:begin] + expr[end + len(" or ") :]
                if found[0] == ", ":
                    groups.append([(found.end(), "or")])
            case joint if joint.startswith(" "):
                groups[-1].append((found.start(), joint.strip()))


@pytest.mark.slow
def test_a_change_of_any_expression_is_caught_by_a_case() -> None:
    apart = SHAPES[APART]
    every_alert = (*catalogue(EIGHT).alerts, *catalogue(BY_REPLICAS).alerts)
    changes = {(one.name, expr, EIGHT.prefill_engines) for one in every_alert for expr in mutants(one.expr)}
    changes |= {
        (one.name, expr, apart.prefill_engines)
        for one in catalogue(apart).alerts
        for expr in mutants(one.expr)
        if "role=" in one.expr and ("role=" not in expr or one.name not in ASKED["eight engines, 0.18.1"])
    }
    fleets = {watched.prefill_engines: watched for watched in (EIGHT, apart)}
    assert len(changes) > 200
    first = {(one.alert, one.fires): one for one in reversed(CASES)}
    telling = sorted(CASES, key=lambda case: case not in first.values())
    turns = {alert: [case for case in telling if case.alert == alert] for alert in {one.alert for one in CASES}}
    # Case by case: most changes are caught by the first, and nothing is left to ask about them.
    for turn in range(max(map(len, turns.values()))):
        left: dict[tuple[str, int], list[Change]] = {}
        for change in sorted(changes):
            if turn < len(turns[change[0]]):
                left.setdefault((change[0], change[2]), []).append(change)
        asked = [
            expectation(turns[alert][turn], fleets[prefill], [expr for _, expr, _ in some])
            for (alert, prefill), some in left.items()
        ]
        for some, caught in zip(left.values(), wrong(asked), strict=True):
            changes -= {some[int(name.rpartition("_")[2])] for name in caught}
    assert changes == set()
