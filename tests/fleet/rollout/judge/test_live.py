"""`fleet rollout judge` against a real API server with the real kubectl; the test plays the nodes, the pods and Google."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleet.rollout.judge.answers import ANSWERS_FILE, Answers, digest
from fleet.rollout.judge.judging import read
from lab.control_plane.api import JOB, POD, ClusterApi
from lab.simulators.model_server.engine_server import EngineServer
from lab.simulators.model_server.in_thread import serving
from lab.simulators.model_server.node import Node, Pace
from settings.profiles import profile
from tests.fleet.bench.made_up.results import BEGAN, make_measurement
from tests.fleet.bench.run import kubelet
from tests.fleet.bench.run.conftest import bare_control_plane, google
from tests.fleet.bench.run.laptop import BENCHMARK, NAMESPACE, SERVER, laptop
from tests.fleet.cli.command import SMALL_STACK, fleet
from tests.fleet.clients.fake_google import FakeGoogle
from tests.fleet.rollout.judge.test_measuring import options

__all__ = ["bare_control_plane", "google"]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="the real kubectl is not on the PATH"),
]
CANARY = "  vllm-fleet:rollout: {canary: {engine: {maxNumSeqs: 512}}}\n"
ADDRESSES = {SERVER: "10.9.0.1", f"{SERVER}-canary": "10.9.0.2"}


@pytest.fixture
def api(bare_control_plane: Any) -> Iterator[ClusterApi]:
    made: ClusterApi = bare_control_plane.api
    kubelet.prepare(made, replicas=2)
    for number, (app, address) in enumerate(ADDRESSES.items()):
        name = f"{SERVER}-7d9c6bf5d8-0000{number}"
        made.patch(POD, name, NAMESPACE, {"metadata": {"labels": {"app": app}}})
        status = {"podIP": address, "podIPs": [{"ip": address}]}
        made.patch(POD, name, NAMESPACE, {"status": status}, subresource="status")
    yield made
    kubelet.clear(made)


def test_both_are_measured_in_turn_asked_and_judged(
    api: ClusterApi, google: FakeGoogle, bare_control_plane: Any, tmp_path: Path
) -> None:
    model = profile("serve-chat").engine.served_model_name or profile("serve-chat").model_id
    node = Node(model=model, ranks=2, pace=Pace(fixed_s=0.002))
    jobs: dict[str, dict[str, Any]] = {}

    def play() -> None:
        kubelet.add_c4_node(api)
        for turn in range(4):
            kubelet.until(lambda turn=turn: len(api.list_all(JOB)) > turn)
            job = next(one for one in api.list_all(JOB) if one["metadata"]["name"] not in jobs)
            jobs[job["metadata"]["name"]] = job

            def of_this() -> list[dict[str, Any]]:
                pods = kubelet.benchmark_pods(api)
                return [one for one in pods if one["metadata"]["labels"][kubelet.JOB_LABEL] == job["metadata"]["name"]]  # noqa: B023

            kubelet.until(lambda: any(one["spec"].get("nodeName") for one in of_this()))
            (pod,) = of_this()
            name = kubelet.measurement_of(pod)
            kubelet.set_phase(api, pod, "Running")
            made = make_measurement(
                tmp_path / f"made-{turn}",
                name=name,
                repeats=2,
                servers=1,
                requests_per_client=240,
                with_texts=False,
                seed=turn,
                began=BEGAN + 1000.0 * turn,
            )
            kubelet.upload(google, made, name)
            kubelet.set_phase(api, pod, "Succeeded")

    given = laptop(
        tmp_path, google, kubeconfig=bare_control_plane.kubeconfig.read_text(), stack=SMALL_STACK + BENCHMARK + CANARY
    )
    with given as here, serving(lambda: EngineServer(node)) as server:
        # Every port forward ends at this server.
        here.environment["METRICS_PORT"] = server.url.rpartition(":")[2]
        wide = [word for limit in ("throughput=10", "ttft=90", "tpot=20") for word in ("--limit", limit)]
        of_stack = ["--stack", "try", "--outputs", str(here.outputs), "--root", str(here.root)]
        out, kept = tmp_path / "out", tmp_path / "kept"
        with kubelet.playing(api, play):
            command = ["rollout", "judge", *of_stack, "--yes", *wide, "--out", str(out)]
            done = fleet(*command, cwd=here.root, timeout=300, **here.environment)
        command = ["rollout", "answers", *of_stack, "--out", str(kept)]
        alone = fleet(*command, cwd=here.root, timeout=60, **here.environment)
    assert (alone.returncode, alone.stdout, alone.stderr) == (0, f"{kept / ANSWERS_FILE}\n", "")
    assert Answers.model_validate_json((kept / ANSWERS_FILE).read_bytes()).prompts == digest()
    assert done.stderr == ""
    verdict = read(out / "rollout-verdict.json")
    assert (done.returncode, verdict.verdict) == (0, "promote"), done.stdout
    in_order = sorted(jobs.values(), key=lambda one: one["metadata"]["name"])
    assert [options(one)["endpoint"] for one in in_order] == ["http://10.9.0.1:8000", "http://10.9.0.2:8000"] * 2
    pods = {side: json.loads((out / side / "pod.json").read_text()) for side in ("old", "canary")}
    assert [pods[side]["name"][-5:] for side in ("old", "canary")] == ["00000", "00001"]
    assert {one.id for one in verdict.reasons if one.verdict == "promote"} >= {"restarts-canary", "arithmetic", "drift"}
