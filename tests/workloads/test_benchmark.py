"""The benchmark Job: how the load is spread, what a client is told, when a new run is made, what it may touch."""

from __future__ import annotations

import ast
import sys
from typing import Any

import pulumi
import pytest
from hypothesis import given
from hypothesis import strategies as st

from preview.recorder import Mode, RecordedResource, Recording
from settings.settings import Settings
from tests.support.schemas import problems
from tests.support.settings import make_settings
from tests.workloads.recorded import NAMESPACE, REGISTRY, manifest, needs, objects, recorded
from workloads import pod_scripts
from workloads.benchmark import CLIENTS_PER_POD, MACHINES, Benchmark, BenchmarkArgs, fingerprint, load_of
from workloads.server import Server, ServerArgs


def build(settings: Settings, opts: pulumi.ResourceOptions) -> object:
    server = Server(
        "server",
        ServerArgs(
            settings=settings,
            namespace=NAMESPACE,
            image_prefix=REGISTRY,
            weights=None,
            api_key=pulumi.Config().get_secret("apiKey") if settings.has_api_key else None,
        ),
        opts,
    )
    return Benchmark(
        "benchmark",
        BenchmarkArgs(
            settings=settings,
            namespace=NAMESPACE,
            image_prefix=pulumi.Output.from_input(REGISTRY),
            endpoint=server.endpoint,
            results_bucket=pulumi.Output.from_input("the-bucket"),
            server=server,
        ),
        opts,
    )


def record(mode: Mode = "known", **sections: Any) -> Recording:
    return recorded(build, mode, **{"server": {"replicas": 12}, "benchmark": {"enabled": True}, **sections})


def job(recording: Recording) -> RecordedResource:
    (found,) = (one for key, one in objects(recording).items() if key.startswith("Job/"))
    return found


def clients(**sections: Any) -> dict[str, Any]:
    (container,) = manifest(job(record(**sections)))["spec"]["template"]["spec"]["containers"]
    assert isinstance(container, dict)
    return container


def options(**sections: Any) -> dict[str, str]:
    return dict(argument.removeprefix("--").split("=", 1) for argument in clients(**sections)["args"])


@pytest.mark.parametrize("mode", ["preview", "known"])
@pytest.mark.parametrize(
    "sections",
    [{}, {"server": {"replicas": 1, "apiKeySecret": "k"}}, {"apiKey": "plain-key"}, {"hfToken": "hf_plain"}],
    ids=["open", "Secret Manager's key", "stack's key", "token"],
)
def test_every_object_would_be_accepted(mode: Mode, sections: dict[str, Any]) -> None:
    recording = record(mode, **sections)
    found = {key: problems(manifest(one)) for key, one in objects(recording).items()}
    assert {key: said for key, said in found.items() if said} == {}
    assert recording.diagnostics == ()


def test_both_modes_record_the_same_resources() -> None:
    assert record("preview").by_urn.keys() == record("known").by_urn.keys()


@pytest.mark.parametrize(
    ("replicas", "count", "pods"), [(1, 2, 1), (2, 4, 1), (4, 8, 1), (8, 16, 1), (12, 24, 2), ("external", 2, 1)]
)
def test_the_articles_load_of_2000_a_node_in_clients_of_1000(replicas: int | str, count: int, pods: int) -> None:
    load = load_of(make_settings(server={"replicas": replicas}))
    assert (load.clients, load.pods) == (count, pods)
    assert load.connections == 1_000 * count


@given(replicas=st.integers(1, 1_000), connections=st.integers(1, 10_000))
def test_no_client_holds_more_than_asked_and_no_pod_runs_more_than_sixteen(replicas: int, connections: int) -> None:
    load = load_of(make_settings(server={"replicas": replicas}, benchmark={"connectionsPerClient": connections}))
    assert load.connections == 2_000 * replicas
    assert -(-load.connections // load.clients) <= connections
    assert -(-load.clients // load.pods) <= CLIENTS_PER_POD


def test_the_job_is_indexed_runs_all_pods_at_once_and_never_repeats_half_a_run() -> None:
    spec = manifest(job(record()))["spec"]
    assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", 2, 2)
    assert spec["backoffLimit"] == 0
    assert spec["template"]["spec"]["restartPolicy"] == "Never"
    # A Job that vanished would be run again by the next update.
    assert "ttlSecondsAfterFinished" not in spec


def test_the_clients_are_told_the_articles_lengths() -> None:
    told = options()
    assert (told["input-len"], told["output-len"], told["range-ratio"]) == ("768", "384", "0.3333")
    assert (told["clients"], told["connections"], told["pods"], told["prompts-per-client"]) == (
        "24",
        "24000",
        "2",
        "5000",
    )
    assert told["workload"] == "article"


def test_the_other_workload_is_a_third_longer_and_says_so() -> None:
    told = options(benchmark={"enabled": True, "workload": "vllm-1024-512"})
    assert (told["input-len"], told["output-len"], told["range-ratio"]) == ("1024", "512", "0.5")
    assert told["workload"] == "vllm-1024-512"


def test_the_launcher_takes_exactly_the_options_it_is_given() -> None:
    from workloads.pod_scripts import launch_clients

    parsed = launch_clients._parse(clients()["args"])
    assert parsed.endpoint == f"http://qwen35-server.{NAMESPACE}.svc.cluster.local:8000"
    assert parsed.bucket == "the-bucket"
    assert parsed.model == "Qwen/Qwen3.5-27B-FP8"


def test_clients_ask_for_the_name_that_the_server_answers_to() -> None:
    assert options(server={"replicas": 1, "engine": {"servedModelName": "chat"}})["model"] == "chat"


def test_the_tokenizer_is_fetched_at_the_served_revision_before_the_clients_run() -> None:
    spec = manifest(job(record()))["spec"]["template"]["spec"]
    (fetch,) = spec["initContainers"]
    assert fetch["command"][-3:] == [
        "Qwen/Qwen3.5-27B-FP8",
        "2e1b21350ce589fcaafbb3c7d7eac526a7aed582",
        options()["tokenizer"],
    ]


@pytest.mark.parametrize("machine", sorted(MACHINES))
def test_a_pod_fills_its_c4_machine_and_leaves_room_for_the_system(machine: str) -> None:
    spec = manifest(job(record(benchmark={"enabled": True, "machineType": machine})))["spec"]["template"]["spec"]
    assert spec["nodeSelector"] == {
        "cloud.google.com/compute-class": "Performance",
        "cloud.google.com/machine-family": "c4",
        "node.kubernetes.io/instance-type": machine,
    }
    amounts = spec["containers"][0]["resources"]
    cpu, memory = MACHINES[machine]
    assert amounts["requests"] == amounts["limits"]
    # More than half of it, so that no second pod fits beside it.
    assert cpu / 2 < int(amounts["requests"]["cpu"]) < cpu
    assert memory / 2 < int(amounts["requests"]["memory"].removesuffix("Gi")) < memory


def test_the_weights_are_never_mounted_because_c4_cannot_attach_them() -> None:
    volumes = manifest(job(record()))["spec"]["template"]["spec"]["volumes"]
    assert not any("persistentVolumeClaim" in volume for volume in volumes)


def test_the_run_begins_when_the_server_is_ready() -> None:
    recording = record()
    assert {"Deployment/qwen35-server", "Service/qwen35-server"} <= needs(recording, job(recording))


def test_scripts_arrive_under_the_name_that_python_imports_them_by() -> None:
    recording = record()
    (scripts,) = (one for key, one in objects(recording).items() if key.startswith("ConfigMap/"))
    container = clients()
    (mount,) = (one for one in container["volumeMounts"] if one["name"] == "scripts")
    path = next(one["value"] for one in container["env"] if one["name"] == "PYTHONPATH")
    assert mount["mountPath"] == f"{path}/pod_scripts"
    assert set(scripts.inputs["data"]) == {
        "__init__.py",
        "fetch_tokenizer.py",
        "launch_clients.py",
        "results_bucket.py",
    }
    assert scripts.inputs["metadata"]["name"] == job(recording).inputs["metadata"]["name"]


@pytest.mark.parametrize("name", ["launch_clients", "results_bucket", "with_api_key", "__init__"])
def test_what_runs_in_the_pod_needs_the_standard_library_alone(name: str) -> None:
    imported = {
        (node.module or "") if isinstance(node, ast.ImportFrom) else alias.name
        for node in ast.walk(ast.parse(pod_scripts.source(name)))
        if isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and node.level == 0)
        for alias in node.names
    }
    assert {module.partition(".")[0] for module in imported} <= sys.stdlib_module_names


@pytest.mark.parametrize(
    "changed",
    [
        {"server": {"replicas": 11}},
        {"server": {"replicas": 12, "engine": {"maxNumBatchedTokens": 8_192}}},
        {"server": {"replicas": 12, "profile": "tuned"}},
        {"benchmark": {"enabled": True, "workload": "vllm-1024-512"}},
        {"benchmark": {"enabled": True, "connectionsPerClient": 500}},
        {"gateway": {"enabled": True}},
    ],
)
def test_whatever_bears_on_the_figures_makes_a_new_run(changed: dict[str, Any]) -> None:
    base: dict[str, Any] = {"server": {"replicas": 12}, "benchmark": {"enabled": True}}
    assert fingerprint(make_settings(**base)) != fingerprint(make_settings(**base | changed))


@pytest.mark.parametrize(
    "changed", [{"labels": {"team": "x"}}, {"results": {"retentionDays": 7}}, {"monitoring": {"enabled": False}}]
)
def test_whatever_does_not_bear_on_them_leaves_the_finished_run_alone(changed: dict[str, Any]) -> None:
    base: dict[str, Any] = {"server": {"replicas": 12}, "benchmark": {"enabled": True}}
    assert fingerprint(make_settings(**base)) == fingerprint(make_settings(**base | changed))


def test_a_changed_job_is_a_new_one_and_a_failed_one_is_run_again() -> None:
    found = job(record())
    assert found.delete_before_replace is True
    assert found.inputs["metadata"]["annotations"] == {"pulumi.com/replaceUnready": "true"}
    other = job(record(server={"replicas": 11}))
    assert found.inputs["metadata"]["name"] != other.inputs["metadata"]["name"]


def test_pulumi_waits_as_long_as_the_job_may_take() -> None:
    found = job(record(server={"replicas": 12, "startupMinutes": 20}))
    assert found.custom_timeouts["create"] == "95m"
    assert manifest(found)["spec"]["activeDeadlineSeconds"] == 95 * 60


def test_the_key_reaches_the_clients_as_a_file() -> None:
    recording = record(apiKey="plain-key")
    container = clients(apiKey="plain-key")
    assert container["command"][3:5] == ["OPENAI_API_KEY", "/var/run/secrets/vllm-api-key/key"]
    assert any(one["name"] == "api-key" for one in container["volumeMounts"])
    assert "plain-key" not in repr(recording.resources)


def test_a_gated_models_token_reaches_the_download_alone() -> None:
    spec = manifest(job(record(hfToken="hf_plain")))["spec"]["template"]["spec"]
    (fetch,) = spec["initContainers"]
    assert any(one["name"] == "HF_TOKEN_PATH" for one in fetch["env"])
    assert not any(one["name"] == "hf-token" for one in spec["containers"][0]["volumeMounts"])


def test_every_mount_has_a_volume_and_nothing_runs_as_root() -> None:
    spec = manifest(job(record(apiKey="plain-key", hfToken="hf_plain")))["spec"]["template"]["spec"]
    volumes = {one["name"] for one in spec["volumes"]}
    containers = [*spec["initContainers"], *spec["containers"]]
    assert {mount["name"] for one in containers for mount in one["volumeMounts"]} == volumes
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert all(one["securityContext"]["readOnlyRootFilesystem"] for one in containers)
    assert spec["serviceAccountName"] == "benchmark"
