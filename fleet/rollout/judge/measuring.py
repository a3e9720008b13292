"""Measures one old replica and the canary in turn, with one replica's load, directly at their pods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from facts.files import write_whole
from facts.names import HTTP_PORT
from fleet.bench.errors import BenchmarkError
from fleet.bench.run.fetching import fetch
from fleet.bench.run.launch import launch, require_no_other
from fleet.bench.run.servers import ServerPod, require_idle, server_pods
from fleet.bench.run.watching import watch
from fleet.jobs.watching import patiently
from fleet.rollout.effort import PASSES
from fleet.rollout.judge.answers import ANSWERS_FILE, ask_each, require_answers
from fleet.rollout.judge.side import POD_FILE, Pod
from fleet.rollout.judge.verdict import Part
from settings.derived.measurement import measurement

if TYPE_CHECKING:
    from fleet.clients.kubectl import Kubectl
    from fleet.clients.stack_outputs import StackOutputs
    from fleet.clients.storage import Bucket
    from fleet.jobs.display import Display
    from settings.derived.measurement import Measurement
    from settings.stack import Settings

Name = Literal["old", "canary"]
SIDES: Final[tuple[Name, Name]] = ("old", "canary")
_OF_THE_LOAD: Final = ("workload", "points", "repeats", "prompts_per_client", "pods", "slo")
"""Keys of run.json that must be equal for both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One of the two."""

    pod: ServerPod
    address: str
    """IP and port."""
    restarts: int
    asked: Measurement


def sides_of(settings: Settings) -> dict[Name, Settings]:
    """The stack's settings for its servers and for its canary. Raises BenchmarkError without a canary."""
    if settings.as_canary is None:
        raise BenchmarkError(
            f"stack {settings.stack} has no canary: `fleet rollout start --stack {settings.stack}` declares one"
        )
    return {"old": settings, "canary": settings.as_canary}


def asked_of(settings: Settings) -> dict[Name, Measurement]:
    """The measurement of each: the stack's benchmark for one replica, with the servers' clients and tokenizer."""
    found: dict[Name, Measurement] = {}
    for name, one in sides_of(settings).items():
        fields = {key: getattr(one, key) for key in one.model_fields_set - {"gateway", "rollout"}}
        server = one.server.model_copy(update={"replicas": 1})
        fields |= {"namespace": one.namespace, "server": server, "benchmark": settings.benchmark}
        # Not model_copy, which keeps cached values for all replicas.
        found[name] = measurement(type(settings).model_construct(**fields))
    same = {key: found["old"].run[key] for key in _OF_THE_LOAD}
    return {"old": found["old"], "canary": replace(found["old"], run={**found["canary"].run, **same})}


def targets(kubectl: Kubectl, settings: Settings) -> dict[Name, Target]:
    """The first ready pod of each. Raises BenchmarkError without one."""
    found: dict[Name, Target] = {}
    asked = asked_of(settings)
    for name, one in sides_of(settings).items():
        pod, manifest = _ready(kubectl, one)
        address = f"{manifest['status']['podIP']}:{HTTP_PORT}"
        found[name] = Target(pod=pod, address=address, restarts=_restarts(manifest), asked=asked[name])
    return found


def _ready(kubectl: Kubectl, settings: Settings) -> tuple[ServerPod, Mapping[str, Any]]:
    """The first ready pod of the servers, and its manifest. Raises BenchmarkError without one."""
    pod = next((pod for pod in server_pods(kubectl, settings) if pod.ready), None)
    manifest = kubectl.find("pod", pod.name) if pod else None
    if pod is None or manifest is None:
        look = f"kubectl --namespace {settings.namespace} get pods --selector app={settings.server.name}"
        raise BenchmarkError(f"no replica of {settings.server.name} is ready: {look}")
    return pod, manifest


def keep_answers(kubectl: Kubectl, settings: Settings, folder: Path, api_key: str | None) -> Path:
    """Write the output check's answers of one of the servers to a folder, to compare releases that run one after the other. Returns
    the file. Raises LiveError, and BenchmarkError if it hardly answers.
    """
    pod, _ = _ready(kubectl, settings)
    with kubectl.port_forward(f"pod/{pod.name}", HTTP_PORT) as port:
        model = settings.serving.served_model_name
        told = ask_each({"server": (f"http://127.0.0.1:{port}", model)}, api_key)["server"]
    require_answers(told)
    _write(folder / ANSWERS_FILE, told)
    return folder / ANSWERS_FILE


def ask(kubectl: Kubectl, found: Mapping[Name, Target], folder: Path, api_key: str | None) -> None:
    """Write the output check's answers of both to their folders. Raises LiveError, and BenchmarkError if the old one hardly
    answers; then nothing is measured.
    """
    old, canary = (found[name] for name in SIDES)
    with (
        kubectl.port_forward(f"pod/{old.pod.name}", HTTP_PORT) as first,
        kubectl.port_forward(f"pod/{canary.pod.name}", HTTP_PORT) as second,
    ):
        urls = {"old": f"http://127.0.0.1:{first}", "canary": f"http://127.0.0.1:{second}"}
        asked: dict[str, tuple[str, str]] = {
            name: (urls[name], str(found[name].asked.run["served_model"])) for name in SIDES
        }
        told = ask_each(asked, api_key)
    for name in SIDES:
        _write(folder / name / ANSWERS_FILE, told[name])
    require_answers(told["old"])


def measure(
    kubectl: Kubectl,
    bucket: Bucket,
    settings: Settings,
    outputs: StackOutputs,
    found: Mapping[Name, Target],
    folder: Path,
    display: Display,
) -> None:
    """Measure old, canary, old, canary, to detect drift. Ends at the first failed Job. Raises LiveError, and
    BenchmarkError if a replica has other requests.
    """
    failed: dict[Name, str] = {}
    for number, name in product(range(1, PASSES + 1), SIDES):
        one = found[name]
        require_no_other(kubectl, settings)
        if trouble := require_idle(kubectl, [one.pod], HTTP_PORT):
            display.note(f"could not check whether {one.pod.name} is idle: {trouble}")
        launched = launch(kubectl, settings, outputs, asked=one.asked, pod=one.address)
        display.note(f"pass {number} of {PASSES}, {name}: {launched.measurement}; to end it: {launched.how_to_stop()}")
        over = watch(kubectl, bucket, launched, display.state)
        into = folder / name / f"{number}-{launched.measurement}"
        patiently(lambda: fetch(bucket, launched.measurement, into), display.state)  # noqa: B023 - called at once
        if over.failed:
            failed[name] = over.failed
            break
    for name, one in found.items():
        manifest = kubectl.find("pod", one.pod.name)
        restarts = None if manifest is None else _restarts(manifest) - one.restarts
        pod = Pod(name=one.pod.name, node=one.pod.node, restarts=restarts, failed=failed.get(name, ""))
        _write(folder / name / POD_FILE, pod)


def _restarts(manifest: Mapping[str, Any]) -> int:
    return sum(status["restartCount"] for status in manifest["status"].get("containerStatuses") or ())


def _write(path: Path, part: Part) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, f"{part.model_dump_json(by_alias=True, indent=1)}\n".encode())
