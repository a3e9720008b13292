"""The answers probe: what its program tells of real servers, and the objects around it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pulumi
import pytest

from facts.names import PROBE_APP
from fleet.preview.record.recorder import Recording
from lab.simulators.model_server.engine_server import EngineServer
from lab.simulators.model_server.in_thread import serving
from lab.simulators.model_server.node import Faults, Node, Pace
from settings.stack import Settings
from tests.support.recorded import manifest, named, recorded_component
from tests.support.schemas import problems
from tests.support.settings import make_settings
from tests.workloads.args import REGISTRY, namespace_args, server_args, space
from workloads.answers import probe
from workloads.answers.answers_probe import AnswersProbe, AnswersProbeArgs, program
from workloads.answers.probe import ACCEPTED, FAILURES, Probe, log
from workloads.namespace import Namespace
from workloads.server import api_key
from workloads.server.server import Server
from workloads.small_pod import IMAGE

NODE = Node(model="the/model", ranks=1, pace=Pace(fixed_s=0.001))


def steps(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [json.loads(line)["step"] for line in capsys.readouterr().out.splitlines()]


def turns(asks: Probe, times: int) -> None:
    for _ in range(times):
        asks.turn()


def test_a_sound_server_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(lambda: EngineServer(NODE)) as server:
        turns(Probe(server.url, "the/model", None, log), 4)
    assert steps(capsys) == ["started"]


def test_a_wrong_answer_is_told_each_time(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(lambda: EngineServer(NODE, faults=Faults(wrong_answers=True))) as server:
        turns(Probe(server.url, "the/model", None, log), 2)
    assert steps(capsys) == ["wrong", "wrong"]


@pytest.mark.parametrize("model", ["the/model", "another/model"])
def test_no_answer_is_told_from_the_third_time_on(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    unavailable = float(model == "the/model")
    with serving(lambda: EngineServer(NODE, faults=Faults(unavailable_share=unavailable))) as server:
        turns(Probe(server.url, model, None, log), FAILURES + 1)
    assert steps(capsys) == ["failed", "failed"]


def test_without_replicas_the_probe_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(lambda: EngineServer(NODE)) as server:
        url = server.url
    asks = Probe(url, "the/model", None, log)
    turns(asks, FAILURES)
    assert steps(capsys) == ["failed"]


def _answer(token: str, text: str = " 4711 is") -> dict[str, Any]:
    told = {"tokens": ["a", token], "top_logprobs": [{"a": -0.1}, {token: -0.1}]}
    return {"choices": [{"text": text, "logprobs": told}]}


def test_one_replica_of_two_differs_and_a_new_release_becomes_usual(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = iter("xyxyx" + "y" * ACCEPTED + "y" + "x")
    monkeypatch.setattr(Probe, "_ask", lambda _: _answer(next(given)))
    turns(Probe("http://nowhere", "m", None, log), 5 + ACCEPTED + 2)
    assert steps(capsys) == ["started", "differs", "differs", *["differs"] * (ACCEPTED - 1), "changed", "differs"]


def test_the_key_goes_to_the_servers_and_follows_no_redirect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from aiohttp import web

    seen: list[tuple[str, str | None]] = []

    class Elsewhere(EngineServer):
        async def _completions(self, request: web.Request) -> web.StreamResponse:
            seen.append((request.path, request.headers.get("Authorization")))
            raise web.HTTPTemporaryRedirect("/metrics")

    key = tmp_path / "key"
    key.write_text("sk-of-the-tests\n")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with serving(lambda: Elsewhere(NODE)) as server:
        turns(Probe(server.url, "the/model", key, log), FAILURES)
    assert seen == [("/v1/completions", "Bearer sk-of-the-tests")] * FAILURES
    assert steps(capsys) == ["failed"]


def test_the_pods_program_is_whole() -> None:
    with (
        serving(lambda: EngineServer(NODE)) as server,
        subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", program(), "--url", server.url, "--model", "the/model"],
            stdout=subprocess.PIPE,
            text=True,
        ) as running,
    ):
        assert running.stdout is not None
        line = json.loads(running.stdout.readline())
        running.terminate()
        assert running.wait(10) == 0
    assert (line["event"], line["step"]) == ("answers", "started")
    assert probe.WORD in line["message"]


# Objects


def build(settings: Settings, opts: pulumi.ResourceOptions) -> object:
    Namespace("namespace", namespace_args(settings), opts)
    server = Server("server", server_args(settings), opts)
    asked = AnswersProbeArgs(space=space(settings), server=server, model="the/model")
    return AnswersProbe("answers", asked, opts)


def _made(**sections: Any) -> Recording:
    return recorded_component(build, monitoring={"probe": True}, **sections)


def test_the_pod_is_restricted_asks_through_the_service_and_reads_the_key() -> None:
    recording = _made(server={"apiKeySecret": "vllm-api-key"})
    deployment = named(recording, "answers-deployment")
    assert problems(manifest(deployment)) == []
    pod = deployment.inputs["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["image"] == f"{REGISTRY}/{IMAGE}"
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["command"][-6:] == [
        *("--url", "http://qwen35-server.vllm.svc.cluster.local:8000", "--model", "the/model"),
        *("--key-file", api_key.PATH),
    ]
    assert container["volumeMounts"] == [api_key.mount()]
    assert pod["serviceAccountName"] == PROBE_APP
    assert pod["automountServiceAccountToken"] is False


@pytest.mark.parametrize("gateway", [False, True])
def test_its_network_policy_lets_it_reach_servers_and_names_only(gateway: bool) -> None:
    recording = _made(gateway={"enabled": gateway}, server={"apiKeySecret": "vllm-api-key"})
    own = named(recording, "namespace-network-policies-answers-probe").inputs["spec"]
    assert own["podSelector"]["matchLabels"] == {"app": PROBE_APP}
    (rule,) = own["egress"]
    assert rule["to"] == [{"podSelector": {"matchLabels": {"app": "qwen35-server"}}}]
    assert own["policyTypes"] == ["Egress"]
    door = named(recording, "namespace-network-policies-server").inputs["spec"]["ingress"]
    assert {"podSelector": {"matchLabels": {"app": PROBE_APP}}} in [peer for one in door for peer in one["from"]]


def test_with_routers_it_asks_through_them_and_reaches_no_server_around_them() -> None:
    router = "http://router.vllm.svc.cluster.local:8000"

    def routed(settings: Settings, opts: pulumi.ResourceOptions) -> object:
        Namespace("namespace", namespace_args(settings), opts)
        server = Server("server", server_args(settings), opts)
        asked = AnswersProbeArgs(space=space(settings), server=server, model="the/model", router=router)
        return AnswersProbe("answers", asked, opts)

    recording = recorded_component(
        routed, monitoring={"probe": True}, endpoint={"kind": "leastRequest"}, server={"replicas": 2}
    )
    (container,) = named(recording, "answers-deployment").inputs["spec"]["template"]["spec"]["containers"]
    assert container["command"][container["command"].index("--url") + 1] == router
    (rule,) = named(recording, "namespace-network-policies-answers-probe").inputs["spec"]["egress"]
    assert rule["to"] == [{"podSelector": {"matchLabels": {"app": "router"}}}]


def test_a_stack_has_one_with_alerts_or_where_asked() -> None:
    alerts = {"channels": [{"type": "email", "address": "a@example.com"}]}
    for monitoring, expected in (
        ({}, False),
        ({"probe": True}, True),
        ({"alerts": alerts}, True),
        ({"alerts": alerts, "probe": False}, False),
    ):
        assert make_settings(monitoring=monitoring).monitoring.has_probe is expected
