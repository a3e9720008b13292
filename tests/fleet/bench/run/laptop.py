"""A laptop's surroundings: a project, a stack that is up, Google on loopback, and a kubectl that has no kubelet to talk to.

Objects go through the real kubectl to a real API server; `port-forward`, which ends at a node's kubelet, is played by the
stand-in, which hands everything else on.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.fleet.cli.command import SMALL_STACK
from tests.fleet.clients.fake_google import FakeGoogle
from tests.fleet.clients.programs import stand_in
from tests.fleet.clients.up import up
from tests.support.simulators.local_server import Answer, Request, served

NAMESPACE = "vllm-try"
SERVER = "qwen35-server"
BENCHMARK = "  vllm-fleet:benchmark: {enabled: true, runOnUpdate: false, repeats: 1, promptsPerClient: 100}\n"

KUBECTL = """
import os, sys, time
arguments = sys.argv[1:]
words = [word for word in arguments if not word.startswith("--")]
with open(os.environ["ASKED"], "a") as log:
    log.write(" ".join(words[:3]) + "\\n")
if words and words[0] == "port-forward":
    print(f"Forwarding from 127.0.0.1:{os.environ['METRICS_PORT']} -> {words[2].lstrip(':')}", flush=True)
    time.sleep(600)
elif os.environ.get("REAL_KUBECTL"):
    os.execv(os.environ["REAL_KUBECTL"], [os.environ["REAL_KUBECTL"], *arguments])
else:
    sys.exit("Unable to connect to the server: dial tcp 192.0.2.1:443: i/o timeout")
"""


@dataclass
class Metrics:
    """What the servers' /metrics say."""

    port: int = 0
    running: float = 0.0
    tokens: float = 1000.0
    growing: bool = False
    asked: int = 0


@contextmanager
def metrics_server() -> Iterator[Metrics]:
    """One server that every port forward leads to."""
    metrics = Metrics()

    def answer(_: Request) -> Answer:
        metrics.asked += 1
        tokens = metrics.tokens + (metrics.asked if metrics.growing else 0)
        text = (
            f'vllm:num_requests_running{{engine="0"}} {metrics.running}\n'
            f'vllm:num_requests_waiting{{engine="0"}} 0.0\nvllm:generation_tokens_total{{engine="0"}} {tokens}\n'
        )
        return Answer(200, text.encode())

    with served(answer) as metrics.port:
        yield metrics


@dataclass
class Laptop:
    """Where `fleet` is run, and with which environment."""

    root: Path
    outputs: Path
    environment: dict[str, str]
    metrics: Metrics
    google: FakeGoogle
    asked: Path
    """What kubectl was asked, a line a call."""

    def looks(self) -> int:
        """How often kubectl was asked why something waits."""
        return self.asked.read_text(encoding="utf-8").count("get events") if self.asked.exists() else 0


@contextmanager
def laptop(
    folder: Path, google: FakeGoogle, *, kubeconfig: str = "", stack: str = SMALL_STACK + BENCHMARK
) -> Iterator[Laptop]:
    """A project with the stack `try`, its outputs in a file, and a PATH with the stand-in. With `kubeconfig`, kubectl is real."""
    program = stand_in(folder / "bin", "kubectl", KUBECTL)
    real = {"kubeconfig": kubeconfig} if kubeconfig else {}
    prefix = "europe-west4-docker.pkg.dev/fleet-tests/hub"
    environment = up(folder, google, program, stack, imagePrefix=prefix, **real)
    with metrics_server() as metrics:
        yield Laptop(
            root=folder / "project",
            outputs=folder / "outputs.json",
            metrics=metrics,
            google=google,
            asked=folder / "asked",
            environment={
                **environment,
                "ASKED": str(folder / "asked"),
                "METRICS_PORT": str(metrics.port),
                "REAL_KUBECTL": (shutil.which("kubectl") or "") if kubeconfig else "",
            },
        )
