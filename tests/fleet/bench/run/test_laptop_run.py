"""`fleet bench run` against a real API server with the real kubectl; the test plays the nodes, the pods and Google."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleet.bench.report.outline import measured
from lab.control_plane.api import CONFIG_MAP, JOB, ClusterApi
from tests.fleet.bench.made_up.results import make_measurement
from tests.fleet.bench.run import kubelet
from tests.fleet.bench.run.laptop import NAMESPACE, Laptop, laptop
from tests.fleet.bench.run.real_pod import run_pod
from tests.fleet.cli.command import COMMAND, ROOT, fleet
from tests.fleet.clients.fake_google import FakeGoogle
from tests.support.benchmark import needs_vllm
from tests.support.simulators.model_server.engine_server import EngineServer
from tests.support.simulators.model_server.in_thread import serving
from tests.support.simulators.model_server.node import Node, Pace

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="the real kubectl is not on the PATH"),
]


@pytest.fixture
def api(bare_control_plane: Any) -> Iterator[ClusterApi]:
    made: ClusterApi = bare_control_plane.api
    kubelet.prepare(made)
    yield made
    kubelet.clear(made)


@pytest.fixture
def here(tmp_path: Path, google: FakeGoogle, bare_control_plane: Any) -> Laptop:
    return laptop(tmp_path, google, kubeconfig=bare_control_plane.kubeconfig.read_text())


def run(here: Laptop, *arguments: str) -> subprocess.CompletedProcess[str]:
    given = ("bench", "run", "--stack", "try", "--outputs", str(here.outputs), "--root", str(here.root))
    try:
        # A process of its own: beside this one's environment, which another would change, a kubelet is played.
        return fleet(*given, *arguments, cwd=here.root, timeout=300, **here.environment, PYTHONUNBUFFERED="1")
    except subprocess.TimeoutExpired as error:
        asked = here.asked.read_text() if here.asked.exists() else "nothing"
        pytest.fail(f"fleet did not end; it said {error.stdout!r} {error.stderr!r}; kubectl was asked {asked}")


def progress(google: FakeGoogle, name: str, **told: Any) -> None:
    known = {"schema": 1, "at": time.time(), "runs": 1, **told}
    google.put(f"runs/{name}/.progress/pod.json", json.dumps(known).encode())


def test_a_run_from_the_job_to_the_page(here: Laptop, api: ClusterApi, google: FakeGoogle, tmp_path: Path) -> None:
    out = tmp_path / "out"
    seen: dict[str, Any] = {}

    def play() -> None:
        kubelet.waits_for_a_machine(api, here)
        kubelet.add_c4_node(api)
        pod = kubelet.scheduled(api)
        seen["job"] = api.list_all(JOB)[0]
        seen["config"] = api.get(CONFIG_MAP, seen["job"]["metadata"]["name"], NAMESPACE)
        name = kubelet.measurement_of(pod)
        kubelet.set_phase(api, pod, "Running")
        progress(google, name, state="running", run=1, repeat=0, connections=32, requests=400, requests_done=100)
        # Read a second time: what the first time brought has been shown.
        kubelet.until(lambda: google.reads(".progress/pod.json") >= 2)
        kubelet.upload(google, make_measurement(tmp_path / "made", name=name, repeats=3), name)
        kubelet.set_phase(api, pod, "Succeeded")

    with kubelet.playing(api, play):
        done = run(here, "--yes", "--out", str(out))
    assert done.returncode in (0, 1), done.stderr
    assert done.stderr == ""
    job = seen["job"]
    assert job["spec"]["ttlSecondsAfterFinished"] == 24 * 3600
    assert job["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "fleet"
    assert seen["config"]["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]
    assert json.loads(seen["config"]["data"]["run.json"])["stack"] == "try"
    assert "The stack costs" in " ".join(done.stdout.split())
    assert done.stdout.count("downloading results") == 1
    assert "waiting for the benchmark's machine: FailedScheduling:" in done.stdout
    assert "run 1 of 1 with 32 requests in flight, 100 of 400 requests (25%)" in done.stdout
    found = measured(out)
    assert found.certificate.headline in " ".join(done.stdout.split())
    assert found.is_certified == (done.returncode == 0)
    assert (out / "report.html").is_file()
    assert json.loads((out / "dcgm.json").read_text())["problem"].startswith("managed Prometheus has no DCGM series")
    assert not (out / ".progress").exists()
    assert list(Path(here.environment["TMPDIR"]).iterdir()) == []  # the kubeconfig is gone


@needs_vllm
def test_the_job_that_was_made_does_run(here: Laptop, api: ClusterApi, google: FakeGoogle, tmp_path: Path) -> None:
    """The pods' own programs, as the Job in the cluster asks for them, against a server with engines; nothing is made up."""
    given = json.loads(here.outputs.read_text())
    node = Node(model="Qwen/Qwen3.5-27B-FP8", ranks=2, pace=Pace(fixed_s=0.004), speculative_tokens=1)
    log: list[str] = []
    with serving(lambda: EngineServer(node)) as server:
        here.outputs.write_text(json.dumps({**given, "endpoint": server.url}))
        address = server.url.removeprefix("http://")
        here.environment["METRICS_PORT"] = address.rpartition(":")[2]

        def play() -> None:
            kubelet.add_c4_node(api)
            pod = kubelet.scheduled(api)
            kubelet.set_phase(api, pod, "Running")
            code = run_pod(api, pod, google, address, tmp_path / "pod")
            log.append((tmp_path / "pod" / "log").read_text())
            kubelet.set_phase(api, pod, "Failed" if code else "Succeeded", exit_code=code)

        with kubelet.playing(api, play):
            done = run(here, "--yes", "--concurrency", "16", "--out", str(tmp_path / "out"))
    assert done.returncode in (0, 1), "\n".join([done.stderr, *log])
    measurement = measured(tmp_path / "out").measurement
    assert [point.connections for point in measurement.points] == [16]
    (one,) = measurement.runs
    assert (one.failed, one.completed) == (0, 100 * len(one.clients))
    assert one.server is not None
    assert one.server.servers == 1
    assert measurement.prompts.repeated == 0
    assert "running: run" in done.stdout


def test_a_failed_job_leaves_its_last_words_and_what_was_stored(
    here: Laptop, api: ClusterApi, google: FakeGoogle, tmp_path: Path
) -> None:
    def play() -> None:
        kubelet.add_c4_node(api)
        pod = kubelet.scheduled(api)
        name = kubelet.measurement_of(pod)
        kubelet.upload(google, make_measurement(tmp_path / "made", name=name), name)
        kubelet.set_phase(api, pod, "Failed", exit_code=1)

    with kubelet.playing(api, play):
        done = run(here, "--yes", "--out", str(tmp_path / "out"))
    assert done.returncode == 2
    assert "BackoffLimitExceeded" in done.stderr
    assert "container clients: exit code 1" in done.stderr
    assert "log cannot be read" in done.stderr  # there is no kubelet to read it from
    assert "point-00-repeat-0" in done.stderr
    assert (tmp_path / "out" / "run.json").is_file()


def test_a_job_that_never_gets_a_machine_says_why(here: Laptop, api: ClusterApi, tmp_path: Path) -> None:
    def play() -> None:
        kubelet.waits_for_a_machine(api, here)
        (job,) = api.list_all(JOB)
        # What the deadline would do, an hour later.
        api.patch(JOB, job["metadata"]["name"], NAMESPACE, {"spec": {"activeDeadlineSeconds": 1}})

    with kubelet.playing(api, play):
        done = run(here, "--yes", "--out", str(tmp_path / "out"))
    assert done.returncode == 2
    assert "DeadlineExceeded: " in done.stderr
    assert "FailedScheduling: 0/1 nodes" in done.stderr
    assert not (tmp_path / "out" / "report.html").exists()


def test_detached_it_goes_on_and_a_second_one_is_refused(here: Laptop, api: ClusterApi) -> None:
    done = run(here, "--yes", "--detach")
    assert done.returncode == 0, done.stderr
    (job,) = api.list_all(JOB)
    name, uid = job["metadata"]["name"], job["metadata"]["uid"]
    assert f"fleet bench fetch {name}-{uid[:8]} --stack try" in done.stdout
    assert f"kubectl --namespace vllm-try delete job {name}" in done.stdout
    again = run(here, "--yes", "--detach")
    assert again.returncode == 2
    assert f"benchmark {name} is running" in again.stderr
    assert len(api.list_all(JOB)) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_says_what_goes_on_and_leaves_nothing_behind(
    here: Laptop, api: ClusterApi, tmp_path: Path, number: signal.Signals
) -> None:
    command = [
        *COMMAND,
        *("bench", "run", "--stack", "try", "--outputs", str(here.outputs), "--root", str(here.root), "--yes"),
        *("--out", str(tmp_path / "out")),
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **here.environment}
    with subprocess.Popen(
        command, env=environment, cwd=here.root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        kubelet.until(lambda: bool(kubelet.benchmark_pods(api)))
        time.sleep(5)  # until it follows the Job, also on a busy machine
        began = time.monotonic()
        process.send_signal(number)
        try:
            out, said = process.communicate(timeout=100)
        finally:
            process.kill()
    assert process.returncode == 128 + number, said
    assert time.monotonic() - began < 50
    assert "fleet bench fetch benchmark-" in out
    assert f"--stack try --outputs {here.outputs} --out {tmp_path / 'out'} --root {here.root}\n" in out
    assert len(api.list_all(JOB)) == 1
    assert list(Path(here.environment["TMPDIR"]).iterdir()) == []


def test_servers_that_are_missing_are_not_measured(here: Laptop, api: ClusterApi) -> None:
    kubelet.prepare(api, ready=False)
    missing = run(here, "--yes")
    assert missing.returncode == 2
    assert "0 of 1 servers" in missing.stderr
    kubelet.prepare(api, replicas=2)
    assert "2 of 1 servers" in run(here, "--yes").stderr
    assert api.list_all(JOB) == []


def test_another_cluster_and_another_context_are_told(here: Laptop, api: ClusterApi) -> None:
    config = json.loads(here.outputs.read_text())["kubeconfig"]
    file = here.root / "own.yaml"
    file.write_text(config)
    done = run(here, "--yes", "--kubeconfig", str(file), "--context", "nope")
    assert done.returncode == 2
    assert 'context "nope" does not exist' in done.stderr
    api.delete(kubelet.SERVICE_ACCOUNT, "benchmark", NAMESPACE)
    assert "service account benchmark" in run(here, "--yes").stderr
    kubelet.prepare(api)
    nobody = run(here)
    assert nobody.returncode == 2
    assert "--yes" in nobody.stderr
    assert " an hour" in nobody.stdout
    stack = here.root / "Pulumi.try.yaml"
    stack.write_text(stack.read_text() + "  vllm-fleet:namespace: elsewhere\n")
    assert "has no namespace elsewhere" in run(here, "--yes").stderr
