"""The Job that `fleet batch run` applies, and what is on the cluster before it."""

from __future__ import annotations

import re
import sys
from typing import Any

import pulumi

from fleet.preview.record.recorder import Recording
from settings.stack import Settings
from tests.support.recorded import manifest, objects, recorded_component
from tests.support.rows import each_row
from tests.support.schemas import problems
from tests.workloads.args import NAMESPACE, namespace_args, server_args
from workloads import pod_programs
from workloads.batch.batch import Batch, BatchArgs
from workloads.batch.job import (
    BATCH_LABEL,
    CLIENT_IMAGE,
    CRASHES_PER_POD,
    PROGRAM,
    config_map_manifest,
    job_manifest,
    job_name,
    server_pods,
)
from workloads.batch.pods.process_batch import TERMINATED_CODE
from workloads.batch.pods.times import Times
from workloads.namespace import Namespace
from workloads.server.server import Server

ID = "b0123456789ab"
NAME = job_name(ID)
LABELS = {"app": "qwen35-server", "app.kubernetes.io/part-of": "vllm-fleet"}


def job(servers: int = 3, **others: Any) -> dict[str, Any]:
    given: dict[str, Any] = {
        "namespace": NAMESPACE,
        "server": "qwen35-server",
        "key_store": None,
        "endpoint": "http://qwen35-server.vllm.svc.cluster.local:8000",
        "bucket": "batches",
        "image": f"registry/{CLIENT_IMAGE}",
        "labels": LABELS,
    }
    return job_manifest(name=NAME, batch=ID, servers=servers, **{**given, **others})


def config_map() -> dict[str, Any]:
    return config_map_manifest(name=NAME, batch=ID, namespace=NAMESPACE, labels=LABELS)


@each_row("key", [None, "kubernetes", "secret-manager"])
def test_job_and_programs_are_valid_for_the_cluster(key: Any) -> None:
    made = job(key_store=key)
    assert problems(made) == []
    assert problems(config_map()) == []
    (container,) = made["spec"]["template"]["spec"]["containers"]
    assert container["command"][-4:] == ["python3", "-B", "-m", PROGRAM]
    assert ("OPENAI_API_KEY" in container["command"]) is (key is not None)
    assert ("api-key" in [one["name"] for one in container["volumeMounts"]]) is (key is not None)


def test_each_server_has_a_pod_that_counts_for_it_and_is_found_by_its_batch() -> None:
    spec = job(servers=7)["spec"]
    assert (spec["parallelism"], spec["completions"], spec["completionMode"]) == (7, 7, "Indexed")
    assert spec["podReplacementPolicy"] == "Failed"
    labels = spec["template"]["metadata"]["labels"]
    assert (labels["app"], labels[BATCH_LABEL], labels["app.kubernetes.io/part-of"]) == ("batch", ID, "vllm-fleet")


def test_disruptions_never_end_a_batch_and_a_program_that_cannot_work_does() -> None:
    spec = job(servers=2)["spec"]
    disruption, ended, usage = spec["podFailurePolicy"]["rules"]
    assert (disruption["action"], disruption["onPodConditions"][0]["type"]) == ("Ignore", "DisruptionTarget")
    assert (ended["action"], ended["onExitCodes"]["values"]) == ("Ignore", [TERMINATED_CODE])
    assert (usage["action"], usage["onExitCodes"]["values"]) == ("FailJob", [2])
    assert spec["backoffLimit"] == 2 * CRASHES_PER_POD
    assert spec["template"]["spec"]["restartPolicy"] == "Never"  # a failure policy needs it


def test_the_pod_outlasts_what_its_program_needs_to_end() -> None:
    assert job()["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == 2 * Times().drain


def test_every_option_of_the_command_is_one_of_the_program() -> None:
    (container,) = job()["spec"]["template"]["spec"]["containers"]
    given = dict(option.removeprefix("--").split("=", 1) for option in container["args"])
    source = (pod_programs.FOLDER / "batch/pods/process_batch.py").read_text(encoding="utf-8")
    assert set(re.findall(r'"--([a-z-]+)", required=True', source)) == given.keys()
    assert given["index"] == "$(JOB_COMPLETION_INDEX)"
    assert given["server-pods"] == server_pods("qwen35-server", NAMESPACE, 8000)
    assert given["server-pods"] == "qwen35-server-batch.vllm.svc.cluster.local:8000"


def test_the_config_map_has_the_program_with_all_that_it_imports_and_nothing_else() -> None:
    pod = job()["spec"]["template"]["spec"]
    items = {item["key"]: item["path"] for item in pod["volumes"][0]["configMap"]["items"]}
    assert items.keys() == config_map()["data"].keys()
    clients = {file.name for file in (pod_programs.FOLDER / "batch/pods").glob("*.py")} - {"__init__.py"}
    assert {f"workloads/batch/pods/{name}" for name in clients} <= set(items.values())
    others = {path for path in items.values() if not path.startswith("workloads/batch/pods/")}
    assert others == {f"workloads/benchmark/pods/{name}.py" for name in ("results_bucket", "server_metrics")}
    assert sum(map(len, config_map()["data"].values())) < 500_000  # a ConfigMap has up to 1 MiB


def test_programs_import_the_standard_library_alone() -> None:
    for path, code in pod_programs.package_of(PROGRAM).items():
        for name in re.findall(r"^(?:from|import) ([a-z_]+)", code, re.MULTILINE):
            assert name in sys.stdlib_module_names or name == "workloads", path


def build(settings: Settings, opts: pulumi.ResourceOptions) -> object:
    Namespace("namespace", namespace_args(settings), opts)
    return Batch("batch", BatchArgs(server=Server("server", server_args(settings), opts)), opts)


def record() -> Recording:
    return recorded_component(build, "known", batch={"enabled": True, "onDone": "keep"})


def test_the_cluster_has_an_account_and_a_service_over_the_servers() -> None:
    made = {name: manifest(one) for name, one in objects(record()).items()}
    assert "ServiceAccount/batch" in made
    service = made["Service/qwen35-server-batch"]
    assert problems(service) == []
    assert (service["spec"]["clusterIP"], service["spec"]["selector"]) == ("None", {"app": "qwen35-server"})
    assert service["metadata"]["labels"]["app"] == "batch"
    assert job()["spec"]["template"]["spec"]["serviceAccountName"] == "batch"
