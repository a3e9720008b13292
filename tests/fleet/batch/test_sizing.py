"""What a run keeps: of its options, the run before and the stack's section."""

from __future__ import annotations

from typing import Any

from fleet.batch.sizing import Limits
from fleet.batch.stored import Terms
from settings.sections.batch import Batch
from tests.support.rows import each_row

NOW = 1_000_000.0


def limits(
    *, section: dict[str, Any] | None = None, before: Terms | None = None, running: int | None = None, **options: Any
) -> Limits:
    given = {"deadline": None, "max_usd": None, "servers": None, **options}
    stack = Batch.model_validate({"enabled": True, **(section or {})})
    return Limits.of(**given, section=stack, before=before, running=running, spent=0.0, now=NOW)


def before(deadline: float | None = None, max_usd: float | None = None, servers: int = 3) -> Terms:
    rates = {"usd_per_server_hour": 30.0, "usd_per_hour_fixed": 1.0}
    seconds = {"start_seconds": 300.0, "idle_seconds": 660.0, "request_seconds": 600.0}
    known = {"began": NOW - 3600, "servers": servers, "deadline": deadline, "max_usd": max_usd, "on_done": "pause"}
    return Terms(**known, **rates, **seconds)


STACK = {"deadline": "3h", "maxUsd": 700}


@each_row(
    "given, max_usd, hours",
    [
        ({}, None, None),
        ({"section": STACK}, 700.0, 3.0),
        ({"section": STACK, "before": before(NOW + 7200, 500.0)}, 500.0, 2.0),
        ({"section": STACK, "before": before()}, 700.0, 3.0),
        ({"section": STACK, "before": before(NOW + 7200, 500.0), "deadline": "4h", "max_usd": 600.0}, 600.0, 4.0),
        ({"before": before(NOW - 3600)}, None, -1.0),
    ],
)
def test_options_beat_the_run_before_which_beats_the_section(
    given: dict[str, Any], max_usd: float | None, hours: float | None
) -> None:
    found = limits(**given)
    assert (found.max_usd.value if found.max_usd else None, found.hours_left) == (max_usd, hours)


def test_a_deadline_that_is_kept_does_not_move() -> None:
    assert limits(before=before(NOW + 7200)).deadline_at(NOW + 60) == NOW + 7200
    assert limits(deadline="2h").deadline_at(NOW + 60) == NOW + 60 + 7200


@each_row(
    "given, servers",
    [
        ({"running": 2, "before": before(NOW + 7200)}, 2),
        ({"running": 2, "before": before(), "max_usd": 9.0}, 2),
        ({"running": 2, "before": before(), "deadline": "4h"}, None),
        ({"running": 2, "before": before(), "servers": 1}, None),
        ({"before": before()}, 3),
        ({"before": before(NOW + 7200)}, None),
        ({"before": before(), "section": STACK}, None),
        ({}, None),
    ],
)
def test_servers_are_kept_unless_something_else_decides_them(given: dict[str, Any], servers: int | None) -> None:
    assert limits(**given).kept_servers == servers
