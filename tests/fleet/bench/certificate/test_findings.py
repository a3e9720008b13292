"""A sound measurement with one thing wrong: its row fails, alone, and blames whose fault it is.

What rows say is held by tests/goldens/bench/.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from fleet.bench.certificate import certify
from fleet.bench.certificate.certify import OPENINGS
from fleet.bench.certificate.rows import engine_spread, lag_limit_ms
from fleet.bench.certificate.slope import slope_of
from fleet.bench.folder import AskedWorkload, Kind
from fleet.bench.measurement import ErrorKind, Measurement, Prompts, Timeline
from tests.fleet.bench.certificate.sound import (
    check,
    every_run,
    failed,
    server,
    sound,
    unmeasured,
    with_client,
    with_engines,
    with_run,
    with_server,
)
from tests.support.rows import each_row

RUN = sound().runs[1]
assert RUN.steady is not None
STEADY, SERVER = RUN.steady, server()
REQUESTS = sum(run.completed for run in sound().runs)


def _timeline(rate: Callable[[float], float]) -> Timeline:
    """Output tok/s by second."""
    return RUN.timeline.model_copy(update={"output_tokens_per_s": tuple(rate(at) for at in RUN.timeline.at)})


def _lengths(**changes: Any) -> Measurement:
    return with_run(lengths=RUN.lengths.model_copy(update=changes))


def _one_engine(number: int, **changes: Any) -> Measurement:
    return with_engines(lambda at, one: one.model_copy(update=changes) if at == number else one)


def _prompts(repeated: int, known: int = REQUESTS) -> Measurement:
    return sound().model_copy(update={"prompts": Prompts(known=known, repeated=repeated)})


def _variation(share: float) -> Measurement:
    (point,) = sound().points
    total = point.total_tokens_per_s.model_copy(update={"variation": share})
    return sound().model_copy(update={"points": (point.model_copy(update={"total_tokens_per_s": total}),)})


def _kind(kind: Kind, made: Measurement, ignore_eos: bool = True, **arguments: str) -> Measurement:
    given = {name.replace("_", "-"): value for name, value in arguments.items()}
    workload = AskedWorkload(name=kind, kind=kind, arguments=given, ignore_eos=ignore_eos)
    return made.model_copy(update={"asked": made.asked.model_copy(update={"workload": workload})})


def _foreign(factor: float) -> Measurement:
    return with_engines(lambda _, one: one.model_copy(update={"prompt_tokens": one.prompt_tokens * factor}))


def _failing(kind: str) -> Measurement:
    return with_run(failed=40, errors=(ErrorKind(kind=kind, count=40, example="no"),))


def _beside_the_engines() -> Measurement:
    return with_engines(lambda _, one: one.model_copy(update={"running_mean": 0.1 * one.running_mean}))


@dataclass(frozen=True)
class Fault:
    name: str
    make: Callable[[], Measurement]
    id: str
    blames: str


FAULTS = [
    Fault("lost", lambda: sound().model_copy(update={"missing": ("point-00-repeat-3: x",)}), "complete", "data"),
    Fault("cpu", lambda: with_client(cpu_share_mean=0.81), "client-cpu", "client"),
    Fault("cpu peak", lambda: with_client(cpu_share_peak=0.99), "client-cpu", "client"),
    Fault("late", lambda: with_client(loop_lag_p99_ms=80.0), "event-loop", "client"),
    Fault("prompts", lambda: _prompts(300), "prompts", "data"),
    Fault("hits", lambda: with_server(prefix_hit_share=0.02), "prefix-hits", "data"),
    Fault("shorter", lambda: _lengths(output_shorter=1), "lengths", "server"),
    Fault("longer", lambda: _lengths(output_longer=2), "lengths", "server"),
    Fault("failures", lambda: _failing("http 503"), "failures", "server"),
    Fault("short", lambda: with_run(steady=STEADY.model_copy(update={"seconds": 15.0})), "steady", "run"),
    Fault("few in flight", lambda: with_run(in_flight_mean_steady=RUN.connections * 0.9), "in-flight", "run"),
    Fault("more", lambda: with_server(generation_tokens=SERVER.generation_tokens * 1.05), "foreign-traffic", "run"),
    Fault("fewer", lambda: with_server(generation_tokens=SERVER.generation_tokens * 0.9), "foreign-traffic", "run"),
    Fault("prompts of others", lambda: _foreign(1.3), "foreign-traffic", "run"),
    Fault("rises", lambda: with_run(timeline=_timeline(lambda at: 100.0 + 3 * at)), "drift", "run"),
    Fault("starved", lambda: _one_engine(5, generation_tokens=0.0, prompt_tokens=0.0), "engine-balance", "server"),
    Fault("choked", lambda: _one_engine(0, waiting_mean=801.0), "engine-balance", "server"),
    Fault("caches", lambda: with_server(cache_spread=0.03), "engine-balance", "server"),
    Fault("queue before the engines", _beside_the_engines, "front-end", "server"),
    Fault("slow client", lambda: with_client(total_tokens_per_s=1.0), "client-balance", "run"),
    Fault("preempted", lambda: with_server(preemptions=113.0), "preemptions", "server"),
    Fault("repeats", lambda: _variation(0.1), "repeats", "run"),
]


@each_row("fault", FAULTS)
def test_one_broken_thing_fails_its_row_alone(fault: Fault) -> None:
    broken = fault.make()
    assert (failed(broken), check(broken, fault.id).blames) == ([fault.id], fault.blames)
    certificate = certify(broken)
    assert certificate.verdict == "not certified"
    assert certificate.reason.startswith(f"{OPENINGS[fault.blames]} ({fault.id}): ")


@each_row(
    ("id_", "make", "blames"),
    [
        ("failures", lambda: _failing("connection"), "client"),
        ("failures", lambda: _failing("timeout"), "client"),
        ("failures", lambda: _failing("cut"), "client"),
        ("failures", lambda: _failing("no json"), "client"),
        ("failures", lambda: _failing("http 503"), "server"),
        ("in-flight", lambda: with_run(in_flight_mean_steady=RUN.connections * 0.9), "client"),
        ("front-end", _beside_the_engines, "client"),
        ("preemptions", lambda: with_server(preemptions=113.0), "server"),
    ],
)
def test_what_a_late_client_explains_is_blamed_on_it(id_: str, make: Callable[[], Measurement], blames: str) -> None:
    late = with_client(cpu_share_mean=0.99).runs[1].clients
    first, second, *rest = make().runs
    runs = (first, second.model_copy(update={"clients": late}), *rest)
    found = check(sound().model_copy(update={"runs": runs}), id_)
    assert (found.verdict, found.blames) == ("failed", blames)


def test_a_sound_measurement_is_certified_by_sixteen_rows() -> None:
    certificate = certify(sound())
    assert (certificate.verdict, certificate.reason) == ("certified", "")
    assert [one.verdict for one in certificate.checks] == ["passed"] * 16


def test_the_first_cause_is_the_reason() -> None:
    """A client at its limit also answers late: its own row comes first."""
    slow = with_client(cpu_share_mean=0.99, loop_lag_p99_ms=200.0, total_tokens_per_s=1.0)
    assert failed(slow) == ["client-cpu", "event-loop", "client-balance"]
    assert "(client-cpu)" in certify(slow).reason


SOUND: dict[str, Callable[[], Measurement]] = {
    "a client at the limits": lambda: with_client(cpu_share_mean=0.8, cpu_share_peak=0.95),
    "a queue on every engine": lambda: with_engines(lambda _, one: one.model_copy(update={"waiting_mean": 120.0})),
    "repeats by chance": lambda: _prompts(REQUESTS // 200),
    "a file's repeats": lambda: _kind("sharegpt", _prompts(500), ignore_eos=False),
    "a model that ends by itself": lambda: _kind("sharegpt", _lengths(output_shorter=900), ignore_eos=False),
    "a shared prefix's hits": lambda: _kind("random", with_server(prefix_hit_share=0.66), random_prefix_len="512"),
    "users who repeat themselves": lambda: _kind(
        "trace", with_server(prefix_hit_share=0.6).model_copy(update={"prompts": Prompts(known=9, repeated=3)})
    ),
    "few failures": lambda: with_run(failed=1),
    "no hits counted": lambda: every_run(
        sound(),
        lambda run: run.model_copy(
            update={"server": run.server and run.server.model_copy(update={"prefix_hit_share": None})}
        ),
    ),
}


@each_row("name", SOUND)
def test_what_is_no_fault_is_certified(name: str) -> None:
    assert certify(SOUND[name]()).verdict == "certified", certify(SOUND[name]()).reason


def test_a_file_that_was_sent_again_is_nobodys_traffic() -> None:
    again = with_server(prefix_hit_share=0.3).model_copy(update={"prompts": Prompts(known=100, repeated=90)})
    assert failed(_kind("trace", again)) == ["prefix-hits"]
    assert failed(_kind("random", with_server(prefix_hit_share=0.7), random_prefix_len="512")) == ["prefix-hits"]


def test_what_was_not_read_is_not_measured_and_not_certified() -> None:
    blind = every_run(sound(), lambda run: run.model_copy(update={"server": None}))
    servers = ["prefix-hits", "foreign-traffic", "engine-balance", "front-end", "preemptions"]
    assert unmeasured(blind) == unmeasured(with_server(engines=SERVER.engines[:7])) == servers
    assert certify(blind).reason.startswith("Not measured (foreign-traffic): ")
    assert unmeasured(with_run(steady=None, in_flight_mean_steady=None)) == ["in-flight", "drift", "front-end"]
    assert unmeasured(sound(repeats=2)) == ["repeats"]


def test_a_load_without_any_run_is_incomplete() -> None:
    lost = sound().model_copy(update={"missing": ("point-01-repeat-0: client-000.json",)})
    assert failed(lost) == ["complete"]


def test_the_more_prompts_the_more_repeat_by_chance() -> None:
    # n^2 / 2 of 1.44 million over 248,320 first tokens and 513 lengths are 8,139; two clients of one seed send 4,000 more.
    def two_lengths(repeated: int) -> Measurement:
        of = RUN.lengths.model_copy(update={"input_min": 512, "input_max": 1_024})
        return every_run(_prompts(repeated, 1_440_000), lambda run: run.model_copy(update={"lengths": of}))

    assert failed(two_lengths(8_200)) == []
    assert failed(two_lengths(8_139 + 4_000)) == ["prompts"]


def test_limits_that_depend_on_the_run() -> None:
    def spread(connections: int, requests_per_s: float) -> float:
        window = STEADY.model_copy(update={"seconds": 10.0, "requests_per_s": requests_per_s})
        return engine_spread(RUN.model_copy(update={"connections": connections, "steady": window}), SERVER)

    # Two servers with four engines each: connections / 2, requests / 8.
    assert spread(4_000, 1_600.0) == pytest.approx(max(0.1, 3 * (1 / 2_000 + 1 / 2_000) ** 0.5))
    assert (spread(10**6, 10**6), spread(2, 1.0)) == (0.1, 0.9)
    itl = RUN.latencies.itl
    assert itl is not None
    for p50, mean, allowed in ((50.0, 52.0, 5.0), (0.004, 75.0, 7.5), (5.0, 6.0, 2.0)):
        chunks = itl.model_copy(update={"p50": p50, "mean": mean})
        latencies = RUN.latencies.model_copy(update={"itl": chunks})
        assert lag_limit_ms(RUN.model_copy(update={"latencies": latencies})) == pytest.approx(allowed)


def test_the_slope_of_a_line_is_its_own_and_its_noise_a_regressions() -> None:
    exact = slope_of([(float(at), 100.0 + 2 * at) for at in range(11)], 10.0)
    assert exact is not None
    assert (exact.share, exact.noise) == (pytest.approx(20 / 110), pytest.approx(0, abs=1e-9))
    # By hand: residuals of one in a hundred about a flat line; t of 6 degrees of freedom is 2.447; sum of squares 42.
    flat = slope_of([(float(at), 100.0 + sign) for at, sign in enumerate((1, -1, -1, 1, 1, -1, -1, 1))], 7.0)
    assert flat is not None
    assert flat.noise == pytest.approx(2.44691 * (8 * 0.01**2 / 6 / 42) ** 0.5 * 7, rel=1e-5)
    assert slope_of([(float(at), 1.0) for at in range(5)], 5.0) is None


def test_noise_excuses_a_slope_but_only_so_far() -> None:
    def noisy(slope: float) -> Measurement:
        return with_run(timeline=_timeline(lambda at: 100.0 + slope * at + (60 if at % 2 else -60)))

    assert failed(noisy(0.5)) == []
    assert failed(noisy(2.0)) == ["drift"]


def test_every_row_says_what_it_allows_and_why(golden: Callable[[str, str], None]) -> None:
    rows = [f"{one.id}: {one.title}\n  {one.allowed}\n  {one.found}\n  {one.why}\n" for one in certify(sound()).checks]
    golden("bench/rows.txt", "\n".join(rows))


def test_what_failed_rows_say(golden: Callable[[str, str], None]) -> None:
    golden("bench/findings.txt", "\n".join(f"{fault.name}: {certify(fault.make()).reason}" for fault in FAULTS) + "\n")
