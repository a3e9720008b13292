"""The guide has every check, and its limits are those that are used."""

from __future__ import annotations

import re
from pathlib import Path

from fleet.bench.certificate import certify, limits
from fleet.bench.certificate.baseline import RELEVANT_LATENCY, RELEVANT_RATE
from tests.fleet.bench.certificate.sound import sound

GUIDE = (Path(__file__).parents[4] / "docs" / "certificate.md").read_text(encoding="utf-8")


def _row(id_: str) -> str:
    return next(line for line in GUIDE.splitlines() if line.startswith(f"| `{id_}`"))


def test_every_check_has_its_line_and_no_line_is_left_over() -> None:
    in_guide = re.findall(r"^\| `([a-z-]+)`", GUIDE, re.MULTILINE)
    assert sorted(in_guide) == sorted(check.id for check in certify(sound()).checks)


def test_only_checks_that_are_not_required_say_so() -> None:
    for check in certify(sound()).checks:
        assert ("(not required)" in _row(check.id)) == (not check.required)


def test_the_limits_are_those_of_the_code() -> None:
    for id_, words in {
        "client-cpu": (
            f"{limits.CLIENT_CPU_LIMIT:g} of a core",
            f"{limits.CLIENT_CPU_PEAK_LIMIT:g} in any",
            f"goal is {limits.CLIENT_CPU_GOAL:g}",
        ),
        "pod-cpu": (f"{limits.POD_CPU_LIMIT:.0%}",),
        "event-loop": (f"{limits.LAG_FLOOR_MS:g} ms",),
        "open-files": (f"{limits.OPEN_FILES_LIMIT:.0%}",),
        "ports": (f"{int(limits.PORTS_LIMIT * limits.EPHEMERAL_PORTS):,}", f"{limits.EPHEMERAL_PORTS:,}"),
        "client-balance": (f"{limits.CLIENT_BALANCE:.0%}",),
        "clocks": (f"{limits.CLOCK_SHARE:.1%}",),
        "start": (
            f"{limits.RELEASE_MEDIAN_S * 1e3:g} ms",
            f"{limits.RELEASE_MAX_S * 1e3:g} ms",
            f"{limits.START_SKEW_S:g} s",
        ),
        "in-flight": (f"{limits.IN_FLIGHT_SHARE:.0%}", f"{limits.IN_FLIGHT_MOST:.0%}"),
        "steady": (f"{limits.STEADY_SECONDS:g} s", f"{limits.STEADY_REQUESTS:g} median"),
        "drift": (f"{limits.DRIFT_SHARE:.0%}", f"{limits.DRIFT_MOST:.0%}"),
        "mix": (f"{limits.MIX_SHARE:.0%}",),
        "overlap": (f"{limits.OVERSTATEMENT_SHARE:.0%}",),
        "repeats": ("three or more", f"{limits.VARIATION_LIMIT:.0%}"),
        "prompts": (f"{limits.REPEATED_SHARE:.1%}", "a quarter of one client's"),
        "prefix-hits": (f"{limits.HITS_SHARE:.0%}", f"{limits.REPLAYED_SHARE:.0%}"),
        "failures": (f"{limits.FAILED_SHARE:.1%}",),
        "connection-errors": (f"{limits.FAILED_SHARE:.1%}",),
        "scrapes": (f"{limits.FAILED_SCRAPES_SHARE:.0%}",),
        "engine-balance": (f"{limits.ENGINE_BALANCE:.0%}", f"{limits.WAITING_SHARE:.0%}"),
        "front-end": (f"{limits.REACHED_SHARE:.0%}",),
        "preemptions": (f"{limits.PREEMPTED_SHARE:.0%}",),
        "foreign-traffic": (f"{limits.FOREIGN_SHARE:.0%}", f"{limits.FOREIGN_PROMPTS_SHARE:.0%}"),
    }.items():
        for word in words:
            assert word.replace("%", " %") in _row(id_), id_
    assert limits.LEAST_REPEATS == 3
    assert limits.REPEATED_OF_A_CLIENT == 0.25
    assert f"more than {RELEVANT_RATE:.0%} of a rate, {RELEVANT_LATENCY:.0%} of a latency".replace("%", " %") in GUIDE
