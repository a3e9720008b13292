"""A measurement with nothing wrong, merged from made-up results, and ways to make one thing wrong with it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from fleet.bench.certificate import certify
from fleet.bench.measurement import Check, ClientResult, EngineResult, Measurement, Run, ServerMetrics
from fleet.bench.merge import merge_folder
from tests.fleet.bench.merge import folders

CERTIFIED: dict[str, Any] = {"requests_per_client": 260, "connections_per_client": 8, "seed": 0}


@cache
def sound(replicas: int = 2, repeats: int = 3) -> Measurement:
    """Every check passes: servers of four engines, four clients of 8 connections."""
    return merge_folder(folders.sound(servers=replicas, repeats=repeats, **CERTIFIED))


def every_run(measurement: Measurement, change: Callable[[Run], Run]) -> Measurement:
    """All runs changed."""
    return measurement.model_copy(update={"runs": tuple(change(run) for run in measurement.runs)})


def with_run(**changes: Any) -> Measurement:
    """Fields of one run replaced."""
    first, second, *rest = sound().runs
    return sound().model_copy(update={"runs": (first, second.model_copy(update=changes), *rest)})


def with_client(number: int = 2, **changes: Any) -> Measurement:
    """Fields of one client of one run replaced."""

    def changed(client: ClientResult) -> ClientResult:
        return client.model_copy(update=changes) if client.client == number else client

    return with_run(clients=tuple(changed(one) for one in sound().runs[1].clients))


def server() -> ServerMetrics:
    """What the servers said in the run that the others change."""
    found = sound().runs[1].server
    assert found is not None
    return found


def with_server(**changes: Any) -> Measurement:
    """Fields of what the servers said in one run replaced."""
    return with_run(server=server().model_copy(update=changes))


def with_engines(change: Callable[[int, EngineResult], EngineResult]) -> Measurement:
    """Engines of one run changed, by their number."""
    return with_server(engines=tuple(change(number, engine) for number, engine in enumerate(server().engines)))


def check(measurement: Measurement, id_: str) -> Check:
    """One check of its certificate."""
    return next(one for one in certify(measurement).checks if one.id == id_)


def failed(measurement: Measurement) -> list[str]:
    """Ids of the checks that failed."""
    return [one.id for one in certify(measurement).checks if one.verdict == "failed"]


def unmeasured(measurement: Measurement) -> list[str]:
    """Ids of the checks that could not be made."""
    return [one.id for one in certify(measurement).checks if one.verdict == "not measured"]
