"""A measurement with nothing wrong, and ways to make one thing wrong with it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from fleet.bench.certificate import certify
from fleet.bench.certificate.certify import OPENINGS
from fleet.bench.measurement import Check, ClientResult, EngineResult, Measurement, Run
from tests.fleet.bench.measurements import a_measurement, an_asked, estimate


@cache
def sound(replicas: int = 2, repeats: int = 3) -> Measurement:
    """Every check passes: two nodes, four clients of 1,000 connections, three repeats."""
    measurement = a_measurement(an_asked(replicas=replicas, repeats=repeats))
    return every_run(measurement, counted_alike)


def counted_alike(run: Run) -> Run:
    """The servers' own count of tokens made the clients': the drawn runs have their ramps elsewhere."""
    assert run.server is not None
    ours = run.whole.output_tokens_per_s * run.whole.seconds
    return run.model_copy(update={"server": run.server.model_copy(update={"generation_tokens": ours * 1.003})})


def every_run(measurement: Measurement, change: Callable[[Run], Run]) -> Measurement:
    """All runs changed."""
    return measurement.model_copy(update={"runs": tuple(change(run) for run in measurement.runs)})


def one_run(change: Callable[[Run], Run], measurement: Measurement | None = None, index: int = 1) -> Measurement:
    """One run changed."""
    made = measurement or sound()
    runs = [change(run) if number == index else run for number, run in enumerate(made.runs)]
    return made.model_copy(update={"runs": tuple(runs)})


def with_run(**changes: Any) -> Measurement:
    """Fields of one run replaced."""
    return one_run(lambda run: run.model_copy(update=changes))


def with_client(number: int = 2, **changes: Any) -> Measurement:
    """Fields of one client of one run replaced."""

    def changed(client: ClientResult) -> ClientResult:
        return client.model_copy(update=changes) if client.client == number else client

    return one_run(lambda run: run.model_copy(update={"clients": tuple(changed(one) for one in run.clients)}))


def with_server(**changes: Any) -> Measurement:
    """Fields of what the servers said in one run replaced."""

    def changed(run: Run) -> Run:
        assert run.server is not None
        return run.model_copy(update={"server": run.server.model_copy(update=changes)})

    return one_run(changed)


def with_engines(change: Callable[[int, EngineResult], EngineResult]) -> Measurement:
    """Engines of one run changed, by their number."""
    server = sound().runs[1].server
    assert server is not None
    return with_server(engines=tuple(change(number, engine) for number, engine in enumerate(server.engines)))


def with_rates(*totals: float) -> Measurement:
    """One load whose repeats gave these rates."""
    point = sound().points[0].model_copy(update={"total_tokens_per_s": estimate(totals)})
    return sound().model_copy(update={"points": (point,)})


def check(measurement: Measurement, id_: str) -> Check:
    """One check of its certificate."""
    return next(one for one in certify(measurement).checks if one.id == id_)


def failed(measurement: Measurement) -> list[str]:
    """Ids of the checks that failed."""
    return [one.id for one in certify(measurement).checks if one.verdict == "failed"]


def unmeasured(measurement: Measurement) -> list[str]:
    """Ids of the checks that could not be made."""
    return [one.id for one in certify(measurement).checks if one.verdict == "not measured"]


def headline_blames(measurement: Measurement) -> str:
    """What the reason of its failed certificate blames: a key of OPENINGS."""
    reason = certify(measurement).reason
    return next(blamed for blamed, words in OPENINGS.items() if reason.startswith(words))


REQUESTS = sum(run.completed for run in sound().runs)
