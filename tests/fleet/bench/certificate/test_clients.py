"""A client that was the limit is caught and named; one that was not is not blamed."""

from __future__ import annotations

import pytest

from fleet.bench.certificate import certify
from fleet.bench.certificate.subject import RUN_COMMAND
from fleet.bench.measurement import ErrorKind, Measurement, Run
from tests.fleet.bench.certificate.sound import (
    check,
    every_run,
    failed,
    headline_blames,
    one_run,
    sound,
    unmeasured,
    with_client,
    with_run,
)


def test_a_sound_measurement_is_certified_with_its_figures() -> None:
    certificate = certify(sound())
    assert failed(sound()) == unmeasured(sound()) == []
    assert certificate.verdict == "certified"
    for words in ("190,", "output tok/s", "4,000", "3 repeats"):
        assert words in certificate.headline
    assert certificate.run == "bench-20261121-a1b2c3d4"


def test_a_late_client_with_little_to_do_points_at_its_machine() -> None:
    assert "although it used 0.3" in certify(with_client(loop_lag_p99_ms=80.0)).reason
    assert "although" not in certify(with_client(loop_lag_p99_ms=80.0, cpu_share_mean=0.7)).reason
    found = check(with_client(loop_lag_p99_ms=80.0), "event-loop")
    assert "although it used 0.3" in found.found


def test_a_client_that_is_a_little_late_fails_and_is_not_called_the_limit() -> None:
    late = with_client(loop_lag_p99_ms=8.0)
    found = check(late, "event-loop")
    assert (found.verdict, found.blames) == ("failed", "client")
    for words in ("client 2", "8.0 ms", "7.3 ms"):
        assert words in found.found
    assert "(event-loop)" in certify(late).reason
    assert headline_blames(late) == "client"
    # Half the 73 ms between chunks: from there on it sets the rate.
    assert headline_blames(with_client(loop_lag_p99_ms=36.0)) == "client"
    assert headline_blames(with_client(loop_lag_p99_ms=37.0)) == "limit"


def _gathered(run: Run) -> Run:
    """A proxy hands on two chunks at a time."""
    itl = run.latencies.itl
    assert itl is not None
    together = itl.model_copy(update={"p50": 0.004, "mean": 75.0})
    return run.model_copy(update={"latencies": run.latencies.model_copy(update={"itl": together})})


def test_chunks_that_come_together_are_not_held_against_the_client() -> None:
    assert failed(every_run(with_client(loop_lag_p99_ms=7.0), _gathered)) == []
    late = every_run(with_client(loop_lag_p99_ms=20.0), _gathered)
    assert "7.5 ms" in check(late, "event-loop").found
    assert headline_blames(late) == "client"
    assert headline_blames(every_run(with_client(loop_lag_p99_ms=38.0), _gathered)) == "limit"


def test_a_pod_without_its_account_was_not_looked_at() -> None:
    """Two pods, and the file of one is lost."""

    def two_pods(run: Run) -> Run:
        clients = tuple(client.model_copy(update={"pod": client.client % 2}) for client in run.clients)
        return run.model_copy(update={"clients": clients})

    lost = every_run(sound(), two_pods)
    assert unmeasured(lost) == ["pod-cpu"]
    assert "3 of 3 runs" in check(lost, "pod-cpu").found
    busy = one_run(lambda run: two_pods(run).model_copy(update={"pod_cpu_peak": (13.5,)}))
    assert failed(busy) == ["pod-cpu"]


def test_a_client_at_the_limits_passes_and_is_told_the_goal() -> None:
    found = check(with_client(cpu_share_mean=0.8, cpu_share_peak=0.95), "client-cpu")
    assert found.verdict == "passed"
    assert "above the goal of 0.5" in found.found
    assert "goal" not in check(sound(), "client-cpu").found


def _slow(run: Run) -> Run:
    """Servers ten times as slow: every latency and rate, and clients with nothing to do."""
    latencies = run.latencies
    e2e = latencies.e2e.model_copy(update={"p50": latencies.e2e.p50 * 2.5})
    assert latencies.itl is not None
    itl = latencies.itl.model_copy(update={"p50": 900.0})
    return run.model_copy(
        update={
            "latencies": latencies.model_copy(update={"e2e": e2e, "itl": itl}),
            "steady": run.steady and run.steady.model_copy(update={"seconds": 700.0}),
            "clients": tuple(
                client.model_copy(update={"cpu_share_mean": 0.03, "cpu_share_peak": 0.05, "chunks_per_s": 500.0})
                for client in run.clients
            ),
        }
    )


def test_a_slow_server_is_certified_as_slow() -> None:
    assert failed(every_run(sound(), _slow)) == []


@pytest.mark.parametrize("kind", ["timeout", "connection", "cut", "no json", "http 503"])
def test_failures_of_a_slow_server_are_the_servers(kind: str) -> None:
    broken = _failing(kind)
    found = check(every_run(broken, _slow), "failures")
    assert (found.verdict, found.blames) == ("failed", "server")
    assert headline_blames(every_run(broken, _slow)) == "server"
    assert kind in certify(every_run(broken, _slow)).reason


def test_the_same_failures_are_the_clients_when_it_was_saturated() -> None:
    run = _failing("timeout").runs[1]
    clients = tuple(client.model_copy(update={"cpu_share_mean": 0.99}) for client in run.clients)
    measurement = one_run(lambda _: run.model_copy(update={"clients": clients}))
    assert check(measurement, "failures").blames == "client"
    assert headline_blames(measurement) == "limit"


def _failing(kind: str) -> Measurement:
    errors = (ErrorKind(kind=kind, count=40, example="it said no"),)
    return with_run(completed=7_960, failed=40, errors=errors)


@pytest.mark.parametrize(
    ("kind", "blames"), [("http 400", "data"), ("http 429", "server"), ("open files", "client"), ("other", "data")]
)
def test_every_kind_of_failure_has_its_fault(kind: str, blames: str) -> None:
    assert check(_failing(kind), "failures").blames == blames


def test_a_few_failures_pass_and_one_open_file_does_not() -> None:
    few = with_run(completed=7_995, failed=5, errors=(ErrorKind(kind="cut", count=5, example="closed"),))
    assert failed(few) == []
    assert "0.06 %" in check(few, "failures").found
    files = with_run(completed=7_999, failed=1, errors=(ErrorKind(kind="open files", count=1, example="EMFILE"),))
    assert failed(files) == ["open-files"]


def test_refused_connections_have_a_check_of_their_own() -> None:
    assert failed(_failing("connection")) == ["failures", "connection-errors"]
    assert failed(_failing("cut")) == ["failures"]


def test_lag_is_held_against_the_time_between_chunks_but_never_below_what_a_tick_can_tell() -> None:
    def fast(run: Run) -> Run:
        assert run.latencies.itl is not None
        itl = run.latencies.itl.model_copy(update={"p50": 5.0, "mean": 6.0})
        clients = tuple(client.model_copy(update={"loop_lag_p99_ms": 1.9}) for client in run.clients)
        return run.model_copy(update={"latencies": run.latencies.model_copy(update={"itl": itl}), "clients": clients})

    fine = every_run(sound(), fast)
    assert check(fine, "event-loop").verdict == "passed"
    late = with_client(loop_lag_p99_ms=2.1)
    assert check(every_run(late, fast), "event-loop").verdict == "passed"
    clients = tuple(client.model_copy(update={"loop_lag_p99_ms": 2.1}) for client in fine.runs[0].clients)
    slower = one_run(lambda run: run.model_copy(update={"clients": clients}), fine, 0)
    assert check(slower, "event-loop").verdict == "failed"


def test_one_chunk_answers_are_held_against_the_time_to_it() -> None:
    run = sound().runs[1]
    latencies = run.latencies.model_copy(update={"itl": None, "tpot": None})
    assert check(with_run(latencies=latencies), "event-loop").verdict == "passed"


def test_too_many_connections_from_one_address_run_out_of_ports() -> None:
    run = sound().runs[1]
    wide = tuple(client.model_copy(update={"connections": 13_000}) for client in run.clients)
    found = check(with_run(clients=wide), "ports")
    assert found.verdict == "failed"
    assert "52,000" in found.found
    assert "pod 0" in found.found
    spread = tuple(client.model_copy(update={"pod": number}) for number, client in enumerate(wide))
    assert check(with_run(clients=spread), "ports").verdict == "passed"


def test_of_unknown_machines_few_connections_are_fine_and_many_are_not_known() -> None:
    def scattered(connections: int) -> Measurement:
        changes = {"connections": connections, "pod": None, "node": None}
        return with_run(clients=tuple(client.model_copy(update=changes) for client in sound().runs[1].clients))

    assert check(scattered(1_000), "ports").verdict == "passed"
    assert check(scattered(13_000), "ports").verdict == "not measured"


def test_a_client_that_gives_less_than_the_others_is_named() -> None:
    rate = sound().runs[1].clients[0].total_tokens_per_s
    found = check(with_client(3, total_tokens_per_s=rate * 0.7), "client-balance")
    assert found.verdict == "failed"
    assert "client 3 was 29" in found.found or "client 3 was 30" in found.found
    assert found.blames == "run"
    assert (
        check(with_client(3, total_tokens_per_s=rate * 0.7, cpu_share_mean=0.98), "client-balance").blames == "client"
    )
    assert check(with_client(3, total_tokens_per_s=rate * 0.92), "client-balance").verdict == "passed"
    few = with_client(3, total_tokens_per_s=rate * 0.7, completed=40)
    assert check(few, "client-balance").verdict == "passed"


@pytest.mark.parametrize(
    ("field", "id_"),
    [
        ("cpu_share_mean", "client-cpu"),
        ("cpu_share_peak", "client-cpu"),
        ("loop_lag_p99_ms", "event-loop"),
        ("open_files_limit", "open-files"),
        ("released_at", "start"),
    ],
)
def test_what_no_witness_saw_is_not_measured_and_not_certified(field: str, id_: str) -> None:
    measurement = with_client(2, **{field: None})
    assert unmeasured(measurement) == [id_]
    certificate = certify(measurement)
    assert certificate.verdict == "not certified"
    assert "1 of 27 checks" in certificate.headline
    assert id_ in certificate.reason
    assert RUN_COMMAND in check(measurement, id_).found


def test_pods_without_an_account_are_not_measured() -> None:
    assert unmeasured(with_run(pod_cores=(), pod_cpu_peak=())) == ["pod-cpu"]
