"""The answers probe's question to every ready pod of a canary, while it is watched."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from facts.finding import Finding
from facts.texts import plural
from fleet.clients.errors import LiveError
from fleet.verify.cluster import read_pods, tunnels
from fleet.verify.declared import model_name
from workloads.answers.probe import Probe

if TYPE_CHECKING:
    from fleet.clients.kubectl import Kubectl
    from settings.stack import Settings

ID: Final = "soak-answers"


class CanaryProbe:
    """Asks as the standing probe does, which asks the servers alone: each pod through a port forward, and remembers its usual answer."""

    def __init__(self, kubectl: Kubectl, settings: Settings, key_file: Path | None = None) -> None:
        """`settings`: the stack's. `key_file` holds the stack's API key."""
        canary = settings.as_canary
        assert canary is not None
        self._kubectl, self._canary, self._key_file = kubectl, canary, key_file
        self._probes: dict[str, Probe] = {}
        self._asked = 0
        self._told: dict[tuple[str, str], str] = {}
        """The last message of each pod and step."""

    def ask(self) -> tuple[Finding, ...]:
        """One question to each pod; what all questions so far have found. A wrong or missing answer is an error. Raises LiveError."""
        ready = tuple(pod.name for pod in read_pods(self._kubectl, self._canary) if pod.ready and not pod.going)
        with tunnels(self._kubectl, ready) as forwards:
            for pod, url in forwards.urls.items():
                probe = self._probes.setdefault(pod, self._probe(pod))
                probe.url = url
                probe.turn()
                self._asked += 1
        if forwards.troubles:
            raise LiveError("; ".join(forwards.troubles.values()))
        return self._findings()

    def _probe(self, pod: str) -> Probe:
        def tell(step: str, message: str) -> None:
            self._told[pod, step] = message

        return Probe("", model_name(self._canary), self._key_file, tell)

    def _findings(self) -> tuple[Finding, ...]:
        wrong = [
            Finding(id=ID, subject=pod, severity="warning" if step == "differs" else "error", found=message)
            for (pod, step), message in self._told.items()
            if step in ("wrong", "failed", "differs")
        ]
        if wrong:
            return tuple(wrong)
        return (
            Finding(
                id=ID,
                subject=self._canary.server.name,
                severity="passed" if self._asked else "unknown",
                found=f"{plural(self._asked, 'question')}, no wrong answer"
                if self._asked
                else "no pod was ready to be asked",
            ),
        )
