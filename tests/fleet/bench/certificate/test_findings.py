"""A sound measurement with one thing wrong: its check fails, alone, and blames whose fault it is.

What checks and headlines say is held by tests/goldens/bench/.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fleet.bench.certificate import certify
from fleet.bench.measurement import Excluded, Measurement, Prompts, Timeline
from tests.fleet.bench.certificate.sound import (
    REQUESTS,
    check,
    failed,
    headline_blames,
    sound,
    with_client,
    with_rates,
    with_run,
    with_server,
)
from tests.support.rows import each_row

RUN = sound().runs[1]
GO = RUN.clients[2].go_at or 0.0
assert RUN.steady is not None
assert RUN.common is not None
assert RUN.server is not None
STEADY, COMMON, SERVER = RUN.steady, RUN.common, RUN.server


def _timeline(rate: Callable[[float], float]) -> Timeline:
    """Output tok/s by second."""
    return RUN.timeline.model_copy(update={"output_tokens_per_s": tuple(rate(at) for at in RUN.timeline.at)})


def _lengths(**changes: Any) -> Measurement:
    return with_run(lengths=RUN.lengths.model_copy(update=changes))


def _steady(seconds: float) -> Measurement:
    return with_run(steady=STEADY.model_copy(update={"seconds": seconds}))


@dataclass(frozen=True)
class Fault:
    name: str
    measurement: Measurement
    id: str
    blames: str


FAULTS = [
    Fault("cpu", with_client(cpu_share_mean=0.81), "client-cpu", "client"),
    Fault("cpu peak", with_client(cpu_share_peak=0.99), "client-cpu", "client"),
    Fault("late", with_client(loop_lag_p99_ms=80.0), "event-loop", "client"),
    Fault("files", with_client(open_files_peak=950, open_files_limit=1_024), "open-files", "client"),
    Fault("pod", with_run(pod_cpu_peak=(13.5,)), "pod-cpu", "client"),
    Fault("lost", with_run(clients=RUN.clients[:3]), "complete", "data"),
    Fault("twice", with_run(clients=(*RUN.clients[:3], RUN.clients[2])), "complete", "data"),
    Fault("other load", with_run(connections=3_000, in_flight_mean_steady=2_990.0), "complete", "data"),
    Fault("no repeat", sound().model_copy(update={"runs": sound().runs[:2]}), "complete", "data"),
    Fault(
        "excluded",
        sound().model_copy(update={"excluded": (Excluded(file="client-003.json", why="--exclude"),)}),
        "complete",
        "data",
    ),
    Fault("clocks", with_run(clock_uncertainty_s=0.2), "clocks", "data"),
    Fault("skew", with_run(start_skew_s=1.2), "start", "run"),
    Fault("late start", with_client(released_at=GO + 0.4), "start", "run"),
    Fault("late request", with_client(first_request=GO + 3.0), "start", "run"),
    Fault("other start", with_client(go_at=GO - 5.0, released_at=GO - 5.0, first_request=GO - 4.9), "start", "run"),
    Fault(
        "late clients",
        with_run(clients=tuple(one.model_copy(update={"released_at": (one.go_at or 0) + 0.02}) for one in RUN.clients)),
        "start",
        "run",
    ),
    Fault("few", with_run(in_flight_mean_steady=3_700.0), "in-flight", "run"),
    Fault("many", with_run(in_flight_mean_steady=4_200.0), "in-flight", "data"),
    Fault("never", with_run(steady=None, steady_why="a reason"), "steady", "run"),
    Fault("short", _steady(15.0), "steady", "run"),
    Fault("short for its requests", _steady(40.0), "steady", "run"),
    Fault("rises", with_run(timeline=_timeline(lambda at: 100.0 + at)), "drift", "run"),
    Fault("falls", with_run(timeline=_timeline(lambda at: 200.0 - 0.3 * at)), "drift", "run"),
    Fault("mix", _lengths(input_mean=RUN.lengths.input_mean / 1.06), "mix", "run"),
    Fault("apart", with_run(common=None), "overlap", "run"),
    Fault(
        "overstated",
        with_run(common=COMMON.model_copy(update={"total_tokens_per_s": RUN.summed.total_tokens_per_s / 1.2})),
        "overlap",
        "run",
    ),
    Fault("repeats", with_rates(100.0, 110.0, 120.0), "repeats", "run"),
    Fault("prompts", sound().model_copy(update={"prompts": Prompts(known=REQUESTS, repeated=300)}), "prompts", "data"),
    Fault("hits", with_server(prefix_hit_share=0.02), "prefix-hits", "data"),
    Fault("shorter", _lengths(output_shorter=1), "lengths", "server"),
    Fault("longer", _lengths(output_longer=2), "lengths", "server"),
    Fault("readings", with_server(failed_scrapes=20), "scrapes", "data"),
    Fault("servers", with_server(servers=1), "scrapes", "data"),
    Fault("engines", with_server(engines=SERVER.engines[:15]), "scrapes", "data"),
    # Of the steady window's own requests, 68 of the run's 124 seconds.
    Fault("preempted", with_server(preemptions=113.0), "preemptions", "server"),
    Fault("more", with_server(generation_tokens=SERVER.generation_tokens * 1.05), "foreign-traffic", "run"),
    Fault("fewer", with_server(generation_tokens=SERVER.generation_tokens * 0.9), "foreign-traffic", "data"),
    Fault("caches", with_server(cache_configs_differ=True), "cache-config", "server"),
    Fault("restarted", with_server(cache_config={"block_size": "16"}), "cache-config", "server"),
]


@each_row("fault", FAULTS)
def test_one_broken_thing_fails_its_check_alone(fault: Fault) -> None:
    found = check(fault.measurement, fault.id)
    assert (found.verdict, found.blames) == ("failed", fault.blames)
    assert failed(fault.measurement) == [fault.id]
    assert certify(fault.measurement).verdict == "not certified"
    # A client that fails its check here was the limit.
    assert headline_blames(fault.measurement) == {"client": "limit"}.get(fault.blames, fault.blames)


def test_every_check_says_what_it_allows_and_why(golden: Callable[[str, str], None]) -> None:
    checks = certify(sound()).checks
    assert [one.id for one in checks if not (one.found and one.allowed and one.why)] == []
    golden(
        "bench/checks.txt",
        "\n".join(f"{one.id}: {one.title}\n  {one.allowed}\n  {one.found}\n  {one.why}\n" for one in checks),
    )


def test_what_failed_checks_and_headlines_say(golden: Callable[[str, str], None]) -> None:
    told = [(check(one.measurement, one.id), certify(one.measurement).reason) for one in FAULTS]
    sections = [f"{found.id}\n  {found.found}\n  {reason}\n" for found, reason in told]
    golden("bench/findings.txt", "\n".join(sections))
