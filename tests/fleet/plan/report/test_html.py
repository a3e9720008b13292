from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from fleet.plan import planning
from fleet.plan.economics import Duty
from fleet.plan.plan import Alternative, Plan
from fleet.plan.question.goals import Limits, Users
from fleet.plan.report.outline import outline
from fleet.plan.words import format_goal, format_lengths, format_span
from fleet.report.as_html import TEMPLATES, html_text
from fleet.report.words import format_duration, format_milliseconds, format_number, format_percent, format_usd
from tests.fleet.plan.report.pages import Page, a_batch, a_plan, an_unpriced_plan, question

STYLE = (TEMPLATES / "style.css").read_text()
PLANS = {"rate": a_plan, "batch": a_batch, "unpriced": an_unpriced_plan}


@pytest.fixture(scope="module")
def page() -> Page:
    return Page(html_text(outline(a_plan())))


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_ids_are_unique_and_what_refers_to_one_finds_it(plan: object) -> None:
    page = Page(html_text(outline(plan(), planning.compare(plan().question))))  # type: ignore[operator]
    assert len(page.ids) == len(set(page.ids))
    for element in page.elements:
        for name in ("aria-labelledby", "aria-describedby"):
            if name in element.attributes:
                assert element.attributes[name] in page.ids


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_every_number_of_the_plan_is_on_the_page(plan: object) -> None:
    answer: Plan = plan()  # type: ignore[operator]
    words = Page(html_text(outline(answer))).words
    now, most, way = answer.performance, answer.maximum, answer.time_to_serve
    expected = [
        format_goal(answer.question),
        format_lengths(answer.question.workload),
        f"{answer.machines:,} A4 node",
        f"({answer.gpus:,} B200)",
        format_usd(answer.money.usd_per_hour),
        format_usd(answer.money.usd_per_month),
        f"{answer.kilowatts:,.0f} kW",
        format_percent(answer.utilisation, 0),
        answer.basis,
        answer.published.reason,
        answer.spares_why,
        answer.sizing.gateway.text,
        f"{answer.sizing.volume_gib:,} GiB",
        f"{answer.sizing.volume_mibps:,} MiB/s",
        f"/{answer.sizing.ranges.pods_prefix}",
        f"/{answer.sizing.ranges.nodes_prefix}",
        f"{answer.sizing.nat_ports_per_vm:,}",
        f"{answer.sizing.benchmark_clients:,}",
        f"{answer.maximum.memory.kv_tokens:,} KV tokens",
        format_duration(way.likely_seconds),
        format_duration(way.high_seconds),
        format_duration(answer.restart.likely_seconds),
        *answer.reasons,
        *answer.remarks,
        *answer.money.bill.unknown,
        *answer.money.bill.excluded,
        *(item.name for item in answer.money.bill.items),
        *(format_usd(item.usd_per_hour) for item in answer.money.bill.items if item.usd_per_hour is not None),
        *(format_usd(api.usd_per_million) for api in answer.money.apis),
        *(api.price.name for api in answer.money.apis),
        *(step.title for step in way.steps),
        *(lever.title for lever in way.levers),
    ]
    for estimate in (now, most):
        for reading in ("total_tokens_per_s", "output_tokens_per_s", "requests_per_s", "in_flight"):
            found = getattr(estimate, reading)
            expected += [format_number(found.value), *([] if found.low == found.high else [format_span(found)])]
        for reading in ("ttft_ms", "ttft_p99_ms", "tpot_ms", "itl_ms", "itl_median_ms", "itl_p99_ms"):
            found = getattr(estimate, reading)
            expected += [format_milliseconds(found.value), format_span(found, format_milliseconds)]
    if answer.batch is not None:
        expected += [f"{answer.batch.documents:,}", format_duration(answer.batch.total_hours * 3600)]
        expected += [format_usd(answer.batch.usd or 0), format_usd(answer.batch.usd_per_hour_after)]
    missing = [one for one in expected if " ".join(one.split()).replace("`", "") not in words]
    assert not missing


def test_an_unknown_price_is_unknown_everywhere_and_never_nothing() -> None:
    page = Page(html_text(outline(an_unpriced_plan())))
    tiles = dict(zip((one.words for one in page.all("dt")), _now(page), strict=True))
    assert tiles["an hour"] == "unknown"
    assert tiles["a million tokens"] == "unknown"
    assert not re.search(r"\$0(\.00)?(?![.0-9])", page.words)
    nodes = next(row for row in page.cells("bill-table") if row[0].startswith("A4 node"))
    assert nodes[2:] == ["unknown", "unknown"]
    assert all(row[-1].startswith("unknown") for row in page.cells("apis-table")[1:])


def test_amounts_that_leave_something_out_say_at_least(page: Page) -> None:
    assert a_plan().money.at_least
    names = [one.words for one in page.all("dt")]
    assert "an hour, at least" in names
    assert "a million tokens, at least" in names
    assert page.cells("bill-table")[-1][-1] == f"at least {format_usd(a_plan().money.usd_per_hour)}"


def test_what_stays_names_the_prices_nobody_knows(page: Page) -> None:
    bill = a_plan().money.bill
    for items in (bill.residual_items, bill.after_destroy_items):
        assert f"({', '.join(item.name for item in items if item.usd_per_hour is None)})" in page.words


def test_limits_stand_on_the_page_with_their_verdict() -> None:
    plan = planning.plan(question(goal=Users(count=4_000), limits=Limits(ttft_p99_ms=20_000, tpot_ms=60)))
    assert [(one.id, one.severity) for one in outline(plan).findings] == [
        ("limit-ttft-p99", "passed"),
        ("limit-tpot", "passed"),
    ]
    missed = replace(plan, verdicts=(replace(plan.verdicts[0], high_ms=30_000.0),))
    assert [(one.severity, one.allowed) for one in outline(missed).findings] == [("warning", "at most 20 s")]
    assert outline(a_plan()).findings == ()


def test_alternatives_are_a_table_with_the_plan_s_own_row_marked() -> None:
    plan = a_plan()
    found = planning.compare(plan.question)
    lost = Alternative(capacity="ladder", routing="inference-gateway", plan=None, why_not="too few <nodes>")
    page = Page(html_text(outline(plan, (*found[:-1], lost))))
    rows = page.cells("alternatives-table")
    assert len(rows) == len(found) + 1
    assert rows[-1] == ["ladder, gateway", "none too few <nodes>"]
    chosen = [one for one in page.all("tr") if one.attributes.get("class") == "chosen"]
    assert len(chosen) == 1
    assert chosen[0].words.split()[:3] == ["spot,", "Service", str(plan.machines)]
    assert "alternatives" not in Page(html_text(outline(plan))).ids


def test_the_batch_has_its_own_section_and_others_have_none(page: Page) -> None:
    assert "batch" in Page(html_text(outline(a_batch()))).ids
    assert "batch" not in page.ids


def test_every_published_row_is_there_with_its_error(page: Page) -> None:
    rows = page.cells("accuracy-table")
    record = next(row for row in rows if row[0] == "cluster_ip.nodes-12 total tok/s")
    assert record[1:3] == ["predicted", "1,103,941"]
    assert re.fullmatch(r"[+\N{MINUS SIGN}]\d\.\d %", record[4])
    roles = [row[1] for row in rows[1:]]
    assert {"fitted", "predicted", "check only"} == set(roles)
    assert roles.count("predicted") > 12


def test_every_assumption_names_its_source(page: Page) -> None:
    rows = page.cells("assumptions-table")[1:]
    assert len(rows) > 30
    assert all(len(row) == 3 and all(row) for row in rows)


def test_other_requests_than_the_article_s_are_told_apart() -> None:
    assert "with its own request lengths" in Page(html_text(outline(a_batch()))).words
    assert "with its own request lengths" not in Page(html_text(outline(a_plan()))).words


def test_hours_worked_change_the_month_and_stand_beside_it() -> None:
    plan = planning.plan(question(duty=Duty(hours_per_week=45)))
    assert "45 hours a week" in Page(html_text(outline(plan))).words
    assert plan.money.usd_per_month < a_plan().money.usd_per_month


def test_one_plan_gives_one_page() -> None:
    plan = a_plan()
    here = html_text(outline(plan))
    assert here == html_text(outline(planning.plan(question())))
    script = (
        "from tests.fleet.plan.report.pages import a_plan; from fleet.plan.report.outline import outline; "
        "from fleet.report.as_html import html_text; import sys; "
        "sys.stdout.buffer.write(html_text(outline(a_plan())).encode())"
    )
    elsewhere = subprocess.run(
        [sys.executable, "-c", script],
        cwd=Path(__file__).parents[4],
        env={"PYTHONHASHSEED": "7", "PYTHONPATH": "."},
        capture_output=True,
        check=True,
    )
    assert elsewhere.stdout.decode() == here


def test_a_page_needs_no_template_engine_before_it_is_made() -> None:
    imported = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, fleet.plan.report.outline; print('jinja2' in sys.modules, 'pulumi' in sys.modules)",
        ],
        cwd=Path(__file__).parents[4],
        capture_output=True,
        text=True,
        check=True,
    )
    assert imported.stdout.split() == ["False", "False"]


def test_every_class_of_a_drawing_has_a_style(page: Page) -> None:
    drawn = {name for one in page.elements if one.inside("svg") for name in one.attributes.get("class", "").split()}
    assert drawn
    assert {name for name in drawn if not re.search(rf"\.{name}\b", STYLE)} == set()


def _now(page: Page) -> list[str]:
    return [one.words for one in page.all("dd") if one.attributes.get("class") == "now"]
