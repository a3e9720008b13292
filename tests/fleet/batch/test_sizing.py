"""What a run keeps, and until when it is paid: of its options, the runs before and the stack's section."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from facts.capacity import REMOVAL_SECONDS
from facts.user_error import UserError
from fleet.batch import sizing
from fleet.batch.planning import Load
from fleet.batch.sizing import Limits, idle_seconds
from fleet.batch.stored import Run
from settings.derived.drain import drain
from settings.derived.scaling import scaling_policy
from settings.sections.batch import Batch
from tests.support.rows import each_row
from tests.support.settings import make_settings
from workloads.autoscaling import scaled_object_spec
from workloads.batch.job import OVER_SECONDS

NOW = 1_000_000.0
STACK = {"deadline": "3h", "maxUsd": 700}


def limits(*, section: dict[str, Any] | None = None, runs: tuple[Run, ...] = (), **options: Any) -> Limits:
    given = {"deadline": None, "max_usd": None, "servers": None, **options}
    stack = Batch.model_validate({"enabled": True, **(section or {})})
    return Limits.of(**given, section=stack, runs=runs, now=NOW)


def before(deadline: float | None = None, max_usd: float | None = None) -> Run:
    """It began an hour ago, with three servers for $30 an hour in all."""
    known = {"began": NOW - 3600, "servers": 3, "usd_per_hour": 30.0, "idle_usd": 2.0, "until": NOW + 3600}
    return Run(**known, deadline=deadline, max_usd=max_usd, ended=NOW - 1800)


@each_row(
    "given, max_usd, hours",
    [
        ({}, None, None),
        ({"section": STACK}, 700.0, 3.0),
        ({"section": STACK, "runs": (before(NOW + 7200, 500.0),)}, 500.0, 2.0),
        ({"section": STACK, "runs": (before(),)}, 700.0, 3.0),
        ({"section": STACK, "runs": (before(NOW + 7200, 500.0),), "deadline": "4h", "max_usd": 600.0}, 600.0, 4.0),
        ({"runs": (before(NOW - 3600),)}, None, -1.0),
    ],
)
def test_options_beat_the_run_before_which_beats_the_section(
    given: dict[str, Any], max_usd: float | None, hours: float | None
) -> None:
    found = limits(**given)
    assert (found.max_usd.value if found.max_usd else None, found.hours_left) == (max_usd, hours)


@each_row(
    "given, servers",
    [
        ({"runs": (before(),)}, 3),
        ({"runs": (before(),), "servers": 1}, None),
        ({"runs": (before(NOW + 7200),)}, None),
        ({"runs": (before(),), "section": STACK}, None),
        ({}, None),
    ],
)
def test_servers_are_kept_unless_something_else_decides_them(given: dict[str, Any], servers: int | None) -> None:
    assert limits(**given).kept_servers == servers


@pytest.mark.parametrize(("deadline", "offered"), [("100h", True), ("200h", False)])
def test_where_flex_start_ends_first_no_later_deadline_is_offered(
    deadline: str, offered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sizing, "_on", lambda *_: SimpleNamespace(hours=(90.0, 110.0)))
    fleets: Any = SimpleNamespace(own=lambda *_: SimpleNamespace(plan=SimpleNamespace(nodes=9)))
    settings = make_settings(capacity={"mode": "flex-start", "runDurationSeconds": 604_800})
    with pytest.raises(UserError) as caught:
        sizing._for_deadline(fleets, cast(Load, None), settings, limits(deadline=deadline), most=2)
    assert ("--deadline 110h" in str(caught.value), "--servers 2" in str(caught.value)) == (offered, True)


@each_row(
    "run, usd",
    [
        (before(), 17.0),  # it ended after half an hour
        (replace(before(), ended=None), 32.0),  # as far as anybody knows it still runs
        (replace(before(), ended=None, until=NOW - 2700), 9.5),  # it had to end after a quarter
    ],
)
def test_a_run_costs_all_its_servers_from_its_begin_to_its_end(run: Run, usd: float) -> None:
    assert run.usd(NOW) == pytest.approx(usd)
    assert limits(runs=(run, before())).spent == pytest.approx(usd + 17.0)


def test_servers_are_paid_until_the_machines_of_a_job_without_a_running_pod_are_gone() -> None:
    settings = make_settings(server={"scaling": {"mode": "batch", "max": 4}}, batch={"enabled": True})
    policy = scaling_policy(settings)
    assert policy is not None
    keda = scaled_object_spec("s", policy, [])
    # Its pods count until Kubernetes ends it, and the cooldown begins with the last count.
    counted = OVER_SECONDS + keda["pollingInterval"] + keda["cooldownPeriod"]
    # A machine is idle once its server has ended.
    ends = drain(settings.server.drain_seconds, settings.api_servers_of_a_stream).grace_seconds
    assert idle_seconds(settings) == counted + ends + settings.placement.idle_seconds + REMOVAL_SECONDS
