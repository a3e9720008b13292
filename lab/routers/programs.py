"""The routers that are measured: real programs with the options under which they were measured."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from lab.control_plane.process import Process
from lab.results.result import RehearsalError
from lab.routers import ranks
from workloads.router import haproxy

Program = Literal["haproxy", "vllm-router", "picker"]
FIRST_PORT: Final = 7100
"""Port of the first router process; the second has the next."""
PICKER_PORT: Final = 9002
_START_SECONDS: Final = 60.0
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")

_RANDOM_PICKS: Final = """\
apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: random-picker
schedulingProfiles:
- name: default
  plugins:
  - pluginRef: random-picker
"""

_KUBECONFIG: Final = """\
apiVersion: v1
kind: Config
clusters: [{name: loopback, cluster: {server: "http://ADDRESS"}}]
users: [{name: loopback, user: {}}]
contexts: [{name: loopback, context: {cluster: loopback, user: loopback}}]
current-context: loopback
"""


@dataclass(frozen=True, kw_only=True)
class Router:
    """A program and its way of choosing a rank."""

    id: str
    program: Program | None
    """None: no router; a client's connection goes to a rank at random and stays there, as behind a Service of type ClusterIP."""
    choice: str = ""
    """vllm-router's `--policy`, or the picker's plugins; HAProxy takes the server with the fewest requests."""
    pods_only: bool = False
    """Whether it chooses among the pods' first ranks alone, as where a server has one port."""


DIRECT: Final = Router(id="direct", program=None)
LEASTCONN: Final = Router(id="haproxy", program="haproxy")
POWER_OF_TWO: Final = Router(id="vllm-router-power-of-two", program="vllm-router", choice="power_of_two")
CACHE_AWARE: Final = Router(id="vllm-router-cache-aware", program="vllm-router", choice="cache_aware")
CACHE_AWARE_OF_PODS: Final = Router(
    id="vllm-router-cache-aware-pods", program="vllm-router", choice="cache_aware", pods_only=True
)
PICKER: Final = Router(id="picker", program="picker", choice="default")
PICKER_AT_RANDOM: Final = Router(id="picker-random", program="picker", choice="random")


@dataclass(frozen=True, kw_only=True)
class Programs:
    """Where the programs are."""

    routerload: Path
    """Also the picker."""
    haproxy: Path
    vllm_router: Path

    def versions(self) -> Mapping[str, str]:
        """What each says of itself."""
        proxy = subprocess.run([self.haproxy, "-v"], capture_output=True, text=True, check=True).stdout.split()[2]
        python = self.vllm_router.with_name("python")
        ask = "from importlib.metadata import version; print(version('vllm-router'))"
        router = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True).stdout.strip()
        picker = subprocess.run(
            [self.routerload, "--version"], capture_output=True, text=True, check=True
        ).stdout.strip()
        return {"haproxy": proxy, "vllm-router": router, "picker": picker}


def found(routerload: Path) -> Programs:
    """HAProxy and vllm-router as installed here. Raises RehearsalError."""
    proxy = shutil.which("haproxy", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if proxy is None:
        raise RehearsalError("haproxy is missing; on Debian or Ubuntu: apt-get install haproxy")
    beside = Path(sys.executable).with_name("vllm-router")
    router = str(beside) if beside.exists() else shutil.which("vllm-router")
    if router is None:
        raise RehearsalError("vllm-router is missing; run `make setup-rehearsal`")
    return Programs(routerload=routerload, haproxy=Path(proxy), vllm_router=Path(router))


@dataclass(kw_only=True)
class Running:
    """One router, running as one or several processes."""

    router: Router
    clients: Sequence[str]
    """Options of `routerload clients` that lead requests through it."""
    processes: Sequence[Process] = ()
    _ids: list[int] = field(default_factory=list)

    def cpu_seconds(self) -> float:
        """Processor time so far, all processes and their threads."""
        total = 0
        for process in self.processes:
            if (program := process.program) is not None:
                fields = Path(f"/proc/{program}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
                total += int(fields[11]) + int(fields[12])
        return total / _TICKS

    def resident_bytes(self) -> int:
        """Memory of all processes."""
        total = 0
        for process in self.processes:
            if (program := process.program) is not None:
                total += int(Path(f"/proc/{program}/statm").read_text(encoding="ascii").split()[1]) * _PAGE
        return total

    def require_running(self) -> None:
        """Raise RehearsalError if a process has ended."""
        for process in self.processes:
            process.require_running()

    def signal(self, number: int, which: int = 0) -> float:
        """Send one of the processes a signal; returns the time since 1970."""
        program = self.processes[which].program
        if program is not None:
            os.kill(program, number)
        return time.time()


@contextmanager
def running(router: Router, programs: Programs, folder: Path, *, processes: int = 1) -> Iterator[Running]:
    """Start a router before all ranks, and wait until it serves. Raises RehearsalError."""
    if router.program is None:
        yield Running(router=router, clients=(f"-targets={','.join(ranks.addresses())}",))
        return
    start: Mapping[Program, Callable[[Router, Programs, Path, int], Process]] = {
        "haproxy": _haproxy,
        "vllm-router": _vllm_router,
        "picker": _picker,
    }
    if router.program == "picker":
        ports, clients = [PICKER_PORT], (f"-picker=127.0.0.1:{PICKER_PORT}",)
    else:
        ports = [FIRST_PORT + 10 * number for number in range(processes)]
        clients = (f"-targets={','.join(f'127.0.0.1:{port}' for port in ports)}",)
    started: list[Process] = []
    try:
        for port in ports:
            started.append(start[router.program](router, programs, folder, port))
        for process, port in zip(started, ports, strict=True):
            _wait(process, port)
        yield Running(router=router, clients=clients, processes=started)
    finally:
        for process in started:
            process.stop()


def haproxy_config(port: int, servers: Sequence[str]) -> str:
    """The configuration of a `leastRequest` router, at known addresses."""
    return haproxy.config(
        haproxy.Haproxy(
            servers=haproxy.Fixed(addresses=tuple(servers)),
            # Two descriptors a stream, of the 20,000 that this machine allows a process.
            max_connections=9_000,
            max_in_flight=10_000,
            max_queued=1_000,
            address="127.0.0.1",
            port=port,
            metrics_port=port + 1,
            admin_port=port + 2,
        )
    )


def _haproxy(_: Router, programs: Programs, folder: Path, port: int) -> Process:
    file = folder / f"haproxy-{port}.cfg"
    file.write_text(haproxy_config(port, ranks.addresses()), encoding="utf-8")
    command: list[str | Path] = [programs.haproxy, "-db", "-f", file]
    return Process("haproxy", command, folder=folder, log=folder / f"haproxy-{port}.log")


def _vllm_router(router: Router, programs: Programs, folder: Path, port: int) -> Process:
    command: list[str | Path] = [
        programs.vllm_router,
        "--host=127.0.0.1",
        f"--port={port}",
        f"--prometheus-port={port + 1}",
        f"--policy={router.choice}",
        "--disable-retries",
        "--health-check-interval-secs=10",
        "--max-concurrent-requests=20000",
        "--queue-size=0",
        "--log-level=warning",
        "--worker-startup-check-interval=1",
        "--worker-urls",
        *(f"http://{address}" for address in ranks.addresses()[:: ranks.RANKS if router.pods_only else 1]),
    ]
    environment = {**os.environ, "OPENAI_API_KEY": "", "no_proxy": "*"}
    return Process(
        "vllm-router", command, folder=folder, log=folder / f"vllm-router-{port}.log", environment=environment
    )


def _picker(router: Router, programs: Programs, folder: Path, port: int) -> Process:
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(_KUBECONFIG.replace("ADDRESS", ranks.API), encoding="utf-8")
    command: list[str | Path] = [
        programs.routerload,
        "picker",
        "--pool-name=servers",
        "--pool-namespace=default",
        f"--grpc-port={port}",
        # As the chart does: no traces; no API server can check who reads /metrics.
        "--tracing=false",
        "--metrics-endpoint-auth=false",
        *([f"--config-text={_RANDOM_PICKS}"] if router.choice == "random" else []),
    ]
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "POD_NAME": "picker-0-0", "NAMESPACE": "default"}
    return Process("picker", command, folder=folder, log=folder / "picker.log", environment=environment)


def _wait(process: Process, port: int) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        process.require_running()
        with socket.socket() as probe:
            probe.settimeout(1)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        if time.monotonic() > deadline:
            raise RehearsalError(f"{process.name} did not listen in {_START_SECONDS:.0f} s")
        time.sleep(0.1)


SOFT_STOP: Final[Mapping[Program, int]] = {"haproxy": signal.SIGUSR1, "vllm-router": signal.SIGTERM}
"""The signal after which a program answers what it has and takes nothing new."""
