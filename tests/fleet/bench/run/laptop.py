"""A laptop's surroundings: a project, a stack that is up, Google on loopback, and a kubectl that notes what it is asked.

With a kubeconfig the stand-in hands everything on to the real kubectl, and so to a real API server; otherwise no cluster answers.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.fleet.cli.command import SMALL_STACK
from tests.fleet.clients.fake_google import FakeGoogle
from tests.fleet.clients.programs import stand_in
from tests.fleet.clients.up import up

NAMESPACE = "vllm-try"
SERVER = "qwen35-server"
BENCHMARK = "  vllm-fleet:benchmark: {enabled: true, runOnUpdate: false, repeats: 1, promptsPerClient: 100}\n"

KUBECTL = """
import os, sys
arguments = sys.argv[1:]
words = [word for word in arguments if not word.startswith("--")]
with open(os.environ["ASKED"], "a") as log:
    log.write(" ".join(words[:3]) + "\\n")
if os.environ.get("REAL_KUBECTL"):
    os.execv(os.environ["REAL_KUBECTL"], [os.environ["REAL_KUBECTL"], *arguments])
else:
    sys.exit("Unable to connect to the server: dial tcp 192.0.2.1:443: i/o timeout")
"""


@dataclass
class Laptop:
    """Where `fleet` is run, and with which environment."""

    root: Path
    outputs: Path
    environment: dict[str, str]
    google: FakeGoogle
    asked: Path
    """What kubectl was asked, a line a call."""

    def looks(self) -> int:
        """How often kubectl was asked why something waits."""
        return self.asked.read_text(encoding="utf-8").count("get events") if self.asked.exists() else 0


def laptop(folder: Path, google: FakeGoogle, *, kubeconfig: str = "", stack: str = SMALL_STACK + BENCHMARK) -> Laptop:
    """A project with the stack `try`, its outputs in a file, and a PATH with the stand-in. With `kubeconfig`, kubectl is real."""
    program = stand_in(folder / "bin", "kubectl", KUBECTL)
    real = {"kubeconfig": kubeconfig} if kubeconfig else {}
    prefix = "europe-west4-docker.pkg.dev/fleet-tests/hub"
    environment = up(folder, google, program, stack, imagePrefix=prefix, **real)
    return Laptop(
        root=folder / "project",
        outputs=folder / "outputs.json",
        google=google,
        asked=folder / "asked",
        environment={
            **environment,
            "ASKED": str(folder / "asked"),
            "REAL_KUBECTL": (shutil.which("kubectl") or "") if kubeconfig else "",
        },
    )
