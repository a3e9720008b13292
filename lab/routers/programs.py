"""The routers: HAProxy as deployed, and with candidates of a choice by the prompt's beginning."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lab.control_plane import cache, go_command, toolchain
from lab.control_plane.cache import Progress
from lab.control_plane.process import Process
from lab.results.result import RehearsalError
from lab.routers import ranks
from workloads import names
from workloads.router import haproxy

PORT: Final = 7100
_SOURCES: Final = Path(__file__).with_name("go")
_START_SECONDS: Final = 20.0
_TICKS: Final = os.sysconf("SC_CLK_TCK")
FIRST_BYTES: Final = 1_024
"""Of a request's body, as a key."""
_WAIT: Final = "http-request wait-for-body time 30s if METH_POST"
_BYTES: Final = f"http-request set-var(txn.beginning) req.body,bytes(0,{FIRST_BYTES})"
_SYSTEM: Final = "http-request set-var(txn.beginning) req.body,json_query('$.messages[0].content')"


@dataclass(frozen=True, kw_only=True)
class Router:
    """A way of choosing a rank."""

    id: str
    key: Sequence[str] = ()
    """Lines of the frontend that put a key into `txn.beginning`; requests with the same one go to the same rank. Empty: the rank with
    the fewest requests."""
    balance_factor: int = 125
    """Of a key: most requests of one rank, in percent of the mean. HAProxy's manual recommends 125 to 200."""


DIRECT: Final = Router(id="direct")
LEAST: Final = Router(id="leastRequest")
BY_BYTES: Final = Router(id="prefix-bytes", key=(_WAIT, _BYTES))
"""By the first bytes of the body."""
BY_SYSTEM: Final = Router(id="prefix-system", key=(_WAIT, _BYTES, _SYSTEM))
"""By the first message. Where none is found, such as one that ends beyond HAProxy's buffer, by the first bytes."""
BY_CONVERSATION: Final = Router(
    id="prefix-conversation",
    key=(
        _WAIT,
        _BYTES,
        _SYSTEM,
        "http-request set-var(txn.second) req.body,json_query('$.messages[1].content')",
        "http-request set-var(txn.beginning) var(txn.beginning),concat(,txn.second)",
    ),
)
"""By the first two messages: system prompt and first question."""
CANDIDATES: Final = (BY_BYTES, BY_SYSTEM, BY_CONVERSATION)


@dataclass(frozen=True, kw_only=True)
class Programs:
    """Where the programs are."""

    routerload: Path
    haproxy: Path

    def version(self) -> str:
        """HAProxy's own."""
        return subprocess.run([self.haproxy, "-v"], capture_output=True, text=True, check=True).stdout.split()[2]


def programs(folder: Path, progress: Progress) -> Programs:
    """HAProxy as installed, and the load, built into `folder`. Raises RehearsalError."""
    proxy = shutil.which("haproxy", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if proxy is None:
        raise RehearsalError("haproxy is missing; on Debian or Ubuntu: apt-get install haproxy")
    kept = cache.folder()
    with cache.locked(kept, progress):
        go = toolchain.find(kept, progress)
    sources = folder / "go"
    shutil.copytree(_SOURCES, sources)
    go_command.run(
        go, ["build", "-o", str(folder / "routerload"), "."], folder=sources, what="compiling the load of routers"
    )
    return Programs(routerload=folder / "routerload", haproxy=Path(proxy))


@dataclass(kw_only=True)
class Running:
    """One running router."""

    router: Router
    targets: Sequence[str]
    """Addresses for clients."""
    process: Process | None = None

    def cpu_seconds(self) -> float:
        """Processor time so far, all threads."""
        if self.process is None or (program := self.process.program) is None:
            return 0.0
        fields = Path(f"/proc/{program}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS


@contextmanager
def running(router: Router, found: Programs, folder: Path) -> Iterator[Running]:
    """Start a router before all ranks, and wait until it serves. Raises RehearsalError."""
    if router == DIRECT:
        yield Running(router=router, targets=ranks.addresses())
        return
    file = folder / "haproxy.cfg"
    file.write_text(config(router, PORT, ranks.addresses()), encoding="utf-8")
    process = Process("haproxy", [found.haproxy, "-db", "-f", file], folder=folder, log=folder / "haproxy.log")
    try:
        _wait(process)
        yield Running(router=router, targets=(f"127.0.0.1:{PORT}",), process=process)
    finally:
        process.stop()


def config(router: Router, port: int, servers: Sequence[str]) -> str:
    """The configuration that is deployed, at known addresses of the loopback interface; with a key, the candidate for a choice by it."""
    text = haproxy.config(haproxy.Haproxy(slots=1, max_in_flight=10_000))
    chosen: Sequence[str] = ("balance leastconn",)
    if router.key:
        chosen = (
            "balance hash var(txn.beginning)",
            "hash-type consistent sdbm avalanche",
            f"hash-balance-factor {router.balance_factor}",
        )
    for line, instead in (
        # Two descriptors a stream, of the 20,000 that this machine allows a process.
        (r"maxconn \d+", ("maxconn 9000",)),
        (rf"bind :{names.HTTP_PORT}", (f"bind 127.0.0.1:{port}",)),
        (rf"bind :{names.ROUTER_METRICS_PORT}", (f"bind 127.0.0.1:{port + 1}",)),
        (
            rf"stats socket ipv4@127.0.0.1:{names.ROUTER_ADMIN_PORT} .*",
            (f"stats socket ipv4@127.0.0.1:{port + 2} level operator",),
        ),
        (r"balance leastconn", chosen),
        (rf"default_backend {haproxy.BACKEND}", (*router.key, f"default_backend {haproxy.BACKEND}")),
        (r"server-template .*", [f"server s{number} {one}" for number, one in enumerate(servers)]),
    ):
        text, found = re.subn(rf"^    {line}\n", lambda _, new=instead: _lines(new), text, flags=re.MULTILINE)
        if found != 1:
            raise RehearsalError(f"the deployed configuration has {found} lines {line!r}")
    return text


def _lines(lines: Sequence[str]) -> str:
    return "".join(f"    {line}\n" for line in lines)


def _wait(process: Process) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        process.require_running()
        with socket.socket() as probe:
            probe.settimeout(1)
            if probe.connect_ex(("127.0.0.1", PORT)) == 0:
                return
        if time.monotonic() > deadline:
            raise RehearsalError(f"{process.name} did not listen in {_START_SECONDS:.0f} s")
        time.sleep(0.1)
