"""The Job that `fleet batch run` applies."""

from __future__ import annotations

from math import ceil
from typing import Any

from settings.derived.batch_pods import BatchPods, batch_pods
from settings.derived.scaling import scaling_policy
from tests.support.rows import each_row
from tests.support.schemas import problems
from tests.support.settings import make_settings
from workloads.autoscaling import batch_trigger, scaled_object_spec
from workloads.batch.job import (
    BATCH_LABEL,
    CLIENT_IMAGE,
    OVER_SECONDS,
    PROGRAM,
    RETRIES,
    Work,
    config_map_manifest,
    job_manifest,
    ranges,
)
from workloads.batch.pods.process_shard import DRAIN_SECONDS, TERMINATED, TIME_OVER, WRONG_SETUP, numbers_of

ID = "b0123456789ab"
NAMESPACE = "vllm"
LABELS = {"app": "qwen35-server", "app.kubernetes.io/part-of": "vllm-fleet"}
NOW = 1_000_000.0


def job(shards: list[int] | None = None, servers: int = 3, **others: Any) -> dict[str, Any]:
    work = Work(
        batch=ID,
        shards=[0, 1, 2, 5, 400] if shards is None else shards,
        last=400,
        url="/v1/chat/completions",
        request_seconds=600.0,
        until=NOW + 7200,
    )
    given: dict[str, Any] = {
        "namespace": NAMESPACE,
        "key_store": None,
        "endpoint": "http://qwen35-server.vllm.svc.cluster.local:8000",
        "bucket": "batches",
        "image": f"registry/{CLIENT_IMAGE}",
        "config_map": f"batch-{ID}-abc",
        "labels": LABELS,
    }
    return job_manifest(work, servers=servers, now=NOW, **{"pods": BatchPods(4, 20), **given, **others})


def config_map() -> dict[str, Any]:
    return config_map_manifest(name=f"batch-{ID}-abc", batch=ID, namespace=NAMESPACE, labels=LABELS)


@each_row("key", [None, "kubernetes", "secret-manager"])
def test_job_and_programs_are_valid_for_the_cluster(key: Any) -> None:
    made = job(key_store=key)
    assert problems(made) == []
    assert problems(config_map()) == []
    pod = made["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["command"][-4:] == ["python3", "-B", "-m", PROGRAM]
    assert ("OPENAI_API_KEY" in container["command"]) is (key is not None)
    assert ("api-key" in [one["name"] for one in container["volumeMounts"]]) is (key is not None)
    assert pod["serviceAccountName"] == "batch"
    assert pod["terminationGracePeriodSeconds"] == 2 * DRAIN_SECONDS


def test_the_job_is_named_by_its_batch_and_its_indexes_are_the_shards_without_a_part() -> None:
    made = job()
    assert made["metadata"]["name"] == f"batch-{ID}"
    spec = made["spec"]
    assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", 5, 5)
    assert job(list(range(400)))["spec"]["parallelism"] == 3 * 4
    labels = spec["template"]["metadata"]["labels"]
    assert (labels["app"], labels[BATCH_LABEL], labels["app.kubernetes.io/part-of"]) == ("batch", ID, "vllm-fleet")


def test_a_disruption_never_ends_a_batch_and_what_no_other_pod_can_do_does() -> None:
    spec = job()["spec"]
    disruption, stopped, hopeless = spec["podFailurePolicy"]["rules"]
    assert (disruption["action"], disruption["onPodConditions"][0]["type"]) == ("Ignore", "DisruptionTarget")
    assert (stopped["action"], stopped["onExitCodes"]["values"]) == ("Ignore", [TERMINATED])
    assert (hopeless["action"], hopeless["onExitCodes"]["values"]) == ("FailJob", [2, WRONG_SETUP, TIME_OVER])
    assert (spec["backoffLimitPerIndex"], spec["maxFailedIndexes"]) == (RETRIES, 0)
    assert spec["activeDeadlineSeconds"] == 7200 + OVER_SECONDS
    assert spec["template"]["spec"]["restartPolicy"] == "Never"  # a failure policy needs it


def test_keda_counts_the_jobs_pods_and_its_servers_outlast_the_pauses_between_them() -> None:
    settings = make_settings(server={"scaling": {"mode": "batch", "max": 4}}, batch={"enabled": True})
    policy = scaling_policy(settings)
    assert policy is not None
    trigger = batch_trigger(policy.batch_pods_per_server)
    spec = job(list(range(400)), servers=3, pods=batch_pods(settings))["spec"]
    key, _, value = trigger["metadata"]["podSelector"].partition("=")
    assert spec["template"]["metadata"]["labels"][key] == value
    assert ceil(spec["parallelism"] / float(trigger["metadata"]["value"])) == 3
    # Ten seconds after the first failure of an index, twice as long after each further one; a poll may come just before a pod is there,
    # and the one before that just after it has gone.
    keda = scaled_object_spec("s", policy, [trigger])
    longest = 10 * 2 ** (spec["backoffLimitPerIndex"] - 1) + 2 * keda["pollingInterval"]
    down = keda["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]["scaleDown"]
    assert longest < min(keda["cooldownPeriod"], down["stabilizationWindowSeconds"])


@each_row("numbers", [[], [3], [0, 1, 2], [0, 2, 3, 9], list(range(2_500))])
def test_numbers_are_written_as_they_are_read(numbers: list[int]) -> None:
    assert numbers_of(ranges(reversed(numbers))) == numbers


@each_row("at_once, pods", [(64, BatchPods(4, 20)), (1, BatchPods(4, 1)), (2_048, BatchPods(20, 128))])
def test_pods_of_a_server_have_a_quarter_more_in_flight_than_it_runs(at_once: int, pods: BatchPods) -> None:
    assert BatchPods.of(at_once) == pods


def test_the_config_map_has_the_program_with_all_that_it_imports_and_nothing_else() -> None:
    pod = job()["spec"]["template"]["spec"]
    items = {item["key"]: item["path"] for item in pod["volumes"][0]["configMap"]["items"]}
    assert items.keys() == config_map()["data"].keys()
    own = {f"workloads/batch/pods/{name}.py" for name in ("bucket", "process_shard", "requesting")}
    assert set(items.values()) == own | {"workloads/benchmark/pods/results_bucket.py"}
    assert sum(map(len, config_map()["data"].values())) < 500_000  # a ConfigMap has up to 1 MiB
