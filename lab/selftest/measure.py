"""One measurement on loopback, from the servers' start to the merged result."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.oauth2.credentials import Credentials

from fleet.bench.errors import BenchmarkError
from fleet.bench.judged import judge, write
from fleet.bench.measurement import Judged
from fleet.bench.run.fetching import RUNS, progress_of
from fleet.bench.run.progress_words import state_of
from fleet.clients.errors import LiveError
from fleet.clients.storage import Bucket
from fleet.jobs.display import State
from lab.selftest.load import Load
from lab.selftest.pods import NAME, Played, play
from lab.simulators.bucket import TOKEN, LocalBucket
from lab.simulators.model_server.listener import LOOPBACK
from lab.simulators.model_server.processes import ServerProcess, ServerProcessError, ServerProcesses


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Result of one measurement."""

    load: Load
    folder: Path
    """The measurement's folder, as after `fleet bench fetch`, with merged.json."""
    judged: Judged
    servers: tuple[Mapping[str, Any], ...]
    """Each server's own counts at the end."""
    played: Played


def measure(
    load: Load,
    *,
    servers: int,
    folder: Path,
    vllm: Path | None,
    show: Callable[[State], None] = lambda _: None,
) -> Measured:
    """Start everything, run it, fetch, merge, judge; `show` gets progress. Raises BenchmarkError where a part fails."""
    one = ServerProcess(node=load.node, faults=load.faults, cores=load.server_cores)
    try:
        with ExitStack() as stack:
            stack.enter_context(_past_proxies())
            bucket = stack.enter_context(LocalBucket())
            laptop = Bucket(bucket.name, Credentials(TOKEN), url=bucket.url)
            show(State("starting the servers"))
            running = stack.enter_context(ServerProcesses([one] * servers))
            show(State("starting the pods"))
            played = play(load, running, bucket, vllm=vllm, look=lambda: _look(laptop, show))
            told = running.snapshots()
            show(State("downloading the results"))
            laptop.mirror(f"{RUNS}{NAME}/", folder)
    except (LiveError, ServerProcessError) as error:
        raise BenchmarkError(f"the self-test itself failed: {error}") from None
    show(State("merging and judging"))
    judged = judge(folder)
    write(judged, folder / "merged.json")
    return Measured(load=load, folder=folder, judged=judged, servers=told, played=played)


def _look(laptop: Bucket, show: Callable[[State], None]) -> None:
    """The pods' progress, as `fleet bench run` reads it."""
    # On a busy machine the next reading succeeds.
    with suppress(LiveError):
        if (state := state_of(progress_of(laptop, NAME))) is not None:
            show(state)


@contextmanager
def _past_proxies() -> Iterator[None]:
    """Exclude loopback from the user's proxy, for pods and clients as well."""
    names = ("no_proxy", "NO_PROXY")
    before = {name: os.environ.get(name) for name in names}
    for name in names:
        os.environ[name] = ",".join(part for part in (before[name], LOOPBACK) if part)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
