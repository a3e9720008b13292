"""Both replicas get one replica's load, straight at their pods and in turn; what became of them is kept."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest

from fleet.bench.errors import BenchmarkError
from fleet.rollout.judge import measuring
from fleet.rollout.judge.answers import ROUNDS, Answers, prompts, unanswered
from fleet.rollout.judge.side import Pod
from fleet.rollout.judge.verdict import declaration_of
from lab.simulators.model_server.engine_server import EngineServer
from lab.simulators.model_server.in_thread import serving
from lab.simulators.model_server.node import Faults, Node, Pace
from settings.derived.measurement import measurement
from settings.derived.traffic import traffic
from settings.stack import Settings
from tests.support.as_sent import as_sent
from tests.support.settings import make_settings
from tests.workloads.network_policy_semantics import Endpoint, allowed
from workloads import names
from workloads.network_policies import flows, policies

ADDRESSES = {"qwen35-server": "10.1.0.7", "qwen35-server-canary": "10.1.0.8"}
NOT_READY: dict[str, Any] = {"status": {"phase": "Running", "podIP": "10.1.0.6", "containerStatuses": []}}


def settings(**changes: Any) -> Settings:
    given = {
        "server": {"replicas": 12},
        "benchmark": {"enabled": True, "runOnUpdate": False},
        "rollout": {"canary": {"engine": {"maxModelLen": 4096}, "profile": "record"}},
    }
    return make_settings(**{**given, **changes})


STACK = settings()


class Kubectl:
    """A cluster with two servers and one canary; keeps what is made. `restarts`: of the canary, from look to look."""

    def __init__(self, *restarts: int) -> None:
        self.namespace = STACK.namespace
        self.made: list[dict[str, Any]] = []
        self.restarts = list(restarts or (0,))

    def list_all(self, kind: str, *, selector: str = "", **_: Any) -> list[dict[str, Any]]:
        if kind == "jobs":
            return []
        app = selector.partition("=")[2]
        return [{"metadata": {"name": f"{app}-a"}, "spec": {}, **NOT_READY}, self.find("pod", f"{app}-b")]

    def find(self, _: str, name: str) -> dict[str, Any]:
        app = name.removesuffix("-b")
        restarts = 3 if app == "qwen35-server" else self.restarts.pop(0) if len(self.restarts) > 1 else self.restarts[0]
        status = {
            "phase": "Running",
            "podIP": ADDRESSES[app],
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"restartCount": restarts}],
        }
        return {"metadata": {"name": name}, "spec": {"nodeName": "node"}, "status": status}

    def create(self, manifest: dict[str, Any]) -> dict[str, Any]:
        self.made.append(manifest)
        return {**manifest, "metadata": {**manifest["metadata"], "uid": f"{len(self.made):08d}"}}


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    def played(kubectl: Kubectl, failing: int = 0) -> Path:
        ended = iter("DeadlineExceeded" if number == failing else "" for number in range(1, 9))
        over = lambda *_: SimpleNamespace(failed=next(ended))  # noqa: E731
        monkeypatch.setattr(measuring, "require_idle", lambda *_: None)
        monkeypatch.setattr(measuring, "watch", over)
        monkeypatch.setattr(measuring, "fetch", lambda _bucket, _name, into: into.mkdir(parents=True))
        found = measuring.targets(kubectl, STACK)  # type: ignore[arg-type]
        outputs = SimpleNamespace(endpoint="http://the-service", bucket="results", image_prefix="registry")
        display = SimpleNamespace(note=lambda _: None, state=lambda _: None)
        arguments: tuple[Any, ...] = (kubectl, None, STACK, outputs, found, tmp_path, display)
        measuring.measure(*arguments)
        return tmp_path

    return played


def options(job: dict[str, Any]) -> dict[str, str]:
    (container,) = job["spec"]["template"]["spec"]["containers"]
    return dict(one.removeprefix("--").split("=", 1) for one in container["args"])


def test_old_and_canary_are_measured_in_turn_at_their_pods(play: Any) -> None:
    kubectl = Kubectl(0)
    folder = play(kubectl)
    jobs = [one for one in kubectl.made if one["kind"] == "Job"]
    runs = [json.loads(one["data"]["run.json"]) for one in kubectl.made if one["kind"] == "ConfigMap"]
    assert [options(job)["endpoint"] for job in jobs] == ["http://10.1.0.7:8000", "http://10.1.0.8:8000"] * 2
    assert [options(job)["server-pods"] for job in jobs] == ["10.1.0.7:8000", "10.1.0.8:8000"] * 2
    # The same client for both: the servers' own image.
    images = {job["spec"]["template"]["spec"]["containers"][0]["image"] for job in jobs}
    assert images == {f"registry/{STACK.serving.image.reference}"}
    assert [run["shape"]["flags"]["max-model-len"] for run in runs] == [2560, 4096] * 2
    assert sorted(path.name[:2] for path in (folder / "old").iterdir() if path.is_dir()) == ["1-", "2-"]


@pytest.mark.parametrize("unavailable_share", [0.0, 1.0])
def test_answers_of_the_servers_are_kept_without_a_canary(tmp_path: Path, unavailable_share: float) -> None:
    alone = settings(rollout={})
    model = str(measurement(alone).run["served_model"])
    node = Node(model=model, ranks=1, pace=Pace(fixed_s=0.001), max_model_len=4096)
    kubectl = Kubectl()
    with serving(lambda: EngineServer(node, faults=Faults(unavailable_share=unavailable_share))) as server:
        ports = {"pod/qwen35-server-b": urlsplit(server.url).port}
        forwarded = lambda pod, _: nullcontext(ports[pod])  # noqa: E731
        kubectl.port_forward = forwarded  # type: ignore[attr-defined]
        if unavailable_share:
            with pytest.raises(BenchmarkError):
                measuring.keep_answers(kubectl, alone, tmp_path, None)  # type: ignore[arg-type]
            assert not [*tmp_path.iterdir()]
            return
        file = measuring.keep_answers(kubectl, alone, tmp_path / "new", None)  # type: ignore[arg-type]
    kept = Answers.model_validate_json(file.read_bytes())
    assert [set(round_) for round_ in kept.rounds] == [set(prompts())] * ROUNDS
    assert not unanswered(kept)


def test_the_first_job_that_fails_is_the_last(play: Any) -> None:
    kubectl = Kubectl(1, 1, 2)
    folder = play(kubectl, failing=2)
    assert len([one for one in kubectl.made if one["kind"] == "Job"]) == 2
    pods = {name: Pod.model_validate_json((folder / name / "pod.json").read_bytes()) for name in ("old", "canary")}
    assert (pods["old"].restarts, pods["old"].failed) == (0, "")
    assert (pods["canary"].restarts, pods["canary"].failed) == (1, "DeadlineExceeded")


def test_both_are_asked_the_same_load_of_one_replica() -> None:
    asked = measuring.asked_of(STACK)
    whole = measurement(STACK).run
    for key in ("workload", "points", "repeats", "prompts_per_client", "pods"):
        assert asked["old"].run[key] == asked["canary"].run[key]
    assert asked["old"].run["points"][0]["connections"] * 12 == whole["points"][0]["connections"]
    assert [one.run["shape"]["replicas"] for one in asked.values()] == [1, 1]
    # As `fleet rollout promote` holds a verdict against the stack file.
    assert STACK.as_canary is not None
    assert declaration_of(asked["old"].run) == declaration_of(whole)
    assert declaration_of(asked["canary"].run) == declaration_of(measurement(STACK.as_canary).run)
    assert declaration_of(asked["canary"].run) != declaration_of(whole)


def test_a_declaration_covers_everything_in_which_a_canary_may_differ() -> None:
    canaries: tuple[dict[str, Any], ...] = (
        {"engine": {"seed": 1}},
        {"model": {"revision": "0123456789abcdef0123456789abcdef01234567"}},
    )
    found = {declaration_of(measurement(STACK).run)}
    for one in canaries:
        canary = settings(rollout={"canary": one}).as_canary
        assert canary is not None
        found.add(declaration_of(measurement(canary).run))
    assert len(found) == 1 + len(canaries)


def test_a_gateway_is_passed_by() -> None:
    through = settings(gateway={"enabled": True})
    assert {one.run["shape"]["routing"] for one in measuring.asked_of(through).values()} == {"cluster-ip"}


def test_network_policies_let_the_load_reach_both_pods_and_no_other_port() -> None:
    for stack in (STACK, settings(gateway={"enabled": True})):
        specs = list(as_sent(policies(flows(traffic(stack)))).values())
        client = Endpoint(labels=names.selector(names.BENCHMARK_APP))
        for app in ADDRESSES:
            pod = Endpoint(labels={"app": app})
            assert allowed(specs, source=client, destination=pod, port=8000)
            assert not allowed(specs, source=client, destination=pod, port=22)


def test_a_stack_without_a_canary_or_without_a_ready_one_says_so() -> None:
    with pytest.raises(BenchmarkError, match="fleet rollout start"):
        measuring.sides_of(settings(rollout={}))
    kubectl = Kubectl()
    kubectl.find = lambda *_: {"metadata": {"name": "x"}, "spec": {}, **NOT_READY}  # type: ignore[method-assign]
    with pytest.raises(BenchmarkError, match="get pods --selector app=qwen35-server"):
        measuring.targets(kubectl, STACK)  # type: ignore[arg-type]
