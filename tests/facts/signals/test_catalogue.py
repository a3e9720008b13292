"""What the catalogue says of itself holds: names, parts that belong together, and expressions that name what there is."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer.main

from facts.names import spending_namespace
from facts.releases import CURRENT, find
from facts.signals import runbook
from facts.signals.alerts import OF_USERS
from facts.signals.catalogue import Alert, Catalogue, catalogue
from facts.signals.model import PANELS, QUESTIONS, Front, Price, Watched
from facts.signals.series import (
    DCGM,
    GOOGLE,
    KUBERNETES,
    NIXL,
    PICKER,
    ROUTER,
    SERVER,
    SLEEP,
    STEPS,
    TPOT_BOUNDS,
    TTFT_BOUNDS,
    VLLM,
    bound,
    has,
)
from fleet.cli.app import app_with
from settings.derived.figures import figures
from settings.derived.watched import watched
from tests.facts.signals.fleets import EVERYTHING, FLEETS, LITTLE, WARNED
from tests.facts.signals.names import WORDS, grouped, matchers, metrics, other_words
from tests.support.rows import each_row
from tests.support.settings import make_settings

ROOT = Path(__file__).resolve().parents[3]

ALL = [pytest.param(catalogue(fleet), id=name) for name, fleet in FLEETS.items()]
LOOK_BACK_HOURS = 25
SECONDS = {"m": 60, "h": 3600, "d": 86400}
LABELS = {
    name: frozenset(labels.split())
    for names, labels in (
        (KUBERNETES, "namespace deployment pod phase horizontalpodautoscaler condition status reason"),
        (GOOGLE, "monitored_resource namespace_name container_name pod_name forwarding_rule_name response_code_class"),
        (DCGM, "namespace pod exported_namespace exported_pod Hostname"),
        (PICKER, "namespace name error_code"),
        (ROUTER, "namespace pod proxy code"),
        (SERVER, "app namespace status"),
        (VLLM, "app namespace pod engine role le finished_reason reason source"),
        (NIXL, "app namespace pod role"),
    )
    for name in names
}


def expressions(every: Catalogue) -> list[str]:
    drawn = [query.expr for panel in every.panels for query in panel.queries]
    return [*(one.expr for one in every.recordings), *(one.expr for one in every.alerts), *drawn]


def named(alerts: tuple[Alert, ...]) -> set[str]:
    return {one.name for one in alerts}


def all_alerts() -> list[Alert]:
    """Those of a fleet with everything and prefill apart, then those that it excludes."""
    first = catalogue(FLEETS["prefill apart"]).alerts
    return [*first, *(one for one in catalogue(WARNED).alerts if one.name not in named(first))]


@pytest.mark.parametrize("every", ALL)
def test_every_expression_names_series_that_are_known_and_labels_that_they_have(every: Catalogue) -> None:
    own = {one.name: {"app", "namespace", "deployment"} for one in every.recordings}
    own |= {
        f"logging_googleapis_com:user_{one.name}{suffix}": {"monitored_resource", *one.labels}
        for one in every.logs
        for suffix in ([""] if one.value is None else ["_sum", "_count"])
    }
    known = {**LABELS, **own}
    for expr in expressions(every):
        found = matchers(expr)
        assert found, expr
        for name, labels in found:
            assert labels <= known[name], (expr, name)
            assert name not in VLLM or has(every.watched.release, name), expr
        assert grouped(expr) <= {label for name in metrics(expr) for label in known[name]}, expr
        assert other_words(expr) <= WORDS, expr


def test_the_table_of_exported_series_has_those_that_are_read_elsewhere() -> None:
    assert {*VLLM, *NIXL, *STEPS, SLEEP} <= find(CURRENT).series
    assert {"vllm:gpu_cache_usage_perc", "vllm:num_preemptions", "vllm:iteration_tokens_total"}.isdisjoint(
        find(CURRENT).series
    )


@pytest.mark.parametrize("every", ALL)
def test_every_series_is_the_fleets_own(every: Catalogue) -> None:
    fleet = every.watched
    for expr in expressions(every):
        for name, inner in re.findall(r"([\w:]+)\{([^}]*)\}", expr):
            if not name.startswith("logging_googleapis_com:"):
                own = (fleet.namespace, spending_namespace(fleet.namespace))
                balanced = f'forwarding_rule_name=~"gkegw1-[^-]+-{fleet.namespace[:7]}' in inner
                assert balanced or any(
                    f'{key}="{one}"' in inner for key in ("namespace", "namespace_name") for one in own
                ), expr
            if name in VLLM or name.startswith(("fleet:", "vllm:")):
                assert f'app="{fleet.server}"' in inner, expr


@pytest.mark.parametrize("every", ALL)
def test_alert_heading_and_panel_belong_together(every: Catalogue) -> None:
    titles = {one.title for one in every.panels}
    assert len(titles) == len(every.panels)
    assert len(named(every.alerts)) == len(every.alerts)
    assert all(one.panel in titles for one in every.alerts)
    assert named(every.alerts) <= runbook.sections().keys()
    assert titles <= PANELS.keys()
    assert set(PANELS.values()) == QUESTIONS.keys()


def test_the_runbook_has_a_section_for_every_alert_and_no_other_and_each_starts_with_a_command() -> None:
    assert set(runbook.sections()) == named(tuple(all_alerts()))
    for name, fleet in ((name, fleet) for name in runbook.sections() for fleet in FLEETS.values()):
        text = runbook.section(name, fleet)
        assert re.match(r"```\n(kubectl|gcloud|fleet|pulumi) .+\n```\n", text), name
        assert len(text) <= runbook.MOST_CHARACTERS
        assert len([line for line in text.splitlines() if line]) <= 10, name
        assert not re.search(
            r"\b(NAMESPACE|GUARD_NAMESPACE|SERVER|STACK|PROJECT|POD|NODE|REASON|STEP|UNDO|END_UPDATE|GRACE|START|IDLE|FLEX_WAIT)\b",
            text,
        ), name


def test_what_a_section_has_filled_in_is_a_label_of_its_alert_and_its_first_command_needs_nothing_else() -> None:
    """Cloud Monitoring writes `(none)` for a label that the series has not."""
    for one in all_alerts():
        text = runbook.section(one.name, EVERYTHING)
        command = text.splitlines()[1]
        for label in re.findall(r"\$\{metric_or_resource\.label\.(\w+)\}", text):
            assert label in grouped(one.expr), (one.name, label)
        assert not re.search(r"\$\{(?!metric_or_resource\.label\.)", text), one.name
        assert not re.search(r"\b(N|NODE|NAME|GROUP)\b", command.replace("NAME:.metadata.name", "")), command
        assert shlex.split(command), one.name
        if command.startswith("fleet "):
            [_, verb, *options] = shlex.split(command)
            typer.main.get_group(app_with()).commands[verb].make_context(verb, options)


def test_on_call_finds_every_alert_beside_its_symptom() -> None:
    page = (ROOT / "docs" / "operate.md").read_text(encoding="utf-8")
    cells = [line.split(" | ")[1] for line in page.splitlines() if line.startswith("| ") and line.count(" | ") == 3]
    named_there = [name for cell in cells for name in re.findall(r"`([A-Z]\w+)`", cell)]
    assert sorted(named_there) == sorted(named(tuple(all_alerts())))


@pytest.mark.parametrize("every", ALL)
def test_nothing_divides_by_what_may_be_zero(every: Catalogue) -> None:
    """Except what a whole day brought: without it the comparison has no answer, and the alert is silent."""
    for expr in expressions(every):
        for divisor in re.findall(r" / (?:on \([^)]*\) )?(.)", expr.replace(" / 1e6", "")):
            assert divisor == "(" or "offset 4h" in expr, expr


@pytest.mark.parametrize("every", ALL)
def test_no_alert_looks_back_further_than_cloud_monitoring_does(every: Catalogue) -> None:
    for one in every.alerts:
        span, offset = r"(?:\[(\d+)([mhd])\])?", r"(?: offset (\d+)([mhd]))?"
        spans = [
            sum(int(n) * SECONDS[unit] for n, unit in zip(each[::2], each[1::2], strict=True) if n)
            for each in re.findall(rf"\}}{span}{offset}", one.expr)
        ]
        assert max(spans) + one.for_seconds <= LOOK_BACK_HOURS * 3600, one.name
        assert one.every_seconds % 30 == one.for_seconds % 30 == 0
        assert one.every_seconds >= 30


@each_row(
    ("change", "gone"),
    [
        ({"speculative": False, "prefix_caching": False}, {"SpeedupLost"}),
        ({"autoscaler": None}, {"ScalingBlind"}),
        ({"spending": None}, {"SpendingPaused", "SpendingOver", "SpendingUnwatched"}),
        ({"spending": "warn"}, {"SpendingPaused"}),
        ({"batch": False}, {"BatchStalled", "BatchLimit"}),
        ({"only_batches": True}, OF_USERS),
        ({"routers": False}, {"RoutersGone"}),
        ({"gateway": Front()}, {"PickerFails"}),
        ({"gateway": None}, {"PickerFails", "BalancerFails"}),
    ],
)
def test_a_fleet_gets_no_alert_on_what_it_has_not(change: dict[str, object], gone: set[str]) -> None:
    less = catalogue(replace(EVERYTHING, **change))  # type: ignore[arg-type]
    assert named(catalogue(EVERYTHING).alerts) - named(less.alerts) == gone


def test_a_stack_with_a_shape_has_its_prefill_engines() -> None:
    image = f"example.com/team/vllm-router:0.1.17@sha256:{'0' * 64}"
    shape = {"prefillGpus": 2, "decodeGpus": 6, "router": {"image": image}}
    engine = {"dataParallelSize": 4, "tensorParallelSize": 2}
    server = {"profile": "tuned", "shape": shape, "engine": engine}
    settings = make_settings(server=server, endpoint={"kind": "leastRequest"})
    fleet = watched(settings, figures(settings))
    assert (fleet.engines_per_pod, fleet.prefill_engines) == (4, 1)


def test_where_prefill_is_apart_users_are_asked_about_where_they_wait_and_the_rest_of_decode() -> None:
    apart = catalogue(FLEETS["prefill apart"])
    together = catalogue(replace(apart.watched, prefill_engines=0))
    assert "SpeedupLost" in named(catalogue(FLEETS["a pair"]).alerts)
    roles = {one.name: set(re.findall(r'role="(\w+)"', one.expr)) for one in (*apart.alerts, *apart.recordings)}
    assert {name for name, found in roles.items() if found == {"prefill"}} == {"FirstTokenSlow", "FirstTokenBudget"}
    assert {name for name, found in roles.items() if found == {"decode"}} == {
        *("OutputSlow", "SpeedupLost", "fleet:total_tokens:rate", "fleet:output_tokens:rate")
    }
    assert not any("role=" in expr for expr in expressions(together))


def test_the_guide_lists_every_alert_with_its_severity() -> None:
    guide = (runbook.FILE.parents[2] / "docs" / "monitoring.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)` \| (page|ticket) \|", guide, re.MULTILINE) == [
        (one.name, one.severity) for one in all_alerts()
    ]


def test_a_guard_that_only_warns_pages_nobody_and_a_sum_that_is_passed_stays_open() -> None:
    about_spending = {one.name: one for one in catalogue(WARNED).alerts if one.name.startswith("Spending")}
    assert {one.severity for one in about_spending.values()} == {"ticket"}
    assert about_spending.keys() == {"SpendingOver", "SpendingUnwatched"}


def test_a_fleet_that_serves_only_batches_pages_nobody() -> None:
    alone = FLEETS["only batches"]
    assert {one.severity for one in catalogue(alone).alerts} == {"ticket"}
    assert {one.name for one in catalogue(alone).alerts} >= {"NothingServes", "EngineStalled", "GpusIdle"}


@each_row("fleet", [EVERYTHING, WARNED, LITTLE])
def test_no_section_undoes_a_change_behind_pulumi(fleet: Watched) -> None:
    """An earlier release's account, volume and caches are gone: its pods would not start (docs/server.md)."""
    for name in runbook.sections():
        text = runbook.section(name, fleet)
        assert "rollout undo" not in text, name
    assert "pulumi up" in runbook.section("RequestsFail", fleet)
    # The commit of `start` has the servers' own earlier changes in it.
    assert "git checkout COMMIT && pulumi up" in runbook.section("RequestsFail", fleet)


def test_a_command_that_reads_logs_names_the_project() -> None:
    for name, fleet in ((name, fleet) for name in runbook.sections() for fleet in FLEETS.values()):
        for command in re.findall(r"gcloud .+", runbook.section(name, fleet)):
            assert f"--project {fleet.project or '$(gcloud config get project)'}" in command, name


def test_a_section_sends_on_call_to_alerts_that_there_are() -> None:
    told = {name for text in runbook.sections().values() for name in re.findall(r"\bsee ([A-Z]\w+)", text)}
    assert told <= runbook.sections().keys()


def test_a_hung_pod_waits_for_its_grace() -> None:
    settings = make_settings()
    fleet = watched(settings, figures(settings))
    stalled, fault = (runbook.section(name, fleet) for name in ("EngineStalled", "GpuFault"))
    assert re.findall(r"\b(\d+) seconds", stalled) == re.findall(r"\b(\d+) seconds", fault) == ["600"]


@each_row(
    ("batch", "mode", "told"),
    [(False, "load", (False, False)), (True, "load", (True, False)), (True, "batch", (True, True))],
)
def test_a_stack_with_batches_is_watched_for_them(batch: bool, mode: str, told: tuple[bool, bool]) -> None:
    bounds = {"min": 0, "max": 2} if mode == "batch" else {"min": 1, "max": 2}
    settings = make_settings(batch={"enabled": batch}, server={"scaling": {"mode": mode, **bounds}})
    fleet = watched(settings, figures(settings))
    assert (fleet.batch, fleet.only_batches) == told


@each_row(
    ("alert", "command"),
    [
        ("SpendingUnwatched", "scale deployment spending-guard --replicas=1"),
        ("PickerFails", "rollout restart deployment/qwen35-pool-epp"),
        ("Backlog", "maxUsdPerHour"),
        ("ReplicasMissing", "server.scaling.max"),
        # An update that waits for the pod holds the stack's lock.
        *((name, "pulumi cancel") for name in ("ReplicasMissing", "CrashLoop", "CannotStart", "PodLate")),
    ],
)
def test_a_section_names_what_it_tells_to_do(alert: str, command: str) -> None:
    assert command in runbook.section(alert, EVERYTHING)


def test_a_pod_that_may_hang_is_deleted_without_its_grace_period() -> None:
    for name in ("EngineStalled", "GpuFault"):
        deletes = re.findall(r"delete pod [^`]+", runbook.section(name, EVERYTHING))
        assert deletes, name
        assert all("--grace-period=30" in command for command in deletes), name


def test_logs_are_counted_once_and_named_for_their_stack() -> None:
    for fleet in FLEETS.values():
        every = catalogue(fleet)
        for one in every.logs:
            assert re.fullmatch(rf"{fleet.stack}_[a-z0-9_]+", one.name)
            # A price is drawn also where no planned one makes an alert of it.
            read = [alert.expr for alert in every.alerts] if one.value is None else expressions(every)
            assert any(re.search(rf"user_{one.name}(_sum)?{{", expr) for expr in read), one.name
    odd = catalogue(replace(LITTLE, stack="Prod.EU-2"))
    assert {one.name for one in odd.logs} == {"prod_eu_2_scale_up_failures", "prod_eu_2_gpu_faults"}


def test_what_is_applied_to_the_cluster_has_no_namespace_of_its_own() -> None:
    """The operator adds it, and refuses another one."""
    rules = catalogue(EVERYTHING).recording_group()["rules"]
    assert [rule["record"] for rule in rules] == [one.name for one in catalogue(EVERYTHING).recordings]
    assert all("namespace" not in rule["labels"] for rule in rules)


def test_recorded_names_stay() -> None:
    assert {one.name for one in catalogue(EVERYTHING).recordings} == {
        *("fleet:total_tokens:rate", "fleet:output_tokens:rate", "fleet:kv_cache_usage:max"),
        *("fleet:requests_running:sum", "fleet:requests_waiting:sum", "fleet:preemptions:rate"),
        *(
            "fleet:draft_acceptance:ratio",
            "fleet:prefix_cache_hits:ratio",
            "fleet:pods:count",
            "fleet:served:bool",
            "fleet:declared_replicas:last",
            "fleet:usd_per_hour:sum",
        ),
    }


@each_row("seconds", [*TTFT_BOUNDS, *TPOT_BOUNDS])
def test_a_bound_matches_as_vllm_writes_it_and_without_a_trailing_zero(seconds: float) -> None:
    pattern = bound(seconds).partition('"')[2].rstrip('"')
    assert re.fullmatch(pattern, str(seconds))
    assert re.fullmatch(pattern, f"{seconds:g}")
    assert not re.fullmatch(pattern, str(seconds * 10))


def test_a_stacks_own_numbers_decide() -> None:
    settings = make_settings(
        monitoring={
            "alerts": {"channels": [{"type": "email", "address": "a@example.com"}], "ttftSeconds": 10, "tpotMs": 50}
        },
        gateway={"enabled": True},
        server={"replicas": 4, "engine": {"speculative": None}},
    )
    fleet = watched(settings, figures(settings))
    assert (fleet.server, fleet.namespace, fleet.engines_per_pod) == ("qwen35-server", "vllm-test", 8)
    assert (fleet.ttft_seconds, fleet.tpot_seconds, fleet.objective) == (10, 0.05, 0.99)
    assert fleet.gateway == Front(pool="qwen35-pool")
    assert (fleet.speculative, fleet.cluster) == (False, "vllm-inference-cluster-test")
    assert fleet.node_seconds < fleet.start_seconds < 3600
    # The bill's own price of a node, and the published tokens of this shape where there are some.
    usd = figures(settings).bill.nodes.unit_price_usd
    assert usd is not None
    assert fleet.price == Price(per_node=usd)
    record = make_settings()
    price = watched(record, figures(record)).price
    assert price is not None
    assert price.planned_per_million == pytest.approx(figures(record).usd_per_million_output_tokens, rel=0.1)


ALERTED = {"monitoring": {"alerts": {"channels": [{"type": "email", "address": "a@example.com"}]}}}
GUARDED = {"spending": {"limit": 90_000, "then": "warn"}}
PRICED_CLASS = {"mode": "compute-class", "usdPerNodeHour": 80.0}
PAID_ANYWAY = {"mode": "reservation", "name": "block-7", "usdPerNodeHour": 80.0}


@each_row(
    ("sections", "is_counted", "by_dearest_priority"),
    [
        (GUARDED | ALERTED, True, False),
        # Log-based metrics come with the alerts.
        (GUARDED, False, True),
        (ALERTED, False, True),
        (ALERTED | {"capacity": {"mode": "spot"}}, False, False),
        (GUARDED | ALERTED | {"capacity": {"mode": "spot"}}, True, False),
        # Nodes that are billed anyway are no machines of the guard's.
        (GUARDED | ALERTED | {"capacity": PAID_ANYWAY}, False, False),
    ],
)
def test_the_guards_price_is_drawn_where_it_is_counted_and_else_the_legend_says_by_which(
    sections: dict[str, Any], is_counted: bool, by_dearest_priority: bool
) -> None:
    settings = make_settings(**({"capacity": PRICED_CLASS} | sections))
    every = catalogue(watched(settings, figures(settings)))
    of_cost = [panel for panel in every.panels if panel.title.startswith("USD")]
    for panel in of_cost:
        assert ["user_test_machines_usd_per_hour_sum{" in query.expr for query in panel.queries] == [is_counted]
    assert ["dearest priority" in query.legend for query in of_cost[0].queries] == [by_dearest_priority]
    assert ("test_machines_usd_per_hour" in {one.name for one in every.logs}) is is_counted


@each_row(
    ("capacity", "waits"),
    [
        ({"mode": "spot"}, False),
        ({"mode": "compute-class", "flexStartSeconds": None}, False),
        ({"mode": "compute-class"}, True),
        ({"mode": "flex-start", "runDurationSeconds": 86_400}, True),
    ],
)
def test_a_pod_may_wait_at_flex_start_before_an_alert_tells_of_it(capacity: dict[str, Any], waits: bool) -> None:
    settings = make_settings(capacity=capacity)
    fleet, record = watched(settings, figures(settings)), watched(make_settings(), figures(make_settings()))
    late = next(one for one in catalogue(fleet).alerts if one.name == "PodLate")
    assert late.for_seconds == fleet.node_seconds == (28 if waits else 13) * 60
    assert fleet.start_seconds == record.start_seconds + waits * 900


def test_a_reservation_of_known_size_is_the_least_that_a_compute_class_costs() -> None:
    compute_class = {"mode": "compute-class", "usdPerNodeHour": 80.0, "reservation": {"name": "block-7", "nodes": 3}}
    settings = make_settings(capacity=compute_class, server={"replicas": 2})
    fleet = watched(settings, figures(settings))
    assert fleet.price is not None
    assert (fleet.price.per_node, fleet.price.reserved, fleet.price.is_upper_bound) == (80.0, 240.0, True)
    spent = {one.name: one.expr for one in catalogue(fleet).recordings}["fleet:usd_per_hour:sum"]
    without = replace(fleet, price=replace(fleet.price, reserved=0.0))
    unreserved = {one.name: one.expr for one in catalogue(without).recordings}
    assert spent == f"clamp_min({unreserved['fleet:usd_per_hour:sum']}, 240)"


def test_pods_that_share_a_node_share_its_price() -> None:
    settings = make_settings(
        machine="a3-highgpu-8g",
        server={"replicas": 2, "gpus": 2, "profile": "serve-batch", "engine": {"dataParallelSize": 2}},
    )
    fleet = watched(settings, figures(settings))
    assert fleet.price is not None
    assert fleet.price.pods_per_node == 4
    assert fleet.start_seconds % 60 == 0
