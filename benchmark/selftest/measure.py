"""One measurement on loopback, from the servers' start to the merged result."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmark.errors import BenchmarkError
from benchmark.measurement import Judged
from benchmark.selftest.bucket import TOKEN, LocalBucket
from benchmark.selftest.load import Load
from benchmark.selftest.pods import Played, play
from live.errors import LiveError
from live.google_http import GoogleHttp
from live.google_token import GoogleToken
from live.storage import Bucket
from model_server.listener import LOOPBACK
from model_server.processes import ServerProcess, ServerProcessError, ServerProcesses


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What came of it."""

    load: Load
    folder: Path
    """As `fleet bench fetch` would have left it, with merged.json."""
    judged: Judged
    servers: tuple[Mapping[str, Any], ...]
    """What each server says that it gave, at the end."""
    played: Played


def measure(load: Load, *, servers: int, folder: Path, vllm: Path | None) -> Measured:
    """Start everything, run it, fetch, merge, judge. Raises BenchmarkError where a part of it fails."""
    from benchmark.merge.judged import judge, write

    one = ServerProcess(node=load.node, faults=load.faults, cores=load.server_cores)
    try:
        with ExitStack() as stack:
            stack.enter_context(_past_proxies())
            bucket = stack.enter_context(LocalBucket())
            running = stack.enter_context(ServerProcesses([one] * servers))
            played = play(load, running, bucket, vllm=vllm)
            told = running.snapshots()
            laptop = Bucket(bucket.name, GoogleHttp(_Token()), url=bucket.url)
            laptop.mirror(f"runs/{played.name}/", folder)
    except (LiveError, ServerProcessError) as error:
        raise BenchmarkError(f"the self-test itself failed: {error}") from None
    judged = judge(folder)
    write(judged, folder / "merged.json")
    return Measured(load=load, folder=folder, judged=judged, servers=told, played=played)


@contextmanager
def _past_proxies() -> Iterator[None]:
    """A proxy that this user needs for the world knows nothing of loopback. Holds for pods and clients as well."""
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


class _Token(GoogleToken):
    """The local bucket's, and never a real one."""

    def get(self) -> str:
        return TOKEN

    def refused(self, *_: str) -> bool:
        return False
