"""The benchmark Job: how the load is spread, what a client is told, when a new run is made, what it may touch."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import pulumi
import pytest

from facts.sizing import BENCHMARK_MACHINES
from fleet.bench.folder import Asked, as_json
from fleet.preview.record.recorder import Mode, RecordedResource, Recording
from settings.derived.benchmark_load import longest_minutes, ready_minutes, run_minutes
from settings.derived.figures import figures, measured_shape, serving_shape
from settings.derived.measurement import measurement
from settings.stack import Settings
from tests.support.c4_machines import smallest
from tests.support.recorded import manifest, needs, objects, recorded_component
from tests.support.rows import each_row
from tests.support.schemas import problems
from tests.support.settings import make_settings
from tests.workloads.args import NAMESPACE, REGISTRY, benchmark_args, server_args
from workloads.benchmark.benchmark import Benchmark
from workloads.benchmark.job import config_map_manifest, fingerprint, job_manifest, job_name
from workloads.benchmark.pods import launch_clients
from workloads.benchmark.pods.run_plan import read_plan
from workloads.pod_programs import benchmark_programs
from workloads.server.server import Server

SHA = "0123456789abcdef" * 4
TRACE = {"workload": "trace", "dataset": {"url": "gs://my-traces/day.jsonl", "sha256": SHA}}
SHAREGPT = {"workload": "sharegpt", "dataset": {"url": "https://example.com/conversations.json", "sha256": SHA}}
FOR_EVERY_WORKLOAD: list[dict[str, Any]] = [
    {},
    {"workload": "vllm-1024-512"},
    {"workload": "shared-prefix-512", "concurrency": [250, 500, 1000, 2000], "repeats": 5},
    SHAREGPT,
    {**TRACE, "slo": {"ttftMs": 2000.0, "tpotMs": 60.0}},
]


def asked_of(settings: Settings) -> dict[str, Any]:
    return dict(measurement(settings).run)


def build(settings: Settings, opts: pulumi.ResourceOptions) -> object:
    key = settings.api_key_secret or pulumi.Config().get_secret("apiKey")
    server = Server("server", server_args(settings, api_key=key), opts)
    return Benchmark("benchmark", benchmark_args(settings, server), opts)


def record(mode: Mode = "known", **sections: Any) -> Recording:
    wanted = {"server": {"replicas": 12}, "benchmark": {"enabled": True}, **sections}
    return _recorded(mode, json.dumps(wanted, sort_keys=True))


@functools.cache
def _recorded(mode: Mode, sections: str) -> Recording:
    return recorded_component(build, mode, **json.loads(sections))


def job(recording: Recording) -> RecordedResource:
    (found,) = (one for key, one in objects(recording).items() if key.startswith("Job/"))
    return found


def clients(**sections: Any) -> dict[str, Any]:
    (container,) = manifest(job(record(**sections)))["spec"]["template"]["spec"]["containers"]
    assert isinstance(container, dict)
    return container


def options(**sections: Any) -> dict[str, str]:
    return dict(argument.removeprefix("--").split("=", 1) for argument in clients(**sections)["args"])


@each_row("mode", ["preview", "known"])
@each_row(
    "sections",
    [
        {},
        {"server": {"replicas": 1, "apiKeySecret": "k"}},
        {"apiKey": "plain-key"},
        {"hfToken": "hf_plain"},
        {"benchmark": {"enabled": True, **TRACE}},
        {"benchmark": {"enabled": True, "runOnUpdate": False}},
    ],
)
def test_every_object_would_be_accepted(mode: Mode, sections: dict[str, Any]) -> None:
    recording = record(mode, **sections)
    found = {key: problems(manifest(one)) for key, one in objects(recording).items()}
    assert {key: said for key, said in found.items() if said} == {}
    assert recording.diagnostics == ()


def test_the_job_is_one_pod_and_never_repeats_half_a_run() -> None:
    spec = manifest(job(record()))["spec"]
    assert not spec.keys() & {"completionMode", "completions", "parallelism"}
    assert spec["backoffLimit"] == 0
    assert spec["template"]["spec"]["restartPolicy"] == "Never"
    # A stopped pod still stores what it has.
    assert spec["template"]["spec"]["terminationGracePeriodSeconds"] == 120
    # A Job that vanished would be run again by the next update.
    assert "ttlSecondsAfterFinished" not in spec


def run_of(recording: Recording) -> dict[str, Any]:
    (scripts,) = (one for key, one in objects(recording).items() if key.startswith("ConfigMap/"))
    found: dict[str, Any] = json.loads(manifest(scripts)["data"]["run.json"])
    return found


def test_the_other_workload_is_a_third_longer_and_says_so() -> None:
    run = run_of(record(benchmark={"enabled": True, "workload": "vllm-1024-512"}))
    assert (run["points"], run["prompts_per_client"]) == ([{"connections": 24_000, "clients": 24}], 5_000)
    workload = run["workload"]
    assert workload["name"] == "vllm-1024-512"
    arguments = workload["arguments"]
    assert (arguments["random-input-len"], arguments["random-output-len"]) == ("1024", "512")
    assert arguments["random-range-ratio"] == "0.5"


def test_a_shared_prefix_comes_before_what_is_drawn() -> None:
    workload = asked_of(make_settings(benchmark={"enabled": True, "workload": "shared-prefix-512"}))["workload"]
    assert workload["kind"] == "random"
    assert workload["arguments"]["random-prefix-len"] == "512"


def test_answers_end_when_the_model_ends_them_only_where_lengths_are_recorded() -> None:
    ends = {
        (run := asked_of(make_settings(benchmark={"enabled": True, **one}))["workload"])["kind"]: run["ignore_eos"]
        for one in FOR_EVERY_WORKLOAD
    }
    assert ends == {"random": True, "sharegpt": False, "trace": True}


def test_a_measurement_says_which_file_its_requests_come_from() -> None:
    """Two traces are two workloads: neither a baseline nor a figure of one holds for the other."""
    settings = make_settings(benchmark={"enabled": True, **TRACE})
    assert asked_of(settings)["workload"]["dataset"] == SHA
    assert serving_shape(settings).dataset == measured_shape(settings).dataset == SHA
    on_demand = make_settings(benchmark={"enabled": False, **TRACE})
    assert (serving_shape(on_demand).dataset, measured_shape(on_demand).dataset) == (None, SHA)
    assert asked_of(make_settings(benchmark={"enabled": True}))["workload"]["dataset"] is None


@each_row("benchmark", FOR_EVERY_WORKLOAD)
@each_row("sections", [{}, {"gateway": {"enabled": True}}, {"server": {"replicas": "external"}}])
def test_what_is_asked_is_read_back_as_the_folders_model_and_by_the_pod(
    benchmark: dict[str, Any], sections: dict[str, Any], tmp_path: Path
) -> None:
    settings = make_settings(**{"benchmark": {"enabled": True, **benchmark}, **sections})
    asked = measurement(settings)
    model = Asked.model_validate(dict(asked.run), strict=False)
    # Nothing is lost or made up on the way but what the pod adds.
    assert as_json(model) == {**asked.run, "name": "", "created": ""}
    assert model.shape.workload == model.workload.name == settings.benchmark.workload
    points = len(settings.benchmark.concurrency or (1,))
    assert len(model.points) == points
    shape = (model.shape.model, model.shape.replicas, model.shape.routing)
    routing = "inference-gateway" if settings.gateway.enabled else "cluster-ip"
    assert shape == ("Qwen/Qwen3.5-27B-FP8", settings.replicas, routing)
    assert model.shape.flags["kv-cache-dtype"]
    bill = figures(settings).bill
    cost = {"usd_per_hour": round(bill.usd_per_hour_known, 2), "at_least": True, "capacity": "spot"}
    assert asked.run["cost"] == cost
    assert bill.usd_per_hour_known > 30 * settings.replicas
    assert [item.quantity for item in bill.items if item.id == "benchmark"] == [1]
    config_map = config_map_manifest(asked, name="benchmark-x", namespace=NAMESPACE, labels={})
    (tmp_path / "run.json").write_text(config_map["data"]["run.json"])
    plan = read_plan(tmp_path / "run.json", "benchmark-x-01234567")
    assert len(plan.runs) == points * settings.benchmark.repeats
    assert plan.workload["name"] == settings.benchmark.workload


def test_an_answer_to_a_changed_copy_of_the_settings_is_the_copys() -> None:
    settings = make_settings(benchmark={"enabled": True, "runOnUpdate": False})
    assert settings.serving
    changed = settings.benchmark.model_copy(
        update={"workload": "shared-prefix-512", "concurrency": (500, 1000), "repeats": 1}
    )
    copy = settings.model_copy(update={"benchmark": changed})
    run = asked_of(copy)
    assert run["workload"]["name"] == run["shape"]["workload"] == "shared-prefix-512"
    assert [point["connections"] for point in run["points"]] == [6_000, 12_000]
    assert run["repeats"] == 1
    assert fingerprint(measurement(copy)) != fingerprint(measurement(settings))


@pytest.mark.parametrize("sections", [{}, {"apiKey": "plain-key"}, {"benchmark": {"enabled": True, **TRACE}}])
def test_a_laptop_makes_the_very_same_job_from_plain_text(sections: dict[str, Any]) -> None:
    recording = record(**sections)
    settings = make_settings(**{"server": {"replicas": 12}, "benchmark": {"enabled": True}, **sections})
    endpoint = f"http://qwen35-server.{NAMESPACE}.svc.cluster.local:8000"
    asked, labels = measurement(settings), settings.object_labels
    name = job_name(asked)
    image = f"{REGISTRY}/{settings.serving.image.reference}"
    made = job_manifest(
        asked,
        name=name,
        namespace=NAMESPACE,
        server=settings.server.name,
        key_store=settings.api_key_store,
        endpoint=endpoint,
        bucket="the-bucket",
        image=image,
        labels=labels,
    )
    config_map = config_map_manifest(asked, name=name, namespace=NAMESPACE, labels=labels)
    assert json.loads(json.dumps([made, config_map])) == [made, config_map], "plain data, no Output"
    assert problems(made) == problems(config_map) == []
    known = objects(record(**sections))
    assert manifest(known[f"Job/{name}"])["spec"] == made["spec"]
    labels = manifest(known[f"ConfigMap/{name}"])["metadata"]["labels"]
    assert (labels, manifest(known[f"ConfigMap/{name}"])["data"]) == (
        {**config_map["metadata"]["labels"], "app.kubernetes.io/instance": labels["app.kubernetes.io/instance"]},
        config_map["data"],
    )
    assert recording.diagnostics == ()


def test_the_launcher_takes_exactly_the_options_it_is_given() -> None:
    with_file: dict[str, Any] = {"benchmark": {"enabled": True, **TRACE}}
    for sections in ({}, with_file):
        parsed = launch_clients._parse(clients(**sections)["args"])
        assert parsed.endpoint == f"http://qwen35-server.{NAMESPACE}.svc.cluster.local:8000"
        assert parsed.bucket == "the-bucket"
        assert options(**sections)["server-pods"] == f"qwen35-server-pods.{NAMESPACE}.svc.cluster.local:8000"
        assert parsed.wait_minutes == 45
        assert bool(parsed.dataset) == bool(sections)


def mounted(recording: Recording, file: str) -> str:
    """The ConfigMap key behind a file of the clients' container."""
    spec = manifest(job(recording))["spec"]["template"]["spec"]
    (mount,) = (one for one in spec["containers"][0]["volumeMounts"] if one["name"] == "scripts")
    (volume,) = (one for one in spec["volumes"] if one["name"] == "scripts")
    paths = {f"{mount['mountPath']}/{item['path']}": item["key"] for item in volume["configMap"]["items"]}
    key: str = paths[file]
    return key


def test_clients_ask_for_the_name_that_the_server_answers_to() -> None:
    assert run_of(record(server={"replicas": 1, "engine": {"servedModelName": "chat"}}))["served_model"] == "chat"


@pytest.mark.parametrize(("benchmark", "name"), [(TRACE, "dataset.jsonl"), (SHAREGPT, "dataset.json")])
def test_a_dataset_is_fetched_and_checked_before_the_clients_run(benchmark: dict[str, Any], name: str) -> None:
    sections: dict[str, Any] = {"benchmark": {"enabled": True, **benchmark}}
    spec = manifest(job(record(**sections)))["spec"]["template"]["spec"]
    tokenizer, dataset = spec["initContainers"]
    assert (tokenizer["name"], dataset["name"]) == ("tokenizer", "dataset")
    assert dataset["command"][:3] == ["python3", "-m", "pod_scripts.fetch_dataset"]
    url, sha256, file = dataset["command"][3:]
    assert (url, sha256) == (benchmark["dataset"]["url"], SHA)
    assert file == options(**sections)["dataset"]
    assert file.endswith(f"/{name}")


def test_the_tokenizer_is_fetched_at_the_served_revision_before_the_clients_run() -> None:
    spec = manifest(job(record()))["spec"]["template"]["spec"]
    (fetch,) = spec["initContainers"]
    assert fetch["command"][-3:] == [
        "Qwen/Qwen3.5-27B-FP8",
        "2e1b21350ce589fcaafbb3c7d7eac526a7aed582",
        options()["tokenizer"],
    ]


@pytest.mark.parametrize(("each", "machine"), list(zip((2_000, 1_000, 500), BENCHMARK_MACHINES, strict=True)))
def test_the_pods_requests_leave_its_machine_and_no_smaller_one(each: int, machine: str) -> None:
    recorded = record(benchmark={"enabled": True, "connectionsPerClient": each})
    spec = manifest(job(recorded))["spec"]["template"]["spec"]
    assert spec["nodeSelector"] == {
        "cloud.google.com/compute-class": "Performance",
        "cloud.google.com/machine-family": "c4",
    }
    amounts = spec["containers"][0]["resources"]
    assert amounts["requests"] == amounts["limits"]
    found = smallest(amounts["requests"])
    assert found is not None
    assert found.name == machine
    assert found.holds(amounts["requests"]) == 1


def test_the_weights_are_never_mounted_because_c4_cannot_attach_them() -> None:
    volumes = manifest(job(record()))["spec"]["template"]["spec"]["volumes"]
    assert not any("persistentVolumeClaim" in volume for volume in volumes)


def test_the_run_begins_when_the_server_is_ready() -> None:
    recording = record()
    assert {"Deployment/qwen35-server", "Service/qwen35-server"} <= needs(recording, job(recording))


def test_scripts_arrive_under_the_name_that_python_imports_them_by() -> None:
    recording = record()
    (scripts,) = (one for key, one in objects(recording).items() if key.startswith("ConfigMap/"))
    path = next(one["value"] for one in clients()["env"] if one["name"] == "PYTHONPATH")
    assert {mounted(recording, f"{path}/pod_scripts/{file}") for file in benchmark_programs()} | {"run.json"} == set(
        scripts.inputs["data"]
    )
    assert mounted(recording, options()["run"]) == "run.json"
    assert scripts.inputs["data"].items() >= benchmark_programs().items()
    assert scripts.inputs["metadata"]["name"] == job(recording).inputs["metadata"]["name"]
    # A ConfigMap holds a mebibyte.
    assert sum(len(text.encode()) for text in scripts.inputs["data"].values()) < 500_000


def test_bytecode_is_kept_where_the_pod_may_write() -> None:
    """uv installs vLLM's image without bytecode: every client of every run would compile some 4,000 files."""
    pod = manifest(job(record()))["spec"]["template"]["spec"]
    emptied = {volume["name"] for volume in pod["volumes"] if "emptyDir" in volume}
    for container in [*pod["initContainers"], *pod["containers"]]:
        env = {one["name"]: one.get("value") for one in container["env"]}
        writable = [mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] in emptied]
        assert any(env["PYTHONPYCACHEPREFIX"].startswith(f"{path}/") for path in writable)
        assert "PYTHONDONTWRITEBYTECODE" not in env


def headless(recording: Recording) -> dict[str, Any]:
    return manifest(objects(recording)["Service/qwen35-server-pods"])


def test_every_ready_server_has_an_address_of_its_own() -> None:
    recording = record()
    spec = headless(recording)["spec"]
    assert spec["clusterIP"] == "None"
    assert spec["publishNotReadyAddresses"] is False
    template = manifest(objects(recording)["Deployment/qwen35-server"])["spec"]["template"]
    assert spec["selector"].items() <= template["metadata"]["labels"].items()
    (port,) = spec["ports"]
    assert any(one["name"] == port["targetPort"] for one in template["spec"]["containers"][0]["ports"])
    assert options()["server-pods"].endswith(f":{port['port']}")


def test_on_demand_everything_is_there_but_the_job() -> None:
    prepared = objects(record(benchmark={"enabled": True, "runOnUpdate": False}))
    always = objects(record())
    missing = {key.partition("/")[0] for key in always.keys() - prepared.keys()}
    assert missing == {"Job", "ConfigMap"}
    assert prepared.keys() < always.keys()


def printed(**changed: Any) -> str:
    """The fingerprint of the run of a stack with these sections."""
    base: dict[str, Any] = {"server": {"replicas": 12}, "benchmark": {"enabled": True}}
    return fingerprint(measurement(make_settings(**base | changed)))


@each_row(
    "changed",
    [
        {"server": {"replicas": 11}},
        {"server": {"replicas": 12, "engine": {"maxNumBatchedTokens": 8_192}}},
        {"server": {"replicas": 12, "profile": "tuned"}},
        {"benchmark": {"enabled": True, "workload": "vllm-1024-512"}},
        {"benchmark": {"enabled": True, "workload": "shared-prefix-512"}},
        {"benchmark": {"enabled": True, "connectionsPerClient": 500}},
        {"benchmark": {"enabled": True, "concurrency": [1000]}},
        {"benchmark": {"enabled": True, "repeats": 4}},
        {"gateway": {"enabled": True}},
    ],
)
def test_whatever_bears_on_the_figures_makes_a_new_run(changed: dict[str, Any]) -> None:
    assert printed() != printed(**changed)


@pytest.mark.parametrize(
    "changed",
    [
        {"labels": {"team": "x"}},
        {"results": {"retentionDays": 7}},
        {"monitoring": {"enabled": False}},
        {"prices": {"hyperdisk-ml-capacity": 0.1}},
        {"benchmark": {"enabled": True, "slo": {"ttftMs": 500.0}}},
        {"benchmark": {"enabled": True, "runOnUpdate": False}},
        {"benchmark": {"enabled": True, "concurrency": [2000]}},
    ],
)
def test_whatever_does_not_bear_on_them_leaves_the_finished_run_alone(changed: dict[str, Any]) -> None:
    assert printed() == printed(**changed)


def test_another_file_is_another_workload() -> None:
    other = {**TRACE["dataset"], "sha256": SHA[::-1]}  # type: ignore[dict-item]
    one, two = ({"enabled": True, **TRACE, "dataset": dataset} for dataset in (TRACE["dataset"], other))
    assert printed(benchmark=one) != printed(benchmark=two)


def test_a_changed_job_is_a_new_one_and_a_failed_one_is_run_again() -> None:
    found = job(record())
    assert found.delete_before_replace is True
    assert found.inputs["metadata"]["annotations"] == {"pulumi.com/replaceUnready": "true"}
    other = job(record(server={"replicas": 11}))
    assert found.inputs["metadata"]["name"] != other.inputs["metadata"]["name"]


@pytest.mark.parametrize("server", [{"replicas": 12}, {"replicas": 12, "rankPorts": True}])
def test_what_chooses_a_server_bears_on_the_figures(server: dict[str, Any]) -> None:
    door: dict[str, Any] = {"gateway": {"enabled": True}, "server": server}
    kinds = [None, "clusterIp", "leastRequest"] if "rankPorts" not in server else [None, "leastRequest"]
    named = {
        job(record(**door, **({} if kind is None else {"endpoint": {"kind": kind}}))).inputs["metadata"]["name"]
        for kind in kinds
    }
    plain = job(record(gateway={"enabled": True})).inputs["metadata"]["name"]
    assert len(named) == len(kinds)
    assert (plain in named) is ("rankPorts" not in server)


def test_a_node_at_flex_start_is_waited_for_as_long_as_the_autoscaler_waits() -> None:
    flex = {"mode": "flex-start", "runDurationSeconds": 86_400}
    assert int(options(capacity=flex)["wait-minutes"]) == int(options()["wait-minutes"]) + 15


def test_pod_job_and_pulumi_wait_as_long_as_the_load_may_take() -> None:
    benchmark = {"enabled": True, "promptsPerClient": 200_000}
    sections: dict[str, Any] = {"server": {"replicas": 12, "startupMinutes": 20}, "benchmark": benchmark}
    settings, found, told = make_settings(**sections), job(record(**sections)), options(**sections)
    start = 15 + 20
    minutes = {"wait": start, "ready": ready_minutes(settings), "run": run_minutes(settings)}
    assert {name: int(told[f"{name}-minutes"]) for name in minutes} == minutes
    whole = start + longest_minutes(settings)
    assert manifest(found)["spec"]["activeDeadlineSeconds"] == 60 * whole
    assert found.custom_timeouts["create"] == f"{whole}m"


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


def test_every_mount_has_a_volume() -> None:
    spec = manifest(job(record(apiKey="plain-key", hfToken="hf_plain")))["spec"]["template"]["spec"]
    volumes = {one["name"] for one in spec["volumes"]}
    containers = [*spec["initContainers"], *spec["containers"]]
    assert {mount["name"] for one in containers for mount in one["volumeMounts"]} == volumes
    assert spec["serviceAccountName"] == "benchmark"
